"""Rust."""

from __future__ import annotations

from midfill_infill.languages.language import (
    BLOCK_COMMENT,
    CHARACTER,
    SLASH_COMMENT,
    Language,
    Quoted,
)

# Strings run over line ends. Raw ones are told apart up to two hashes, which is all that is used.
_STRING = Quoted("string", '"', r'"(?:[^"\\]++|\\[\s\S]?)*+', '"')
_RAW = Quoted("string", '"', r'(?<=\br)"[^"]*+', '"')
_RAW_HASH = Quoted("string", '"', r'(?<=\br#)"(?:[^"]++|"(?!#))*+', '"#')
_RAW_HASHES = Quoted("string", '"', r'(?<=\br##)"(?:[^"]++|"(?!##))*+', '"##')

RUST = Language(
    key="rust",
    lsp_ids=("rust",),
    suffixes=(".rs",),
    grammar=("tree_sitter_rust", "language"),
    blocks="braces",
    quoted=(SLASH_COMMENT, BLOCK_COMMENT, _RAW, _RAW_HASH, _RAW_HASHES, _STRING, CHARACTER),
    line_comment="//",
    indent_unit="    ",
)
