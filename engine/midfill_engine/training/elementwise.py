"""Elementwise work between the products of matrices, and its gradients.

Owns small pure functions that compute in float32 and give back the dtype they were given. One
operation at a time they cost as much as the products; `compile_all` makes a loop of each.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

COMPILED: Final = (
    "add_norm",
    "add_norm_backward",
    "swiglu",
    "swiglu_backward",
    "rotate",
    "cross_entropy",
)


def compile_all() -> None:
    """Replace the functions of this module by compiled ones, for any number of rows.

    For the rest of this process. Needs a C++ compiler on a CPU; the first calls take a minute.
    """
    for name in COMPILED:
        globals()[name] = torch.compile(globals()[name], dynamic=True)


def add_norm(x: Tensor, y: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """`x + y`, its norm in y's dtype, and the inverse root mean square. x: [R, d] float32."""
    total = x + y
    inverse = torch.rsqrt((total * total).mean(-1, keepdim=True) + eps)
    return total, (total * inverse * weight).to(y.dtype), inverse


def add_norm_backward(
    dnorm: Tensor, dtotal: Tensor, total: Tensor, inverse: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `add_norm` by x (float32), y (dnorm's dtype) and weight."""
    dy = dnorm.float()
    normal = total * inverse
    product = dy * normal
    mean = (product * weight).mean(-1, keepdim=True)
    dx = (dy * weight - normal * mean) * inverse + dtotal
    return dx, dx.to(dnorm.dtype), product.sum(0)


def swiglu(both: Tensor) -> Tensor:
    """`silu(gate) * up` of `[gate | up]`: [R, 2 m] to [R, m]."""
    gate, up = both.chunk(2, 1)
    return (torch.nn.functional.silu(gate.float()) * up.float()).to(both.dtype)


def swiglu_backward(dy: Tensor, both: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients by gate and up. Two results: one joined here is compiled into a slow loop."""
    gate, up = both.chunk(2, 1)
    gate, up, dy = gate.float(), up.float(), dy.float()
    s = torch.sigmoid(gate)
    return (dy * up * s * (1 + gate * (1 - s))).to(both.dtype), (dy * gate * s).to(both.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Half-split rotation of x: [R, heads, 64] by cos and sin: [R, 1, 32]."""
    left, right = x.chunk(2, -1)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), -1)


def cross_entropy(logits: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Weighted softmax in the logits' dtype, and the log of its denominator: [R, V], [R, 1]."""
    values = logits.float()
    top = values.amax(-1, keepdim=True)
    powers = (values - top).exp()
    total = powers.sum(-1, keepdim=True)
    return (powers * (weights / total)).to(logits.dtype), total.log() + top
