"""One context's keys and values, in one block of memory per layer.

Owns the layout. A slot's number and a token's position in the model differ by a constant:

    slot      0 … S-1           S … S+P-1          S+P … capacity-1
    holds     suffix, ending    prefix, from       whatever one pass needs:
              at S-1            S on               canvases, scored fills
    position  slot - S, so that the suffix has negative positions and nothing moves while
              a person types at the end of the prefix

Knows nothing of tokens: what is valid is its owner's business.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from midfill_engine.model_files import ModelConfig


@dataclass(frozen=True, slots=True, eq=False)
class Slab:
    """Keys (rotated) and values of one context."""

    keys: Tensor  # [layers, kv_heads, capacity, head_dim], as the model's weights are
    values: Tensor  # the same

    @classmethod
    def empty(
        cls,
        config: ModelConfig,
        capacity: int,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> Slab:
        shape = (config.num_hidden_layers, config.num_key_value_heads, capacity, config.head_dim)
        return cls(
            torch.zeros(shape, device=device, dtype=dtype),
            torch.zeros(shape, device=device, dtype=dtype),
        )

    @property
    def capacity(self) -> int:
        return self.keys.shape[2]

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes
