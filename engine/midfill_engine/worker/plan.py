"""What each quality setting spends: how many canvases, of which lengths, how sure, how scored.

Owns the presets. The figures behind them are in docs/log.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from midfill_engine.errors import RequestRejected
from midfill_engine.protocol import FillRequest, Quality
from midfill_engine.worker.strategies import DEFAULT, STRATEGIES


@dataclass(frozen=True, slots=True)
class Plan:
    """How one hole is filled."""

    masked_lengths: tuple[int, ...]  # one parallel draft each, in tokens
    causal_length: int  # left-to-right drafts have at most this many tokens
    samples: int  # so many of them are sampled, beside the greedy one
    level: float  # the number of the strategy by which masked drafts are denoised
    suffix_tokens: int  # how much of the suffix the score reads; 0: drafts are not scored
    causal_only: bool  # no masked drafts, where there can be left-to-right ones
    strategy: str = DEFAULT


PLANS: Final[dict[Quality, Plan]] = {
    "fast": Plan((8,), 16, 0, 0.7, 0, causal_only=True),
    "balanced": Plan((6, 10, 16), 24, 4, 0.8, 32, causal_only=False),
    "best": Plan((8, 16, 24), 32, 8, 0.9, 32, causal_only=False),
}


SAMPLING_TEMPERATURE: Final = 0.8  # what the gain of ranked samples was first measured at
SHARE_OF_SAMPLES: Final = 0.75  # the last of the sampled drafts are not waited for
_SEVERAL_LINES: Final = 2  # times the room of a single line
_EXACT_LENGTHS: Final = (1, 2, 4, 8)  # without empties a canvas's length is the fill's
LONGEST: Final = 192  # tokens; what an edge may demand besides still fits into a pass


def plan_for(request: FillRequest) -> Plan:
    """What a request's quality spends, with the strategy that it asks for, if any.

    Raises:
        RequestRejected: there is no such quality or strategy, or it asks for nothing.
    """
    if request.quality not in PLANS:
        raise RequestRejected(f"there is no quality {request.quality!r}")
    if request.max_tokens < 1:
        raise RequestRejected(f"a fill needs at least one token, not {request.max_tokens}")
    plan = PLANS[request.quality]
    if request.strategy is None:
        return plan
    if request.strategy not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        raise RequestRejected(f"there is no strategy {request.strategy!r}; there are {known}")
    level = STRATEGIES[request.strategy].level
    return replace(plan, strategy=request.strategy, level=level, causal_only=False)


def lengths(plan: Plan, max_tokens: int, single_line: bool, exact: bool) -> tuple[int, ...]:
    """Canvas lengths of a request's masked drafts, in tokens."""
    wanted = _EXACT_LENGTHS if exact else plan.masked_lengths
    room = [min(n if single_line else _SEVERAL_LINES * n, max_tokens) for n in wanted]
    return tuple(dict.fromkeys(room))


def causal_length(plan: Plan, max_tokens: int, single_line: bool) -> int:
    """Canvas length of a request's left-to-right drafts, in tokens."""
    return min(plan.causal_length * (1 if single_line else _SEVERAL_LINES), max_tokens)


def longest(plan: Plan, max_tokens: int, single_line: bool) -> int:
    """How far a canvas that finds no end may grow, in tokens."""
    return min(plan.causal_length if single_line and plan.causal_length else LONGEST, max_tokens)
