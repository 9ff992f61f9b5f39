"""C++."""

from __future__ import annotations

from midfill_infill.languages.language import (
    BLOCK_COMMENT,
    CHARACTER,
    DOUBLE_QUOTES,
    SLASH_COMMENT,
    Language,
    Quoted,
)

# Raw strings without a delimiter of their own; the others are too rare to be worth a pattern.
_RAW = Quoted("string", '"', r'(?<=\bR)"\((?:[^)]++|\)(?!"))*+', r'\)"')

CPP = Language(
    key="cpp",
    lsp_ids=("cpp",),
    suffixes=(".cc", ".cpp", ".cxx", ".c++", ".hh", ".hpp", ".hxx", ".ipp"),
    grammar=("tree_sitter_cpp", "language"),
    blocks="braces",
    quoted=(SLASH_COMMENT, BLOCK_COMMENT, _RAW, DOUBLE_QUOTES, CHARACTER),
    line_comment="//",
    indent_unit="    ",
)
