"""The families of full-attention masked-diffusion models that are run, and those that are not.

Owns what is known of each family: which transformers class has its weights, under which names, and
how its outputs are read. Imports no torch. What stands in a checkpoint (dimensions, special ids) is
not here: see `checkpoint`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from midfill_engine.errors import ModelUnsupported

Backbone = Literal["qwen2", "llama"]


@dataclass(frozen=True, slots=True)
class Family:
    """How one family of checkpoints is read."""

    name: str
    backbone: Backbone  # transformers' own class
    shifted: bool  # the hidden state at i - 1 predicts position i
    framed: bool  # the text stands between a beginning-of-text and an end-of-text token
    renames: Mapping[str, str]  # regular expression of a stored name: transformers' name
    config: Callable[[Mapping[str, Any]], dict[str, Any]]  # of config.json: the backbone's keys

    def tensor_name(self, stored: str) -> str:
        """Transformers' name of a tensor stored as `stored`."""
        for pattern, name in self.renames.items():
            stored, done = re.subn(pattern, name, stored)
            if done:
                break
        return stored


def _as_it_is(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Of a config.json that has the backbone's own keys; Dream adds some that mean nothing here."""
    if raw.get("use_sliding_window"):
        raise ModelUnsupported("use_sliding_window is on; only full attention is supported")
    kept = (
        *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers"),
        *("num_attention_heads", "num_key_value_heads", "max_position_embeddings"),
        *("rms_norm_eps", "rope_theta", "rope_parameters", "rope_scaling", "hidden_act"),
        "tie_word_embeddings",
    )
    return {key: raw[key] for key in kept if raw.get(key) is not None}


_LLADA_KEYS: Final = {
    "d_model": "hidden_size",
    "mlp_hidden_size": "intermediate_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads",
    "max_sequence_length": "max_position_embeddings",
    "rms_norm_eps": "rms_norm_eps",
    "rope_theta": "rope_theta",
    "weight_tying": "tie_word_embeddings",
}
_LLADA_FIXED: Final = {  # what it must be for the weights to be a Llama's
    "alibi": False,
    "activation_type": "silu",
    "block_type": "llama",
    "layer_norm_type": "rms",
    "include_bias": False,
    "include_qkv_bias": False,
    "attention_layer_norm": False,
    "input_emb_norm": False,
    "scale_logits": False,
    "rope": True,
}


def _llada_config(raw: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in _LLADA_FIXED.items():
        if raw.get(key, value) != value:
            raise ModelUnsupported(f"{key} is {raw[key]!r}; only {value!r} is supported")
    config = {ours: raw[key] for key, ours in _LLADA_KEYS.items() if raw.get(key) is not None}
    size = raw.get("embedding_size") or raw.get("vocab_size")
    return config if size is None else config | {"vocab_size": size}


_LLADA_LAYER: Final = {
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
_LLADA_NAMES: Final = {
    rf"^model\.transformer\.blocks\.(\d+)\.{stored}\.": rf"model.layers.\1.{name}."
    for stored, name in _LLADA_LAYER.items()
} | {
    r"^model\.transformer\.wte\.": "model.embed_tokens.",
    r"^model\.transformer\.ln_f\.": "model.norm.",
    r"^model\.transformer\.ff_out\.": "lm_head.",
}

DREAM: Final = Family("Dream", "qwen2", True, True, {}, _as_it_is)
OPEN_DCODER: Final = Family("Open-dCoder", "qwen2", True, True, {}, _as_it_is)
# Evaluations of LLaDA's infilling put nothing around prefix and suffix.
LLADA: Final = Family("LLaDA", "llama", False, False, _LLADA_NAMES, _llada_config)

_BY_MODEL_TYPE: Final = {"dream": DREAM, "qwen2": OPEN_DCODER, "llada": LLADA}
_KNOWN_UNSUPPORTED: Final = {  # part of a model type or architecture: what it is
    "llada2": "a block-causal model",
    "sdar": "a block-causal model",
    "fast_dllm": "a block-causal model",
    "wedlm": "a block-causal model",
    "llada_moe": "a mixture-of-experts model",
    "lladamoe": "a mixture-of-experts model",
    "diffusiongemma": "a uniform-state diffusion model",
    "diffusion_gemma": "a uniform-state diffusion model",
}


def family_of(path: Path, raw: Mapping[str, Any]) -> Family:
    """The family of a checkpoint, by its config.json, which is `raw` and lies at `path`.

    Raises:
        ModelUnsupported: it is none that is run; says which kind it is, where that is known.
    """
    model_type = str(raw.get("model_type", ""))
    listed = raw.get("architectures")
    architectures = [str(a) for a in listed] if isinstance(listed, list) else []
    shown = f"model_type {model_type!r}, architectures {architectures}"
    for word in (model_type, *architectures):
        for part, kind in _KNOWN_UNSUPPORTED.items():
            if part in word.lower():
                raise ModelUnsupported(f"{path}: {kind}, which is not supported yet ({shown})")
    family = _BY_MODEL_TYPE.get(model_type.lower())
    if family is None:
        known = ", ".join(map(repr, _BY_MODEL_TYPE))
        raise ModelUnsupported(f"{path}: unknown architecture ({shown}); known types are {known}")
    return family
