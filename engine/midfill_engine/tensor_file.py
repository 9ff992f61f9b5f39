"""Files of named tensors: safetensors, where a matrix may also lie packed in blocks of 32.

Owns the reading and writing of such files with numpy alone, and the packed form. Knows nothing of
what the tensors mean.

A tensor `NAME` is stored either plainly, as F32, F16 or BF16, or packed as `NAME.codes`,
`NAME.scales` and, for 4-bit codes only, `NAME.mins`:

    8 bits   codes I8 [rows, blocks, 32]                  weight = scale * code
    4 bits   codes U8 [rows, blocks, 16], mins F16        weight = scale * code + min
             low halves of the 16 bytes are the block's first 16 codes, high halves its last 16

Scales and mins are F16 [rows, blocks]. These are the values of llama.cpp's Q8_0 and Q4_1 blocks, so
unpacking in float32 gives exactly the numbers that a GGUF reader gives.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from midfill_engine.errors import ModelCorrupt

BLOCK: Final = 32  # weights that share one scale
_MAX_HEADER_BYTES: Final = 16 * 1024 * 1024
_DTYPES: Final[Mapping[str, str]] = {  # safetensors name -> numpy name; BF16 is widened by hand
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I8": "i1",
    "U8": "u1",
}
_PLAIN: Final = frozenset({"F32", "F16", "BF16"})
_CODES, _SCALES, _MINS = ".codes", ".scales", ".mins"

Array = npt.NDArray[Any]
Float32 = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored array: where it lies, in bytes from the end of the header."""

    dtype: str  # safetensors' name
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TensorFile:
    """A checked header. The data is mapped only while tensors are read."""

    path: Path
    data_offset: int  # bytes
    entries: Mapping[str, Entry]
    metadata: Mapping[str, str]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the tensors as they are once unpacked, sorted by name.

        Raises:
            ModelCorrupt: a tensor is of a type that is never stored, or its parts do not fit.
        """
        names = {name.removesuffix(_CODES) for name in self.entries if not _is_side_part(name)}
        return {name: self._shape(name) for name in sorted(names)}

    def read(self) -> Iterator[tuple[str, Float32]]:
        """All tensors as fresh float32 arrays, in the order in which they lie in the file."""
        names = [name for name in self.entries if not _is_side_part(name)]
        names.sort(key=lambda name: self.entries[name].start)
        with self.path.open("rb") as file, _mapped(file) as data:
            for name in names:
                yield name.removesuffix(_CODES), self._load(data, name)

    def data_sha256(self) -> str:
        """The hash of all that lies behind the header."""
        with self.path.open("rb") as file:
            file.seek(self.data_offset)
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _load(self, data: mmap.mmap, name: str) -> Float32:
        stem = name.removesuffix(_CODES)
        if name == stem:
            return _widen(self._array(data, name), self.entries[name].dtype)
        mins = self._array(data, stem + _MINS) if stem + _MINS in self.entries else None
        return unpack(self._array(data, name), self._array(data, stem + _SCALES), mins)

    def _array(self, data: mmap.mmap, name: str) -> Array:
        entry = self.entries[name]
        count = math.prod(entry.shape)
        flat = np.frombuffer(data, _DTYPES[entry.dtype], count, self.data_offset + entry.start)
        # A copy, so that nothing keeps the mapping open.
        return flat.reshape(entry.shape).copy()

    def _shape(self, name: str) -> tuple[int, ...]:
        if name in self.entries:
            entry = self.entries[name]
            if entry.dtype not in _PLAIN:
                raise ModelCorrupt(f"{self.path}: {name} is {entry.dtype}, not a float type")
            return entry.shape
        codes = self.entries[name + _CODES]
        if len(codes.shape) != 3:
            raise ModelCorrupt(f"{self.path}: {name}{_CODES} has shape {list(codes.shape)}")
        rows, blocks, _ = codes.shape
        want = {_CODES: ("I8", (rows, blocks, BLOCK)), _SCALES: ("F16", (rows, blocks))}
        if codes.dtype == "U8":
            want[_CODES] = ("U8", (rows, blocks, BLOCK // 2))
            want[_MINS] = ("F16", (rows, blocks))
        for suffix, (dtype, shape) in want.items():
            part = self.entries.get(name + suffix)
            if part is None or (part.dtype, part.shape) != (dtype, shape):
                raise ModelCorrupt(f"{self.path}: {name}{suffix} is not {dtype} {list(shape)}")
        return rows, blocks * BLOCK


def open_tensor_file(path: Path) -> TensorFile:
    """Read and check a file's header against its size.

    Raises:
        ModelCorrupt: the header is no header, or the data is shorter or longer than it says.
        OSError: the file cannot be read.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, _MAX_HEADER_BYTES):
            raise ModelCorrupt(f"{path}: not a safetensors file, or cut short")
        head = file.read(length)
    try:
        header = json.loads(head)
        metadata = _parse_metadata(header.pop("__metadata__", {}))
        entries = {name: _parse_entry(fields) for name, fields in header.items()}
        _check_tiling(entries.values())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ModelCorrupt(f"{path}: the header is damaged ({error})") from error
    data_bytes = max((entry.end for entry in entries.values()), default=0)
    if size - 8 - length != data_bytes:
        raise ModelCorrupt(
            f"{path}: {size} bytes long where its header says {8 + length + data_bytes}"
        )
    return TensorFile(path, 8 + length, entries, metadata)


def write_tensor_file(
    path: Path,
    layout: Mapping[str, tuple[str, tuple[int, ...]]],
    arrays: Iterable[Array],
    metadata: Mapping[str, str] | None = None,
) -> str:
    """Write a safetensors file array by array and return its sha256.

    `layout` gives dtype and shape of each array, `arrays` the arrays in the same order.
    """
    head = _header(layout, metadata)
    digest = hashlib.sha256()
    with path.open("xb") as file:
        for block in (len(head).to_bytes(8, "little"), head):
            digest.update(block)
            file.write(block)
        for (name, (dtype, shape)), array in zip(layout.items(), arrays, strict=True):
            assert (array.shape, array.dtype) == (shape, np.dtype(_DTYPES[dtype])), name
            raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            digest.update(raw)
            file.write(raw)
    return digest.hexdigest()


def unpack(codes: Array, scales: Array, mins: Array | None) -> Float32:
    """Float32 [rows, blocks * 32] of codes [rows, blocks, 32] (I8) or [rows, blocks, 16] (U8)."""
    rows, blocks, _ = codes.shape
    out = np.empty((rows, blocks, BLOCK), np.float32)
    if mins is None:
        out[...] = codes
    else:
        out[..., : BLOCK // 2] = codes & 15
        out[..., BLOCK // 2 :] = codes >> 4
    out *= scales.astype(np.float32)[..., None]
    if mins is not None:
        out += mins.astype(np.float32)[..., None]
    return out.reshape(rows, blocks * BLOCK)


def pack(values: Float32) -> tuple[Array, Array]:
    """8-bit codes [rows, blocks, 32] and scales [rows, blocks] nearest to [rows, blocks * 32]."""
    blocks = values.reshape(len(values), -1, BLOCK)
    scales = (np.abs(blocks).max(-1) / 127).astype(np.float16)
    divisors = np.where(scales, scales, 1).astype(np.float32)[..., None]
    return np.rint(blocks / divisors).clip(-127, 127).astype(np.int8), scales


def packed_layout(name: str, bits: int, rows: int, columns: int) -> dict[str, tuple[str, Any]]:
    """The layout entries, for `write_tensor_file`, of one packed matrix."""
    blocks = columns // BLOCK
    layout: dict[str, tuple[str, Any]] = {
        name + _CODES: ("U8", (rows, blocks, 16)) if bits == 4 else ("I8", (rows, blocks, 32)),
        name + _SCALES: ("F16", (rows, blocks)),
    }
    if bits == 4:
        layout[name + _MINS] = ("F16", (rows, blocks))
    return layout


def _is_side_part(name: str) -> bool:
    return name.endswith((_SCALES, _MINS))


def _mapped(file: BinaryIO) -> mmap.mmap:
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _widen(array: Array, dtype: str) -> Float32:
    if dtype == "BF16":  # the upper half of a float32
        return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return array.astype(np.float32, copy=False)


def _parse_metadata(fields: dict[str, str]) -> dict[str, str]:
    if not all(isinstance(text, str) for text in fields.values()):
        raise ValueError("__metadata__ holds what is no text")
    return dict(fields)


def _check_tiling(entries: Iterable[Entry]) -> None:
    position = 0
    for entry in sorted(entries, key=lambda entry: (entry.start, entry.end)):
        if entry.start != position:
            raise ValueError("tensors overlap or leave a gap")
        position = entry.end


def _parse_entry(fields: dict[str, Any]) -> Entry:
    start, end = fields["data_offsets"]
    shape: Sequence[int] = fields["shape"]
    entry = Entry(fields["dtype"], tuple(shape), start, end)
    if entry.dtype not in _DTYPES:
        raise ValueError(f"unknown type {entry.dtype}")
    if any(not isinstance(n, int) or n < 0 for n in (*shape, start, end)):
        raise ValueError("a shape or an offset is not a count")
    if end - start != math.prod(shape) * np.dtype(_DTYPES[entry.dtype]).itemsize:
        raise ValueError("a tensor's bytes do not fit its shape")
    return entry


def _header(
    layout: Mapping[str, tuple[str, tuple[int, ...]]], metadata: Mapping[str, str] | None
) -> bytes:
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    position = 0
    for name, (dtype, shape) in layout.items():
        end = position + math.prod(shape) * np.dtype(_DTYPES[dtype]).itemsize
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [position, end]}
        position = end
    text = json.dumps(header, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % 8)  # the data starts at a multiple of 8 bytes
