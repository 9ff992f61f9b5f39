"""`transformer.forward` for int8 weights on a CPU, in fewer and larger operations.

Owns the order of products, attention and kernels. What it computes is what `transformer.forward`
computes on the same weights, but for the order of sums; tests compare the two.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from midfill_engine.model import kernels
from midfill_engine.model.linear import Int8Linear, Linear
from midfill_engine.model.transformer import Segment, Weights, folded, rotary
from midfill_engine.model_files import ModelConfig


def forward(weights: Weights, x: Tensor, positions: Tensor, segments: Sequence[Segment]) -> Tensor:
    """Hidden states after the final norm. As `transformer.forward`, of int8 weights."""
    config, rows = weights.config, len(x)
    cos, sin = (part[:, 0].numpy() for part in rotary(config, positions))
    parts = [_Part(config, segment) for segment in segments]
    narrow = _Quantized(rows, config.hidden_size)
    mixed = _Quantized(rows, config.num_attention_heads * config.head_dim)
    wide = _Quantized(rows, config.intermediate_size)
    x = x.clone(memory_format=torch.contiguous_format)
    residual = x.numpy()
    eps = np.float32(config.rms_norm_eps)
    for index, layer in enumerate(weights.layers):
        kernels.norm(residual, layer.attention_norm.numpy(), eps, *narrow.parts)
        product = narrow.times(layer.qkv)
        start = 0
        for part in parts:
            part.rotate(index, product, narrow.scales, cos, sin, start)
            kernels.gather(part.attend(index), start, rows, *mixed.parts)
            start += part.rows
        kernels.add(residual, mixed.times(layer.out), mixed.scales)
        kernels.norm(residual, layer.feed_forward_norm.numpy(), eps, *narrow.parts)
        kernels.gate(narrow.times(layer.gate_up), narrow.scales, *wide.parts)
        kernels.add(residual, wide.times(layer.down), wide.scales)
    return F.rms_norm(x, (config.hidden_size,), weights.norm, config.rms_norm_eps)


class _Part:
    """One segment's rows in a pass. What is the same in all layers is got once."""

    def __init__(self, config: ModelConfig, segment: Segment) -> None:
        if segment.write + segment.rows > segment.slab.capacity:  # kernels would write beyond it
            raise ValueError(f"a slab of {segment.slab.capacity} slots has no room for a segment")
        self.rows, self._write = segment.rows, segment.write
        kv_heads = config.num_key_value_heads
        group = config.num_attention_heads // kv_heads
        self._queries = torch.empty(1, kv_heads, group * segment.rows, config.head_dim)
        self._to = self._queries[0].numpy()
        self._keys, self._values = segment.slab.keys.numpy(), segment.slab.values.numpy()
        seen = slice(segment.first, segment.write + segment.rows)
        self._seen_keys = segment.slab.keys[:, None, :, seen].unbind()
        self._seen_values = segment.slab.values[:, None, :, seen].unbind()
        self._mask = folded(config, segment)

    def rotate(
        self,
        layer: int,
        product: kernels.Floats,
        scales: kernels.Floats,
        cos: kernels.Floats,
        sin: kernels.Floats,
        start: int,
    ) -> None:
        """Take the queries out of a product, and put keys and values into the slab."""
        cache = (self._keys[layer], self._values[layer], self._write)
        kernels.rotate(product, scales, cos, sin, start, self.rows, *cache, self._to)

    def attend(self, layer: int) -> kernels.Floats:
        """[group · rows, kv_heads, head_dim]"""
        out = F.scaled_dot_product_attention(
            self._queries, self._seen_keys[layer], self._seen_values[layer], attn_mask=self._mask
        )
        mixed: kernels.Floats = out[0].transpose(0, 1).contiguous().numpy()
        return mixed


class _Quantized:
    """Rows on their way into a product, and the arrays that hold them."""

    def __init__(self, rows: int, width: int) -> None:
        self._rows = torch.empty(2 * rows, width, dtype=torch.uint8)
        self.scales = np.empty(rows, np.float32)
        self.parts = (np.empty(width, np.float32), self.scales, self._rows.numpy())

    def times(self, linear: Linear) -> kernels.Floats:
        """[2 N, out]: the products of the high and of the low rows."""
        assert isinstance(linear, Int8Linear)
        product: kernels.Floats = linear.product(self._rows).numpy()
        return product
