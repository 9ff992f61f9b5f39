"""The low-rank adapter that turns the causal base into the denoiser.

Owns how the adapter's tensors change a weight. How they are stored is `adapter_file`'s.

    layers.I.P.a [rank, in], layers.I.P.b [out, rank]    W + 2 b a, for P in q k v o g u d
    layers.I.n1.d, layers.I.n2.d, norm.d [hidden]        added to the norms' weights
    sp [2, hidden]                                       canvas embeddings of mask and empty
    padout [hidden]                                      logit of empty = hidden · padout
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from midfill_engine.adapter_file import SCALE, load_adapter
from midfill_engine.model_files import ModelConfig


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter's tensors, in float32."""

    tensors: Mapping[str, Tensor]

    @classmethod
    def load(cls, path: Path, config: ModelConfig, device: str = "cpu") -> Adapter:
        """Read the adapter of a base.

        Raises:
            ModelMissing, ModelCorrupt, ModelUnsupported: as `load_adapter`.
        """
        _, tensors = load_adapter(path, config)
        return cls({name: torch.from_numpy(value).to(device) for name, value in tensors.items()})

    def matrix(self, base: Tensor, layer: int, projection: str) -> Tensor:
        """The adapted weight of one projection, by its letter: [out, in]."""
        a = self.tensors[f"layers.{layer}.{projection}.a"]
        b = self.tensors[f"layers.{layer}.{projection}.b"]
        return base.addmm(b, a, alpha=SCALE)

    def layer_norms(
        self, attention: Tensor, feed_forward: Tensor, layer: int
    ) -> tuple[Tensor, Tensor]:
        """The adapted norms of one layer."""
        return (
            attention + self.tensors[f"layers.{layer}.n1.d"],
            feed_forward + self.tensors[f"layers.{layer}.n2.d"],
        )

    def norm(self, base: Tensor) -> Tensor:
        """The adapted final norm."""
        return base + self.tensors["norm.d"]

    @property
    def mask_embedding(self) -> Tensor:
        """[hidden]"""
        return self.tensors["sp"][0]

    @property
    def empty_embedding(self) -> Tensor:
        """[hidden]"""
        return self.tensors["sp"][1]

    @property
    def empty_output(self) -> Tensor:
        """[hidden]"""
        return self.tensors["padout"]
