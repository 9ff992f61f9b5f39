"""Adapter files: sound ones are read, others refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from support.refusals import check_refused

from midfill_engine.adapter_file import (
    adapter_shapes,
    check_adapter,
    load_adapter,
    write_adapter,
)
from midfill_engine.errors import ModelCorrupt, ModelError, ModelMissing, ModelUnsupported
from midfill_engine.model_files import ModelConfig
from midfill_engine.paths import adapter_path

Tensors = dict[str, np.ndarray]

CONFIG = ModelConfig(
    vocab_size=100, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=64,
    rms_norm_eps=1e-5, rope_theta=1e5, made_by=(1, "b" * 64),
)  # fmt: skip
# Of the base that `midfill model fetch embedded` gets.
EMBEDDED = ModelConfig(
    vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
    num_attention_heads=9, num_key_value_heads=3, head_dim=64, max_position_embeddings=8192,
    rms_norm_eps=1e-5, rope_theta=1e5,
    made_by=(1, "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"),
)  # fmt: skip


def adapter(rank: int) -> Tensors:
    rng = np.random.default_rng(rank)
    shapes = adapter_shapes(CONFIG, rank)
    return {n: rng.standard_normal(s, dtype=np.float32) for n, s in shapes.items()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "adapter"
    write_adapter(path, adapter(4), CONFIG, {"name": "a test's"})
    return path


@pytest.mark.parametrize("rank", [1, 4, 32])
def test_a_sound_adapter(tmp_path: Path, rank: int) -> None:
    want, path = adapter(rank), tmp_path / "adapter"
    write_adapter(path, want, CONFIG, {"name": "a test's"})
    info, found = load_adapter(path, CONFIG)
    assert (info.rank, info.recipe) == (rank, {"name": "a test's"})
    assert found.keys() == want.keys()
    for name, values in want.items():
        gap = np.abs(found[name] - values).max()
        print(f"{name}: max {gap:.2e}")
        assert gap <= np.abs(values).max() / 127
    assert list(tmp_path.iterdir()) == [path]


def test_matrices_are_stored_in_eight_bits(tmp_path: Path) -> None:
    tensors, path = adapter(32), tmp_path / "adapter"
    write_adapter(path, tensors, CONFIG, {})
    matrices = sum(v.size for n, v in tensors.items() if n.endswith((".a", ".b")))
    others = sum(v.size for v in tensors.values()) - matrices
    header = int.from_bytes(path.read_bytes()[:8], "little")
    assert path.stat().st_size == 8 + header + matrices * 34 // 32 + 2 * others


def test_the_same_adapter_is_the_same_bytes(path: Path, tmp_path: Path) -> None:
    write_adapter(tmp_path / "other", adapter(4), CONFIG, {"name": "a test's"})
    assert (tmp_path / "other").read_bytes() == path.read_bytes()


def spoil(tensors: Tensors, how: str) -> None:
    match how:
        case "missing":
            del tensors["layers.1.g.b"]
        case "extra":
            tensors["layers.2.q.a"] = np.ones((4, 64), np.float32)
        case "shape":
            tensors["sp"] = np.ones((3, 64), np.float32)
        case "rank":
            tensors["layers.1.u.a"] = np.ones((5, 64), np.float32)
        case "infinite":
            tensors["layers.0.d.b"][3, 1] = np.inf
        case "not a number":
            tensors["padout"][7] = np.nan


@pytest.mark.parametrize(
    ("how", "name"),
    [
        ("missing", "layers.1.g.b"),
        ("extra", "layers.2.q.a"),
        ("shape", "sp"),
        ("rank", "layers.1.u.a"),
        ("infinite", "layers.0.d.b"),
        ("not a number", "padout"),
    ],
)
def test_tensors_that_do_not_fit(tmp_path: Path, how: str, name: str) -> None:
    tensors, path = adapter(4), tmp_path / "adapter"
    spoil(tensors, how)
    write_adapter(path, tensors, CONFIG, {})
    check_refused(lambda: load_adapter(path, CONFIG), ModelCorrupt, str(path), name)


def header_of(path: Path) -> dict[str, Any]:
    raw = path.read_bytes()
    return dict(json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")]))


def write_header(path: Path, header: dict[str, Any]) -> None:
    raw = path.read_bytes()
    data = raw[8 + int.from_bytes(raw[:8], "little") :]
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"format": "2"}, ModelUnsupported, ["format 2, not 1"]),
        ({"format": None}, ModelUnsupported, ["format None, not 1"]),
        ({"base_sha256": "c" * 64}, ModelUnsupported, ["base_sha256", "c" * 64, "b" * 64]),
        ({"base_sha256": ""}, ModelUnsupported, ["base_sha256 is unknown"]),
        ({"scale": "4.0"}, ModelUnsupported, ["scale is 4.0, not 2.0"]),
        ({"mask_id": "15"}, ModelUnsupported, ["mask_id is 15, not 16"]),
        ({"empty_id": "16"}, ModelUnsupported, ["empty_id is 16, not 15"]),
        ({"suffix_position": "after"}, ModelUnsupported, ["suffix_position is after, not before"]),
        ({"rank": None, "recipe": None}, ModelCorrupt, ["does not say its rank, recipe"]),
        ({"rank": "many"}, ModelCorrupt, ["metadata is damaged", "many"]),
        ({"rank": "5"}, ModelCorrupt, ["layers.0.d.a has shape [4, 96], not [5, 96]"]),
        ({"recipe": "[1]"}, ModelCorrupt, ["metadata is damaged"]),
        ({"recipe": 3}, ModelCorrupt, ["header is damaged", "no text"]),
    ],
)
def test_metadata_that_is_refused(
    path: Path, change: dict[str, Any], kind: type[ModelError], words: list[str]
) -> None:
    header = header_of(path)
    changed = {**header["__metadata__"], **change}
    header["__metadata__"] = {k: v for k, v in changed.items() if v is not None}
    write_header(path, header)
    check_refused(lambda: check_adapter(path, CONFIG), kind, str(path), *words)
    check_refused(lambda: load_adapter(path, CONFIG), kind, str(path), *words)


def test_a_file_that_says_nothing_of_itself(tmp_path: Path) -> None:
    save_file(adapter(4), tmp_path / "adapter")
    check_refused(
        lambda: check_adapter(tmp_path / "adapter", CONFIG), ModelUnsupported, "format None"
    )


def test_damaged_bytes(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    wanted = check_adapter(path, CONFIG).sha256
    check_refused(lambda: load_adapter(path, CONFIG), ModelCorrupt, str(path), "damaged", wanted)


def test_an_adapter_cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])
    check_refused(lambda: check_adapter(path, CONFIG), ModelCorrupt, str(path), "bytes long")


def test_an_adapter_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "adapter"
    check_refused(lambda: check_adapter(path, CONFIG), ModelMissing, str(path))


def test_the_adapter_in_the_package_fits_the_embedded_model() -> None:
    info, tensors = load_adapter(adapter_path("embedded"), EMBEDDED)
    assert len(tensors) == 483
    assert info.recipe
    assert adapter_path("embedded").stat().st_size < 25_000_000
