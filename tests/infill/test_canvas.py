"""The context that is cut out, and the text that is healed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from midfill_infill import Hole, build_canvas, hole_at
from midfill_infill.building import PREFIX_CHARS, SUFFIX_CHARS, WINDOW_LINES


@pytest.mark.parametrize(
    ("text", "prefix", "left", "right", "suffix"),
    [
        ("def f():\n    ret$0", "def f():", "\n    ret", "", ""),
        ("def f():\n\n    $0", "def f():\n", "\n    ", "", ""),
        ("def f():  \n    ret$0", "def f():  ", "\n    ret", "", ""),
        ("def f():\r\n    ret$0\r\n", "def f():", "\n    ret", "", "\n"),
        ("a\rb$0\rc", "a", "\nb", "", "\nc"),
        ("x = foo(bar, ba$0)", "x = foo(bar,", " ba", "", ")"),
        ("x = foo.$0", "x = foo.", "", "", ""),
        ("x$0   \ny", "", "x", "", "\ny"),
        ("foo(\n)\n$0", "foo(\n)", "\n", "", ""),
        ("pri$0nt(x)", "", "pri", "nt", "(x)"),
        ("x = «foo»bar", "x =", " ", "bar", ""),
        ("x = f«oo(b»ar)", "x =", " f", "ar", ")"),
        ("naïve = größe漢字$0", "naïve =", " größe漢字", "", ""),
        ("x = '😀$0'", "x = '😀", "", "", "'"),
        ("\ufeff$0", "", "", "", ""),
        ("\ufeffx$0", "", "x", "", ""),
        ("x = '\ud800' + $0", "x = '\ufffd' +", " ", "", ""),
        ("a" * 65 + "$0", "a" * 65, "", "", ""),
        ("a" * 64 + "$0", "", "a" * 64, "", ""),
        ("x" + " " * 65 + "a$0", "x" + " " * 65, "a", "", ""),
        ("a$0" + "b" * 65, "", "a", "", "b" * 65),
    ],
)
def test_edges(
    text: str, prefix: str, left: str, right: str, suffix: str, marked: Callable[..., Any]
) -> None:
    canvas = marked(text).canvas
    edges = (canvas.prefix, canvas.heal_left, canvas.heal_right, canvas.suffix)
    assert edges == (prefix, left, right, suffix)


@pytest.mark.parametrize(
    ("text", "newline"),
    [
        ("x = $0", "\n"),
        ("a\r\nb\r\n$0\n", "\r\n"),
        ("a\rb\r$0", "\r"),
        ("a\nb\r\n$0\n", "\n"),
        ("a\x0bb\x0cc\x85d\u2028$0", "\n"),
    ],
)
def test_newline_is_the_documents(text: str, newline: str, marked: Callable[..., Any]) -> None:
    assert marked(text).canvas.newline == newline


def _canvas_at(text: str, offset: int) -> Any:
    return build_canvas(text, Hole(offset, offset, "line_rest"), "python")


def test_the_window_starts_on_an_eighth_line_and_stays_while_typing() -> None:
    text = "".join(f"value_{n} = {n}\n" for n in range(2000))
    offset = text.index("value_1500")
    starts = set()
    for typed in range(60):
        canvas = _canvas_at(text[:offset] + "z" * typed + "\n" + text[offset:], offset + typed)
        assert canvas.prefix_line % WINDOW_LINES == 0
        assert canvas.prefix.startswith(f"value_{canvas.prefix_line} =")
        assert len(canvas.prefix) <= PREFIX_CHARS
        starts.add(canvas.prefix_line)
    assert len(starts) == 1


def test_the_window_counts_each_kind_of_line_break() -> None:
    text = "ab\r\ncd\ref\n" * 2000
    canvas = _canvas_at(text, len(text))
    assert canvas.prefix_line % WINDOW_LINES == 0
    whole = text.replace("\r\n", "\n").replace("\r", "\n")
    assert (canvas.prefix + canvas.heal_left) == "".join(
        whole.splitlines(keepends=True)[canvas.prefix_line :]
    )


def test_the_suffix_ends_with_a_line() -> None:
    text = "x = 1\n" * 2000
    suffix = _canvas_at(text, 4).suffix
    assert len(suffix) <= SUFFIX_CHARS
    assert suffix.endswith("x = 1\n")


def test_one_endless_line_is_cut() -> None:
    text = "x = [" + "1, " * 70_000 + "]"
    canvas = _canvas_at(text, 100_000)
    assert 0 < len(canvas.prefix) <= PREFIX_CHARS
    assert len(canvas.suffix) == SUFFIX_CHARS
    assert canvas.prefix_line == 0
    assert _canvas_at(text[:100_000] + "2" + text[100_000:], 100_001).prefix.startswith(
        canvas.prefix[:100]
    )


def test_a_hole_of_another_text_is_clamped() -> None:
    canvas = build_canvas("ab", Hole(5, 9, "selection"), None)
    assert canvas.hole == Hole(2, 2, "selection")


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("def f():\n  if a:\n    b\n  $0", "  "),
        ("def f():\n    if a:\n        b\n    $0", "    "),
        ("def f():\n\tif a:\n\t\tb\n\t$0", "\t"),
        ("x = foo(a,\n        b)\ndef f():\n    a\n$0", "    "),
        ("$0", "    "),
    ],
)
def test_the_indentation_is_the_files(text: str, unit: str, marked: Callable[..., Any]) -> None:
    assert marked(text).canvas.place.indent_unit == unit


def test_an_unknown_language_says_so() -> None:
    hole = hole_at("foo(", 4, "brainfuck")
    assert hole is not None
    assert build_canvas("foo(", hole, "brainfuck").language is None
