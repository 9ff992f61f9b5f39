"""What a strategy sees of one canvas after one pass, and what it answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Step:
    """The n positions of a canvas that may be decided, from the left, after one pass."""

    tokens: Sequence[int]  # what each is to become if it is committed
    confidences: Sequence[float]  # probability of each of these
    logits: Tensor  # [n, V]
    masked: Sequence[bool]  # whether each is a mask; all are but for a strategy that revises
    standing: Sequence[int]  # the token that each holds now
    number: int = 0  # steps of this canvas before this one
    # Earlier log probabilities of each position, newest first, at most `lookback`: [≤ lookback, V]
    history: Sequence[Sequence[Tensor]] = field(default_factory=tuple)

    @property
    def masks(self) -> list[int]:
        """Which of the positions are masks."""
        return [i for i, m in enumerate(self.masked) if m]

    @cached_property
    def log_probabilities(self) -> Tensor:
        """[n, V]"""
        return self.logits.log_softmax(1)

    @cached_property
    def entropies(self) -> list[float]:
        """Of each position's distribution, in nats."""
        terms = self.log_probabilities.exp() * self.log_probabilities
        # A token that is ruled out has probability 0 and log probability -inf.
        return [-float(t) for t in terms.nan_to_num(nan=0.0).sum(1)]

    @cached_property
    def margins(self) -> list[float]:
        """By how much the likeliest token's probability is over the next one's."""
        best = self.log_probabilities.topk(2, 1).values.exp()
        return [float(m) for m in best[:, 0] - best[:, 1]]

    @cached_property
    def standing_confidences(self) -> list[float]:
        """Probability of the token that stands at each position; of a mask, 0."""
        ids = torch.tensor(self.standing, device=self.logits.device)
        chosen = self.log_probabilities.gather(1, ids[:, None])[:, 0].exp().tolist()
        return [0.0 if m else c for m, c in zip(self.masked, chosen, strict=True)]


@dataclass(frozen=True, slots=True)
class Moves:
    """What to do with a step's positions, by their places in it."""

    commits: tuple[int, ...]  # each takes its predicted token
    remasks: tuple[int, ...] = ()  # each becomes a mask again


def surest(step: Step, certainties: Sequence[float], count: int) -> tuple[int, ...]:
    """The masks with the highest certainties, at least one, the leftmost of equals first."""
    ranked = sorted(step.masks, key=lambda i: -certainties[i])
    return tuple(ranked[: max(count, 1)])


def while_true(ranked: Sequence[int], holds: Iterable[bool]) -> tuple[int, ...]:
    """The positions up to the first at which a condition fails; always the first of them."""
    kept: list[int] = []
    for position, held in zip(ranked, holds, strict=True):
        if kept and not held:
            break
        kept.append(position)
    return tuple(kept)
