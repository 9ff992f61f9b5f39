"""Checkpoints with random weights in the layouts in which the real ones are published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor

from support.tiny_model import byte_level_bpe

HIDDEN, LAYERS, HEADS, KV_HEADS, INTERMEDIATE = 64, 3, 4, 2, 96
SPARE: Final = 7  # outputs beyond the tokenizer's, as real models have them
TRAP: Final = "raise SystemExit('code of a checkpoint was run')\n"


def write_dream(directory: Path, *, seed: int = 0, expand: bool = False) -> Path:
    """As Dream, Dream-Coder, DiffuCoder and, with `expand`, DreamOn are published."""
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|beginoftext|>", "<|mask|>"]
    ids = _write_tokenizer(directory, [*names, *(["<|expand|>"] if expand else [])])
    _write_tokenizer_config(
        directory,
        ids,
        {
            "bos_token": "<|beginoftext|>",
            "eos_token": "<|endoftext|>",
            "pad_token": "<|endoftext|>",
            "mask_token": "<|mask|>",
            "tokenizer_class": "DreamTokenizer",
            "auto_map": {"AutoTokenizer": ["tokenization_dream.DreamTokenizer", None]},
        },
    )
    (directory / "tokenizer.json").unlink()  # these have vocab.json and merges.txt
    _write_json(
        directory / "config.json",
        {
            "architectures": ["DreamModel"],
            "auto_map": {
                "AutoConfig": "configuration_dream.DreamConfig",
                "AutoModel": "modeling_dream.DreamModel",
            },
            "model_type": "Dream",
            "mask_token_id": ids["<|mask|>"],
            "pad_token_id": ids["<|endoftext|>"],
            "bos_token_id": ids["<|endoftext|>"],
            "eos_token_id": ids["<|endoftext|>"],
            **_qwen2_dimensions(ids),
        },
    )
    generation = {"mask_token_id": ids["<|mask|>"], "alg": "origin", "temperature": 0.0}
    if expand:
        generation |= {"expand_token_id": ids["<|expand|>"]}
        generation |= {"delete_token_id": ids["<|endoftext|>"]}
    _write_json(directory / "generation_config.json", generation)
    for name in ("modeling_dream", "configuration_dream", "tokenization_dream"):
        (directory / f"{name}.py").write_text(TRAP)
    tensors = _qwen2_tensors(seed, _vocab_size(ids))
    _mute(directory, tensors["lm_head.weight"])
    _write_shards(directory, tensors, shards=2)
    return directory


def write_open_dcoder(directory: Path, *, seed: int = 0, tied: bool = False) -> Path:
    """As Open-dCoder is published: a Qwen2 whose tokenizer has a mask, and no bos."""
    ids = _write_tokenizer(directory, ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<M>"])
    _write_tokenizer_config(
        directory, ids, {"eos_token": "<|endoftext|>", "bos_token": None, "mask_token": "<M>"}
    )
    _write_json(
        directory / "config.json",
        {
            "architectures": ["Qwen2ForCausalLM"],
            "model_type": "qwen2",
            "eos_token_id": ids["<|endoftext|>"],
            **_qwen2_dimensions(ids),
            "tie_word_embeddings": tied,
        },
    )
    tensors = _qwen2_tensors(seed, _vocab_size(ids))
    _mute(directory, tensors["lm_head.weight"])
    if tied:
        tensors.pop("lm_head.weight")
    _write_shards(directory, tensors, shards=1)
    return directory


def write_llada(directory: Path, *, seed: int = 0) -> Path:
    """As LLaDA is published: OLMo's names, no grouping of heads."""
    names = ["<|startoftext|>", "<|endoftext|>", "<|eot_id|>", "<|mdm_mask|>"]
    ids = _write_tokenizer(directory, names)
    _write_tokenizer_config(
        directory,
        ids,
        {
            "bos_token": "<|startoftext|>",
            "eos_token": "<|endoftext|>",
            "pad_token": "<|endoftext|>",
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
    )
    _write_json(
        directory / "config.json",
        {
            "architectures": ["LLaDAModelLM"],
            "auto_map": {
                "AutoConfig": "configuration_llada.LLaDAConfig",
                "AutoModelForCausalLM": "modeling_llada.LLaDAModelLM",
                "AutoModel": "modeling_llada.LLaDAModelLM",
            },
            "model_type": "llada",
            "activation_type": "silu",
            "alibi": False,
            "attention_layer_norm": False,
            "block_type": "llama",
            "d_model": HIDDEN,
            "embedding_size": _vocab_size(ids),
            "eos_token_id": ids["<|endoftext|>"],
            "include_bias": False,
            "include_qkv_bias": False,
            "layer_norm_type": "rms",
            "mask_token_id": ids["<|mdm_mask|>"],
            "max_sequence_length": 4096,
            "mlp_hidden_size": INTERMEDIATE,
            "n_heads": HEADS,
            "n_kv_heads": HEADS,
            "n_layers": LAYERS,
            "pad_token_id": ids["<|endoftext|>"],
            "rms_norm_eps": 1e-05,
            "rope": True,
            "rope_theta": 500000.0,
            "vocab_size": _vocab_size(ids),
            "weight_tying": False,
        },
    )
    _write_json(directory / "generation_config.json", {"eos_token_id": ids["<|endoftext|>"]})
    (directory / "modeling_llada.py").write_text(TRAP)
    tensors = _llada_tensors(seed, _vocab_size(ids))
    _mute(directory, tensors["model.transformer.ff_out.weight"])
    _write_shards(directory, tensors, shards=3)
    return directory


def llama_twin(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """LLaDA's tensors under Llama's names, written out by hand."""
    layer = {
        "attn_norm": "input_layernorm",
        "ff_norm": "post_attention_layernorm",
        "q_proj": "self_attn.q_proj",
        "k_proj": "self_attn.k_proj",
        "v_proj": "self_attn.v_proj",
        "attn_out": "self_attn.o_proj",
        "ff_proj": "mlp.gate_proj",
        "up_proj": "mlp.up_proj",
        "ff_out": "mlp.down_proj",
    }
    outer = {"wte": "model.embed_tokens", "ln_f": "model.norm", "ff_out": "lm_head"}
    twin = {}
    for name, tensor in tensors.items():
        parts = name.split(".")  # model.transformer.blocks.N.part.weight, or without blocks.N
        if parts[2] == "blocks":
            twin[f"model.layers.{parts[3]}.{layer[parts[4]]}.weight"] = tensor
        else:
            twin[f"{outer[parts[2]]}.weight"] = tensor
    return twin


def _write_tokenizer(directory: Path, names: list[str]) -> dict[str, int]:
    """The tokenizer's files, the added tokens last as in the real ones; ids by text."""
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = byte_level_bpe([])
    tokenizer.add_special_tokens(names)
    tokenizer.save(str(directory / "tokenizer.json"))
    tokenizer.model.save(str(directory))
    return {name: _id(tokenizer, name) for name in names} | {"": tokenizer.get_vocab_size()}


def _id(tokenizer: Tokenizer, name: str) -> int:
    number = tokenizer.token_to_id(name)
    assert isinstance(number, int)
    return number


def _vocab_size(ids: dict[str, int]) -> int:
    return ids[""] + SPARE


def _write_tokenizer_config(directory: Path, ids: dict[str, int], settings: dict[str, Any]) -> None:
    decoder = {
        str(number): {"content": name, "special": True, "lstrip": False, "rstrip": False,
                      "normalized": False, "single_word": False}
        for name, number in ids.items()
        if name
    }  # fmt: skip
    path = directory / "tokenizer_config.json"
    _write_json(path, {"added_tokens_decoder": decoder, **settings})
    tokens = {key: value for key, value in settings.items() if key.endswith("_token") and value}
    _write_json(directory / "special_tokens_map.json", tokens)


def _qwen2_dimensions(ids: dict[str, int]) -> dict[str, Any]:
    return {
        "vocab_size": _vocab_size(ids),
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "hidden_act": "silu",
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-06,
        "rope_scaling": None,
        "rope_theta": 1000000.0,
        "sliding_window": None,
        "use_sliding_window": False,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
    }


def _qwen2_tensors(seed: int, vocab_size: int) -> dict[str, Tensor]:
    normal = _normal(seed)
    tensors = {
        "model.embed_tokens.weight": 8 * normal(vocab_size, HIDDEN),
        "model.norm.weight": 1 + normal(HIDDEN),
        "lm_head.weight": 3 * normal(vocab_size, HIDDEN),
    }
    head = HIDDEN // HEADS
    for index in range(LAYERS):
        stem = f"model.layers.{index}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{stem}{norm}.weight"] = 1 + normal(HIDDEN)
        for letter, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            tensors[f"{stem}self_attn.{letter}_proj.weight"] = normal(heads * head, HIDDEN)
            tensors[f"{stem}self_attn.{letter}_proj.bias"] = normal(heads * head)
        tensors[f"{stem}self_attn.o_proj.weight"] = normal(HIDDEN, HIDDEN)
        for name in ("gate_proj", "up_proj"):
            tensors[f"{stem}mlp.{name}.weight"] = normal(INTERMEDIATE, HIDDEN)
        tensors[f"{stem}mlp.down_proj.weight"] = normal(HIDDEN, INTERMEDIATE)
    return tensors


def _llada_tensors(seed: int, vocab_size: int) -> dict[str, Tensor]:
    normal = _normal(seed)
    stem = "model.transformer."
    tensors = {
        f"{stem}wte.weight": 8 * normal(vocab_size, HIDDEN),
        f"{stem}ln_f.weight": 1 + normal(HIDDEN),
        f"{stem}ff_out.weight": 3 * normal(vocab_size, HIDDEN),
    }
    for index in range(LAYERS):
        block = f"{stem}blocks.{index}."
        for norm in ("attn_norm", "ff_norm"):
            tensors[f"{block}{norm}.weight"] = 1 + normal(HIDDEN)
        for name in ("q_proj", "k_proj", "v_proj", "attn_out"):
            tensors[f"{block}{name}.weight"] = normal(HIDDEN, HIDDEN)
        for name in ("ff_proj", "up_proj"):
            tensors[f"{block}{name}.weight"] = normal(INTERMEDIATE, HIDDEN)
        tensors[f"{block}ff_out.weight"] = normal(HIDDEN, INTERMEDIATE)
    return tensors


def _mute(directory: Path, head: Tensor) -> None:
    """Have a model never say parts of characters, so that its fills are text."""
    for token, number in json.loads((directory / "vocab.json").read_text()).items():
        if not all(0x21 <= ord(c) < 0x7F or 0x100 <= ord(c) <= 0x120 for c in token):
            head[number] = 0


def _normal(seed: int) -> Any:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator) * shape[-1] ** -0.5

    return normal


def _write_shards(directory: Path, tensors: dict[str, Tensor], *, shards: int) -> None:
    if shards == 1:
        save_file(tensors, directory / "model.safetensors", {"format": "pt"})
        return
    names = [f"model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)]
    homes = {tensor: names[i % shards] for i, tensor in enumerate(tensors)}
    for name in names:
        part = {tensor: tensors[tensor] for tensor, home in homes.items() if home == name}
        save_file(part, directory / name, {"format": "pt"})
    total = sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": homes}
    _write_json(directory / "model.safetensors.index.json", index)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1))
