"""Sums from which losses are averaged: what training shows and what validation decides by.

Owns the names of the figures. Every figure is (sum, weight), so that parts add up.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from midfill_engine.model.vocabulary import EMPTY, MASK
from midfill_engine.training.batches import Canvas, Window
from midfill_engine.training.passes import Losses

Sums = dict[str, tuple[float, float]]


def training_sums(windows: Sequence[Window], losses: Losses, causal_weight: float) -> Sums:
    """Losses by view, tokens learnt from, and the step's total weight."""
    rows, weights, causal = _arrays(losses)
    edge, _, _, empty = _flags(windows).T
    token = (weights == 1) & ~empty
    return {
        "masked": _mean(rows, weights * ~causal),
        "causal": _mean(rows, weights * causal),
        "left_edge": _mean(rows, ~causal & edge & token),
        "hole_tokens": (float((weights == 1).sum()), 1.0),
        "weight": (float((weights * np.where(causal, causal_weight, 1)).sum()), 1.0),
    }


def validation_sums(window: Window, losses: Losses) -> Sums:
    """Cross-entropies over kinds of rows.

    masked: all weighted rows of the masked view; masked_full: everything masked; left_edge: the
    first masked token where all before it is known; length: first empties; causal_token: without
    the end; first_*: the hole's first token.
    """
    rows, weights, causal = _arrays(losses)
    edge, full, first, empty = _flags([window]).T
    token = (weights == 1) & ~empty
    suffix = np.concatenate(
        [
            np.full(sum(w > 0 for w in c.weights), len(g.suffix) > 0)
            for g in window.groups
            for c in g.canvases
        ]
    )
    chosen = {
        "masked": weights * ~causal,
        "causal": weights * causal,
        "masked_full": ~causal & full & token,
        "masked_part": ~causal & ~full & token,
        "left_edge": ~causal & edge & token,
        "length": ~causal & empty & (weights == 1),
        "first_masked": ~causal & full & first & token,
        "first_causal": causal & first & token,
        "causal_token": causal & token,
        "causal_end": causal & empty,
        "causal_token_no_suffix": causal & token & ~suffix,
    }
    python = "python" if window.language == "python" else "other"
    sums = {name: _mean(rows, which) for name, which in chosen.items()}
    for name in ("masked", "causal_token", "left_edge"):
        sums[f"{name}.{python}"] = sums[name]
    return sums


def added(left: Sums, right: Sums) -> Sums:
    """The sums of both parts together."""
    names = dict.fromkeys((*left, *right))
    pairs = {n: (left.get(n, (0.0, 0.0)), right.get(n, (0.0, 0.0))) for n in names}
    return {n: (a[0] + b[0], a[1] + b[1]) for n, (a, b) in pairs.items()}


def means(sums: Sums) -> dict[str, float]:
    """The averages, of those figures that have any weight."""
    return {name: round(value / weight, 4) for name, (value, weight) in sums.items() if weight}


def _arrays(losses: Losses) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return losses.rows.cpu().numpy(), losses.weights.cpu().numpy(), losses.causal.cpu().numpy()


def _flags(windows: Sequence[Window]) -> np.ndarray:
    """[rows with a weight, 4]: left edge, all masked, first token, an empty."""
    table = [
        flags
        for window in windows
        for group in window.groups
        for canvas in group.canvases
        for flags in _canvas_flags(canvas)
    ]
    return np.array(table, dtype=bool).reshape(-1, 4)


def _canvas_flags(canvas: Canvas) -> list[tuple[bool, bool, bool, bool]]:
    scored = [j for j, w in enumerate(canvas.weights) if w > 0]
    masked = MASK in canvas.ids
    full = masked and all(i == MASK for i in canvas.ids[1:])
    return [(masked and j == scored[0], full, j == 0, canvas.targets[j] == EMPTY) for j in scored]


def _mean(rows: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    return float((rows * weights).sum()), float(weights.sum())
