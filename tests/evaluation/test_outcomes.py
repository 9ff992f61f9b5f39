"""How answers are judged, and what outcomes come to."""

from __future__ import annotations

import pytest
from support.telling import problem, teller

from midfill_lsp.evaluation.figures import FIGURES, against, calibration, excesses
from midfill_lsp.evaluation.outcomes import Outcome, outcome_of, similarity
from midfill_lsp.evaluation.statistics import Estimate

HELD_OUT = problem("def f(a, b):\n    return ", "a + b", "\n")
COMPLETE = problem("x = f(1)", "", "\ny = 2\n", suite="complete")
HUMANEVAL = problem(
    "def f(a):\n", "    return a + 1", "\n", suite="humaneval", test="assert f(1) == 2\n"
)


def figure(group: str, label: str, *outcomes: Outcome) -> Estimate | None:
    (found,) = (f for f in FIGURES if f.group.startswith(group) and f.label == label)
    return found.of(outcomes)


def value(group: str, label: str, *outcomes: Outcome) -> float:
    found = figure(group, label, *outcomes)
    assert found is not None
    return found.value


async def test_the_right_fill() -> None:
    outcome = await outcome_of(HELD_OUT, teller({"a + b": 0.9, "a - b": 0.2}))
    assert (outcome.exact, outcome.shown, outcome.sound) == (True, True, True)
    assert (outcome.similarity, outcome.excess, outcome.reason) == (1.0, 0, None)
    assert [attempt.text for attempt in outcome.attempts] == ["a + b", "a - b"]


async def test_a_wrong_fill_before_the_right_one() -> None:
    outcome = await outcome_of(HELD_OUT, teller({"a": 0.9, "a + b": 0.2}))
    assert (outcome.exact, outcome.any_exact, outcome.excess) == (False, True, -4)
    assert outcome.similarity == pytest.approx(2 / 6)


async def test_what_the_filters_refuse_is_not_offered() -> None:
    outcome = await outcome_of(HELD_OUT, teller({"(a": 0.9, "  ": 0.8}))
    assert (outcome.offered, outcome.shown, outcome.exact, outcome.sound) == (False,) * 3 + (None,)
    assert outcome.reason is not None
    assert "empty" in outcome.reason


async def test_what_the_gate_stops_is_offered_but_not_shown() -> None:
    outcome = await outcome_of(HELD_OUT, teller({"a + b": 0.29}))
    assert (outcome.offered, outcome.exact, outcome.shown) == (True, True, False)


async def test_where_there_is_no_hole_nobody_is_asked() -> None:
    outcome = await outcome_of(problem("", "x = 1", "\n\0"), teller({"x = 1": 1.0}))
    assert (outcome.offered, outcome.stats, outcome.reason) == (False, None, "no hole")


async def test_programs_are_run() -> None:
    right = await outcome_of(HUMANEVAL, teller({"    return 1 + a": 0.9}))
    assert (right.exact, right.passed) == (False, True)
    wrong = await outcome_of(HUMANEVAL, teller({"    return a": 0.9, "    return a + 1": 0.5}))
    assert (wrong.passed, wrong.any_passed, wrong.any_exact) == (False, True, True)
    assert [attempt.passed for attempt in wrong.attempts] == [False, True]


async def test_silence_is_right_where_nothing_is_missing() -> None:
    silent = await outcome_of(COMPLETE, teller({"": 0.9}))
    unsure = await outcome_of(COMPLETE, teller({".g()": 0.1}))
    loud = await outcome_of(COMPLETE, teller({".g()": 0.9}))
    assert [one.shown for one in (silent, unsure, loud)] == [False, False, True]
    assert value("nothing", "silent while typing", silent, unsure, loud) == pytest.approx(2 / 3)
    assert value("nothing", "silent when asked", silent, unsure, loud) == pytest.approx(1 / 3)
    assert calibration([silent, unsure, loud]).fills == 2
    assert calibration([loud]).error == pytest.approx(0.9)


async def test_figures() -> None:
    right = await outcome_of(HELD_OUT, teller({"a + b": 0.9}))
    wrong = await outcome_of(HELD_OUT, teller({"a": 0.9}))
    none = await outcome_of(HELD_OUT, teller({}))
    tested = await outcome_of(HUMANEVAL, teller({"    return 1 + a": 0.9}))
    outcomes = (right, wrong, none, tested)
    assert value("held-out", "exact", *outcomes) == pytest.approx(1 / 3)
    assert value("held-out", "exact, of what is shown", *outcomes) == 0.5
    assert value("held-out", "shown while typing", *outcomes) == pytest.approx(2 / 3)
    assert value("held-out", "length error, median", *outcomes) == -2
    assert value("HumanEval", "exact", *outcomes) == 0
    assert value("HumanEval", "pass@1", *outcomes) == 1
    assert value("cost", "tokens per step", *outcomes) == 0.75
    assert excesses(outcomes) == [0, -4]
    assert figure("nothing", "silent while typing", *outcomes) is None
    found = against([right, wrong], [wrong, wrong])
    assert found.passed is None
    assert found.held_out_exact is not None
    assert (found.held_out_exact.gained, found.held_out_exact.lost) == (1, 0)


@pytest.mark.parametrize(
    ("text", "expected", "want"), [("ab", "ab", 1), ("ab", "cd", 0), (" ab ", "abcd", 4 / 6)]
)
def test_similarity(text: str, expected: str, want: float) -> None:
    assert similarity(text, expected) == pytest.approx(want)
