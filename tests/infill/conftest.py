"""Helpers of the infill tests: documents with marks in them, and golden cases in JSON.

`$0` marks the cursor, `«` and `»` mark a selection. A golden file holds a list of cases; texts are
lists of lines, so that a diff of one can be read. `pytest tests/infill --update` writes what the
code does now into their "expected".
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from midfill_infill import (
    Canvas,
    Dropped,
    Hole,
    build_canvas,
    finish,
    hole_at,
    hole_for_range,
)

GOLDEN = Path(__file__).parent / "golden"


@dataclass(frozen=True)
class Marked:
    """A document without its marks, and the hole at the mark."""

    text: str
    hole: Hole | None
    canvas: Canvas | None

    def fill(self, fill: str) -> str | Dropped:
        """The document with `fill` in its hole; heal texts need not be given."""
        assert self.canvas is not None, "there is no hole here"
        canvas = self.canvas
        edit = finish(canvas.heal_left + fill + canvas.heal_right, self.text, canvas)
        if isinstance(edit, Dropped):
            return edit
        assert self.text[: edit.start] == self.text[: canvas.hole.start]
        assert self.text[edit.end :] == self.text[canvas.hole.end :]
        return edit.apply(self.text)


def read_marked(marked: str, language: str | None = "python") -> Marked:
    if "«" in marked:
        start, end = marked.index("«"), marked.index("»") - 1
        text = marked.replace("«", "").replace("»", "")
        hole = hole_for_range(text, start, end, language)
    else:
        offset = marked.index("$0")
        text = marked.replace("$0", "")
        hole = hole_at(text, offset, language)
    return Marked(text, hole, build_canvas(text, hole, language) if hole else None)


@pytest.fixture
def marked() -> Callable[..., Marked]:
    """`marked(text_with_marks, language="python") -> Marked`"""
    return read_marked


@pytest.fixture
def check() -> Callable[..., None]:
    """`check(text_with_marks, expected_document, fill=…, language="python")`

    `expected` is the whole document afterwards, or the reason for which the fill is dropped.
    """

    def check(
        marked_text: str, expected: str | Dropped, *, fill: str, language: str | None = "python"
    ) -> None:
        assert read_marked(marked_text, language).fill(fill) == expected

    return check


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite golden files")


@pytest.fixture
def check_golden(request: pytest.FixtureRequest) -> Callable[..., None]:
    """`check_golden(file_name, run)`: compare `run(case)` with each case's "expected"."""

    def check_golden(name: str, run: Callable[[dict[str, Any]], Any]) -> None:
        path = GOLDEN / f"{name}.json"
        cases: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        results = [run(case) for case in cases]
        if request.config.getoption("--update", default=False):
            updated = [{**case, "expected": got} for case, got in zip(cases, results, strict=True)]
            content = json.dumps(updated, indent=1, ensure_ascii=False) + "\n"
            path.write_text(content, encoding="utf-8")
            return
        for case, got in zip(cases, results, strict=True):
            assert got == case["expected"], f"{name}: {case['name']}"

    return check_golden
