"""That no text costs more than a bound. Processor time, best of several runs."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from midfill_infill import Hole, build_canvas, finish, hole_at
from midfill_infill.languages import LANGUAGES
from midfill_infill.syntax import parse

PYTHON_LINES = 'def method(self, a, b="x"):  # why\n    """Doc\'s."""\n    return foo(a)[b]\n\n'


def _best_ms(run: Callable[[], object], rounds: int = 5) -> float:
    def once() -> float:
        start = time.process_time()
        run()
        return (time.process_time() - start) * 1e3

    return min(once() for _ in range(rounds))


def _worst_entry_ms(text: str, offset: int, language: str | None, rounds: int = 5) -> float:
    hole = hole_at(text, offset, language) or Hole(offset, offset, "line_rest")
    canvas = build_canvas(text, hole, language)
    fill = canvas.heal_left + "foo(1)" + canvas.heal_right
    return max(
        _best_ms(lambda: hole_at(text, offset, language), rounds),
        _best_ms(lambda: build_canvas(text, hole, language), rounds),
        _best_ms(lambda: finish(fill, text, canvas), rounds),
    )


def test_two_thousand_lines_of_python() -> None:
    text = PYTHON_LINES * 500
    cursor = text.index("return", len(text) - 200) + len("return ")
    assert _worst_entry_ms(text, cursor, "python") < 10


def test_fifty_megabytes() -> None:
    text = PYTHON_LINES * (50_000_000 // len(PYTHON_LINES))
    cursor = text.index("foo", 40_000_000) + 4
    assert _worst_entry_ms(text, cursor, "python") < 50


@pytest.mark.parametrize("language", ["python", "typescript", "c", None])
def test_a_line_of_two_hundred_thousand_characters(language: str | None) -> None:
    text = "x = " + 'foo(a, "b") + ' * 14_286
    assert _worst_entry_ms(text, 100_000, language) < 50


# Each once took seconds to minutes in a parser or in a careless loop.
NESTED = [
    "(" * 70_000 + ")" * 70_000,
    "[" * 70_000 + ")" * 70_000,
    "{\n" * 40_000 + "}\n" * 40_000,
]
ENDLESS = [piece * 40_000 for piece in ('"', "\\", "`${", "x{ ", "a\n", "<a>", "/*", "\"'")]


@pytest.mark.parametrize("text", [*NESTED, *ENDLESS], ids=lambda text: repr(text[:6]))
@pytest.mark.parametrize("language", ["python", "tsx", "rust"])
def test_hostile_text(text: str, language: str) -> None:
    assert _worst_entry_ms(text, len(text) // 2, language, rounds=2) < 1000


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.key)
def test_a_parse_that_goes_nowhere_is_given_up(language: object) -> None:
    nonsense = "".join("(){}[]\"'\n :abc<>=/*`"[n * n % 97 % 20] for n in range(20_000))
    assert _best_ms(lambda: parse(nonsense, "", nonsense, language), 1) < 10_000  # type: ignore[arg-type]


def test_sound_code_is_parsed_to_its_end() -> None:
    python = next(language for language in LANGUAGES if language.key == "python")
    assert parse(PYTHON_LINES * 100, "", PYTHON_LINES * 50, python) is not None
