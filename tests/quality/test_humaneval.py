"""What the embedded model gets right of HumanEval single-line infilling.

Three ways to fill the same holes: (a) the base left to right, blind to the suffix; (b) one masked
draft; (c) ranked drafts. `make quality` takes 100 holes at every quality and prints the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from support.filler import Filler, filler_for
from support.humaneval import Hole, load_holes, passes
from support.jobs import request_for
from support.left_to_right import greedy_line

from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.linear import best_format
from midfill_engine.worker import plan

pytestmark = [
    pytest.mark.embedded,
    pytest.mark.timeout(3600),
    pytest.mark.usefixtures("embedded_dir"),
]


@dataclass(frozen=True, slots=True)
class Tally:
    """Shares of holes."""

    exact: float
    passed: float
    steps: float  # per fill
    tokens_per_step: float
    ms: float  # median time of a fill


def test_ranked_drafts_beat_the_base(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = EmbeddedModel.load("embedded", best_format())
    holes = load_holes(request.config.getoption("--holes"))
    blind = [greedy_line(model, hole.before) for hole in holes]
    base = share(holes, blind, passes)
    print(f"\n{len(holes)} holes                exact  pass@1  steps  tokens/step  p50 ms")
    print(f"(a) base, left to right   {share(holes, blind, exact):6.1%}  {base:6.1%}")
    with filler_for(model) as filler:
        qualities = request.config.getoption("--qualities").split(",")
        ranked = {q: tally(filler, holes, q) for q in qualities}
        one = replace(plan.PLANS["balanced"], masked_lengths=(16,), causal_length=0)
        monkeypatch.setitem(plan.PLANS, "balanced", one)
        masked = tally(filler, holes, "balanced")
    for name, row in {"(b) one masked draft": masked, **ranked}.items():
        label = name if name[0] == "(" else f"(c) ranked, {name}"
        print(
            f"{label:24}  {row.exact:6.1%}  {row.passed:6.1%}  {row.steps:5.1f}"
            f"  {row.tokens_per_step:11.2f}  {row.ms:6.0f}"
        )
    assert ranked["balanced"].passed > base


def tally(filler: Filler, holes: list[Hole], quality: plan.Quality) -> Tally:
    """Fill every hole at one setting."""
    answers = [
        filler.fill(request_for(h.before, h.after, heal_left="\n", quality=quality, max_tokens=48))
        for h in holes
    ]
    lines = [a.fills[0].text.removeprefix("\n") if a.fills else "" for a in answers]
    steps = sum(a.stats.steps for a in answers)
    return Tally(
        exact=share(holes, lines, exact),
        passed=share(holes, lines, passes),
        steps=steps / len(holes),
        tokens_per_step=sum(a.stats.tokens for a in answers) / steps,
        ms=sorted(a.stats.total_ms for a in answers)[len(answers) // 2],
    )


def share(holes: list[Hole], lines: list[str], right: Callable[[Hole, str], bool]) -> float:
    """How many lines are right."""
    return sum(right(h, line) for h, line in zip(holes, lines, strict=True)) / len(holes)


def exact(hole: Hole, line: str) -> bool:
    """Whether it is the line that was taken out."""
    return line == hole.line
