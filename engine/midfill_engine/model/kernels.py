"""What stands between the matrix products of a pass on int8 weights, compiled by numba.

A pass of a few rows spends half its time on starting small operations if each is one of torch's
(docs/log.md). Here all that lies between two products is one loop over the rows.

Activations are quantized as in `linear`: a row x with m = max |x| is held as rows `high` and `low`
with x ≈ m / 63 · (high + low / 126), 64 added to each to make it unsigned. The low rows lie behind
all the high ones, and so do their products. `scales` are m / 63, one per row. Arrays are
C-contiguous float32, changed in place where the name of an argument says `out`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from midfill_engine.model.linear import LEVELS, STEPS, ZERO

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

_f: Final = np.float32
_LEAST: Final = np.float32(1e-12)
_TOP: Final = np.float32(LEVELS)
_ZERO: Final = np.int32(ZERO)
_STEPS: Final = np.float32(STEPS)
_MAGNITUDE: Final = np.int32(0x7FFFFFFF)  # all bits of a float but its sign
_ROW, _MATRIX, _HEADS, _BYTES = "f4[::1]", "f4[:,::1]", "f4[:,:,::1]", "u1[:,::1]"


def _kernel(signature: str) -> Callable[[Callable[..., None]], Any]:
    """Compiled when this module is loaded for the first time, and kept beside it, or in the user's
    cache; where neither can be written, compiled each time.

    Divisions are numpy's: Python's raise, and a loop that may raise is not vectorized.
    """
    options: Any = {"fastmath": True, "nogil": True, "error_model": "numpy"}

    def compiled(function: Callable[..., None]) -> Any:
        try:
            return njit(signature, cache=True, **options)(function)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            return njit(signature, **options)(function)

    return compiled


@_kernel(f"void({_ROW},i8,i8,{_ROW},{_BYTES})")
def _quantize(row: Floats, i: int, rows: int, out_scales: Floats, out: Bytes) -> None:
    """One row into its high and low rows. Magnitudes compare as integers do, and faster."""
    bits = row.view(np.int32)
    largest = np.int32(0)
    for j in range(len(bits)):
        largest = max(largest, bits[j] & _MAGNITUDE)
    out_scales.view(np.int32)[i] = largest
    top = max(out_scales[i], _LEAST)
    out_scales[i] = top / _TOP
    factor = _TOP / top
    for j in range(len(row)):
        value = row[j] * factor
        high = np.rint(value)
        out[i, j] = np.uint8(np.int32(high) + _ZERO)
        out[rows + i, j] = np.uint8(np.int32(np.rint((value - high) * _STEPS)) + _ZERO)


@_kernel(f"void({_MATRIX},{_ROW},f4,{_ROW},{_ROW},{_BYTES})")
def norm(
    x: Floats, weight: Floats, eps: float, row: Floats, out_scales: Floats, out: Bytes
) -> None:
    """RMS norm of x [N, hidden], quantized; `row` [hidden] is scratch."""
    rows, hidden = x.shape
    for i in range(rows):
        squares = _f(0)
        for j in range(hidden):
            squares += x[i, j] * x[i, j]
        factor = _f(1) / np.sqrt(squares / _f(hidden) + eps)
        for j in range(hidden):
            row[j] = x[i, j] * factor * weight[j]
        _quantize(row, i, rows, out_scales, out)


@_kernel(f"void({_MATRIX},{_MATRIX},{_ROW})")
def add(out: Floats, product: Floats, scales: Floats) -> None:
    """Add to out [N, hidden] the result of a product [2 N, hidden] of quantized rows."""
    rows, hidden = out.shape
    for i in range(rows):
        for j in range(hidden):
            value = product[i, j] + product[rows + i, j] / _STEPS
            out[i, j] += scales[i] * value


@_kernel(f"void({_MATRIX},{_ROW},{_MATRIX},{_MATRIX},i8,i8,{_HEADS},{_HEADS},i8,{_HEADS})")
def rotate(
    product: Floats,
    scales: Floats,
    cos: Floats,
    sin: Floats,
    start: int,
    count: int,
    out_keys: Floats,
    out_values: Floats,
    slot: int,
    out: Floats,
) -> None:
    """Queries, keys and values of one segment, the first two rotated.

    Args:
        product: [2 N, (heads + 2 kv_heads) head_dim].
        scales: [N].
        cos, sin: [N, head_dim / 2].
        start, count: the segment's rows.
        out_keys, out_values: [kv_heads, capacity, head_dim], written from `slot` on.
        out: queries [kv_heads, group · count, head_dim], each head of a group with rows of its own.
    """
    rows, half = cos.shape
    kv_heads, _, dim = out_keys.shape
    group = out.shape[1] // count
    heads = kv_heads * group
    for i in range(count):
        row = start + i
        scale, low = scales[row], scales[row] / _STEPS
        for head in range(heads + kv_heads):
            first = head * dim
            if head < heads:
                to = out[head // group, head % group * count + i]
            else:
                to = out_keys[head - heads, slot + i]
            for j in range(half):
                k, m = first + j, first + half + j
                left = scale * product[row, k] + low * product[rows + row, k]
                right = scale * product[row, m] + low * product[rows + row, m]
                to[j] = left * cos[row, j] - right * sin[row, j]
                to[half + j] = right * cos[row, j] + left * sin[row, j]
        for head in range(kv_heads):
            first = (heads + kv_heads + head) * dim
            for j in range(dim):
                k = first + j
                value = scale * product[row, k] + low * product[rows + row, k]
                out_values[head, slot + i, j] = value


@_kernel(f"void({_HEADS},i8,i8,{_ROW},{_ROW},{_BYTES})")
def gather(
    mixed: Floats, start: int, rows: int, row: Floats, out_scales: Floats, out: Bytes
) -> None:
    """One segment's attention, quantized as rows of `out`.

    Args:
        mixed: [group · count, kv_heads, head_dim].
        start: the segment's first row.
        rows: of all segments.
        row: [heads · head_dim], scratch.
    """
    folded, kv_heads, dim = mixed.shape
    group = len(row) // (kv_heads * dim)
    count = folded // group
    for i in range(count):
        for head in range(kv_heads * group):
            for j in range(dim):
                row[head * dim + j] = mixed[head % group * count + i, head // group, j]
        _quantize(row, start + i, rows, out_scales, out)


@_kernel(f"void({_MATRIX},{_ROW},{_ROW},{_ROW},{_BYTES})")
def gate(product: Floats, scales: Floats, row: Floats, out_scales: Floats, out: Bytes) -> None:
    """silu(g) · u of a product [2 N, 2 · intermediate] that holds g and u, quantized.

    The logistic function is half of a hyperbolic tangent, here by the rational approximation of
    Eigen's `generic_fast_tanh_float` (a few units in the last place). `row` [intermediate] is
    scratch.
    """
    rows, width = len(scales), len(row)
    for i in range(rows):
        scale, low = scales[i], scales[i] / _STEPS
        for j in range(width):
            g = scale * product[i, j] + low * product[rows + i, j]
            u = scale * product[i, width + j] + low * product[rows + i, width + j]
            x = min(max(_f(0.5) * g, _f(-7.9)), _f(7.9))
            x2 = x * x
            p = _f(-2.76076847742355e-16) * x2 + _f(2.00018790482477e-13)
            p = p * x2 + _f(-8.60467152213735e-11)
            p = p * x2 + _f(5.12229709037114e-08)
            p = p * x2 + _f(1.48572235717979e-05)
            p = p * x2 + _f(6.37261928875436e-04)
            p = p * x2 + _f(4.89352455891786e-03)
            q = _f(1.19825839466702e-06) * x2 + _f(1.18534705686654e-04)
            q = q * x2 + _f(2.26843463243900e-03)
            q = q * x2 + _f(4.89352518554385e-03)
            row[j] = g * u * (_f(0.5) + _f(0.5) * x * p / q)
        _quantize(row, i, rows, out_scales, out)
