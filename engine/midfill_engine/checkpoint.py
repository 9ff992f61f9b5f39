"""A checkpoint directory in Hugging Face's layout, read and checked without torch.

Owns which files there must be, which family they are of, what their special ids are and whether
the weights are whole. Runs no code of the checkpoint, and takes weights from safetensors alone:
pickle files, which are code, are refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from midfill_engine.errors import ModelCorrupt, ModelMissing, ModelUnsupported
from midfill_engine.families import Family, family_of
from midfill_engine.model_files import (
    CONFIG,
    PROJECTIONS,
    WEIGHTS,
    open_checked,
    read_json_object,
)
from midfill_engine.tensor_file import TensorFile

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
TOKENIZER_FILES: Final = (("tokenizer.json",), ("vocab.json", "merges.txt"))
TRANSFORMERS_MISSING: Final = (
    "a checkpoint needs transformers, which is not installed: install midfill[models]"
)
_PICKLES: Final = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_DERIVED: Final = ".rotary_emb.inv_freq"  # stored by some, computed from the configuration
_QKV: Final = tuple(PROJECTIONS[letter] for letter in "qkv")


@dataclass(frozen=True, slots=True)
class SpecialIds:
    """Token ids with a meaning, as the checkpoint's own files give them."""

    mask: int
    eos: int  # in a hole: nothing follows; of a model with `expand`: this position is not needed
    bos: int | None
    pad: int | None
    expand: int | None  # this position becomes two
    delete: int | None  # this position goes

    def found(self) -> dict[str, int]:
        """Those there are, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A directory whose files are all there and fit together."""

    directory: Path
    family: Family
    config: Mapping[str, Any]  # the backbone's keys
    special: SpecialIds
    parameters: int
    stored_bytes: int

    @property
    def key_value_numbers(self) -> int:
        """Numbers that the keys and values of one token take."""
        heads, per_head = _heads(self.config)
        return int(2 * self.config["num_hidden_layers"] * heads[1] * per_head)


def is_checkpoint(directory: Path) -> bool:
    """Whether `directory` is to be read as a checkpoint rather than as a model of our format."""
    return directory.is_dir() and not (directory / WEIGHTS).exists()


def read_checkpoint(directory: Path) -> Checkpoint:
    """Read and check everything but the values of the weights.

    Raises:
        ModelMissing: a file is not there.
        ModelCorrupt: a file does not say what it must, or a shard is cut short.
        ModelUnsupported: the checkpoint is of a kind that is not run; the message says why.
    """
    if not directory.is_dir():
        raise ModelMissing(f"{directory} is not a directory")
    raw = read_json_object(directory / CONFIG)
    family = family_of(directory / CONFIG, raw)
    config = _config(directory, family, raw)
    _check_tokenizer_files(directory)
    special = read_special_ids(directory, raw, config["vocab_size"])
    files = weight_files(directory)
    _check_tensors(directory, family, config, files)
    entries = [entry for file in files for entry in file.entries.values()]
    return Checkpoint(
        directory,
        family,
        config,
        special,
        parameters=sum(math.prod(entry.shape) for entry in entries),
        stored_bytes=sum(entry.end - entry.start for entry in entries),
    )


def weight_files(directory: Path) -> list[TensorFile]:
    """The checked headers of all shards.

    Raises:
        ModelMissing: there are no weights, or a shard that the index names is not there.
        ModelCorrupt: a shard is cut short, or lacks a tensor that the index says it has.
        ModelUnsupported: there are weights, but only as pickle.
    """
    if (directory / INDEX).is_file():
        index = read_json_object(directory / INDEX).get("weight_map")
        if not isinstance(index, dict) or not index:
            raise ModelCorrupt(f"{directory / INDEX}: weight_map is missing or malformed")
        names = sorted({str(name) for name in index.values()})
        if any(Path(name).name != name for name in names):
            raise ModelCorrupt(f"{directory / INDEX}: a shard lies outside the directory")
        files = {name: open_checked(directory / name) for name in names}
        for tensor, name in index.items():
            if tensor not in files[name].entries:
                raise ModelCorrupt(f"{directory / name}: {tensor} is missing")
        return list(files.values())
    if (directory / SINGLE).is_file():
        return [open_checked(directory / SINGLE)]
    pickles = sorted(path.name for pattern in _PICKLES for path in directory.glob(pattern))
    if pickles:
        raise ModelUnsupported(
            f"{directory}: the weights are pickle files ({', '.join(pickles)}), which can run"
            " code when they are read; only safetensors are loaded"
        )
    raise ModelMissing(f"{directory} has no weights: neither {SINGLE} nor {INDEX} is there")


def read_special_ids(directory: Path, raw: Mapping[str, Any], vocab_size: int) -> SpecialIds:
    """The special ids, from the tokenizer's files where they have them, else from the others.

    Raises:
        ModelUnsupported: there is no mask token, or no end of text.
        ModelCorrupt: an id is not within the vocabulary.
    """
    try:
        ids = dict(_ids_by_name(directory, raw))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelCorrupt(
            f"{directory}: the tokenizer's files are malformed: {error!r}"
        ) from error
    for name in ("mask", "eos"):
        if name not in ids:
            raise ModelUnsupported(
                f"{directory}: there is no {name} token: neither the tokenizer's files nor"
                f" {CONFIG} nor generation_config.json name one"
                + ("; is this an autoregressive model?" if name == "mask" else "")
            )
    for name, value in ids.items():
        if not 0 <= value < vocab_size:
            raise ModelCorrupt(
                f"{directory}: the {name} token is {value}, outside a vocabulary of {vocab_size}"
            )
    if "expand" in ids:
        ids.setdefault("delete", ids["eos"])
    else:  # a length that can only shrink is none of the model's own moves
        ids.pop("delete", None)
    wanted = [field.name for field in fields(SpecialIds)]
    return SpecialIds(**{name: ids.get(name) for name in wanted})  # type: ignore[arg-type]


def added_tokens(directory: Path) -> dict[str, int]:
    """Ids of the tokens that were added to the vocabulary, by their text."""
    tokens: dict[str, int] = {}
    with_ids = _optional_json(directory / "tokenizer.json").get("added_tokens", [])
    tokens.update({token["content"]: token["id"] for token in with_ids})
    tokens.update(_optional_json(directory / "added_tokens.json"))
    decoder = _optional_json(directory / "tokenizer_config.json").get("added_tokens_decoder", {})
    tokens.update({token["content"]: int(number) for number, token in decoder.items()})
    return tokens


def _ids_by_name(directory: Path, raw: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Name and id of each special token; what comes later goes before what came earlier."""
    names = ("bos", "eos", "pad", "mask", "expand", "delete")
    for settings in (raw, _optional_json(directory / "generation_config.json")):
        for name in names:
            value = settings.get(f"{name}_token_id")
            value = value[0] if isinstance(value, list) and value else value
            if isinstance(value, int) and not isinstance(value, bool):
                yield name, value
    tokens = added_tokens(directory)
    for name in ("mask", "expand", "delete"):
        if f"<|{name}|>" in tokens:
            yield name, tokens[f"<|{name}|>"]
    for settings_file in ("special_tokens_map.json", "tokenizer_config.json"):
        settings = _optional_json(directory / settings_file)
        for name in names:
            token = settings.get(f"{name}_token")
            content = token.get("content") if isinstance(token, dict) else token
            if isinstance(content, str) and content in tokens:
                yield name, tokens[content]


def _config(directory: Path, family: Family, raw: Mapping[str, Any]) -> dict[str, Any]:
    path = directory / CONFIG
    try:
        config = family.config(raw)
    except ModelUnsupported as error:
        raise ModelUnsupported(f"{path}: {error}") from error
    needed = (
        *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers"),
        "num_attention_heads",
    )
    for key in needed:
        if not isinstance(config.get(key), int) or config[key] < 1:
            raise ModelCorrupt(f"{path}: {key} is missing or malformed in a {family.name} model")
    config.setdefault("num_key_value_heads", config["num_attention_heads"])
    if config["hidden_size"] % config["num_attention_heads"]:
        raise ModelCorrupt(f"{path}: hidden_size is no multiple of num_attention_heads")
    return config


def _check_tokenizer_files(directory: Path) -> None:
    for names in TOKENIZER_FILES:
        if all((directory / name).is_file() for name in names):
            return
    choices = " nor ".join(" with ".join(names) for names in TOKENIZER_FILES)
    raise ModelMissing(f"{directory} has no tokenizer: neither {choices} is there")


def _check_tensors(
    directory: Path, family: Family, config: Mapping[str, Any], files: list[TensorFile]
) -> None:
    """Compare all stored names and shapes with those of the architecture."""
    want = _shapes(family, config)
    tied = bool(config.get("tie_word_embeddings"))
    found: set[str] = set()
    for file in files:
        for stored, shape in file.shapes().items():
            name = family.tensor_name(stored)
            if name.endswith(_DERIVED):
                continue
            if name not in want:
                raise ModelUnsupported(
                    f"{file.path}: {stored} is not a tensor of a {family.name} model"
                )
            if shape != want[name]:
                raise ModelCorrupt(
                    f"{file.path}: {stored} has shape {list(shape)}, not {list(want[name])}"
                )
            found.add(name)
    missing = sorted(want.keys() - found - ({"lm_head.weight"} if tied else set()))
    if missing:
        raise ModelCorrupt(f"{directory}: {len(missing)} tensors are missing, first {missing[0]}")


def _shapes(family: Family, config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    d, mlp = config["hidden_size"], config["intermediate_size"]
    (heads, kv_heads), per_head = _heads(config)
    q, kv = heads * per_head, kv_heads * per_head
    sizes = {"q": (q, d), "k": (kv, d), "v": (kv, d), "o": (d, q)}
    sizes |= {"g": (mlp, d), "u": (mlp, d), "d": (d, mlp)}
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config["vocab_size"], d),
        "model.norm.weight": (d,),
        "lm_head.weight": (config["vocab_size"], d),
    }
    for layer in range(config["num_hidden_layers"]):
        stem = f"model.layers.{layer}."
        shapes[stem + "input_layernorm.weight"] = (d,)
        shapes[stem + "post_attention_layernorm.weight"] = (d,)
        for letter, name in PROJECTIONS.items():
            shapes[f"{stem}{name}.weight"] = sizes[letter]
            if family.backbone == "qwen2" and name in _QKV:
                shapes[f"{stem}{name}.bias"] = sizes[letter][:1]
    return shapes


def _heads(config: Mapping[str, Any]) -> tuple[tuple[int, int], int]:
    """Query and key-value heads, and the size of one."""
    heads = config["num_attention_heads"]
    return (heads, config["num_key_value_heads"]), config["hidden_size"] // heads


def _optional_json(path: Path) -> dict[str, Any]:
    return read_json_object(path) if path.is_file() else {}
