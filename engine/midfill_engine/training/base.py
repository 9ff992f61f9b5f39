"""The frozen base: its weights, fused for training, in one dtype.

Owns which matrices stand together. What is in the files is `model_files`' to know. Unlike the
worker's weights these are plain tensors: training multiplies by their transposes as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from midfill_engine.model_files import PROJECTIONS, ModelConfig, load_weights, read_config


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's frozen weights; norms in float32."""

    qkv: Tensor  # [(heads + 2 kv) head, hidden]
    o: Tensor
    gate_up: Tensor  # [2 intermediate, hidden]
    down: Tensor
    norm1: Tensor
    norm2: Tensor


@dataclass(frozen=True, slots=True)
class Base:
    """The base model's weights."""

    config: ModelConfig
    layers: tuple[Layer, ...]
    embeddings: Tensor  # [V, hidden], also the head
    norm: Tensor

    @classmethod
    def load(cls, directory: Path, dtype: torch.dtype, device: torch.device | str = "cpu") -> Base:
        """Read and fuse the weights of a model; matrices in `dtype`, norms in float32.

        Raises:
            ModelMissing, ModelCorrupt, ModelUnsupported: the files are not usable.
        """
        config = read_config(directory)
        raw = {name: torch.from_numpy(values) for name, values in load_weights(directory)}
        layers = tuple(_layer(raw, i, dtype, device) for i in range(config.num_hidden_layers))
        embeddings = raw["model.embed_tokens.weight"].to(device, dtype)
        return cls(config, layers, embeddings, raw["model.norm.weight"].to(device))


def _layer(
    raw: dict[str, Tensor], index: int, dtype: torch.dtype, device: torch.device | str
) -> Layer:
    """One layer. Takes its matrices out of `raw`."""
    stem = f"model.layers.{index}."

    def fused(letters: str) -> Tensor:
        parts = [raw.pop(f"{stem}{PROJECTIONS[letter]}.weight") for letter in letters]
        return torch.cat(parts).to(device, dtype)

    return Layer(
        fused("qkv"),
        fused("o"),
        fused("gu"),
        fused("d"),
        raw[stem + "input_layernorm.weight"].to(device),
        raw[stem + "post_attention_layernorm.weight"].to(device),
    )
