"""The climb to a hole's length, on curves whose top is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from midfill_engine.worker.length import (
    PUBLISHED_BIAS,
    BiasCurve,
    ends_in_word,
    lengths_around,
    probed_length,
    tokens_to_overrun,
    want_brackets,
)

FLAT = BiasCurve(0, 1, 0, 1, 1)


def climb(
    curve: Callable[[int], float], bias: BiasCurve, start: int = 8, most: int = 64
) -> tuple[int, list[list[int]]]:
    """The length found, and the lengths probed at a time."""
    asked: list[list[int]] = []

    def probe(lengths: Sequence[int]) -> list[float]:
        asked.append(list(lengths))
        return [curve(length) for length in lengths]

    return probed_length(probe, bias, start=start, most=most), asked


@pytest.mark.parametrize("top", [1, 3, 8, 11, 20, 63, 64])
def test_the_top_is_found(top: int) -> None:
    found, asked = climb(lambda length: 1 / (1 + abs(length - top)), FLAT)
    assert found == top
    probed = [length for wave in asked for length in wave]
    assert len(set(probed)) == len(probed)
    assert all(1 <= length <= 64 for length in probed)


def test_a_dip_is_crossed_and_a_gap_is_not() -> None:
    def bumpy(length: int) -> float:
        return {8: 0.5, 11: 0.6, 30: 0.9}.get(length, 0.1)

    assert climb(bumpy, FLAT)[0] == 11


def test_a_climb_ends_soon_where_nothing_is_better() -> None:
    found, asked = climb(lambda length: float(length == 8), FLAT)
    assert found == 8
    assert asked == [[8], [9, 10, 11, 12, 7, 6, 5, 4]]


def test_short_holes_are_not_preferred_for_being_short() -> None:
    """Where a model is as sure as it is of any hole of that length, no length is better."""
    found, _ = climb(PUBLISHED_BIAS.at, PUBLISHED_BIAS)
    assert found == 8
    assert climb(PUBLISHED_BIAS.at, FLAT)[0] == 1
    assert climb(lambda n: PUBLISHED_BIAS.at(n) * (1.2 if n == 12 else 1), PUBLISHED_BIAS)[0] == 12


def test_the_bias_curve() -> None:
    assert PUBLISHED_BIAS.at(0) == pytest.approx(1.80)
    assert PUBLISHED_BIAS.at(1000) == pytest.approx(0.24)


@pytest.mark.parametrize(("start", "most"), [(1, 1), (2, 2), (8, 8)])
def test_narrow_bounds(start: int, most: int) -> None:
    found, asked = climb(lambda length: float(-length), FLAT, start, most)
    assert found == 1
    assert max(map(max, asked)) <= most


@pytest.mark.parametrize(
    ("best", "count", "most", "want"),
    [(8, 1, 24, [8]), (8, 3, 24, [8, 6, 11]), (20, 5, 24, [20, 15, 24, 10]), (1, 5, 24, [1, 2])],
)
def test_lengths_of_drafts(best: int, count: int, most: int, want: list[int]) -> None:
    assert lengths_around(best, count, most) == want


@pytest.mark.parametrize(
    ("tokens", "may_close", "want"),
    [
        ("name ) and", 0, 2),
        ("f ( x ) )", 0, 5),
        ("f ( x ) )", 1, None),
        ("a [ i ] ) ] ]", 2, 7),
        ("} else {", 0, None),
        ('print ( ")" )', 0, None),
        (r"'\' ) ' )", 0, 4),
        ("# don't ) )", 0, None),  # an open quote: rather too long than cut
        (");", 0, 1),
        ("", 0, None),
    ],
)
def test_a_text_overruns_where_it_closes_what_is_not_its_own(
    tokens: str, may_close: int, want: int | None
) -> None:
    assert tokens_to_overrun([t.encode() for t in tokens.split()], may_close) == want


@pytest.mark.parametrize(
    ("text", "must_close", "in_line", "in_lines"),
    [
        ("", 0, False, False),
        ("", 1, True, True),
        ("a", 1, True, True),
        ("a)", 1, False, False),
        ("a, f(b)", 1, True, True),
        ("a, f(b))", 1, False, False),
        ("f(a", 0, True, True),
        ("f(", 0, False, True),  # a person may go on below
        ("a,", 1, False, True),
        ("if (a) {", 0, False, True),
        ("if (a) b; else {c", 0, False, True),
        ("if (a) {\n  f(b)\n}", 0, False, False),
        ("')'", 1, True, True),
        ("'a", 1, False, False),  # within quotes nothing is known
        ("a) + b[i]", 1, False, False),
        ("1  # (see below", 0, False, False),
        ("f(  // all", 0, False, False),
        ("s.replace(/[(]/, b)", 0, False, False),
    ],
)
def test_a_text_wants_the_brackets_that_nobody_else_closes(
    text: str, must_close: int, in_line: bool, in_lines: bool
) -> None:
    for cut in range(len(text) + 1):
        tokens = [part.encode() for part in (text[:cut], text[cut:]) if part]
        assert want_brackets(tokens, must_close, single_line=True)[-1] == in_line
        assert want_brackets(tokens, must_close, single_line=False)[-1] == in_lines


def test_it_is_said_of_each_beginning() -> None:
    tokens = [b"f(", b"a", b", b", b"[i])"]
    assert want_brackets(tokens, 0, single_line=True) == [False, False, True, True, False]


@pytest.mark.parametrize(
    ("left", "right", "want"),
    [
        ("self", ".", False),
        ("self", "_x", True),
        (".", "x", False),
        ("x", " y", False),
        ("\u00e9", "t", True),
        ("", "x", False),
        ("x", "", False),
    ],
)
def test_a_word_goes_on(left: str, right: str, *, want: bool) -> None:
    assert ends_in_word(left.encode(), right.encode()) == want
