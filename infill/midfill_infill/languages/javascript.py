"""JavaScript, JSX included."""

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

JAVASCRIPT = Language(
    key="javascript",
    lsp_ids=("javascript", "javascriptreact"),
    suffixes=(".js", ".jsx", ".mjs", ".cjs"),
    grammar=("tree_sitter_javascript", "language"),
    blocks="braces",
    quoted=(SLASH_COMMENT, BLOCK_COMMENT, REGEX, DOUBLE_QUOTES, SINGLE_QUOTES, BACKTICKS),
    line_comment="//",
    indent_unit="  ",
)
