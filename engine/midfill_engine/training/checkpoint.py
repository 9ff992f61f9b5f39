"""A run's state on disk, whole or not at all.

Owns the checkpoint file. The position in the data is the step: batches are a function of it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from midfill_engine.training.optimizer import Optimizer


@dataclass(slots=True)
class Progress:
    """What has been done so far, besides the weights."""

    next_batch: int = 0  # index of the first micro-batch not yet learnt from
    hole_tokens: int = 0
    seconds: float = 0.0
    best: float | None = None


def save(path: Path, optimizer: Optimizer, progress: Progress) -> None:
    state = {
        "parameters": optimizer.parameters, "first": optimizer.first, "second": optimizer.second,
        "average": optimizer.average, "step": optimizer.step,
        "progress": {name: getattr(progress, name) for name in Progress.__slots__},
    }  # fmt: skip
    part = path.with_suffix(".part")
    with part.open("wb") as stream:
        torch.save(state, stream)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(path)


def load(path: Path) -> tuple[Optimizer, Progress]:
    state: dict[str, Tensor | int | dict[str, float]] = torch.load(path, weights_only=True)
    progress = Progress(**state.pop("progress"))  # type: ignore[arg-type]
    return Optimizer(**state), progress  # type: ignore[arg-type]
