"""Matrix products with frozen weights, in float32, bfloat16 or int8.

Owns how a weight matrix is held and multiplied. The float form is the reference; the int8 form
holds a quarter of the bytes and is faster on x86 processors with AVX2.

Both are independent of the other rows of a batch: int8 activations are quantized per row, never
per batch, and their products are summed in int32, which is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol

import torch
from torch import Tensor

WeightFormat = Literal["float32", "bfloat16", "int8"]
# Activations have seven bits: 127 · 127 twice fits the int16 that AVX2 adds pairs of products in.
# They are unsigned, which all of oneDNN's kinds are fast at. The compiled kernels hold copies of
# these numbers: touch kernels.py, too, if one changes.
LEVELS: Final = 63  # of the high term on either side of zero
STEPS: Final = 2 * LEVELS  # of the low term in one of the high
ZERO: Final = LEVELS + 1  # what zero is held as
FLOAT_TYPES: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Linear(Protocol):
    """y = x Wᵀ for a frozen W of shape [out, in]."""

    def __call__(self, x: Tensor) -> Tensor:
        """x: [N, in] → [N, out], both of the type of `rows`."""
        ...

    def rows(self, ids: Tensor) -> Tensor:
        """Rows of W: ids [N] → [N, in]. A tied head is the embedding, too."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class FloatLinear:
    """The reference in float32; in bfloat16 what graphics cards are fast at."""

    weight: Tensor  # [out, in]

    def __call__(self, x: Tensor) -> Tensor:
        return torch.nn.functional.linear(x, self.weight)

    def rows(self, ids: Tensor) -> Tensor:
        return self.weight[ids]


@dataclass(frozen=True, slots=True, eq=False)
class Int8Linear:
    """Weights int8 with a scale per output row; activations as two terms of 7 bits per input row.

    A row x with m = max |x| is held as m / 63 · (high + low / 126). One term alone is too coarse
    where a few channels are large: it costs more than the weights' rounding does (docs/log.md).
    Both are multiplied at once, and a product of few rows costs what it costs to read the weights.
    """

    quantized: Tensor  # [out, in] int8, symmetric
    scales: Tensor  # [out] float32
    packed: Tensor  # `quantized` in the layout oneDNN multiplies
    zeros: Tensor  # [out] int32, all zero: the scheme is symmetric

    def __call__(self, x: Tensor) -> Tensor:
        scales = x.abs().amax(1, keepdim=True).clamp_(min=1e-12).div_(LEVELS)  # [N, 1]
        scaled = x / scales
        high = scaled.round()
        low = (scaled - high).mul_(STEPS).round_()
        y = self.product(torch.cat((high, low)).add_(ZERO).to(torch.uint8))
        return torch.add(y[: len(x)], y[len(x) :], alpha=1 / STEPS).mul_(scales)

    def product(self, quantized: Tensor) -> Tensor:
        """[N, in] uint8, of which ZERO stands for zero → [N, out] float32"""
        y: Tensor = torch.ops.onednn.qlinear_pointwise.default(
            quantized, 1.0, ZERO, self.packed, self.scales, self.zeros,
            None, 1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        return y

    def rows(self, ids: Tensor) -> Tensor:
        return self.quantized[ids].float() * self.scales[ids, None]


def make_linear(weight: Tensor, weights: WeightFormat, *, keep_rows: bool = False) -> Linear:
    """Hold `weight` ([out, in] float32) in the form asked for.

    `keep_rows` says that `rows` will be called; without it the int8 form drops the unpacked copy.
    """
    if weights != "int8":
        return FloatLinear(weight.to(FLOAT_TYPES[weights]).contiguous())
    scales = weight.abs().amax(1).clamp_(min=1e-12).div_(127)
    quantized = (weight / scales[:, None]).round_().to(torch.int8)
    packed = torch.ops.onednn.qlinear_prepack(quantized, [1, weight.shape[1]])
    kept = quantized if keep_rows else quantized.new_empty(0, weight.shape[1])
    return Int8Linear(kept, scales, packed, torch.zeros(len(scales), dtype=torch.int32))


def best_format() -> WeightFormat:
    """The form that is fastest on this processor: int8 on x86 from AVX2 on, float32 elsewhere."""
    return "int8" if torch.cpu._is_avx2_supported() else "float32"
