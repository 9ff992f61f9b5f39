"""The adapter as training holds it: one flat float32 vector, and its file.

Owns the order of the tensors within the vector. Their names and shapes are `model_files`'. One
vector makes the optimizer, the average and the exchange between processes a few operations on one
tensor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from midfill_engine.model_files import ModelConfig, load_adapter
from midfill_engine.tensor_file import Array, write_tensor_file

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
        ModelMissing, ModelCorrupt: the file is not there, or not an adapter of this model.
    """
    tensors = load_adapter(path, config)
    return torch.cat([torch.from_numpy(tensors[name]).flatten() for name in shapes])


def fresh(shapes: Shapes, embeddings: Tensor, generator: torch.Generator) -> Tensor:
    """A vector with which the model is exactly the base."""
    return torch.cat([tensor.flatten() for tensor in _fresh(shapes, embeddings, generator)])


def _fresh(shapes: Shapes, embeddings: Tensor, generator: torch.Generator) -> Iterator[Tensor]:
    mean = embeddings.float().mean(0)
    for name, shape in shapes.items():
        if name.endswith(".a"):
            yield torch.randn(shape, generator=generator) * shape[1] ** -0.5
        elif name == "sp":
            yield mean.expand(shape)
        else:
            yield mean if name == "padout" else torch.zeros(shape)


def write(path: Path, vector: Tensor, shapes: Shapes) -> None:
    """Store in bfloat16, whole or not at all."""
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    layout = {name: ("BF16", shape) for name, shape in shapes.items()}
    write_tensor_file(part, layout, map(_bfloat16, views(vector, shapes).values()))
    part.replace(path)


def _bfloat16(tensor: Tensor) -> Array:
    return tensor.bfloat16().view(torch.int16).numpy().view(np.uint16)
