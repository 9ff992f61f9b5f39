"""What each quality setting spends: how many canvases, of which lengths, how sure, how scored.

Owns the presets. The figures behind them are in docs/log.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from midfill_engine.protocol import Quality


@dataclass(frozen=True, slots=True)
class Plan:
    """How one hole is filled."""

    masked_lengths: tuple[int, ...]  # one parallel draft each, in tokens
    causal_length: int  # left-to-right drafts have at most this many tokens
    samples: int  # so many of them are sampled, beside the greedy one
    threshold: float  # probability from which a token is committed in parallel
    suffix_tokens: int  # how much of the suffix the score reads
    all_drafts: bool  # finish every draft; else the others end with the left-to-right one


PLANS: Final[dict[Quality, Plan]] = {
    "fast": Plan((8,), 16, 0, 0.7, 12, all_drafts=False),
    "balanced": Plan((6, 10, 16), 24, 4, 0.8, 32, all_drafts=True),
    "best": Plan((4, 8, 12, 16, 24), 32, 8, 0.9, 40, all_drafts=True),
}


SAMPLING_TEMPERATURE: Final = 0.8  # what the gain of ranked samples was first measured at
_SEVERAL_LINES: Final = 2  # times the room of a single line
_EXACT_LENGTHS: Final = (1, 2, 4, 8)  # without empties a canvas's length is the fill's


def lengths(plan: Plan, max_tokens: int, single_line: bool, exact: bool) -> tuple[int, ...]:
    """Canvas lengths of a request's masked drafts, in tokens."""
    wanted = _EXACT_LENGTHS if exact else plan.masked_lengths
    room = [min(n if single_line else _SEVERAL_LINES * n, max_tokens) for n in wanted]
    return tuple(dict.fromkeys(room))


def causal_length(plan: Plan, max_tokens: int, single_line: bool) -> int:
    """Canvas length of a request's left-to-right drafts, in tokens."""
    return min(plan.causal_length * (1 if single_line else _SEVERAL_LINES), max_tokens)
