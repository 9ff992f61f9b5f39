"""Which checkpoints are taken, what is found in them, and how the others are refused, by name."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from support import refusals
from support.tiny_checkpoints import write_dream, write_llada, write_open_dcoder

from midfill_engine.checkpoint import is_checkpoint, read_checkpoint
from midfill_engine.errors import ModelCorrupt, ModelError, ModelMissing, ModelUnsupported
from midfill_engine.model.checkpoint_vocabulary import load_vocabulary
from midfill_engine.model.vocabulary import EMPTY, MASK

SHARD = "model-00001-of-00002.safetensors"


@pytest.fixture
def dream(tmp_path: Path) -> Path:
    return write_dream(tmp_path / "dream")


def change(path: Path, **settings: Any) -> None:
    """Set keys of a JSON file; None takes one out."""
    raw = json.loads(path.read_text()) | settings
    path.write_text(json.dumps({k: v for k, v in raw.items() if v is not None}))


def check_refused(directory: Path, kind: type[ModelError], *complaint: str) -> None:
    refusals.check_refused(lambda: read_checkpoint(directory), kind, *complaint)


def test_a_dream(dream: Path) -> None:
    found = read_checkpoint(dream)
    assert (found.family.name, found.family.backbone, found.family.shifted) == (
        "Dream", "qwen2", True,
    )  # fmt: skip
    tokens = json.loads((dream / "tokenizer_config.json").read_text())["added_tokens_decoder"]
    ids = {token["content"]: int(number) for number, token in tokens.items()}
    assert found.special.found() == {
        "mask": ids["<|mask|>"],
        "eos": ids["<|endoftext|>"],
        "bos": ids["<|beginoftext|>"],  # the tokenizer's, though config.json has another
        "pad": ids["<|endoftext|>"],
    }
    stored = [load_file(path) for path in dream.glob("*.safetensors")]
    assert found.parameters == sum(t.numel() for part in stored for t in part.values())
    assert found.stored_bytes == 4 * found.parameters


def test_a_dreamon(tmp_path: Path) -> None:
    found = read_checkpoint(write_dream(tmp_path / "on", expand=True)).special
    assert found.expand is not None
    assert found.delete == found.eos
    (tmp_path / "on" / "generation_config.json").unlink()  # delete is documented nowhere else
    assert read_checkpoint(tmp_path / "on").special == found


def test_a_delete_without_an_expand_is_no_move(tmp_path: Path) -> None:
    directory = write_dream(tmp_path / "dream")
    change(directory / "generation_config.json", delete_token_id=3)
    assert read_checkpoint(directory).special.delete is None


def test_a_llada(tmp_path: Path) -> None:
    found = read_checkpoint(write_llada(tmp_path / "llada"))
    assert (found.family.name, found.family.backbone, found.family.shifted) == (
        "LLaDA", "llama", False,
    )  # fmt: skip
    raw = json.loads((tmp_path / "llada" / "config.json").read_text())
    assert found.special.mask == raw["mask_token_id"]


def test_an_open_dcoder(tmp_path: Path) -> None:
    found = read_checkpoint(write_open_dcoder(tmp_path / "open"))
    assert found.family.name == "Open-dCoder"
    assert found.special.bos is None


def test_a_model_of_our_own_format_is_none(tiny_model: Path, dream: Path) -> None:
    assert not is_checkpoint(tiny_model)
    assert is_checkpoint(dream)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"model_type": "llada2_moe", "architectures": ["LLaDA2MoeModelLM"]}, "block-causal"),
        ({"model_type": "sdar", "architectures": ["SDARForCausalLM"]}, "block-causal"),
        ({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}, "unknown architecture"),
        ({"model_type": None, "architectures": None}, "unknown architecture"),
        ({"use_sliding_window": True}, "use_sliding_window"),
    ],
)
def test_other_kinds_of_model(dream: Path, settings: dict[str, Any], complaint: str) -> None:
    change(dream / "config.json", **settings)
    check_refused(dream, ModelUnsupported, "config.json", complaint)


@pytest.mark.parametrize(("key", "value"), [("alibi", True), ("layer_norm_type", "default")])
def test_a_llada_that_is_no_llama(tmp_path: Path, key: str, value: object) -> None:
    directory = write_llada(tmp_path / "llada")
    change(directory / "config.json", **{key: value})
    check_refused(directory, ModelUnsupported, key)


def test_no_mask_token(tmp_path: Path) -> None:
    directory = write_open_dcoder(tmp_path / "open")
    change(directory / "tokenizer_config.json", mask_token=None)
    change(directory / "special_tokens_map.json", mask_token=None)
    check_refused(directory, ModelUnsupported, "no mask token", "autoregressive")


def test_an_id_outside_the_vocabulary(tmp_path: Path) -> None:
    directory = write_llada(tmp_path / "llada")
    change(directory / "config.json", mask_token_id=126336)
    check_refused(directory, ModelCorrupt, "mask", "126336")


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("config.json", "config.json is not there"),
        ("vocab.json", "tokenizer"),
        ("merges.txt", "tokenizer"),
        (SHARD, f"{SHARD} is not there"),
    ],
)
def test_a_missing_file(dream: Path, name: str, complaint: str) -> None:
    (dream / name).unlink()
    check_refused(dream, ModelMissing, complaint)


def test_no_directory(tmp_path: Path) -> None:
    check_refused(tmp_path / "nowhere", ModelMissing, "nowhere")


@pytest.mark.parametrize("kept", [0, 5, 200, -1])
def test_a_truncated_shard(dream: Path, kept: int) -> None:
    whole = (dream / SHARD).read_bytes()
    (dream / SHARD).write_bytes(whole[:kept])
    check_refused(dream, ModelCorrupt, SHARD)


def test_pickles_are_refused_and_not_opened(dream: Path, tmp_path: Path) -> None:
    for path in [*dream.glob("*.safetensors"), dream / "model.safetensors.index.json"]:
        path.unlink()
    (dream / "pytorch_model.bin").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    check_refused(dream, ModelUnsupported, "pickle", "pytorch_model.bin")
    assert not (tmp_path / "sprung").exists()


class Trap:
    """Unpickled, it leaves a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Callable[..., object], tuple[Path]]:
        return Path.touch, (self.trace,)


def test_no_weights(dream: Path) -> None:
    for path in [*dream.glob("*.safetensors"), dream / "model.safetensors.index.json"]:
        path.unlink()
    check_refused(dream, ModelMissing, "no weights")


@pytest.mark.parametrize(
    ("tensor", "becomes", "kind"),
    [
        ("model.norm.weight", None, ModelCorrupt),
        ("model.norm.weight", (3,), ModelCorrupt),
        ("model.layers.0.self_attn.rotary_emb.inv_freq", (8,), None),
        ("model.layers.0.self_attn.q_norm.weight", (8,), ModelUnsupported),
    ],
)
def test_tensors_that_do_not_fit(
    tmp_path: Path, tensor: str, becomes: tuple[int, ...] | None, kind: type[ModelError] | None
) -> None:
    directory = write_open_dcoder(tmp_path / "open")
    stored = load_file(directory / "model.safetensors")
    if becomes is None:
        stored.pop(tensor)
    else:
        stored[tensor] = stored["lm_head.weight"].new_zeros(becomes)
    save_file(stored, directory / "model.safetensors")
    if kind is None:
        assert read_checkpoint(directory)
    else:
        check_refused(directory, kind, tensor)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_a_file_that_is_no_json_object(dream: Path, name: str, text: str) -> None:
    (dream / name).write_text(text)
    check_refused(dream, ModelCorrupt, name)


def test_an_index_that_leads_outside(dream: Path) -> None:
    change(dream / "model.safetensors.index.json", weight_map={"a": "../other.safetensors"})
    check_refused(dream, ModelCorrupt, "outside")


@pytest.mark.parametrize("write", [write_dream, write_open_dcoder, write_llada])
def test_texts_and_tokens(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    """All text is spelt, whatever the ids of what is special; none of it becomes special."""
    vocabulary = load_vocabulary(read_checkpoint(write(tmp_path / "model")))
    text = 'def f(n): # <|mask|> <|endoftext|> e\u0301 !"0123456789\n\treturn 15, 16\r\n'
    ids = vocabulary.encode(text)
    assert vocabulary.decode(ids) == text  # not normalized, either
    assert not {MASK, EMPTY, *vocabulary.never.tolist()} & set(ids)
    singles = [vocabulary.encode(c)[0] for c in map(chr, range(33, 127))]
    assert len(set(singles)) == len(singles)


def test_ids_keep_their_columns(tmp_path: Path) -> None:
    """Only what is special changes places."""
    directory = write_llada(tmp_path / "llada")
    checkpoint = read_checkpoint(directory)
    vocabulary = load_vocabulary(checkpoint)
    assert len(vocabulary.moved) <= 6
    assert vocabulary.moved[checkpoint.special.mask] == MASK
    assert vocabulary.moved[checkpoint.special.eos] == EMPTY
    assert sorted(vocabulary.moved) == sorted(vocabulary.moved.values())


def test_a_tokenizer_larger_than_the_model(tmp_path: Path) -> None:
    directory = write_open_dcoder(tmp_path / "open")
    raw = json.loads((directory / "tokenizer.json").read_text())
    last = max(raw["model"]["vocab"].values())
    raw["model"]["vocab"]["zzzz"] = last + 1000
    (directory / "tokenizer.json").write_text(json.dumps(raw))
    with pytest.raises(ModelCorrupt, match="ids up to"):
        load_vocabulary(read_checkpoint(directory))
