"""Tensor files: what is written is read, and nothing damaged gets past the header."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Quant
from gguf.quants import dequantize, quantize
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from midfill_engine.errors import ModelCorrupt
from midfill_engine.tensor_file import (
    open_tensor_file,
    packed_layout,
    unpack,
    write_tensor_file,
)


def header_and_data(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def check_refused(path: Path, content: bytes, word: str) -> None:
    path.write_bytes(content)
    with pytest.raises(ModelCorrupt, match=word) as caught:
        open_tensor_file(path).shapes()
    assert str(path) in str(caught.value)


def test_reads_what_safetensors_writes(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    tensors = {
        "b": random.normal(size=(3, 5)).astype(np.float32),
        "a": random.normal(size=(7,)).astype(np.float16),
        "empty": np.zeros((0, 4), np.float32),
    }
    save_file(tensors, tmp_path / "x.safetensors", metadata={"format": "pt"})
    file = open_tensor_file(tmp_path / "x.safetensors")
    assert file.shapes() == {"a": (7,), "b": (3, 5), "empty": (0, 4)}
    read = dict(file.read())
    assert all(np.array_equal(read[name], want) for name, want in tensors.items())
    assert all(array.dtype == np.float32 for array in read.values())


def test_safetensors_reads_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    arrays = {"one": np.arange(6, dtype=np.float32).reshape(2, 3), "two": np.ones(3, np.float16)}
    write_tensor_file(path, {"one": ("F32", (2, 3)), "two": ("F16", (3,))}, arrays.values())
    read = load_file(path)
    assert all(np.array_equal(read[name], want) for name, want in arrays.items())


def test_bfloat16_is_widened_exactly(tmp_path: Path) -> None:
    want = np.array([1.0, -2.5, 3.140625, 0.0, np.inf], np.float32)
    halves = (want.view(np.uint32) >> 16).astype("<u2")
    write_tensor_file(tmp_path / "x", {"x": ("BF16", (5,))}, [halves])
    assert np.array_equal(dict(open_tensor_file(tmp_path / "x").read())["x"], want)


@pytest.mark.parametrize(("kind", "bits", "head"), [(Quant.Q4_1, 4, 4), (Quant.Q8_0, 8, 2)])
def test_unpacking_is_bit_equal_to_the_reference(kind: Quant, bits: int, head: int) -> None:
    weight = np.random.default_rng(2).normal(size=(6, 96)).astype(np.float32)
    packed = quantize(weight, kind).reshape(6, 3, -1)
    halves = np.ascontiguousarray(packed[..., :head]).view("<f2")
    codes = packed[..., head:]
    ours = (
        unpack(codes, halves[..., 0], halves[..., 1])
        if bits == 4
        else unpack(codes.view(np.int8), halves[..., 0], None)
    )
    reference = dequantize(packed.reshape(6, -1), kind)
    difference = np.abs(ours - reference)
    print(f"{kind.name}: largest difference {difference.max()}, mean {difference.mean()}")
    assert np.array_equal(ours, reference)


@pytest.mark.parametrize("bytes_left", [0, 4, 8, 20, -1])
def test_a_file_cut_short(tmp_path: Path, bytes_left: int) -> None:
    save_file({"x": np.zeros(4, np.float32)}, tmp_path / "whole")
    whole = (tmp_path / "whole").read_bytes()
    check_refused(tmp_path / "cut", whole[:bytes_left], "cut short|damaged|long where")


def test_a_file_with_something_behind_it(tmp_path: Path) -> None:
    save_file({"x": np.zeros(4, np.float32)}, tmp_path / "whole")
    check_refused(tmp_path / "long", (tmp_path / "whole").read_bytes() + b"x", "long where")


def entry(shape: list[Any], start: Any, end: Any, dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


@pytest.mark.parametrize(
    ("header", "word"),
    [
        (b"{", "header is damaged"),
        (b"[" * 100_000, "header is damaged"),
        ([1], "header is damaged"),
        ({"x": 1}, "header is damaged"),
        ({"x": {}}, "header is damaged"),
        ({"x": entry([1], 0, 4, "F64")}, "F64"),
        ({"x": entry([1], 0, 4, [])}, "header is damaged"),
        ({"x": entry([-1], 0, -4)}, "not a count"),
        ({"x": entry([1.0], 0, 4)}, "not a count"),
        ({"x": entry([2], 0, 4)}, "do not fit"),
        ({"x": entry([1], 0, 4), "y": entry([1], 0, 4)}, "overlap"),
        ({"x": entry([1], 4, 8)}, "gap"),
        ({"x": entry([4], 0, 4, "I8")}, "not a float type"),
        ({"x.codes": entry([4], 0, 4, "I8")}, "shape"),
        ({"x.codes": entry([1, 1, 4], 0, 4, "I8")}, "x.codes"),
        ({"x.codes": entry([1, 1, 4], 0, 4, "U8")}, "x.codes"),
        ({"x": entry([1], 0, 4), "y.codes": entry([0, 1, 32], 4, 4, "I8")}, "y.scales"),
    ],
)
def test_a_header_that_cannot_be(tmp_path: Path, header: Any, word: str) -> None:
    check_refused(tmp_path / "x", header_and_data(header, bytes(4)), word)


@given(content=st.binary(max_size=200))
def test_noise_is_refused_and_nothing_else_happens(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "noise"
    path.write_bytes(content)
    with pytest.raises(ModelCorrupt):
        open_tensor_file(path)


def test_packed_parts_are_one_tensor(tmp_path: Path) -> None:
    make: Callable[..., Any] = np.zeros
    layout = packed_layout("w", 4, 2, 64) | packed_layout("v", 8, 1, 32)
    kinds = {"U8": np.uint8, "I8": np.int8, "F16": np.float16}
    arrays = [make(shape, kinds[dtype]) for dtype, shape in layout.values()]
    write_tensor_file(tmp_path / "x", layout, arrays)
    assert open_tensor_file(tmp_path / "x").shapes() == {"v": (1, 32), "w": (2, 64)}
