"""The strategy that goes by position alone. Pure."""

from __future__ import annotations

from midfill_engine.worker.strategies.step import Moves, Step


def left_to_right(step: Step, level: float) -> Moves:
    """Commit the `level` leftmost masks, as an autoregressive model would with `level` 1."""
    return Moves(tuple(step.masks[: max(round(level), 1)]))
