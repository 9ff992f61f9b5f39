"""An adapter's file: what it says of itself, written, and checked before it is used, without torch.

Owns the names and shapes of an adapter's tensors, the form in which they are stored, and the
metadata in the file's header. Knows nothing of how they change the base: `model/adapter.py` does.

The low-rank matrices are stored in 8 bits with a scale for every 32 where their width allows it,
all else in bfloat16. The metadata, text all of it:

    format                 "1"
    sha256                 of everything behind the header
    base_sha256            of the GGUF that the base was made from; empty if that is not known
    rank, scale            of the low-rank products
    mask_id, empty_id      which tokens of the vocabulary have these meanings
    suffix_position        "before": where the suffix stands, seen from the prefix
    recipe                 a JSON object: how the adapter came about
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from midfill_engine.errors import ModelCorrupt, ModelUnsupported
from midfill_engine.model_files import ModelConfig, check_shapes, linears, open_checked
from midfill_engine.tensor_file import (
    BLOCK,
    Array,
    Float32,
    TensorFile,
    pack,
    packed_layout,
    write_tensor_file,
)

SCALE: Final = 2.0  # of the low-rank products
EMPTY: Final = 15  # "the hole ends before this position"
MASK: Final = 16
_FORMAT: Final = "1"
_FIXED: Final = {
    "scale": str(SCALE),
    "mask_id": str(MASK),
    "empty_id": str(EMPTY),
    "suffix_position": "before",
}
_KEYS: Final = ("format", "sha256", "base_sha256", "rank", *_FIXED, "recipe")


@dataclass(frozen=True, slots=True)
class AdapterInfo:
    """What a sound adapter says of itself."""

    sha256: str  # of its tensors, as they are stored
    base_sha256: str
    rank: int
    recipe: Mapping[str, Any]


def read_info(path: Path) -> AdapterInfo:
    """What an adapter says of itself, whatever base it is for.

    Raises:
        ModelMissing, ModelCorrupt, ModelUnsupported: it is not there; its header is damaged; it is
            of another format.
    """
    return _said(open_checked(path))


def check_adapter(path: Path, config: ModelConfig) -> AdapterInfo:
    """Check an adapter's header against the base it is to be used with; its rank is free, but one.

    Raises:
        ModelMissing: it is not there.
        ModelCorrupt: it is cut short, lacks metadata or has other tensors.
        ModelUnsupported: it is of another format, or was made for another base.
    """
    return _checked(open_checked(path), config)


def load_adapter(path: Path, config: ModelConfig) -> tuple[AdapterInfo, dict[str, Float32]]:
    """An adapter's tensors, widened to float32, and what it says of itself.

    Raises:
        ModelMissing, ModelCorrupt, ModelUnsupported: as `check_adapter`; ModelCorrupt also where
            the data is not what the metadata says, or a value is not finite.
    """
    file = open_checked(path)
    info = _checked(file, config)
    if (found := file.data_sha256()) != info.sha256:
        raise ModelCorrupt(
            f"the adapter {path} is damaged: its data's sha256 is {found}, not {info.sha256}"
        )
    tensors = dict(file.read())
    for name, values in tensors.items():
        if not np.isfinite(values).all():
            raise ModelCorrupt(f"{path}: {name} has values that are not finite")
    return info, tensors


def write_adapter(
    path: Path, tensors: Mapping[str, Float32], config: ModelConfig, recipe: Mapping[str, Any]
) -> None:
    """Store an adapter of the base that `config` describes, whole or not at all.

    The `suffix_position` is that of the recipe's settings, where it has any.
    """
    stored = {name: list(_stored(name, values)) for name, values in tensors.items()}
    layout = {name: (kind, a.shape) for parts in stored.values() for name, kind, a in parts}
    arrays = [array for parts in stored.values() for _, _, array in parts]
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    metadata = {
        "format": _FORMAT,
        "sha256": digest.hexdigest(),
        "base_sha256": config.base_sha256,
        "rank": str(_rank(tensors)),
        **_FIXED,
        "suffix_position": recipe.get("settings", _FIXED)["suffix_position"],
        "recipe": json.dumps(recipe),
    }
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    write_tensor_file(part, layout, arrays, metadata)
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(path)


def adapter_shapes(config: ModelConfig, rank: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of an adapter's tensors."""
    d = config.hidden_size
    shapes: dict[str, tuple[int, ...]] = {"norm.d": (d,), "sp": (2, d), "padout": (d,)}
    for layer in range(config.num_hidden_layers):
        shapes[f"layers.{layer}.n1.d"] = shapes[f"layers.{layer}.n2.d"] = (d,)
        for letter, (_, outputs, inputs) in linears(config).items():
            shapes[f"layers.{layer}.{letter}.a"] = (rank, inputs)
            shapes[f"layers.{layer}.{letter}.b"] = (outputs, rank)
    return shapes


def _said(file: TensorFile) -> AdapterInfo:
    path, said = file.path, file.metadata
    if (found := said.get("format")) != _FORMAT:
        raise ModelUnsupported(f"the adapter {path} is of format {found}, not {_FORMAT}")
    if missing := [key for key in _KEYS if key not in said]:
        raise ModelCorrupt(f"the adapter {path} does not say its {', '.join(missing)}")
    try:
        recipe = dict(json.loads(said["recipe"]))
        return AdapterInfo(said["sha256"], said["base_sha256"], int(said["rank"]), recipe)
    except (ValueError, TypeError) as error:
        raise ModelCorrupt(f"the adapter {path}: its metadata is damaged ({error})") from error


def _checked(file: TensorFile, config: ModelConfig) -> AdapterInfo:
    info = _said(file)
    for key, want in {**_FIXED, "base_sha256": config.base_sha256}.items():
        if (found := file.metadata[key]) != want:
            raise ModelUnsupported(
                f"the adapter {file.path} is for another model: its {key} is "
                f"{found or 'unknown'}, not {want or 'unknown'}"
            )
    check_shapes(file, adapter_shapes(config, info.rank))
    return info


def _rank(tensors: Mapping[str, Float32]) -> int:
    return len(tensors["layers.0.q.a"])


def _stored(name: str, values: Float32) -> Iterator[tuple[str, str, Array]]:
    """Name, type and array of each part of a tensor as it lies in the file."""
    if name.endswith((".a", ".b")) and values.shape[1] % BLOCK == 0:
        layout = packed_layout(name, 8, *values.shape)
        for (part, (kind, _)), array in zip(layout.items(), pack(values), strict=True):
            yield part, kind, array
    else:
        yield name, "BF16", _bfloat16(values)


def _bfloat16(values: Float32) -> Array:
    """The upper halves of the float32s, rounded to even."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
