"""A model of our format with random weights, small enough to be made for every test run."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor

from midfill_engine.adapter_file import write_adapter
from midfill_engine.model_files import read_config

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, INTERMEDIATE, RANK = 96, 3, 6, 2, 16, 128, 4
_SAMPLE = """
def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a

class Account:
    def __init__(self, owner, balance=0):
        self.owner = owner
        self.balance = balance

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError("amount must be positive")
        self.balance += amount
        return self.balance
"""


def write_tiny_model(directory: Path, *, seed: int = 0) -> Path:
    """Write base, tokenizer, config and adapter; the same bytes for the same seed."""
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer()
    tokenizer.save(str(directory / "tokenizer.json"))
    vocabulary = tokenizer.get_vocab_size()
    generator = torch.Generator().manual_seed(seed)
    save_file(_base(generator, vocabulary), directory / "base.safetensors")
    (directory / "config.json").write_text(json.dumps(_config(vocabulary)))
    write_adapter(
        directory / "adapter.safetensors",
        {name: tensor.numpy() for name, tensor in _adapter(generator).items()},
        read_config(directory),
        {"name": "random"},
    )
    return directory


def _tokenizer() -> Tokenizer:
    names = ["<|endoftext|>", *(f"<special_{i}>" for i in range(1, 15)), "<empty>", "<mask>"]
    return byte_level_bpe(names)


def byte_level_bpe(names: list[str]) -> Tokenizer:
    """A small byte-level BPE; `names` are its first tokens, and special."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=[AddedToken(name, special=True) for name in names],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([_SAMPLE] * 4, trainer)
    return tokenizer


def _config(vocabulary: int) -> dict[str, object]:
    return {
        "model_type": "llama",
        "vocab_size": vocabulary,
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0},
        "tie_word_embeddings": True,
        "hidden_act": "silu",
    }


def _base(generator: torch.Generator, vocabulary: int) -> dict[str, Tensor]:
    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator) * shape[-1] ** -0.5

    tensors = {
        "model.embed_tokens.weight": 8 * normal(vocabulary, HIDDEN),
        "model.norm.weight": 1 + normal(HIDDEN),
    }
    for index in range(LAYERS):
        stem = f"model.layers.{index}."
        tensors[stem + "input_layernorm.weight"] = 1 + normal(HIDDEN)
        tensors[stem + "post_attention_layernorm.weight"] = 1 + normal(HIDDEN)
        for name, (out, inner) in _projections().items():
            tensors[f"{stem}{name}.weight"] = normal(out, inner)
    return tensors


def _adapter(generator: torch.Generator) -> dict[str, Tensor]:
    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator) * 0.1

    tensors = {"norm.d": normal(HIDDEN), "sp": normal(2, HIDDEN), "padout": normal(HIDDEN)}
    for index in range(LAYERS):
        for norm in ("n1", "n2"):
            tensors[f"layers.{index}.{norm}.d"] = normal(HIDDEN)
        for letter, (out, inner) in zip("qkvogud", _projections().values(), strict=True):
            tensors[f"layers.{index}.{letter}.a"] = normal(RANK, inner)
            tensors[f"layers.{index}.{letter}.b"] = normal(out, RANK)
    return tensors


def _projections() -> dict[str, tuple[int, int]]:
    queries, keys = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    return {
        "self_attn.q_proj": (queries, HIDDEN),
        "self_attn.k_proj": (keys, HIDDEN),
        "self_attn.v_proj": (keys, HIDDEN),
        "self_attn.o_proj": (HIDDEN, queries),
        "mlp.gate_proj": (INTERMEDIATE, HIDDEN),
        "mlp.up_proj": (INTERMEDIATE, HIDDEN),
        "mlp.down_proj": (HIDDEN, INTERMEDIATE),
    }
