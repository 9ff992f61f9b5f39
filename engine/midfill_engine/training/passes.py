"""Two passes of the embedded model: the frozen encoder, and the adapted canvas.

Owns how the windows of a pass run through the weights. Rows of all sequences are packed for
everything but attention. Knows nothing of optimizers, files or processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from midfill_engine.model.vocabulary import EMPTY, END_OF_TEXT, MASK
from midfill_engine.training import elementwise
from midfill_engine.training.base import Base
from midfill_engine.training.batches import PackedRows, Window, left_to_right, pack
from midfill_engine.training.functions import (
    LayerContext,
    Teacher,
    Visible,
    adapted_linear,
    add_norm,
    bias_of,
    canvas_attention,
    head_loss,
    swiglu,
)


@dataclass(frozen=True, slots=True)
class Losses:
    """What a pass gave. `total` is the weighted sum that is differentiated."""

    total: Tensor
    rows: Tensor  # [R] cross-entropies of the rows with a weight, in the windows' order
    weights: Tensor  # [R]
    causal: Tensor  # [R] bool


@dataclass(frozen=True, slots=True)
class Soft:
    """That a share of each token's target is what the base says of it, left to right."""

    adapter: dict[str, Tensor]  # with which the model is exactly the base
    share: float  # 0 to 1


def angles(base: Base, positions: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin, [R, 1, 32]."""
    half = base.config.head_dim // 2
    inverse = base.config.rope_theta ** (-torch.arange(half, device=positions.device) / half)
    angle = positions.float().unsqueeze(1) * inverse
    dtype = base.embeddings.dtype
    return angle.cos().unsqueeze(1).to(dtype), angle.sin().unsqueeze(1).to(dtype)


@dataclass(frozen=True, slots=True)
class _Sequences:
    """Causal sequences whose rows are packed; they meet as a padded batch for attention only."""

    ids: Tensor  # [N]
    positions: Tensor  # [N]
    places: Tensor  # [S, longest] row of each; padded on the right with a sequence's last row
    back: Tensor  # [N] where each row stands in the flattened table

    @classmethod
    def of(cls, ids: Sequence[np.ndarray], starts: Sequence[int]) -> _Sequences:
        sizes = np.array([len(part) for part in ids])
        columns = np.arange(sizes.max())
        places = (np.cumsum(sizes) - sizes)[:, None] + np.minimum(columns, sizes[:, None] - 1)
        positions = [np.arange(s, s + n) for s, n in zip(starts, sizes, strict=True)]
        back = np.flatnonzero(columns < sizes[:, None])
        arrays = (np.concatenate(ids), np.concatenate(positions), places, back)
        return cls(*(torch.from_numpy(array) for array in arrays))


def _sequences(windows: Sequence[Window], suffix_after: bool) -> tuple[_Sequences, _Sequences]:
    """The prefixes, and the suffixes of all groups, each after a sink.

    A suffix stands before its prefix, whose first position is 0, or behind the window.
    """
    suffixes, starts = [], []
    for window in windows:
        for group in window.groups:
            suffixes.append(np.array([END_OF_TEXT, *group.suffix], dtype=np.int64))
            behind = len(window.prefix) + max(len(c.ids) for c in group.canvases)
            starts.append(behind if suffix_after else -len(suffixes[-1]))
    prefixes = [window.prefix for window in windows]
    return _Sequences.of(prefixes, [0] * len(prefixes)), _Sequences.of(suffixes, starts)


@torch.no_grad()
def encode(
    base: Base, windows: Sequence[Window], *, suffix_after: bool = False
) -> list[LayerContext]:
    """Keys and values of every prefix and every suffix, from the bare base, by layer.

    Padding stands on the right, where causal attention never looks. Only keys are wanted: the last
    layer ends with them.
    """
    device, dtype, config = base.embeddings.device, base.embeddings.dtype, base.config
    heads, kv = config.num_attention_heads, config.num_key_value_heads
    parts = _sequences(windows, suffix_after)
    n = len(parts[0].ids)
    places = [s.places.to(device) + first for s, first in zip(parts, (0, n), strict=True)]
    back = [s.back.to(device) for s in parts]
    ids = torch.cat([s.ids for s in parts]).to(device)
    cos, sin = angles(base, torch.cat([s.positions for s in parts]).to(device))
    x = base.embeddings[ids].float()
    y = torch.zeros(x.shape, dtype=dtype, device=device)
    found = []
    for layer in base.layers:
        x, h, _ = elementwise.add_norm(x, y, layer.norm1, config.rms_norm_eps)
        rows = (h @ layer.qkv.t()).view(len(ids), -1, config.head_dim)
        rows[:, : heads + kv] = elementwise.rotate(rows[:, : heads + kv], cos, sin)
        # [sequences, heads + 2 kv, longest, 64]
        prefix, suffix = (rows[p].transpose(1, 2) for p in places)
        (_, prefix_k, prefix_v), (_, k, v) = (
            torch.split(t, [heads, kv, kv], 1) for t in (prefix, suffix)
        )
        found.append(LayerContext(prefix_k, prefix_v, k[:, :, 1:], v[:, :, 1:]))
        if layer is base.layers[-1]:
            break
        outs = [_causal(t, heads, kv)[b] for t, b in zip((prefix, suffix), back, strict=True)]
        y = torch.cat(outs) @ layer.o.t()
        x, h, _ = elementwise.add_norm(x, y, layer.norm2, config.rms_norm_eps)
        y = elementwise.swiglu(h @ layer.gate_up.t()) @ layer.down.t()
    return found


def _causal(rows: Tensor, heads: int, kv: int) -> Tensor:
    """Attention within each sequence: [S, heads + 2 kv, n, 64] to [S n, heads 64]."""
    q, k, v = torch.split(rows, [heads, kv, kv], 1)
    k, v = (t.repeat_interleave(heads // kv, 1) for t in (k, v))
    out = scaled_dot_product_attention(q, k, v, is_causal=True)
    return out.transpose(1, 2).reshape(-1, heads * rows.shape[-1])


def canvas_losses(
    base: Base,
    adapter: dict[str, Tensor],
    windows: Sequence[Window],
    causal_weight: float,
    *,
    suffix_after: bool = False,
    soft: Soft | None = None,
) -> Losses:
    """Run the canvases of some windows through the adapted weights in one pass.

    All is on the base's device; gradients reach `adapter` only.
    """
    device = base.embeddings.device
    context, packed = encode(base, windows, suffix_after=suffix_after), pack(windows)
    h = _hidden(base, adapter, context, packed)
    weights = torch.from_numpy(packed.weights).to(device)
    scored = weights.nonzero().squeeze(1)
    targets, causal = (
        torch.from_numpy(t).to(device)[scored] for t in (packed.targets, packed.causal)
    )
    weights = weights[scored]
    shares = torch.where(causal, weights * causal_weight, weights)
    teacher = None
    if soft is not None:
        with torch.no_grad():
            taught = _hidden(base, soft.adapter, context, pack(left_to_right(windows)))[scored]
        teacher = Teacher(taught, torch.where(targets == EMPTY, 0, soft.share))
    total, rows = head_loss(h[scored], adapter["padout"], base.embeddings, targets, shares, teacher)
    return Losses(total, rows, weights, causal)


def _hidden(
    base: Base, adapter: dict[str, Tensor], context: Sequence[LayerContext], packed: PackedRows
) -> Tensor:
    """[R, hidden] of the canvas rows, after the last norm."""
    device, dtype, config = base.embeddings.device, base.embeddings.dtype, base.config
    repeats = config.num_attention_heads // config.num_key_value_heads
    biases = [bias_of(torch.from_numpy(seen).to(device), repeats, dtype) for seen in packed.visible]
    visible = Visible(
        packed.spans, biases, *angles(base, torch.from_numpy(packed.positions).to(device))
    )
    x = _embed(base, adapter, torch.from_numpy(packed.ids).to(device))
    y = torch.zeros(x.shape, dtype=dtype, device=device)
    for i, layer in enumerate(base.layers):
        stem = f"layers.{i}."
        low = {
            p: (adapter[f"{stem}{p}.a"].to(dtype), adapter[f"{stem}{p}.b"].to(dtype))
            for p in "qkvogud"
        }
        x, h = add_norm(x, y, layer.norm1 + adapter[stem + "n1.d"], config.rms_norm_eps)
        qkv = adapted_linear(h, layer.qkv, *low["q"], *low["k"], *low["v"])
        out = canvas_attention(qkv, config.num_key_value_heads, context[i], visible)
        y = adapted_linear(out, layer.o, *low["o"])
        x, h = add_norm(x, y, layer.norm2 + adapter[stem + "n2.d"], config.rms_norm_eps)
        both = adapted_linear(h, layer.gate_up, *low["g"], *low["u"])
        y = adapted_linear(swiglu(both), layer.down, *low["d"])
    return add_norm(x, y, base.norm + adapter["norm.d"], config.rms_norm_eps)[1]


def _embed(base: Base, adapter: dict[str, Tensor], ids: Tensor) -> Tensor:
    x = base.embeddings[ids].float()
    special = adapter["sp"]
    for row, token in enumerate((MASK, EMPTY)):
        x = torch.where((ids == token).unsqueeze(1), special[row], x)
    return x
