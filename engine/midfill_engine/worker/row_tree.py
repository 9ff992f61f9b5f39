"""The rows of left-to-right drafts: what several have is run once, and kept while all take part.

Owns which of a job's causal rows stand in its context's scratch area. What such a row holds
depends on nothing but the tokens before it. So drafts that begin alike share their rows, as the
paths of a tree do, and what a pass has run stays for the next one; only new tokens are run.

Knows nothing of drafts: it is given paths of tokens, and how much of each must be run again for
its predictions.

Source: the tree attention of Miao et al. 2023, "SpecInfer" (arXiv:2305.09781), with the branches
of several samples beside those of proposals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from midfill_engine.model.slab import Slab


@dataclass(frozen=True, slots=True)
class Path:
    """A draft's tokens from the first row on, and the first row whose prediction is wanted."""

    tokens: Sequence[int]
    wanted: int


@dataclass(frozen=True, slots=True)
class FreshRow:
    """A row to be run."""

    token: int
    depth: int  # how many rows are before it
    seen: tuple[int, ...]  # the slots of those, and its own, from the scratch area's start on


@dataclass(frozen=True, slots=True)
class Layout:
    """What one pass runs, and where."""

    moves: list[tuple[int, int]]  # kept rows: slots from and to, ascending
    kept: int  # rows that stand before the fresh ones
    fresh: list[FreshRow]
    predictions: list[list[int]]  # of each path: the fresh rows whose predictions are wanted
    slots: dict[int, int]  # of each row in the tree after the pass


@dataclass(slots=True, eq=False)
class RowTree:
    """Rows by what leads to them. Slots are counted from the scratch area's start."""

    _names: dict[tuple[int, int], int] = field(default_factory=dict)  # (parent, token) → row
    _slots: dict[int, int] = field(default_factory=dict)

    def lay_out(self, paths: Sequence[Path]) -> Layout:
        """How the next pass is to run the paths. Rows of no path are forgotten."""
        named = [self._named(path.tokens) for path in paths]
        wanted = [rows[path.wanted :] for path, rows in zip(paths, named, strict=True)]
        held = {row for rows in named for row in rows if row in self._slots}
        held.difference_update(*wanted)
        kept = sorted(held, key=self._slots.__getitem__)
        slots = {row: slot for slot, row in enumerate(kept)}
        fresh: list[FreshRow] = []
        for path, rows in zip(paths, named, strict=True):
            for depth, row in enumerate(rows):
                if row in slots:
                    continue
                slots[row] = len(kept) + len(fresh)
                seen = tuple(slots[above] for above in rows[: depth + 1])
                fresh.append(FreshRow(path.tokens[depth], depth, seen))
        moves = [(self._slots[row], slots[row]) for row in kept if self._slots[row] != slots[row]]
        predictions = [[slots[row] - len(kept) for row in rows] for rows in wanted]
        return Layout(moves, len(kept), fresh, predictions, slots)

    def apply(self, layout: Layout, slab: Slab, start: int) -> None:
        """Move what is kept, and take the pass as run; `start` is the scratch area's first slot."""
        if layout.moves:
            source = [start + a for a, _ in layout.moves]
            target = [start + b for _, b in layout.moves]
            for held in (slab.keys, slab.values):
                held[:, :, target] = held[:, :, source]
        self._slots = layout.slots

    def _named(self, tokens: Sequence[int]) -> list[int]:
        rows, parent = [], -1
        for token in tokens:
            parent = self._names.setdefault((parent, token), len(self._names))
            rows.append(parent)
        return rows
