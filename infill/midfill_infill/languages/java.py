"""Java."""

from __future__ import annotations

from midfill_infill.languages.language import (
    BLOCK_COMMENT,
    CHARACTER,
    DOUBLE_QUOTES,
    SLASH_COMMENT,
    TRIPLE_DOUBLE,
    Language,
)

JAVA = Language(
    key="java",
    lsp_ids=("java",),
    suffixes=(".java",),
    grammar=("tree_sitter_java", "language"),
    blocks="braces",
    quoted=(SLASH_COMMENT, BLOCK_COMMENT, TRIPLE_DOUBLE, DOUBLE_QUOTES, CHARACTER),
    line_comment="//",
    indent_unit="    ",
)
