"""Contexts and their cached keys and values.

Owns which tokens a slab holds, how much of it a new window can reuse, and how many slabs there
are. A slab is found by what it holds, not by a document's name: the one with the most in common
is taken, what differs is encoded again, and the rest stays. That is exact, because the encoder
is causal on either side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import torch

from midfill_engine.model.slab import Slab
from midfill_engine.model.transformer import Segment
from midfill_engine.model.vocabulary import END_OF_TEXT
from midfill_engine.model_files import ModelConfig
from midfill_engine.worker.window import PREFIX_TOKENS, SUFFIX_TOKENS, Window

ORIGIN: Final = SUFFIX_TOKENS + 1  # the slot of position 0; one more for the attention sink
SCRATCH_ROWS: Final = 384  # canvases or scored fills of one request in one pass
MOST_CONTEXTS: Final = 16  # however small they are: each is looked through for each request
LEAST_SHARED: Final = 32  # tokens; a context with fewer in common is another document's


@dataclass(slots=True, eq=False)
class Context:
    """A slab and the tokens whose keys and values it holds."""

    slab: Slab
    prefix: list[int] = field(default_factory=list)  # encoded prefix tokens, from ORIGIN on
    suffix: tuple[int, ...] = ()  # encoded suffix tokens, ending at ORIGIN
    window: Window = field(default_factory=lambda: Window((END_OF_TEXT,), ()))
    busy: bool = False

    @property
    def first_slot(self) -> int:
        """Where the keys a canvas may see begin; the attention sink before it is hidden."""
        return ORIGIN - len(self.window.suffix)

    @property
    def scratch_slot(self) -> int:
        """Where a canvas goes: its first row is the prefix's last token, which is not cached."""
        return ORIGIN + len(self.window.prefix) - 1

    def common(self, window: Window) -> tuple[int, bool]:
        """Reusable prefix tokens, and whether the suffix is the same."""
        needed = window.prefix[:-1]
        same = 0
        while same < min(len(needed), len(self.prefix)) and needed[same] == self.prefix[same]:
            same += 1
        return same, bool(window.suffix) and self.suffix == window.suffix

    def open(self, window: Window) -> list[tuple[list[int], Segment]]:
        """Make the context that of `window`: what has to be encoded, and where."""
        same, keep_suffix = self.common(window)
        self.window = window
        work = []
        fresh = list(window.prefix[same:-1])
        if fresh:
            rows, keys = len(fresh), same + len(fresh)
            visible = torch.ones(rows, keys, dtype=torch.bool).tril_(same)
            work.append((fresh, Segment(self.slab, rows, ORIGIN, ORIGIN + same, visible)))
        if window.suffix and not keep_suffix:
            rows = len(window.suffix) + 1
            visible = torch.ones(rows, rows, dtype=torch.bool).tril_()
            segment = Segment(self.slab, rows, ORIGIN - rows, ORIGIN - rows, visible)
            work.append(([END_OF_TEXT, *window.suffix], segment))
        self.prefix, self.suffix = list(window.prefix[:-1]), window.suffix
        return work

    def spoil(self) -> None:
        """Forget everything: an encoding pass failed half-way."""
        self.prefix, self.suffix = [], ()


class ContextPool:
    """A bounded number of contexts. Every busy request has one of its own."""

    def __init__(
        self,
        config: ModelConfig,
        limit_bytes: int,
        new_slab: Callable[[int], Slab] | None = None,
    ) -> None:
        self._new_slab = new_slab or partial(Slab.empty, config)
        self._limit_bytes = limit_bytes
        self._contexts: list[Context] = []  # least recently used first

    @property
    def nbytes(self) -> int:
        return sum(context.slab.nbytes for context in self._contexts)

    def bound(self, limit_bytes: int) -> None:
        """Set another limit. Contexts that are too many for it go, the least recently used first.

        Busy ones stay until another limit is set, or this one again.
        """
        self._limit_bytes = limit_bytes
        for context in [context for context in self._contexts if not context.busy]:
            if len(self._contexts) < 2 or self.nbytes <= limit_bytes:
                return
            self._contexts.remove(context)

    @property
    def has_room(self) -> bool:
        """Whether a context can be had within the limit. The first one is outside any limit."""
        return self._may_grow() or any(not context.busy for context in self._contexts)

    def acquire(self, window: Window) -> tuple[Context, int]:
        """An idle context, busy from now on, and how many of the window's tokens it has.

        That is the one with most in common; a context that has little in common with the window
        is left to its own document, and a new one is made. Where there is no room for another,
        the least recently used one is taken. Call it while there is room.
        """
        idle = [context for context in self._contexts if not context.busy]
        best = max(idle, key=lambda c: _reusable(c, window), default=None)
        tokens = len(window.prefix) - 1 + len(window.suffix)
        least = max(min(LEAST_SHARED, tokens // 2), 1)
        if best is None or _reusable(best, window) < least:
            best = self._new() if self._may_grow() else idle[0]
        self._contexts = [context for context in self._contexts if context is not best]
        self._contexts.append(best)
        best.busy = True
        return best, _reusable(best, window)

    def release(self, context: Context) -> None:
        """Give a context back, for whoever comes next."""
        context.busy = False

    def _new(self) -> Context:
        return Context(self._new_slab(ORIGIN + PREFIX_TOKENS + SCRATCH_ROWS))

    def _may_grow(self) -> bool:
        slabs = len(self._contexts)  # all of one size
        fits = not slabs or self.nbytes * (slabs + 1) <= self._limit_bytes * slabs
        return fits and slabs < MOST_CONTEXTS


def _reusable(context: Context, window: Window) -> int:
    same, suffix = context.common(window)
    return same + (len(window.suffix) if suffix else 0)
