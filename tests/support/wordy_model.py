"""A tiny model that cannot help writing words, so that a test can rely on getting a fill."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import torch
from safetensors.torch import load_file, save_file

from midfill_engine.adapter_file import load_adapter, write_adapter
from midfill_engine.model_files import read_config
from support.tiny_model import write_tiny_model

_WORD: Final = re.compile(r"[a-z]+")
_NEXT_WORD: Final = re.compile(r"Ġ[a-z]+")  # as a byte-level vocabulary spells a leading blank
# Two tokens with a line break inside, that no text is made into.
_BROKEN: Final = ("oneĊtwo", "threeĊfour")


def write_wordy_model(directory: Path, *, seed: int = 0) -> Path:
    """Write the tiny model with a head that gives weight to lower-case letters only.

    A fill is letters of one word, which is sound wherever an expression is; a blank comes first
    where the hole's edge demands one. The model never says that a hole ends.
    """
    write_tiny_model(directory, seed=seed)
    vocabulary = json.loads((directory / "tokenizer.json").read_bytes())["model"]["vocab"]
    base = load_file(directory / "base.safetensors")
    scale = torch.full((len(vocabulary), 1), 0.01)
    for piece, token in vocabulary.items():
        if _WORD.fullmatch(piece):
            scale[token] = 1.0
        elif _NEXT_WORD.fullmatch(piece):
            scale[token] = 0.3
    base["model.embed_tokens.weight"] *= scale
    save_file(base, directory / "base.safetensors")
    path, config = directory / "adapter.safetensors", read_config(directory)
    info, adapter = load_adapter(path, config)
    write_adapter(path, adapter | {"padout": 0 * adapter["padout"]}, config, info.recipe)
    return directory


def write_line_breaking_model(directory: Path) -> Path:
    """Write the wordy model with a head that, where it may, breaks the line in every token."""
    write_wordy_model(directory)
    tokenizer = json.loads((directory / "tokenizer.json").read_bytes())
    config = json.loads((directory / "config.json").read_bytes())
    for piece in _BROKEN:
        tokenizer["model"]["vocab"][piece] = config["vocab_size"]
        config["vocab_size"] += 1
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer))
    (directory / "config.json").write_text(json.dumps(config))
    base = load_file(directory / "base.safetensors")
    head = base["model.embed_tokens.weight"]
    # Whatever the hidden state is, one of the two is likelier than any other token.
    row = 100 * head.norm(dim=1).max() * torch.nn.functional.normalize(torch.ones(1, head.shape[1]))
    base["model.embed_tokens.weight"] = torch.cat((head, row, -row))
    save_file(base, directory / "base.safetensors")
    return directory
