"""What the outcomes of an evaluation come to: which figures there are, and what each means.

Owns the definitions. How figures look is the concern of `tables` and `plots`. Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from midfill_lsp.evaluation.outcomes import Outcome
from midfill_lsp.evaluation.reliability import Bin, expected_calibration_error, reliability
from midfill_lsp.evaluation.statistics import (
    Comparison,
    Estimate,
    compare,
    mean,
    median,
    ratio,
    share,
)
from midfill_lsp.replay.tally import Spread, spread

Unit = Literal["share", "characters", "count", "similarity"]
Outcomes = Sequence[Outcome]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure that every system has, and how it is got from the system's outcomes."""

    group: str
    label: str
    unit: Unit
    of: Callable[[Outcomes], Estimate | None]


def _on(suite: str, hit: Callable[[Outcome], bool]) -> Callable[[Outcomes], Estimate | None]:
    return lambda outcomes: share([hit(one) for one in outcomes if one.suite == suite])


def _exact_of_shown(outcomes: Outcomes) -> Estimate | None:
    return share([one.exact for one in outcomes if one.suite == "held-out" and one.shown])


def _sound(outcomes: Outcomes, *, shown: bool) -> Estimate | None:
    """Of fills at places of every kind; where the parser gives up, nothing is counted."""
    counted = [one for one in outcomes if one.sound is not None and (one.shown or not shown)]
    return share([bool(one.sound) for one in counted])


def _similarity(outcomes: Outcomes) -> Estimate | None:
    return mean([one.similarity for one in outcomes if one.suite == "held-out"])


def _excess(outcomes: Outcomes) -> list[int]:
    return [one.excess for one in outcomes if one.suite == "held-out" and one.excess is not None]


def _steps(outcomes: Outcomes) -> Estimate | None:
    return mean([one.stats.steps for one in outcomes if one.stats and one.suite != "complete"])


def _tokens_per_pass(outcomes: Outcomes) -> Estimate | None:
    stats = [one.stats for one in outcomes if one.stats and one.suite != "complete"]
    return ratio([s.tokens for s in stats], [s.steps for s in stats])


_HUMANEVAL: Final = "HumanEval, single line"
_HELD_OUT: Final = "held-out packages"
_COMPLETE: Final = "nothing missing"
_COST: Final = "cost of a fill"
FIGURES: Final[tuple[Figure, ...]] = (
    Figure(_HUMANEVAL, "exact", "share", _on("humaneval", lambda o: o.exact)),
    Figure(_HUMANEVAL, "pass@1", "share", _on("humaneval", lambda o: o.passed)),
    Figure(_HUMANEVAL, "any fill passes", "share", _on("humaneval", lambda o: o.any_passed)),
    Figure(_HELD_OUT, "exact", "share", _on("held-out", lambda o: o.exact)),
    Figure(_HELD_OUT, "any fill exact", "share", _on("held-out", lambda o: o.any_exact)),
    Figure(_HELD_OUT, "edit similarity", "similarity", _similarity),
    Figure(_HELD_OUT, "offered when asked", "share", _on("held-out", lambda o: o.offered)),
    Figure(_HELD_OUT, "shown while typing", "share", _on("held-out", lambda o: o.shown)),
    Figure(_HELD_OUT, "exact, of what is shown", "share", _exact_of_shown),
    Figure(
        _HELD_OUT, "length error, median", "characters", lambda o: median([*map(float, _excess(o))])
    ),
    Figure(
        _HELD_OUT,
        "length error, mean size",
        "characters",
        lambda o: mean([float(abs(e)) for e in _excess(o)]),
    ),
    Figure(_COMPLETE, "silent while typing", "share", _on("complete", lambda o: not o.shown)),
    Figure(_COMPLETE, "silent when asked", "share", _on("complete", lambda o: not o.offered)),
    Figure("all places", "parses, of what is offered", "share", lambda o: _sound(o, shown=False)),
    Figure("all places", "parses, of what is shown", "share", lambda o: _sound(o, shown=True)),
    Figure(_COST, "steps", "count", _steps),
    Figure(_COST, "tokens per step", "count", _tokens_per_pass),
)


@dataclass(frozen=True, slots=True)
class AgainstBase:
    """A system and the base on the same problems; None where there are none."""

    exact: Comparison | None  # HumanEval
    passed: Comparison | None
    held_out_exact: Comparison | None


@dataclass(frozen=True, slots=True)
class Calibration:
    """How a system's confidence relates to exactness, over what is offered outside HumanEval."""

    bins: list[Bin]
    error: float | None
    fills: int


def calibration(outcomes: Outcomes) -> Calibration:
    """A fill where nothing is missing is wrong. HumanEval is one language and one kind of hole."""
    offered = [one for one in outcomes if one.offered and one.suite != "humaneval"]
    confidences = [one.attempts[0].confidence for one in offered]
    bins = reliability(confidences, [one.exact for one in offered])
    return Calibration(bins, expected_calibration_error(bins), len(offered))


def against(outcomes: Outcomes, base: Outcomes) -> AgainstBase:
    """Compare outcomes of the same problems in the same order."""

    def paired(suite: str, hit: Callable[[Outcome], bool]) -> Comparison | None:
        first, second = (
            [hit(one) for one in side if one.suite == suite] for side in (outcomes, base)
        )
        return compare(first, second)

    return AgainstBase(
        paired("humaneval", lambda o: o.exact),
        paired("humaneval", lambda o: o.passed),
        paired("held-out", lambda o: o.exact),
    )


def times(outcomes: Outcomes) -> Spread | None:
    """How long fills took, in the process that made them."""
    return spread([one.stats.total_ms for one in outcomes if one.stats])


def exact_by(outcomes: Outcomes, key: Callable[[Outcome], str]) -> Mapping[str, Estimate]:
    """The share of exact fills of held-out holes, by language or by kind."""
    names = sorted({key(one) for one in outcomes if one.suite == "held-out"})
    found = {
        name: share([o.exact for o in outcomes if o.suite == "held-out" and key(o) == name])
        for name in names
    }
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def excesses(outcomes: Outcomes) -> list[int]:
    """Characters of each fill of a held-out hole beyond what was expected."""
    return _excess(outcomes)
