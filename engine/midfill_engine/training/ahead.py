"""Makes windows in other processes, ahead of their use, for a device that would wait for them.

Owns those processes. What they make is what `Batches.window` makes.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator, Sequence

from torch.utils.data import DataLoader, Dataset

from midfill_engine.training.batches import Batches, Window


class _Windows(Dataset[Window]):
    def __init__(self, batches: Batches) -> None:
        self._batches = batches

    def __getitem__(self, index: int) -> Window:
        return self._batches.window(index)


class WindowsAhead:
    """The stream of windows, quickest where indices are asked for one after another."""

    def __init__(self, batches: Batches) -> None:
        self._windows = _Windows(batches)
        self._next = 0
        self._stream: Iterator[Window] | None = None

    def windows(self, indices: Sequence[int]) -> Iterator[Window]:
        """The windows of these indices, in order."""
        for index in indices:
            if self._stream is None or index != self._next:
                self._stream = self._from(index)
            self._next = index + 1
            yield next(self._stream)

    def close(self) -> None:
        """End the processes."""
        self._stream = None

    def _from(self, index: int) -> Iterator[Window]:
        loader = DataLoader(
            self._windows,
            batch_size=None,
            sampler=itertools.count(index),
            collate_fn=_as_it_is,  # type: ignore[arg-type]
            num_workers=max(1, (os.cpu_count() or 1) - 1),
            multiprocessing_context="fork",
            prefetch_factor=8,
            worker_init_fn=_ignore_signals,
        )
        return iter(loader)


def _as_it_is(window: Window) -> Window:
    return window


def _ignore_signals(_: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # the parent ends them
        signal.signal(number, signal.SIG_IGN)
