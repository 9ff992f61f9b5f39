"""Settings from the wire: what fits is taken, what does not is named."""

from __future__ import annotations

from typing import Any

import pytest

from midfill_lsp import settings
from midfill_lsp.options import Options, parse_options
from midfill_lsp.settings import DEFAULTS, Effort, resolve


def check(raw: object, **expected: Any) -> None:
    """These settings and no problems come of it."""
    options, problems = parse_options(raw)
    assert problems == ()
    assert resolve(options) == resolve(Options(**expected))


def check_problem(raw: object, *words: str) -> None:
    """One problem comes of it, which has these words, and the defaults are kept."""
    options, problems = parse_options(raw)
    assert len(problems) == 1
    assert all(word in problems[0] for word in words), problems
    assert resolve(options) == DEFAULTS


def test_nothing_set_is_the_defaults() -> None:
    check(None)
    check({})
    check(dict.fromkeys(("quality", "model", "drafts", "maxTokens")))


def test_every_key() -> None:
    check({"quality": "best"}, automatic_quality="best", invoked_quality="best")
    check({"quality": {"automatic": "balanced"}}, automatic_quality="balanced")
    check({"quality": {"invoked": "best"}}, invoked_quality="best")
    check({"automaticDeadlineMs": 100}, automatic_deadline_ms=100)
    check({"invokedDeadlineMs": 9000}, invoked_deadline_ms=9000)
    check({"minConfidence": 0}, min_confidence=0)
    check({"minConfidence": 0.75}, min_confidence=0.75)
    check({"maxFileBytes": 10}, max_file_bytes=10)
    check({"maxTokens": 12}, max_tokens=12)
    check({"model": "/models/tiny"}, model="/models/tiny")
    check({"drafts": True}, drafts=True)
    check({"stats": True}, stats=True)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"qualty": "fast"}, ("`qualty`", "not a setting")),
        ({"quality": "quick"}, ("`quality`", '"fast" or "balanced" or "best"', "'quick'")),
        ({"quality": {"invoked": 3}}, ("`quality.invoked`", "3")),
        ({"quality": {"manual": "fast"}}, ("`quality.manual`", "not a setting")),
        ({"automaticDeadlineMs": "700"}, ("`automaticDeadlineMs`", "whole number", "'700'")),
        ({"automaticDeadlineMs": True}, ("`automaticDeadlineMs`",)),
        ({"invokedDeadlineMs": 1.5}, ("`invokedDeadlineMs`",)),
        ({"invokedDeadlineMs": 10**9}, ("`invokedDeadlineMs`", "120000")),
        ({"minConfidence": 2}, ("`minConfidence`", "0 to 1")),
        ({"maxFileBytes": -1}, ("`maxFileBytes`",)),
        ({"maxTokens": 0}, ("`maxTokens`",)),
        ({"model": ""}, ("`model`",)),
        ({"drafts": "yes"}, ("`drafts`", "'yes'")),
        ([], ("object",)),
        ("fast", ("object",)),
    ],
)
def test_what_does_not_fit_is_named(raw: object, words: tuple[str, ...]) -> None:
    check_problem(raw, *words)


def test_a_problem_with_one_key_does_not_touch_the_others() -> None:
    options, problems = parse_options({"maxTokens": "many", "drafts": True, "what": 1})
    assert resolve(options).drafts is True
    assert [problem.split("`")[1] for problem in problems] == ["maxTokens", "what"]


def test_a_value_is_shown_short() -> None:
    _, (problem,) = parse_options({"quality": "x" * 500})
    assert len(problem) < 150


def test_later_options_lie_over_earlier_ones() -> None:
    later, base = Options(max_tokens=3), Options(max_tokens=1, drafts=True)
    assert later.over(base) == Options(max_tokens=3, drafts=True)


def test_efforts() -> None:
    made = resolve(Options(automatic_quality="best", max_tokens=7))
    assert made.automatic == Effort("best", DEFAULTS.automatic_deadline_ms, 7)
    assert made.invoked == Effort("balanced", DEFAULTS.invoked_deadline_ms, 7)


def test_the_documented_defaults_are_the_defaults() -> None:
    documentation = settings.__doc__ or ""
    rows = [line.split("|")[1:3] for line in documentation.splitlines() if line.startswith("|")]
    documented = {key.strip().strip("`"): value.strip().strip("`") for key, value in rows}
    assert documented["automaticDeadlineMs"] == str(DEFAULTS.automatic_deadline_ms)
    assert documented["invokedDeadlineMs"] == str(DEFAULTS.invoked_deadline_ms)
    assert (documented["minConfidence"], DEFAULTS.min_confidence) == ("", None)
    assert documented["maxFileBytes"] == str(DEFAULTS.max_file_bytes)
    assert documented["maxTokens"] == str(DEFAULTS.max_tokens)
    assert documented["quality.automatic"] == DEFAULTS.automatic_quality
    assert documented["quality.invoked"] == DEFAULTS.invoked_quality
