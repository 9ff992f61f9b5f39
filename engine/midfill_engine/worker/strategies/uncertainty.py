"""Strategies that go by the whole distribution at a position. Pure."""

from __future__ import annotations

from itertools import accumulate

from midfill_engine.worker.strategies.step import Moves, Step, surest, while_true


def topk_margin(step: Step, level: float) -> Moves:
    """Commit `level` masks a step, those first whose two likeliest tokens are furthest apart.

    Source: Kim et al. 2025, "Train for the Worst, Plan for the Best" (arXiv:2502.06768),
    section 4, top-k probability margin.
    """
    return Moves(surest(step, step.margins, round(level)))


def entropy(step: Step, level: float) -> Moves:
    """Commit `level` masks a step, those of the lowest entropy first.

    Source: Ye et al. 2025, "Dream 7B" (arXiv:2508.15487), whose sampler recommends it.
    """
    return Moves(surest(step, [-e for e in step.entropies], round(level)))


def entropy_bound(step: Step, level: float) -> Moves:
    """Commit the most masks whose entropies come to at most `level` nats beside the largest.

    That sum bounds the error of drawing them independently of one another. The masks are taken
    by descending probability.

    Source: Ben-Hamu et al. 2025, "Accelerated Sampling from Masked Diffusion Models via Entropy
    Bounded Unmasking" (arXiv:2505.24857), EB-Sampler.
    """
    ranked = surest(step, step.confidences, len(step.masks))
    ordered = [step.entropies[i] for i in ranked]
    bounds = zip(accumulate(ordered), accumulate(ordered, max), strict=True)
    return Moves(while_true(ranked, (total - most <= level for total, most in bounds)))
