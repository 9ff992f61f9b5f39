"""What is asked of the engine for a canvas."""

from __future__ import annotations

import pytest

from midfill_infill import build_canvas, hole_at
from midfill_lsp.filling import request_for
from midfill_lsp.settings import DEFAULTS


@pytest.mark.parametrize(
    ("text", "may_close", "must_close"),
    [
        ("x = f(|)\n", 0, 0),
        ("x = f(|\n", 1, 1),
        ("x = f(g[|\n", 2, 2),
        ("x = f(g(|)\n", 0, 0),  # the inner one is closed, as the filters see it
        ("x = f(g(a)[|])\n", 0, 0),
        ("x = |\n", 0, 0),
        ("x = f(\n    a[|\n", 2, 1),  # an argument may follow in the next line
        ("x = [|\n    1,\n    2,\n", 1, 0),  # what is below goes on inside it
        ("x = f(|, b\n", 1, 0),
        ("x = {a: f(|\n}\n", 1, 1),
        ("x = {a: |\n", None, 0),
        ('x = f("a|")\n', None, None),
        ("# f(|)\n", None, None),
    ],
)
def test_a_fill_closes_what_the_text_behind_does_not(
    text: str, may_close: int | None, must_close: int | None
) -> None:
    before, _, after = text.partition("|")
    hole = hole_at(before + after, len(before), "python")
    assert hole is not None
    canvas = build_canvas(before + after, hole, "python")
    assert canvas is not None
    request = request_for(canvas, DEFAULTS.automatic, want_drafts=False)
    assert (request.may_close, request.must_close) == (may_close, must_close)
