"""Strategies that go by the probability of the likeliest token. Pure."""

from __future__ import annotations

from midfill_engine.worker.strategies.step import Moves, Step, surest, while_true


def left_edge_and_threshold(step: Step, level: float) -> Moves:
    """Commit the leftmost mask, and every other at or above the probability `level`.

    Source: Wu et al. 2025, "Fast-dLLM" (arXiv:2505.22618), section 3.3, which commits the surest
    position where none reaches the threshold. The leftmost is taken instead: with its left side
    complete it is predicted as well as an autoregressive model does, and the canvas is never left
    with a gap that only waits. Steps fell by a third at equal quality (docs/log.md).
    """
    first, *others = step.masks
    return Moves((first, *(i for i in others if step.confidences[i] >= level)))


def threshold(step: Step, level: float) -> Moves:
    """Commit every mask at or above the probability `level`, or else the surest.

    Source: Wu et al. 2025, "Fast-dLLM" (arXiv:2505.22618), section 3.3.
    """
    sure = tuple(i for i in step.masks if step.confidences[i] >= level)
    return Moves(sure or surest(step, step.confidences, 1))


def factor(step: Step, level: float) -> Moves:
    """Commit the n surest masks, for the largest n with (n + 1)·(1 - c) < `level`.

    c is the lowest of the n probabilities: the more are committed at once, the surer the last of
    them must be.

    Source: Wu et al. 2025, "Fast-dLLM" (arXiv:2505.22618), section 3.3 and theorem 1.
    """
    ranked = surest(step, step.confidences, len(step.masks))
    holds = ((n + 1) * (1 - step.confidences[i]) < level for n, i in enumerate(ranked, 1))
    return Moves(while_true(ranked, holds))


def low_confidence_schedule(step: Step, level: float) -> Moves:
    """Commit a fixed number of masks a step, `level`, the surest first.

    Source: Nie et al. 2025, "Large Language Diffusion Models" (LLaDA, arXiv:2502.09992),
    low-confidence remasking under a linear schedule: what is least sure is left masked.
    """
    return Moves(surest(step, step.confidences, round(level)))
