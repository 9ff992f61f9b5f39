"""C."""

from __future__ import annotations

from midfill_infill.languages.language import (
    BLOCK_COMMENT,
    CHARACTER,
    DOUBLE_QUOTES,
    SLASH_COMMENT,
    Language,
)

C = Language(
    key="c",
    lsp_ids=("c",),
    suffixes=(".c", ".h"),
    grammar=("tree_sitter_c", "language"),
    blocks="braces",
    quoted=(SLASH_COMMENT, BLOCK_COMMENT, DOUBLE_QUOTES, CHARACTER),
    line_comment="//",
    indent_unit="    ",
)
