"""How many threads a pass uses: what is fastest on this machine, as busy as it is now.

Threads that meet at every small operation wait for the slowest of them. Where other programs want
the processors too, fewer threads are faster, and how busy a machine is changes by the minute. So
it is measured on the passes themselves: now and then two are run with another number of threads.
The first after a change is not counted, since it has to wake them.

Owns the number and when another is tried. Runs nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_FIXED_ROWS: Final = 50  # what a pass costs before its first row, in rows
_WEIGHT: Final = 0.4  # of a new measurement
_FIRST_PAUSE, _LONGEST_PAUSE = 4, 64  # passes between trials: longer while they bring nothing
_SLOWER: Final = 1.5  # a pass that takes so much more than expected asks for a trial at once


class ThreadChooser:
    """Picks among 1, 2, 4, … and `most` threads.

    `set_threads` is called by the thread that runs the passes, since OpenMP counts for each.
    """

    def __init__(
        self,
        most: int,
        set_threads: Callable[[int], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._choices = sorted({most, *(1 << i for i in range(most.bit_length()) if 1 << i < most)})
        self._set_threads, self._clock = set_threads, clock
        self._costs: dict[int, float] = {}  # seconds a row, smoothed
        self._tried: int | None = None  # a trial that is not done
        self._last = 0  # threads of the last pass
        self._best, self._direction = most, -1
        self._pause = self._countdown = _FIRST_PAUSE
        set_threads(most)

    @property
    def threads(self) -> int:
        """The number that passes use, trials aside; so does what runs between them."""
        return self._best

    @contextmanager
    def measured(self, rows: int) -> Iterator[None]:
        """Run a pass over so many rows in this context; one that raises counts for nothing."""
        tried = self._next()
        self._set_threads(tried)
        started = self._clock()
        try:
            yield
            if tried == self._last:
                self._learn(tried, (self._clock() - started) / (rows + _FIXED_ROWS))
        finally:
            self._last = tried
            self._set_threads(self._tried or self._best)

    def _next(self) -> int:
        if self._tried is not None:
            return self._tried
        self._countdown -= 1
        if self._countdown > 0 or len(self._choices) == 1 or self._best not in self._costs:
            return self._best
        self._tried = self._neighbour()
        return self._tried

    def _neighbour(self) -> int:
        """The choice below or above the best one, in turn where there are both."""
        place = self._choices.index(self._best)
        self._direction = -self._direction
        if not 0 <= place + self._direction < len(self._choices):
            self._direction = -self._direction
        return self._choices[place + self._direction]

    def _learn(self, tried: int, cost: float) -> None:
        known = self._costs.get(tried)
        if tried == self._best:
            if known is not None and cost > _SLOWER * known:
                self._countdown = min(self._countdown, 1)
            self._costs[tried] = cost if known is None else known + _WEIGHT * (cost - known)
            return
        self._tried = None
        self._costs[tried] = cost  # what was known of it is old
        if cost < self._costs[self._best]:
            self._best, self._pause = tried, _FIRST_PAUSE
        else:
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        self._countdown = self._pause
