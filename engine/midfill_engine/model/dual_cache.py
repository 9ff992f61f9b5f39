"""The keys and values outside a canvas, kept from one denoising step to the next.

Owns when they are made anew. In a model with full attention the prefix and the suffix see the
canvas, so their keys change with every token that is decided in it: what is kept is an
approximation, and only a pass over everything is exact.

Source: Wu et al. 2025, "Fast-dLLM" (dual cache), section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor


@dataclass(frozen=True, slots=True)
class RefreshPolicy:
    """When a canvas's cache is made anew, besides whenever its length changes."""

    every: int  # steps; 1 is exact
    block: int  # tokens: each time so many positions in a row have been decided


@dataclass(slots=True, eq=False)
class DualCache:
    """Of one canvas: what lies outside it, for each layer."""

    policy: RefreshPolicy
    keys: list[Tensor] = field(default_factory=list)  # [kv_heads, outside, head_dim], rotated
    values: list[Tensor] = field(default_factory=list)  # the same
    _length: int = 0  # of the canvas when the cache was made
    _age: int = 0  # steps since then
    _blocks: int = 0  # whole blocks that were decided then

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in (*self.keys, *self.values))

    def is_due(self, canvas: Sequence[int], mask: int) -> bool:
        """Whether the next step on `canvas` has to run everything."""
        return (
            not self.keys
            or len(canvas) != self._length
            or self._age + 1 >= self.policy.every
            or self._whole_blocks(canvas, mask) > self._blocks
        )

    def start_anew(self, canvas: Sequence[int], mask: int) -> None:
        """Forget what was kept: the pass that follows stores what it computes."""
        self.keys, self.values = [], []
        self._length, self._age = len(canvas), 0
        self._blocks = self._whole_blocks(canvas, mask)

    def grow_older(self) -> None:
        """Count a step that used what was kept."""
        self._age += 1

    def _whole_blocks(self, canvas: Sequence[int], mask: int) -> int:
        size = self.policy.block
        return sum(mask not in canvas[i : i + size] for i in range(0, len(canvas), size))
