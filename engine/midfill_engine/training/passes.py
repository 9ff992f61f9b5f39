"""Two passes of the embedded model: the frozen encoder, and the adapted canvas.

Owns how a micro-batch runs through the weights. Rows of all sequences are packed for everything
but attention. Knows nothing of optimizers, files or processes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from midfill_engine.model.vocabulary import EMPTY, END_OF_TEXT, MASK
from midfill_engine.training import elementwise
from midfill_engine.training.base import Base
from midfill_engine.training.batches import Group, MicroBatch, pack
from midfill_engine.training.functions import (
    LayerContext,
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
    """What a micro-batch gave. `total` is the weighted sum that is differentiated."""

    total: Tensor
    rows: Tensor  # [R] cross-entropies of the rows with a weight
    weights: Tensor  # [R]
    causal: Tensor  # [R] bool


def angles(base: Base, positions: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin, [R, 1, 32]."""
    half = base.config.head_dim // 2
    inverse = base.config.rope_theta ** (-torch.arange(half, device=positions.device) / half)
    angle = positions.float().unsqueeze(1) * inverse
    dtype = base.embeddings.dtype
    return angle.cos().unsqueeze(1).to(dtype), angle.sin().unsqueeze(1).to(dtype)


@torch.no_grad()
def encode(base: Base, batch: MicroBatch) -> list[LayerContext]:
    """Keys and values of the prefix and of every suffix, from the bare base, by layer.

    Rows are packed; suffixes meet as a padded batch only for their own attention, padding on the
    right, where causal attention never looks. Only keys are wanted: the last layer ends with them.
    """
    device, dtype, config = base.embeddings.device, base.embeddings.dtype, base.config
    n, kv, repeats = (
        len(batch.prefix),
        config.num_key_value_heads,
        config.num_attention_heads // config.num_key_value_heads,
    )
    tokens, positions, places = _suffix_rows(batch.groups)
    groups, width = places.shape
    ids = torch.cat((torch.from_numpy(batch.prefix), tokens)).to(device)
    cos, sin = angles(base, torch.cat((torch.arange(n), positions)).to(device))
    places = places.flatten().to(device)
    back = places.new_zeros(len(tokens)).scatter_(
        0, places.flip(0), torch.arange(len(places)).flip(0).to(device)
    )
    x, y = (
        base.embeddings[ids].float(),
        torch.zeros(len(ids), config.hidden_size, dtype=dtype, device=device),
    )
    found = []
    for layer in base.layers:
        x, h, _ = elementwise.add_norm(x, y, layer.norm1, config.rms_norm_eps)
        parts = (h @ layer.qkv.t()).view(len(ids), -1, config.head_dim)
        turned = elementwise.rotate(parts[:, : config.num_attention_heads + kv], cos, sin)
        k, v = turned[:, config.num_attention_heads :], parts[:, config.num_attention_heads + kv :]
        prefix_k, prefix_v = k[:n].transpose(0, 1).contiguous(), v[:n].transpose(0, 1).contiguous()
        suffix_k, suffix_v = (
            t[n:][places].view(groups, width, kv, -1).transpose(1, 2) for t in (k, v)
        )
        found.append(LayerContext(prefix_k, prefix_v, suffix_k[:, :, 1:], suffix_v[:, :, 1:]))
        if layer is base.layers[-1]:
            break
        q = turned[:n, : config.num_attention_heads].transpose(0, 1)[None]
        prefix_out = (
            _causal(q, prefix_k[None], prefix_v[None], repeats)[0].transpose(0, 1).reshape(n, -1)
        )
        q = (
            turned[n:, : config.num_attention_heads][places]
            .view(groups, width, config.num_attention_heads, -1)
            .transpose(1, 2)
        )
        suffix_out = (
            _causal(q, suffix_k, suffix_v, repeats).transpose(1, 2).reshape(groups * width, -1)
        )
        x, h, _ = elementwise.add_norm(
            x,
            torch.cat((prefix_out, suffix_out[back])) @ layer.o.t(),
            layer.norm2,
            config.rms_norm_eps,
        )
        y = elementwise.swiglu(h @ layer.gate_up.t()) @ layer.down.t()
    return found


def _causal(q: Tensor, k: Tensor, v: Tensor, repeats: int) -> Tensor:
    k, v = k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1)
    return scaled_dot_product_attention(q, k, v, is_causal=True)


def _suffix_rows(groups: list[Group]) -> tuple[Tensor, Tensor, Tensor]:
    """Packed ids and positions of all suffixes, each after a sink; a [G, longest] table of rows.

    The table pads with the suffix's last row.
    """
    ids: list[int] = []
    positions: list[int] = []
    starts: list[int] = []
    for group in groups:
        starts.append(len(ids))
        ids += [END_OF_TEXT, *group.suffix]
        positions += range(-len(group.suffix) - 1, 0)
    sizes = torch.tensor([1 + len(group.suffix) for group in groups])
    columns = torch.arange(int(sizes.max()))
    places = torch.tensor(starts).unsqueeze(1) + torch.minimum(columns, sizes.unsqueeze(1) - 1)
    return torch.tensor(ids), torch.tensor(positions), places


def canvas_losses(
    base: Base, adapter: dict[str, Tensor], batch: MicroBatch, causal_weight: float
) -> Losses:
    """Run the canvases through the adapted weights; gradients reach `adapter` only."""
    device, dtype, config = base.embeddings.device, base.embeddings.dtype, base.config
    context = encode(base, batch)
    packed = pack(batch.groups)
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
    _, h = add_norm(x, y, base.norm + adapter["norm.d"], config.rms_norm_eps)
    weights = torch.from_numpy(packed.weights).to(device)
    scored = weights.nonzero().squeeze(1)
    targets, causal = (
        torch.from_numpy(t).to(device)[scored] for t in (packed.targets, packed.causal)
    )
    weights = weights[scored]
    shares = torch.where(causal, weights * causal_weight, weights)
    total, rows = head_loss(h[scored], adapter["padout"], base.embeddings, targets, shares)
    return Losses(total, rows, weights, causal)


def _embed(base: Base, adapter: dict[str, Tensor], ids: Tensor) -> Tensor:
    x = base.embeddings[ids].float()
    special = adapter["sp"]
    for row, token in enumerate((MASK, EMPTY)):
        x = torch.where((ids == token).unsqueeze(1), special[row], x)
    return x
