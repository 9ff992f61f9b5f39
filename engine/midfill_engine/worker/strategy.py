"""Which masked positions a denoising step commits.

Pure functions of the step's confidences. Each commits at least one position, so that a canvas
of n masks is done after at most n steps.
"""

from __future__ import annotations

from collections.abc import Sequence


def confidence_threshold(confidences: Sequence[float], threshold: float) -> list[bool]:
    """Commit every position at or above `threshold`, and the surest in any case.

    Source: Wu et al. 2025, "Fast-dLLM", section 3.3 (confidence-aware parallel decoding).

    Args:
        confidences: probability of the likeliest token at each masked position; not empty.
        threshold: 0…1.
    """
    surest = max(range(len(confidences)), key=confidences.__getitem__)
    return [c >= threshold or i == surest for i, c in enumerate(confidences)]


def left_to_right(confidences: Sequence[float]) -> list[bool]:
    """Commit the leftmost position only: what an autoregressive decoder does."""
    return [i == 0 for i in range(len(confidences))]
