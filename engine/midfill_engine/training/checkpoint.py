"""A run's state on disk, whole or not at all.

Owns the checkpoint file. The position in the data is the step: windows are a function of it.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch

from midfill_engine.errors import TrainingError
from midfill_engine.training.division import Division
from midfill_engine.training.metrics import Sums
from midfill_engine.training.optimizer import Optimizer

_VECTORS: Final = ("parameters", "first", "second", "average")


@dataclass(slots=True)
class Progress:
    """What has been done so far, besides the weights."""

    next_window: int = 0  # index of the first window not yet learnt from
    hole_tokens: int = 0
    seconds: float = 0.0
    best: float | None = None
    start: str = ""  # sha256 of the adapter it began with
    recent: Sums = field(default_factory=dict)  # since the last validation


@dataclass(slots=True)
class RunState:
    """All of a run's state. `corpus` is the sha256 of what it learns from."""

    optimizer: Optimizer
    progress: Progress
    division: Division
    corpus: str


def save(path: Path, state: RunState) -> None:
    """Store a run's state; until that is done, the one before it stays."""
    vectors = {name: getattr(state.optimizer, name).cpu() for name in _VECTORS}
    parts = {
        "step": state.optimizer.step,
        "progress": dataclasses.asdict(state.progress),
        "division": dataclasses.asdict(state.division),
        "corpus": state.corpus,
    }
    part = path.with_suffix(".part")
    with part.open("wb") as stream:
        torch.save(vectors | parts, stream)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(path)


def load(path: Path, parameters: int, corpus: str, device: str) -> RunState:
    """Read a run's state onto a device.

    Raises:
        TrainingError: it is no checkpoint of this version, or not of a run with so many parameters
            on this corpus.
    """
    try:
        raw: dict[str, Any] = torch.load(path, weights_only=True, map_location=device)
        optimizer = Optimizer(**{name: raw[name] for name in _VECTORS}, step=raw["step"])
        progress, division = Progress(**raw["progress"]), Division(**raw["division"])
        state = RunState(optimizer, progress, division, raw["corpus"])
    except (OSError, EOFError, RuntimeError, pickle.UnpicklingError, KeyError, TypeError) as error:
        raise TrainingError(f"{path} is no checkpoint that can be gone on from: {error}") from error
    if (found := len(optimizer.parameters)) != parameters:
        raise TrainingError(f"{path} has {found} parameters, not {parameters}: see 'rank'")
    if state.corpus != corpus:
        raise TrainingError(f"{path} is of a run on corpus {state.corpus[:12]}, not {corpus[:12]}")
    return state
