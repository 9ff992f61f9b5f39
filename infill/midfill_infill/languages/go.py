"""Go."""

from __future__ import annotations

from midfill_infill.languages.language import (
    BLOCK_COMMENT,
    CHARACTER,
    DOUBLE_QUOTES,
    RAW_BACKTICKS,
    SLASH_COMMENT,
    Language,
)

GO = Language(
    key="go",
    lsp_ids=("go",),
    suffixes=(".go",),
    grammar=("tree_sitter_go", "language"),
    blocks="braces",
    quoted=(SLASH_COMMENT, BLOCK_COMMENT, DOUBLE_QUOTES, CHARACTER, RAW_BACKTICKS),
    line_comment="//",
    indent_unit="\t",
)
