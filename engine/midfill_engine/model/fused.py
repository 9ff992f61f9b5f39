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


def forward(weights: Weights, x: Tensor, positions: Tensor, segments: Sequence[Segment]) -> Tensor:
    """Hidden states after the final norm. As `transformer.forward`, of int8 weights."""
    config, rows = weights.config, len(x)
    kv_heads, dim = config.num_key_value_heads, config.head_dim
    group = config.num_attention_heads // kv_heads
    cos, sin = (part[:, 0].numpy() for part in rotary(config, positions))
    masks = [folded(config, segment) for segment in segments]
    queries = [torch.empty(kv_heads, group * segment.rows, dim) for segment in segments]
    narrow = _Quantized(rows, config.hidden_size)
    mixed = _Quantized(rows, config.num_attention_heads * dim)
    wide = _Quantized(rows, config.intermediate_size)
    x = x.clone(memory_format=torch.contiguous_format)
    residual = x.numpy()
    eps = np.float32(config.rms_norm_eps)
    for index, layer in enumerate(weights.layers):
        kernels.norm(residual, layer.attention_norm.numpy(), eps, *narrow.parts)
        product = narrow.times(layer.qkv)
        start = 0
        for segment, mask, q in zip(segments, masks, queries, strict=True):
            keys, values = segment.slab.keys[index], segment.slab.values[index]
            span = (start, segment.rows, keys.numpy(), values.numpy(), segment.write)
            kernels.rotate(product, narrow.scales, cos, sin, *span, q.numpy())
            seen = slice(segment.first, segment.write + segment.rows)
            out = F.scaled_dot_product_attention(
                q[None], keys[None, :, seen], values[None, :, seen], attn_mask=mask
            )
            kernels.gather(out[0].transpose(0, 1).contiguous().numpy(), start, rows, *mixed.parts)
            start += segment.rows
        kernels.add(residual, mixed.times(layer.out), mixed.scales)
        kernels.norm(residual, layer.feed_forward_norm.numpy(), eps, *narrow.parts)
        kernels.gate(narrow.times(layer.gate_up), narrow.scales, *wide.parts)
        kernels.add(residual, wide.times(layer.down), wide.scales)
    return F.rms_norm(x, (config.hidden_size,), weights.norm, config.rms_norm_eps)


class _Quantized:
    """Rows on their way into a product, and the arrays that hold them."""

    def __init__(self, rows: int, width: int) -> None:
        self._rows = torch.empty(2 * rows, width, dtype=torch.int8)
        self.scales = np.empty(rows, np.float32)
        self.parts = (np.empty(width, np.float32), self.scales, self._rows.numpy())

    def times(self, linear: Linear) -> kernels.Floats:
        """[2 N, out]: the products of the high and of the low rows."""
        assert isinstance(linear, Int8Linear)
        product: kernels.Floats = linear.product(self._rows).numpy()
        return product
