"""The strategy that goes by whether predictions still change. Pure."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from torch import Tensor

from midfill_engine.worker.strategies.step import Moves, Step, surest

_LARGEST_KL: Final = 0.01  # nats, as published
LOOKBACK: Final = 2  # earlier distributions that are compared


def kl_stability(step: Step, level: float) -> Moves:
    """Commit every mask above the probability `level` whose distribution has come to rest.

    It has, when the last two Kullback-Leibler divergences of its distribution from the one before
    were below 0.01 nats. Where there is none, the surest is committed.

    Source: Kim et al. 2025, "KLASS: KL-Adaptive Stability Sampling for Fast Inference in Masked
    Diffusion Models" (arXiv:2511.05664).
    """
    ready = tuple(i for i in step.masks if step.confidences[i] > level and _rests(step, i))
    return Moves(ready or surest(step, step.confidences, 1))


def _rests(step: Step, position: int) -> bool:
    if not step.history or len(step.history[position]) < LOOKBACK:
        return False
    distributions = [step.log_probabilities[position], *step.history[position][:LOOKBACK]]
    return all(_divergence(now, before) < _LARGEST_KL for now, before in pairwise(distributions))


def _divergence(now: Tensor, before: Tensor) -> float:
    """Of `now` from `before`, log probabilities [V] each, in nats."""
    terms = now.exp() * (now - before)
    return float(terms.nan_to_num(nan=0.0, posinf=float("inf")).sum())
