"""Which places are holes, and of what kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from midfill_infill import Hole, hole_at, hole_for_range

CURSORS = [
    # Rest of the line: nothing behind the cursor but blanks, closers and what ends a statement.
    ("python", "x = $0", "line_rest"),
    ("python", "$0", "line_rest"),
    ("python", "x = $0   \ny = 2", "line_rest"),
    ("python", "foo($0)", "line_rest"),
    ("python", "foo(['$0'])", "line_rest"),
    ("python", "if $0:\n    a", "line_rest"),
    ("python", "x = $0  # why", "line_rest"),
    ("c", "if ($0) {\n}", "line_rest"),
    ("c", "x = $0; // why", "line_rest"),
    ("javascript", "const a = {$0};", "line_rest"),
    ("go", "x := Point{$0}", "line_rest"),
    ("python", "def f():\n    ret$0", "line_rest"),
    ("python", "def f():\n    a\n    $0\n    b", "line_rest"),
    ("python", "foo(\n    a,\n    $0\n)", "line_rest"),
    ("python", "# a comment $0", "line_rest"),
    ("python", "x = 'a $0 string'", "line_rest"),
    ("python", 'def f():\n    """A $0 docstring."""', "line_rest"),
    ("python", "foo$0bar", "line_rest"),
    ("python", "x = $0 + 1", "line_rest"),
    (None, "some text $0", "line_rest"),
    # Inside brackets, with code behind them.
    ("python", "foo($0) + 1", "brackets"),
    ("python", "foo(a, $0, b)", "brackets"),
    ("python", "x = d[$0].name", "brackets"),
    ("c", "for (int i = 0; $0; i++) {", "brackets"),
    (None, "foo($0) bar", "brackets"),
    # A body is missing.
    ("python", "def f():$0", "block"),
    ("python", "def f():  # why\n    $0", "block"),
    ("python", "def f():\n    $0\n\nx = 1", "block"),
    ("python", "def f():\n$0\n\nx = 1", "block"),
    ("python", "class A:\n    def f(self):\n        $0\n\n    def g(self):\n        pass", "block"),
    ("python", 'def f():\n    """Doc."""\n    $0\n\nx = 1', "block"),
    ("python", "def f(\n    a: int,\n) -> int:\n    $0", "block"),
    ("python", "if a:\n    b\nelse:\n    $0\nc", "block"),
    ("python", "x = foo(\ndef f():\n    $0", "block"),
    ("c", "void f() {$0}", "block"),
    ("c", "void f() {\n    $0\n}", "block"),
    ("c", "void f() {$0", "block"),
    ("c", "void f()\n{\n    $0\n}", "block"),
    ("cpp", "class A {\npublic:\n    int f() const override {$0}\n};", "block"),
    ("go", "func f() error {\n\t$0\n}", "block"),
    ("rust", "fn f() -> Option<u32> {\n    $0\n}", "block"),
    ("java", "class A {\n    void f() throws E {$0}\n}", "block"),
    ("javascript", "const f = () => {$0};", "block"),
    ("javascript", "if (a) {\n  b();\n} else {\n  $0\n}", "block"),
    ("typescript", "class A {\n  f(): void {$0}\n}", "block"),
    ("tsx", "function App() {\n  $0\n}", "block"),
    # No opener: dictionaries, slices, annotations.
    ("python", "d = {\n    'a':$0", "line_rest"),
    ("python", "x:$0", "line_rest"),
    ("python", "f = lambda x:$0", "line_rest"),
    ("javascript", "const a = {\n  $0\n};", "line_rest"),
    ("javascript", "f({$0})", "line_rest"),
    # Nothing to complete.
    ("python", "def f():$0\n    return 1", None),
    ("c", "void f() {$0\n    return;\n}", None),
    ("python", "$0x = 1", None),
    ("python", "    $0return x", None),
    ("c", "void f() {\n    a();\n$0}", None),
    ("python", "\0\0\0$0\0", None),
]


@pytest.mark.parametrize(("language", "text", "kind"), CURSORS)
def test_kind_at_cursor(
    language: str | None, text: str, kind: str | None, marked: Callable[..., Any]
) -> None:
    cursor = text.index("$0")
    expected = Hole(cursor, cursor, kind) if kind else None  # type: ignore[arg-type]
    assert marked(text, language).hole == expected


@pytest.mark.parametrize(
    ("text", "held", "single_line"),
    [
        ("x = «foo»(1)", "foo", True),
        ("x = «foo »+ 1", "foo", True),
        ("«x = 1»\ny", "x = 1", False),
        ("def f():\n«    x = 1\n    y = 2\n»    z", "x = 1\n    y = 2", False),
        ("a«\n\n»b", "\n", False),
        ("a\r\n«\r\n\r\n»b", "\r\n", False),
        ("f«oo(b»ar)", "oo(b", True),
    ],
)
def test_selection_keeps_blanks_at_its_edges(
    text: str, held: str, single_line: bool, marked: Callable[..., Any]
) -> None:
    found = marked(text)
    assert found.hole.kind == "selection"
    assert found.text[found.hole.start : found.hole.end] == held
    assert found.canvas.single_line is single_line


def test_an_empty_selection_is_a_cursor() -> None:
    assert hole_for_range("foo()", 4, 4, "python") == hole_at("foo()", 4, "python")


@pytest.mark.parametrize(("offset", "start"), [(-5, 0), (99, 5), (2, 2)])
def test_offsets_are_clamped(offset: int, start: int) -> None:
    hole = hole_at("x = 1", offset, "python")
    assert hole is None or hole.start == start


def test_a_cursor_never_parts_a_line_break() -> None:
    assert hole_at("x =\r\ny", 4, "python") == Hole(3, 3, "line_rest")


def test_a_reversed_range_is_the_same() -> None:
    assert hole_for_range("a + b", 5, 4, "python") == Hole(4, 5, "selection")
