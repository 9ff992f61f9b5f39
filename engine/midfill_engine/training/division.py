"""How the windows of a step are divided: over processes, and over the passes of each.

Owns the choice, which is measured: a few windows are run in every way that comes into question
before the first step. What a step learns from does not depend on it; only the order in which
numbers are added up does, so a run that resumes keeps what it began with.
"""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import torch

from midfill_engine.errors import TrainingError
from midfill_engine.training.config import TrainConfig

_GAIN: Final = 0.95  # a share of the time above which more windows a pass are not worth it
_MEMORY_SHARE: Final = 0.85  # of a GPU, that a pass may be expected to need


@dataclass(frozen=True, slots=True)
class Division:
    """One way to run a step."""

    device: str  # "cpu" or "cuda"
    workers: int
    windows_per_pass: int
    compiled: bool

    def __str__(self) -> str:
        return (
            f"{self.device}, {self.workers} process{'es' * (self.workers > 1)}, "
            f"{self.windows_per_pass} window{'s' * (self.windows_per_pass > 1)} a pass, "
            f"{'compiled' if self.compiled else 'plain'}"
        )


Trial = Callable[[Division], float]  # runs so many windows: seconds a window


def first_division(config: TrainConfig) -> Division:
    """Where measuring starts, or all there is to it where the settings say everything.

    Raises:
        TrainingError: there is no such device, or nothing to compile with.
    """
    device = config.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise TrainingError("'device' is 'cuda', but torch finds no CUDA here")
    compiles = has_compiler(device)
    if config.compile and not compiles:
        raise TrainingError("'compile' is set, but there is no compiler that torch can use")
    compiled = compiles if config.compile is None else config.compile
    workers = 1 if device == "cuda" else config.workers or 1
    return Division(device, workers, config.windows_per_pass or 1, compiled)


def most_workers(config: TrainConfig, division: Division) -> int:
    """How many processes may come to run at a time."""
    if division.device == "cuda" or config.workers:
        return division.workers
    return max(_counts(config.windows))


def measured(
    config: TrainConfig, first: Division, trial: Trial, say: Callable[[str], None]
) -> Division:
    """The fastest division of those that the settings leave open; `say` is told the figures."""
    counts = _counts(config.windows) if first.device == "cpu" and config.workers is None else []
    if not counts and config.windows_per_pass:
        return first

    def seconds_of(way: Division) -> float:
        seconds = trial(way)
        say(f"{way}: {1000 * seconds:.0f} ms a window")
        return seconds

    trial(replace(first, workers=most_workers(config, first)))  # compiles, and fills caches
    best, least = first, seconds_of(first)
    for count in counts[1:]:
        way = replace(first, workers=count)
        if (seconds := seconds_of(way)) < least:
            best, least = way, seconds
    while config.windows_per_pass is None and _may_double(config, best):
        way = replace(best, windows_per_pass=2 * best.windows_per_pass)
        try:
            seconds = seconds_of(way)
        except torch.OutOfMemoryError:
            say(f"{way}: no room")
            break
        if seconds > _GAIN * least:
            break
        best, least = way, seconds
    return best


def _may_double(config: TrainConfig, division: Division) -> bool:
    """Whether a step has windows, and a GPU memory, for passes twice as large."""
    if 2 * division.windows_per_pass * division.workers > config.windows:
        return False
    if division.device == "cpu":
        return True
    used = torch.cuda.max_memory_allocated() / torch.cuda.mem_get_info()[1]
    return 2 * used < _MEMORY_SHARE


def _counts(windows: int) -> list[int]:
    """Numbers of processes that share a step's windows evenly, as far as there are cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return [n for n in range(1, (cores or 1) + 1) if windows % n == 0]


def has_compiler(device: str) -> bool:
    """Whether torch finds what it compiles with: a C++ compiler and Python's headers, or Triton."""
    if device == "cuda":
        return find_spec("triton") is not None and shutil.which("cc") is not None
    headers = Path(sysconfig.get_paths()["include"], "Python.h")
    return shutil.which(os.environ.get("CXX", "g++")) is not None and headers.is_file()
