"""The rules by which a denoising step decides tokens, by name.

Owns their names and the one number that each has. A rule is a pure function of a `Step`; whoever
runs a masked model, of whatever family, makes the step and carries its `Moves` out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from midfill_engine.worker.strategies.confidence import (
    factor,
    left_edge_and_threshold,
    low_confidence_schedule,
    threshold,
)
from midfill_engine.worker.strategies.order import left_to_right
from midfill_engine.worker.strategies.revision import path_planning, token_editing
from midfill_engine.worker.strategies.stability import LOOKBACK, kl_stability
from midfill_engine.worker.strategies.step import Moves, Step
from midfill_engine.worker.strategies.uncertainty import entropy, entropy_bound, topk_margin

__all__ = ["DEFAULT", "STRATEGIES", "Moves", "Step", "Strategy"]


@dataclass(frozen=True, slots=True)
class Strategy:
    """A rule, and what it has to be told.

    `decide` commits at least one position of a step with masks. A rule that revises may also take
    back or replace what is committed, in so few steps that every canvas comes to an end.
    """

    decide: Callable[[Step, float], Moves]
    level: float  # its one number where nothing else is asked for; its docstring says which
    revises: bool = False  # sees committed positions, too
    post_edits: int = 0  # for so many steps it may go on editing a canvas without masks
    lookback: int = 0  # how many earlier predictions of a position it compares


DEFAULT: Final = "left-edge"
STRATEGIES: Final[dict[str, Strategy]] = {
    DEFAULT: Strategy(left_edge_and_threshold, 0.8),
    "left-to-right": Strategy(left_to_right, 1),
    "schedule": Strategy(low_confidence_schedule, 1),
    "threshold": Strategy(threshold, 0.9),
    "factor": Strategy(factor, 1.0),
    "margin": Strategy(topk_margin, 1),
    "entropy": Strategy(entropy, 1),
    "entropy-bound": Strategy(entropy_bound, 0.1),
    "kl-stability": Strategy(kl_stability, 0.9, lookback=LOOKBACK),
    "path-planning": Strategy(path_planning, 1.0, revises=True),
    "token-editing": Strategy(token_editing, 0.9, revises=True, post_edits=4),
}
