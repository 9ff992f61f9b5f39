"""How long a canvas is: growth by a block, expansion and deletion, calibrated probes. Pure.

A canvas with *empty* tokens needs none of it to be shorter than it began: they trail. It grows
where it is full without an end. The two other ways are for models that have no *empty*: those
trained to expand and delete, and those that were trained for no length at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile


def grown(length: int, block: int, limit: int) -> int:
    """The length of a canvas after growth by another block, at most `limit`, never less."""
    return max(length, min(length + block, limit))


def expanded_and_deleted(ids: Sequence[int], expand: int, delete: int, mask: int) -> list[int]:
    """Which position of `ids` each position of the next canvas comes from.

    An *expand* token becomes two masks and a *delete* token goes, and with the first of these all
    masks behind it. A position from an *expand* is to be a mask.

    Every expansion makes the canvas longer: whoever runs the model rules the token out where the
    canvas has no room left or the budget of expansions is spent, or it might never end.

    Source: Wu et al. 2026, "DreamOn: Diffusion Language Models For Code Infilling Beyond
    Fixed-size Canvas" (arXiv:2602.01326).
    """
    positions: list[int] = []
    deleted = False
    for position, token in enumerate(ids):
        deleted = deleted or token == delete
        if token == delete or (deleted and token == mask):
            continue
        positions += [position] * (2 if token == expand else 1)
    return positions


@dataclass(frozen=True, slots=True)
class LengthBias:
    """What a model's first-step confidence owes to a canvas's length L alone.

    B(L) = a·exp(-b·L) + c·exp(-d·L) + e, fitted to the model.
    """

    a: float
    b: float
    c: float
    d: float
    e: float

    def at(self, length: int) -> float:
        """B(L)"""
        return self.a * math.exp(-self.b * length) + self.c * math.exp(-self.d * length) + self.e


def calibrated_length(
    confidence: Callable[[int], float],
    bias: LengthBias,
    *,
    start: int = 8,
    longest: int = 64,
    patience: int = 4,
) -> int:
    """The length at which a model is surest of a hole, beyond what length alone explains.

    Climbs from `start` to either side, and gives a side up after `patience` lengths in a row that
    are no better than the best so far.

    Args:
        confidence: mean probability of the likeliest tokens of an all-masked canvas of so many
            positions, after one pass. Asked at most once for each length.

    Source: "Diffusion LMs Can Approximate Optimal Infilling Lengths Implicitly"
    (arXiv:2602.00476), CAL, algorithm 1.
    """

    def score(length: int) -> float:
        return confidence(length) / bias.at(length)

    best = (score(start), start)
    for side in (range(start + 1, longest + 1), range(start - 1, 0, -1)):
        misses = 0
        for length in takewhile(lambda _: misses < patience, side):  # noqa: B023
            found = score(length)
            misses = 0 if found > best[0] else misses + 1
            best = max(best, (found, length), key=lambda pair: pair[0])
    return best[1]
