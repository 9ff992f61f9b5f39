"""Python."""

from __future__ import annotations

from midfill_infill.languages.language import (
    DOUBLE_QUOTES,
    HASH_COMMENT,
    SINGLE_QUOTES,
    TRIPLE_DOUBLE,
    TRIPLE_SINGLE,
    Language,
)

PYTHON = Language(
    key="python",
    lsp_ids=("python",),
    suffixes=(".py", ".pyi", ".pyw"),
    grammar=("tree_sitter_python", "language"),
    blocks="indentation",
    quoted=(TRIPLE_DOUBLE, TRIPLE_SINGLE, DOUBLE_QUOTES, SINGLE_QUOTES, HASH_COMMENT),
    line_comment="#",
    indent_unit="    ",
    header=(
        r"(?:async[ \t]+)?"
        r"(?:def|class|if|elif|else|for|while|try|except|finally|with|match|case)\b"
    ),
    never_in_brackets=r"(?:def|class|return|import|while|try|except|raise|with|elif|@\w)\b",
)
