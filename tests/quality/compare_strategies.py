"""Compares the strategies on HumanEval single-line holes, and writes docs/strategies.md.

Each strategy denoises one masked draft of 16 on the same holes; the presets, ranked, follow.
Run by `make strategies`.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from statistics import median
from typing import Final

from support.jobs import request_for
from support.schedulers import Running, running

from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.linear import best_format
from midfill_engine.protocol import QUALITIES, FillRequest, FillResult
from midfill_engine.worker.plan import PLANS, Plan
from midfill_engine.worker.strategies import STRATEGIES
from midfill_lsp.evaluation.humaneval import load_problems
from midfill_lsp.evaluation.problems import Problem
from midfill_lsp.evaluation.sandbox import runs_through

_DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "strategies.md"
_TABLE: Final = "<!-- the table below is written by `make strategies` -->"
_ONE_DRAFT: Final = Plan((16,), 0, 0, 0.0, 0, causal_only=False)
_LEFT_TO_RIGHT: Final = replace(_ONE_DRAFT, masked_lengths=(), causal_length=24)
_HEAD: Final = (
    "| what | exact | pass@1 | best of its fills | passes | tokens per pass | p50 ms |\n"
    "|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True, slots=True)
class Variant:
    """One row of the table."""

    name: str
    plan: Plan
    strategy: str | None = None


def variants() -> list[Variant]:
    """All rows."""
    return [
        *(Variant(f"`{name}`", _ONE_DRAFT, name) for name in STRATEGIES),
        Variant("causal, verifying what is copied", _LEFT_TO_RIGHT),
        *(Variant(f"preset `{quality}`", PLANS[quality]) for quality in QUALITIES),
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--holes", type=int, default=60, help="how many, up to 411")
    parser.add_argument("--print", action="store_true", help="print the table, write nothing")
    arguments = parser.parse_args(argv)
    holes = random.Random(0).sample(load_problems(), arguments.holes)
    model = EmbeddedModel.load("embedded", best_format())
    answers: dict[Variant, list[FillResult]] = {variant: [] for variant in variants()}
    with running(lambda: model) as run:
        for count, hole in enumerate(holes, 1):
            run.fill(_request(hole, None))  # so that all find the context encoded
            for variant in answers:
                answers[variant].append(_answer(variant, hole, run))
            sys.stderr.write(f"\rhole {count} of {len(holes)}")
    rows = [row(variant, holes, answers[variant]) for variant in answers]
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    table = f"{len(holes)} holes, {day}\n\n" + "\n".join([_HEAD, *rows]) + "\n"
    if arguments.print:
        sys.stdout.write(table)
    else:
        before = _DOCUMENT.read_text("utf-8").partition(_TABLE)[0]
        _DOCUMENT.write_text(f"{before}{_TABLE}\n\n{table}", "utf-8")


def _answer(variant: Variant, hole: Problem, run: Running) -> FillResult:
    kept = PLANS["balanced"]
    PLANS["balanced"] = variant.plan
    try:
        return run.fill(_request(hole, variant.strategy))
    finally:
        PLANS["balanced"] = kept


def row(variant: Variant, holes: Sequence[Problem], answers: Sequence[FillResult]) -> str:
    """One variant on all holes."""
    pairs = list(zip(holes, answers, strict=True))
    counts = (
        sum(_first(answer) == hole.expected for hole, answer in pairs),
        sum(_passes(hole, _first(answer)) for hole, answer in pairs),
        sum(any(_passes(hole, line) for line in _lines(answer)) for hole, answer in pairs),
    )
    shares = " | ".join(f"{100 * count / len(holes):.0f} %" for count in counts)
    stats = [answer.stats for answer in answers]
    steps = sum(s.steps for s in stats)
    tokens = sum(s.tokens + 1 for s in stats)  # the end is predicted, too
    return (
        f"| {variant.name} | {shares} | {steps / len(holes):.1f} | {tokens / steps:.2f} "
        f"| {median(s.total_ms for s in stats):.0f} |"
    )


def _request(hole: Problem, strategy: str | None) -> FillRequest:
    before, after = hole.text[: hole.cursor].removesuffix("\n"), hole.text[hole.cursor :]
    asked = request_for(before, after, heal_left="\n", quality="balanced", max_tokens=48)
    return replace(asked, strategy=strategy)


@cache
def _passes(hole: Problem, line: str) -> bool:
    return runs_through(hole.filled(line) + (hole.test or ""))


def _first(answer: FillResult) -> str:
    return _lines(answer)[0] if answer.fills else ""


def _lines(answer: FillResult) -> list[str]:
    return [fill.text.removeprefix("\n") for fill in answer.fills]


if __name__ == "__main__":
    main()
