"""One forward pass over packed rows, for every use the engine has.

Encoding a context, denoising canvases and scoring fills differ only in the weights they run and
in which keys their rows may see. A pass takes rows of any number of contexts packed into one
batch; a `Segment` says whose they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from midfill_engine.model.attention import Block, attention
from midfill_engine.model.linear import Linear
from midfill_engine.model.slab import Slab
from midfill_engine.model_files import ModelConfig


@dataclass(frozen=True, slots=True, eq=False)
class LayerWeights:
    """One block: attention and feed-forward, each behind its RMS norm."""

    attention_norm: Tensor  # [hidden]
    qkv: Linear  # hidden → (heads + 2 kv_heads) head_dim
    out: Linear
    feed_forward_norm: Tensor  # [hidden]
    gate_up: Linear  # hidden → 2 intermediate
    down: Linear


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """All blocks of one view of the model."""

    config: ModelConfig
    layers: tuple[LayerWeights, ...]
    norm: Tensor  # [hidden]
    head: Linear  # hidden → vocabulary; its rows are the embedding


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """The rows of one context within a pass.

    The rows' keys and values are written to the slab from slot `write` on; a row then sees the
    slots from `first` to the last one written, as far as `visible` allows.
    """

    slab: Slab
    rows: int
    first: int
    write: int
    visible: Tensor | None  # [rows, keys] bool, True where a row may look; None: everything


def forward(weights: Weights, x: Tensor, positions: Tensor, segments: Sequence[Segment]) -> Tensor:
    """Hidden states after the final norm.

    Args:
        x: input embeddings, [N, hidden], the segments' rows one after the other.
        positions: [N] int64, may be negative.
        segments: whose rows they are; their `rows` add up to N.

    Returns:
        [N, hidden], of the type of `x`.
    """
    config = weights.config
    cos, sin = (part.to(x.dtype) for part in rotary(config, positions))
    rotated = config.num_attention_heads + config.num_key_value_heads
    masks = [folded(config, segment) for segment in segments]
    for index, layer in enumerate(weights.layers):
        h = F.rms_norm(x, (config.hidden_size,), layer.attention_norm, config.rms_norm_eps)
        qkv = layer.qkv(h).view(len(x), -1, config.head_dim)
        qk, v = qkv[:, :rotated], qkv[:, rotated:]
        qk = _rotate(qk, cos, sin)
        mixed = _attend(config, index, segments, masks, qk, v)
        x = x + layer.out(mixed)
        h = F.rms_norm(x, (config.hidden_size,), layer.feed_forward_norm, config.rms_norm_eps)
        gate, up = layer.gate_up(h).chunk(2, dim=1)
        x = x + layer.down(F.silu(gate) * up)
    return F.rms_norm(x, (config.hidden_size,), weights.norm, config.rms_norm_eps)


def rotary(config: ModelConfig, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the rotary embedding (Su et al. 2021), each [N, 1, head_dim / 2]."""
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.int64).float() / config.head_dim
    exponents = exponents.to(positions.device)
    angles = positions.float()[:, None] / config.rope_theta**exponents
    return angles.cos()[:, None], angles.sin()[:, None]


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate in the half-split layout: x [N, heads, head_dim]."""
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)


def _group(config: ModelConfig) -> int:
    """Query heads that share one key-value head."""
    return config.num_attention_heads // config.num_key_value_heads


def folded(config: ModelConfig, segment: Segment) -> Tensor | None:
    """What to add to the logits of attention: [group · rows, keys], 0 or -inf.

    Each head of a group has rows of its own, since the group is folded into the query length.
    """
    if segment.visible is None:
        return None
    keys = segment.slab.keys
    bias = torch.zeros(segment.visible.shape).masked_fill_(~segment.visible, -torch.inf)
    return bias.repeat(_group(config), 1).to(keys.device, keys.dtype)


def _attend(
    config: ModelConfig,
    layer: int,
    segments: Sequence[Segment],
    masks: Sequence[Tensor | None],
    qk: Tensor,
    v: Tensor,
) -> Tensor:
    """Store each segment's keys and values, and let its rows attend: → [N, heads · head_dim]."""
    heads = config.num_attention_heads
    blocks = []
    start = 0
    for segment, mask in zip(segments, masks, strict=True):
        stop, last = start + segment.rows, segment.write + segment.rows
        keys, values = segment.slab.keys[layer], segment.slab.values[layer]
        keys[:, segment.write : last] = qk[start:stop, heads:].transpose(0, 1)
        values[:, segment.write : last] = v[start:stop].transpose(0, 1)
        seen = slice(segment.first, last)
        blocks.append(Block(segment.rows, keys[:, seen], values[:, seen], mask))
        start = stop
    return attention(qk[:, :heads], blocks).view(len(qk), heads * config.head_dim)
