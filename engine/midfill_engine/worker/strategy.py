"""Which masked positions a denoising step commits.

Pure functions of the step's predictions. Each commits at least one position, so that a canvas of
n masks is done after at most n steps.
"""

from __future__ import annotations

from collections.abc import Sequence


def left_edge_and_threshold(confidences: Sequence[float], threshold: float) -> list[bool]:
    """Commit the leftmost position, and every other at or above `threshold`.

    Source: Wu et al. 2025, "Fast-dLLM", section 3.3, which commits the surest position where none
    reaches the threshold. The leftmost is taken instead: with its left side complete it is
    predicted as well as an autoregressive model does, and the canvas is never left with a gap
    that only waits. Steps fell by a third at equal quality (docs/log.md).

    Args:
        confidences: probability of the likeliest token at each masked position, from the left;
            not empty.
        threshold: 0…1.
    """
    return [i == 0 or c >= threshold for i, c in enumerate(confidences)]


def verified(predicted: Sequence[int], proposed: Sequence[int]) -> int:
    """How many predictions of a causal pass over `proposed` tokens hold: at least one.

    `predicted[i]` was made with `proposed[:i]` in sight, so it holds as long as all of these
    were what the model itself predicts.

    Source: Leviathan et al. 2023, "Fast Inference from Transformers via Speculative Decoding",
    for greedy decoding.
    """
    agreed = 0
    while agreed < len(proposed) and predicted[agreed] == proposed[agreed]:
        agreed += 1
    return min(agreed + 1, len(predicted))
