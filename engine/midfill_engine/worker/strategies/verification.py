"""How much of what was proposed to a causal pass holds. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def verified(predicted: Sequence[int], proposed: Sequence[int]) -> int:
    """How many predictions of a causal pass over `proposed` tokens hold: at least one.

    `predicted[i]` was made with `proposed[:i]` in sight, so it holds as long as all of these
    were what the model itself predicts.

    Source: Leviathan et al. 2023, "Fast Inference from Transformers via Speculative Decoding"
    (arXiv:2211.17192), for a model whose choice at each position is settled.
    """
    agreed = 0
    while agreed < len(proposed) and predicted[agreed] == proposed[agreed]:
        agreed += 1
    return min(agreed + 1, len(predicted))
