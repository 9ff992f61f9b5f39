"""TypeScript."""

from __future__ import annotations

from midfill_infill.languages.language import (
    BACKTICKS,
    BLOCK_COMMENT,
    DOUBLE_QUOTES,
    REGEX,
    SINGLE_QUOTES,
    SLASH_COMMENT,
    Language,
)

TYPESCRIPT = Language(
    key="typescript",
    lsp_ids=("typescript",),
    suffixes=(".ts", ".mts", ".cts"),
    grammar=("tree_sitter_typescript", "language_typescript"),
    blocks="braces",
    quoted=(SLASH_COMMENT, BLOCK_COMMENT, REGEX, DOUBLE_QUOTES, SINGLE_QUOTES, BACKTICKS),
    line_comment="//",
    indent_unit="  ",
)
