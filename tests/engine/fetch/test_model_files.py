"""Model directories: sound ones are read, damaged ones refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from support.refusals import check_refused

from midfill_engine.convert import convert_gguf
from midfill_engine.errors import ModelCorrupt, ModelError, ModelMissing, ModelUnsupported
from midfill_engine.model_files import check_model, load_weights, read_config
from midfill_engine.progress import silent


@pytest.fixture
def model(sample, tmp_path: Path) -> Path:
    directory = tmp_path / "model"
    directory.mkdir()
    convert_gguf(sample.gguf, directory, sample.source.gguf_sha256, silent)
    return directory


@pytest.fixture
def plain_model(sample, model: Path) -> Path:
    """As tests elsewhere write them: float32, nothing about who made it."""
    raw = json.loads((model / "config.json").read_text())
    del raw["midfill"]
    raw["rope_parameters"] = {"rope_theta": raw.pop("rope_theta"), "rope_type": "default"}
    (model / "config.json").write_text(json.dumps(raw))
    save_file(sample.weights, model / "base.safetensors")
    return model


def test_a_plain_model_is_read_too(sample, plain_model: Path) -> None:
    assert check_model(plain_model).made_by is None
    assert read_config(plain_model).rope_theta == 100_000
    weights = dict(load_weights(plain_model))
    assert all(np.array_equal(weights[name], want) for name, want in sample.weights.items())


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "base.safetensors"])
def test_a_file_that_is_missing(model: Path, name: str) -> None:
    (model / name).unlink()
    check_refused(lambda: load_weights(model), ModelMissing, str(model), name)


def test_a_directory_that_is_missing(tmp_path: Path) -> None:
    check_refused(lambda: read_config(tmp_path / "none"), ModelMissing, str(tmp_path / "none"))


@pytest.mark.parametrize("name", ["tokenizer.json", "base.safetensors"])
def test_one_bit_is_noticed(model: Path, name: str) -> None:
    content = bytearray((model / name).read_bytes())
    content[-1] ^= 1
    (model / name).write_bytes(content)
    check_refused(lambda: load_weights(model), ModelCorrupt, str(model / name), "sha256")


def test_weights_cut_short(plain_model: Path) -> None:
    path = plain_model / "base.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    check_refused(lambda: load_weights(plain_model), ModelCorrupt, str(path), "bytes long")


@pytest.mark.parametrize(
    ("change", "kind", "word"),
    [
        ({"model_type": "gpt2"}, ModelUnsupported, "llama"),
        ({"tie_word_embeddings": False}, ModelUnsupported, "tied"),
        ({"hidden_size": None}, ModelCorrupt, "config.json"),
        ({"hidden_size": "many"}, ModelCorrupt, "many"),
        ({"num_attention_heads": 0, "head_dim": None}, ModelCorrupt, "num_attention_heads"),
        ({"head_dim": -16}, ModelCorrupt, "head_dim"),
        ({"hidden_size": 32}, ModelCorrupt, "embed_tokens"),
        ({"num_hidden_layers": 3}, ModelCorrupt, "model.layers.2"),
        ({"num_hidden_layers": 1}, ModelCorrupt, "model.layers.1"),
        ({"rope_parameters": 3}, ModelCorrupt, "config.json"),
        ({"midfill": {"converter": 1}}, ModelCorrupt, "gguf_sha256"),
        ({"midfill": 5}, ModelCorrupt, "config.json"),
        ({"midfill": {"converter": 1, "gguf_sha256": "", "sha256": 5}}, ModelCorrupt, "sha256"),
    ],
)
def test_a_configuration_that_cannot_be(
    plain_model: Path, change: dict[str, Any], kind: type[ModelError], word: str
) -> None:
    raw = json.loads((plain_model / "config.json").read_text())
    (plain_model / "config.json").write_text(json.dumps(raw | change))
    check_refused(lambda: check_model(plain_model), kind, word)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe"])
def test_a_configuration_that_is_none(model: Path, content: bytes) -> None:
    (model / "config.json").write_bytes(content)
    check_refused(lambda: read_config(model), ModelCorrupt, str(model / "config.json"))
