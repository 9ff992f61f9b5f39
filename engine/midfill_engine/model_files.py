"""A model directory as it lies on the disk, read and checked without torch.

Owns which files there are, what their headers must say, and the refusal of damaged ones by name.
Knows nothing of how the model is run or how it got here.

`base.safetensors` holds the transformers Llama names; the head is tied, so there is none. It is
read through `load_weights`, since matrices may be packed. `config.json` has the Llama keys and,
under "midfill", who made it and the sha256 of the other files; tiny models written by tests may
go without that part.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from midfill_engine.digest import file_sha256
from midfill_engine.errors import ModelCorrupt, ModelMissing, ModelUnsupported
from midfill_engine.tensor_file import Float32, TensorFile, open_tensor_file

WEIGHTS, TOKENIZER, CONFIG = "base.safetensors", "tokenizer.json", "config.json"
PROJECTIONS: Final[Mapping[str, str]] = {  # by the adapter's letter: transformers' name
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "g": "mlp.gate_proj",
    "u": "mlp.up_proj",
    "d": "mlp.down_proj",
}


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The dimensions of a Llama model, under transformers' names, and who made the directory."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float
    made_by: tuple[int, str] | None  # converter version, sha256 of the GGUF

    @property
    def base_sha256(self) -> str:
        """What an adapter knows its base by: the hash of its GGUF; empty where none is stated."""
        return self.made_by[1] if self.made_by else ""


def read_config(directory: Path) -> ModelConfig:
    """The configuration of the model in `directory`.

    Raises:
        ModelMissing: a file of the model is not there.
        ModelCorrupt: config.json does not say what it must.
        ModelUnsupported: it is of another kind than Llama with a tied head.
    """
    return _config(directory, _read_json(directory))


def check_model(directory: Path) -> ModelConfig:
    """Check every file of a model, by hash where config.json has one; about 0.1 s per 100 MB.

    Raises:
        ModelMissing, ModelCorrupt, ModelUnsupported: as `read_config`, and for the other files.
    """
    raw = _read_json(directory)
    config = _config(directory, raw)
    for name, want in _hashes(directory, raw).items():
        _check_hash(directory / name, want)
    check_shapes(open_checked(directory / WEIGHTS), _weight_shapes(config))
    return config


def load_weights(directory: Path) -> Iterator[tuple[str, Float32]]:
    """Name and values of each base tensor, one at a time; each array is the caller's own.

    Raises:
        ModelMissing, ModelCorrupt, ModelUnsupported: before the first tensor is given.
    """
    check_model(directory)
    return open_checked(directory / WEIGHTS).read()


def open_checked(path: Path) -> TensorFile:
    """Open a tensor file.

    Raises:
        ModelMissing, ModelCorrupt: it is not there; it cannot be read, or its header is damaged.
    """
    try:
        return open_tensor_file(path)
    except FileNotFoundError as error:
        raise ModelMissing(f"{path} is not there") from error
    except OSError as error:
        raise ModelCorrupt(f"{path} cannot be read: {error.strerror}") from error


def read_json_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file of a model.

    Raises:
        ModelMissing, ModelCorrupt: it is not there; it cannot be read, or is no JSON object.
    """
    try:
        raw = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise ModelMissing(f"{path} is not there") from error
    except (OSError, ValueError) as error:
        raise ModelCorrupt(f"{path} cannot be read: {error}") from error
    if not isinstance(raw, dict):
        raise ModelCorrupt(f"{path} is not a JSON object")
    return raw


def _read_json(directory: Path) -> dict[str, Any]:
    for name in (CONFIG, TOKENIZER, WEIGHTS):
        if not (directory / name).is_file():
            raise ModelMissing(f"there is no model in {directory}: {name} is not there")
    return read_json_object(directory / CONFIG)


def _config(directory: Path, raw: Mapping[str, Any]) -> ModelConfig:
    path = directory / CONFIG
    if raw.get("model_type") != "llama" or not raw.get("tie_word_embeddings"):
        raise ModelUnsupported(f"{path}: not a llama model with tied embeddings")
    made = raw.get("midfill", {})
    try:
        return ModelConfig(
            vocab_size=_count(raw, "vocab_size"),
            hidden_size=_count(raw, "hidden_size"),
            intermediate_size=_count(raw, "intermediate_size"),
            num_hidden_layers=_count(raw, "num_hidden_layers"),
            num_attention_heads=_count(raw, "num_attention_heads"),
            num_key_value_heads=_count(raw, "num_key_value_heads"),
            head_dim=_head_dim(raw),
            max_position_embeddings=_count(raw, "max_position_embeddings"),
            rms_norm_eps=float(raw["rms_norm_eps"]),
            rope_theta=_rope_theta(raw),
            made_by=(made["converter"], made["gguf_sha256"]) if made else None,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ModelCorrupt(f"{path}: {error} is missing or malformed") from error


def _count(raw: Mapping[str, Any], name: str) -> int:
    if not isinstance(raw[name], int) or raw[name] < 1:
        raise ValueError(f"{name} = {raw[name]!r}")
    return int(raw[name])


def _head_dim(raw: Mapping[str, Any]) -> int:
    if raw.get("head_dim") is not None:
        return _count(raw, "head_dim")
    return _count(raw, "hidden_size") // _count(raw, "num_attention_heads")


def _hashes(directory: Path, raw: Mapping[str, Any]) -> dict[str, str]:
    """The sha256 that config.json has of other files, by name."""
    hashes = raw.get("midfill", {}).get("sha256", {})
    if not isinstance(hashes, dict) or not {WEIGHTS, TOKENIZER}.issuperset(hashes):
        raise ModelCorrupt(f"{directory / CONFIG}: sha256 is malformed")
    return hashes


def _rope_theta(raw: Mapping[str, Any]) -> float:
    # transformers 5 writes it one level down.
    return float(raw["rope_theta"] if "rope_theta" in raw else raw["rope_parameters"]["rope_theta"])


def _check_hash(path: Path, want: str) -> None:
    try:
        found = file_sha256(path)
    except OSError as error:
        raise ModelCorrupt(f"{path} cannot be read: {error.strerror}") from error
    if found != want:
        raise ModelCorrupt(f"{path} is damaged: its sha256 is {found}, not {want}")


def check_shapes(file: TensorFile, want: Mapping[str, tuple[int, ...]]) -> None:
    """Raise ModelCorrupt unless the file has just these tensors, of these shapes."""
    found = file.shapes()
    for name in sorted(want.keys() | found.keys()):
        if name not in found:
            raise ModelCorrupt(f"{file.path}: {name} is missing")
        if name not in want:
            raise ModelCorrupt(f"{file.path}: {name} is not a tensor of this model")
        if found[name] != want[name]:
            raise ModelCorrupt(
                f"{file.path}: {name} has shape {list(found[name])}, not {list(want[name])}"
            )


def linears(config: ModelConfig) -> dict[str, tuple[str, int, int]]:
    """By the adapter's letter: transformers' name, outputs, inputs."""
    d, mlp = config.hidden_size, config.intermediate_size
    q, kv = (n * config.head_dim for n in (config.num_attention_heads, config.num_key_value_heads))
    sizes = {
        "q": (q, d),
        "k": (kv, d),
        "v": (kv, d),
        "o": (d, q),
        "g": (mlp, d),
        "u": (mlp, d),
        "d": (d, mlp),
    }
    return {letter: (name, *sizes[letter]) for letter, name in PROJECTIONS.items()}


def _weight_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    d = config.hidden_size
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config.vocab_size, d),
        "model.norm.weight": (d,),
    }
    for layer in range(config.num_hidden_layers):
        stem = f"model.layers.{layer}"
        shapes[f"{stem}.input_layernorm.weight"] = (d,)
        shapes[f"{stem}.post_attention_layernorm.weight"] = (d,)
        for name, outputs, inputs in linears(config).values():
            shapes[f"{stem}.{name}.weight"] = (outputs, inputs)
    return shapes
