"""The adapter as training holds it: one flat float32 vector, and its file.

Owns the order of the tensors within the vector. Their names and shapes are `adapter_file`'s. One
vector makes the optimizer, the average and the exchange between processes a few operations on one
tensor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from midfill_engine.adapter_file import write_adapter
from midfill_engine.errors import TrainingError
from midfill_engine.model.adapter import Adapter
from midfill_engine.model_files import ModelConfig

Shapes = Mapping[str, tuple[int, ...]]


def views(vector: Tensor, shapes: Shapes) -> dict[str, Tensor]:
    """The named tensors, sharing the vector's memory."""
    found, start = {}, 0
    for name, shape in shapes.items():
        count = math.prod(shape)
        found[name] = vector[start : start + count].view(shape)
        start += count
    return found


def read(path: Path, config: ModelConfig, shapes: Shapes) -> Tensor:
    """The vector of an adapter file.

    Raises:
        ModelMissing, ModelCorrupt, ModelUnsupported: the file is not there, or not an adapter of
            this model.
        TrainingError: its rank is another.
    """
    tensors = Adapter.load(path, config).tensors
    for name, shape in shapes.items():
        if tensors[name].shape != shape:
            found = list(tensors[name].shape)
            raise TrainingError(f"{path}: {name} has shape {found}, not {list(shape)}: see 'rank'")
    return torch.cat([tensors[name].flatten() for name in shapes])


def fresh(shapes: Shapes, embeddings: Tensor, seed: int) -> Tensor:
    """A vector, on the CPU, with which the model is exactly the base."""
    generator = torch.Generator().manual_seed(seed)
    return torch.cat([tensor.flatten() for tensor in _fresh(shapes, embeddings.cpu(), generator)])


def _fresh(shapes: Shapes, embeddings: Tensor, generator: torch.Generator) -> Iterator[Tensor]:
    mean = embeddings.float().mean(0)
    for name, shape in shapes.items():
        if name.endswith(".a"):
            yield torch.randn(shape, generator=generator) * shape[1] ** -0.5
        elif name == "sp":
            yield mean.expand(shape)
        else:
            yield mean if name == "padout" else torch.zeros(shape)


def write(
    path: Path, vector: Tensor, shapes: Shapes, config: ModelConfig, recipe: Mapping[str, Any]
) -> None:
    """Store in the shipped form, whole or not at all."""
    tensors = {name: tensor.numpy() for name, tensor in views(vector.cpu(), shapes).items()}
    write_adapter(path, tensors, config, recipe)
