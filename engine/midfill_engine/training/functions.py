"""The differentiable pieces of a canvas pass, with gradients only where something is trained.

Owns hand-written backward passes. The base is frozen, so no weight gradient of it is computed and
nothing is kept for one. Works in the dtype of what comes in (bfloat16 on CPU); norms and the loss
are float32 inside. Each function here has a plain reference in the tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from midfill_engine.adapter_file import SCALE
from midfill_engine.model.vocabulary import EMPTY, MASK
from midfill_engine.training import elementwise
from midfill_engine.training.batches import Span

_LOSS_ROWS: Final = 256  # rows of logits at a time
_UNSEEN: Final = -1e4


@dataclass(frozen=True, slots=True)
class Visible:
    """Who sees whom: the spans of the groups of rows, and a bias for each."""

    spans: list[Span]
    biases: list[Tensor]  # [g R, m + n + R], 0 or very low
    cos: Tensor  # [rows, 1, 32]
    sin: Tensor


@dataclass(frozen=True, slots=True)
class LayerContext:
    """Frozen keys and values of one layer, padded on the right."""

    prefix_k: Tensor  # [W, kv, n, 64]
    prefix_v: Tensor
    suffix_k: Tensor  # [G, kv, m, 64]
    suffix_v: Tensor


@dataclass(frozen=True, slots=True)
class Teacher:
    """Whose probabilities are part of the targets."""

    hidden: Tensor  # [R, d], which the head makes logits of
    shares: Tensor  # [R] of each target, 0 to 1


def adapted_linear(x: Tensor, weight: Tensor, *pairs: Tensor) -> Tensor:
    """`x W' + 2 (x a') b'` for projections that share their input.

    x: [R, in]; weight: [out, in], frozen, the projections one after another; then a [r, in] and
    b [out_i, r] of each projection.
    """
    y: Tensor = _apply(_AdaptedLinear, x, weight, *pairs)
    return y


def add_norm(x: Tensor, y: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The residual stream `x + y` in float32, and its RMS norm in y's dtype."""
    total, norm = _apply(_AddNorm, x, y, weight, eps)
    return total, norm


def swiglu(both: Tensor) -> Tensor:
    """`silu(gate) * up` of `[gate | up]`: [R, 2 m] to [R, m]."""
    y: Tensor = _apply(_SwiGlu, both)
    return y


def canvas_attention(qkv: Tensor, kv: int, context: LayerContext, visible: Visible) -> Tensor:
    """Grouped-query attention of canvas rows over suffix, prefix and their own canvas.

    qkv: [R, (heads + 2 kv) 64] before rotation, to [R, heads 64].
    """
    out: Tensor = _apply(_CanvasAttention, qkv, kv, context, visible)
    return out


def head_loss(
    hidden: Tensor,
    empty_output: Tensor,
    head: Tensor,
    targets: Tensor,
    weights: Tensor,
    teacher: Teacher | None = None,
) -> tuple[Tensor, Tensor]:
    """Weighted sum of cross-entropies, and each row's with its target, without keeping any logits.

    hidden: [R, d]; head: [V, d], frozen, whose row of *empty* is `empty_output` [d]; targets [R];
    weights [R]. What a teacher says bears on the sum only.
    """
    total, losses = _apply(_HeadLoss, hidden, empty_output, head, targets, weights, teacher)
    return total, losses


def _apply(function: type[torch.autograd.Function], *arguments: object) -> Any:
    return function.apply(*arguments)  # type: ignore[no-untyped-call]


class _AdaptedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, *pairs: Tensor) -> Tensor:
        a, b = torch.cat(pairs[0::2]), pairs[1::2]
        y, h = x @ weight.t(), x @ a.t()
        ranks = [m.shape[1] for m in b]
        for part, low, up in zip(
            torch.split(y, [m.shape[0] for m in b], 1), torch.split(h, ranks, 1), b, strict=True
        ):
            part.addmm_(low, up.t(), alpha=SCALE)
        ctx.save_for_backward(x, weight, h, a, *b)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, h, a, *b = ctx.saved_tensors
        ranks = [m.shape[1] for m in b]
        parts = torch.split(dy, [m.shape[0] for m in b], 1)
        dh = torch.cat([part @ up for part, up in zip(parts, b, strict=True)], 1).mul_(SCALE)
        db = [
            (part.t() @ low).mul_(SCALE) for part, low in zip(parts, h.split(ranks, 1), strict=True)
        ]
        da = (dh.t() @ x).split(ranks)
        dx = (dy @ weight).addmm_(dh, a)
        return dx, None, *[g for pair in zip(da, db, strict=True) for g in pair]


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, y: Tensor, weight: Tensor, eps: float
    ) -> tuple[Tensor, Tensor]:
        total, norm, inverse = elementwise.add_norm(x, y, weight, eps)
        ctx.save_for_backward(total, inverse, weight)
        return total, norm

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dtotal: Tensor, dnorm: Tensor) -> tuple[Tensor | None, ...]:
        dx, dy, dweight = elementwise.add_norm_backward(dnorm, dtotal, *ctx.saved_tensors)
        return dx, dy, dweight, None


class _SwiGlu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, both: Tensor) -> Tensor:
        ctx.save_for_backward(both)
        return elementwise.swiglu(both)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        return torch.cat(elementwise.swiglu_backward(dy, *ctx.saved_tensors), 1)


class _CanvasAttention(torch.autograd.Function):
    """A kv group's query heads stand one after another as rows.

    So each group of canvases is three products of matrices.
    """

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, kv: int, context: LayerContext, visible: Visible) -> Tensor:
        rows, size = qkv.shape[0], 2 * visible.cos.shape[-1]
        parts = qkv.view(rows, -1, size)
        heads = parts.shape[1] - 2 * kv
        turned = elementwise.rotate(parts[:, : heads + kv], visible.cos, visible.sin)
        out = torch.empty(rows, heads, size, dtype=qkv.dtype, device=qkv.device)
        saved: list[Tensor] = []
        for i, (span, bias) in enumerate(zip(visible.spans, visible.biases, strict=True)):
            own, w, m, n = slice(span.first, span.end), span.window, span.suffix, span.context
            q = _folded(turned[own, :heads], kv).mul_(size**-0.5)
            k, v = turned[own, heads:].transpose(0, 1), parts[own, heads + kv :].transpose(0, 1)
            keys = torch.cat((context.suffix_k[i, :, :m], context.prefix_k[w, :, :n], k), 1)
            values = torch.cat((context.suffix_v[i, :, :m], context.prefix_v[w, :, :n], v), 1)
            p = torch.baddbmm(bias, q, keys.transpose(1, 2)).softmax(-1)
            o = p @ values
            out[own] = _unfolded(o, heads)
            saved += (q, keys, values, p, o)
        ctx.save_for_backward(*saved)
        ctx.kv, ctx.visible = kv, visible
        return out.view(rows, -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        kv, visible, saved = ctx.kv, ctx.visible, ctx.saved_tensors
        rows, size = dout.shape[0], 2 * visible.cos.shape[-1]
        dout = dout.view(rows, -1, size)
        heads = dout.shape[1]
        dqkv = torch.empty(rows, heads + 2 * kv, size, dtype=dout.dtype, device=dout.device)
        for i, span in enumerate(visible.spans):
            q, keys, values, p, o = saved[5 * i : 5 * i + 5]
            rows_of, own = slice(span.first, span.end), slice(span.suffix + span.context, None)
            do = _folded(dout[rows_of], kv)
            ds = (do @ values.transpose(1, 2)).sub_((do * o).sum(-1, keepdim=True)).mul_(p)
            part = dqkv[rows_of]
            part[:, :heads] = _unfolded((ds @ keys).mul_(size**-0.5), heads)
            part[:, heads : heads + kv] = (ds[:, :, own].transpose(1, 2) @ q).transpose(0, 1)
            part[:, heads + kv :] = (p[:, :, own].transpose(1, 2) @ do).transpose(0, 1)
        turned = elementwise.rotate(dqkv[:, : heads + kv], visible.cos, -visible.sin)
        dqkv[:, : heads + kv] = turned
        return dqkv.view(rows, -1), None, None, None


def _folded(x: Tensor, kv: int) -> Tensor:
    """[R, kv g, 64] to a new [kv, g R, 64]."""
    rows, heads, size = x.shape
    folded = torch.empty(kv, heads // kv, rows, size, dtype=x.dtype, device=x.device)
    folded.copy_(x.view(rows, kv, heads // kv, size).permute(1, 2, 0, 3))
    return folded.view(kv, -1, size)


def _unfolded(x: Tensor, heads: int) -> Tensor:
    """[kv, g R, 64] to a view [R, kv g, 64]."""
    return x.view(heads, -1, x.shape[-1]).transpose(0, 1)


def bias_of(seen: Tensor, repeats: int, dtype: torch.dtype) -> Tensor:
    """[repeats R, K]: 0 where seen, very low where not."""
    bias = torch.zeros(seen.shape, dtype=dtype, device=seen.device)
    return bias.masked_fill_(~seen, _UNSEEN).repeat(repeats, 1)


class _HeadLoss(torch.autograd.Function):
    """The gradient is made on the way forward, a few rows at a time."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        empty_output: Tensor,
        head: Tensor,
        targets: Tensor,
        weights: Tensor,
        teacher: Teacher | None,
    ) -> tuple[Tensor, Tensor]:
        losses = torch.empty_like(weights)
        dhidden = torch.empty_like(hidden)
        dempty = torch.zeros_like(empty_output, dtype=torch.float32)
        taught = torch.zeros_like(weights)
        for first in range(0, hidden.shape[0], _LOSS_ROWS):
            part = slice(first, first + _LOSS_ROWS)
            h, t, w = hidden[part], targets[part, None], weights[part, None]
            logits = head_logits(h, empty_output, head)
            chosen = logits.gather(1, t).float()
            grad, normalizer = elementwise.cross_entropy(logits, w)
            losses[part] = (normalizer - chosen).squeeze(1)
            if teacher is not None:
                soft = _probabilities(teacher.hidden[part], head)
                share = teacher.shares[part, None]
                grad -= soft * (w * share).to(soft.dtype)
                expected = (soft * logits).sum(1, keepdim=True, dtype=torch.float32)
                taught[part] = (share * (chosen - expected)).squeeze(1)
                w = w * (1 - share)
            grad.scatter_add_(1, t, -w.to(grad.dtype))
            grad_empty = grad[:, EMPTY].float().clone()  # .float() alone may be a view
            grad[:, EMPTY] = 0
            dempty += grad_empty @ h.float()
            dhidden[part] = torch.addr((grad @ head).float(), grad_empty, empty_output.float()).to(
                h.dtype
            )
        ctx.save_for_backward(dhidden, dempty.to(empty_output.dtype))
        ctx.mark_non_differentiable(losses)
        return ((losses + taught) * weights).sum(), losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dloss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        dhidden, dempty = ctx.saved_tensors
        return dhidden * dloss.to(dhidden.dtype), dempty * dloss, None, None, None, None


def _probabilities(hidden: Tensor, head: Tensor) -> Tensor:
    """[R, V] of the base, which knows neither *empty* nor *mask*."""
    logits = hidden @ head.t()
    logits[:, (EMPTY, MASK)] = _UNSEEN
    return logits.softmax(1)


def head_logits(hidden: Tensor, empty_output: Tensor, head: Tensor) -> Tensor:
    """[R, V] logits: *empty* has its own output row, *mask* is never predicted."""
    logits = hidden @ head.t()
    logits[:, EMPTY] = (hidden.float() @ empty_output.float()).to(logits.dtype)
    logits[:, MASK] = _UNSEEN
    return logits
