"""TypeScript with JSX, which has a grammar of its own."""

from __future__ import annotations

from dataclasses import replace

from midfill_infill.languages.typescript import TYPESCRIPT

TSX = replace(
    TYPESCRIPT,
    key="tsx",
    lsp_ids=("typescriptreact",),
    suffixes=(".tsx",),
    grammar=("tree_sitter_typescript", "language_tsx"),
)
