"""What the converter makes of a GGUF: weights, configuration and tokenizer."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFWriter
from tokenizers import Tokenizer

from midfill_engine.convert import convert_gguf
from midfill_engine.errors import ModelUnsupported
from midfill_engine.model_files import check_model, load_weights, read_config
from midfill_engine.progress import silent

TEXTS = [
    "x = 123\n    return",
    "def f(a, b):\r\n\treturn  a + 12345\r\n",
    "a  b   c\t\td\n\n\n    e",
    "日本語 🎉 é \ufeff",
    "trailing   \n\n",
    "",
]


@pytest.fixture(scope="module")
def converted(sample, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("converted")
    convert_gguf(sample.gguf, directory, sample.source.gguf_sha256, silent)
    return directory


@pytest.fixture(scope="module")
def tokenizer(converted: Path) -> Tokenizer:
    return Tokenizer.from_file(str(converted / "tokenizer.json"))


def test_weights_are_bit_equal_to_the_dequantized_gguf(sample, converted: Path) -> None:
    weights = dict(load_weights(converted))
    assert weights.keys() == sample.weights.keys()
    largest = 0.0
    for name, want in sample.weights.items():
        assert weights[name].dtype == np.float32
        assert weights[name].flags.writeable
        largest = max(largest, float(np.abs(weights[name] - want).max()))
    print(f"largest difference {largest}")
    assert largest == 0


def test_the_file_is_not_larger_than_the_gguf(sample, converted: Path) -> None:
    assert (converted / "base.safetensors").stat().st_size <= sample.gguf.stat().st_size


def test_the_configuration_is_one_for_transformers(sample, converted: Path) -> None:
    from transformers import LlamaConfig

    raw = json.loads((converted / "config.json").read_text())
    ours = read_config(converted)
    theirs = LlamaConfig.from_dict({key: raw[key] for key in raw if key != "midfill"})
    for name in (
        *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers"),
        *("num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings"),
        "rms_norm_eps",
    ):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.rope_theta == theirs.rope_parameters["rope_theta"] == 100_000
    assert theirs.tie_word_embeddings
    assert ours.made_by == (1, sample.source.gguf_sha256)


@pytest.mark.parametrize("text", TEXTS)
def test_text_survives_the_tokenizer(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_the_tokenizer_is_the_one_transformers_makes(sample, tokenizer: Tokenizer) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a library's import; not what is tested here
        from transformers import AutoTokenizer

        theirs = AutoTokenizer.from_pretrained(
            str(sample.gguf.parent), gguf_file=sample.gguf.name
        ).backend_tokenizer
    ours_json, theirs_json = json.loads(tokenizer.to_str()), json.loads(theirs.to_str())
    for part in ("normalizer", "pre_tokenizer", "decoder", "added_tokens"):
        assert ours_json[part] == theirs_json[part], part
    for part in ("vocab", "merges"):
        assert ours_json["model"][part] == theirs_json["model"][part], part
    for text in (*TEXTS, "<mask>a<|endoftext|>"):
        want = theirs.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode(text, add_special_tokens=False).ids == want


def test_a_model_of_another_architecture(tmp_path: Path) -> None:
    path = tmp_path / "other.gguf"
    writer = GGUFWriter(path, "gpt2")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelUnsupported, match="gpt2"):
        convert_gguf(path, tmp_path, "", silent)


def test_the_embedded_model_is_whole(embedded_dir: Path) -> None:
    config = check_model(embedded_dir)
    assert (config.hidden_size, config.num_hidden_layers, config.vocab_size) == (576, 30, 49152)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("x = 123\n    return", ["x", "Ġ=", "Ġ", "1", "2", "3", "ĊĠĠĠ", "Ġreturn"]),
        ("f(  12)", ["f", "(", "Ġ", "Ġ", "1", "2", ")"]),
        ("\n    1", ["ĊĠĠĠ", "Ġ", "1"]),
    ],
)
def test_tokens_of_the_embedded_model(embedded_dir: Path, text: str, tokens: list[str]) -> None:
    tokenizer = Tokenizer.from_file(str(embedded_dir / "tokenizer.json"))
    assert tokenizer.encode(text, add_special_tokens=False).tokens == tokens
