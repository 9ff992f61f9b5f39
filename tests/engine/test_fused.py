"""int8 passes in fused kernels, against the same passes in torch and against float32."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from midfill_engine.model import fused, kernels, transformer
from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.linear import STEPS, ZERO, make_linear
from midfill_engine.model.transformer import Segment


@pytest.fixture(scope="module")
def quantized(tiny_model: Path) -> EmbeddedModel:
    return EmbeddedModel.load(str(tiny_model), "int8")


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    cached=st.integers(0, 20),
    seed=st.integers(0, 2**31),
)
@torch.inference_mode()
def test_fused_passes_equal_those_in_torch(
    quantized: EmbeddedModel, sizes: list[int], cached: int, seed: int
) -> None:
    """Several contexts in one pass, some rows seeing less than others."""
    dice = torch.Generator().manual_seed(seed)
    rows = sum(sizes)
    x = torch.randn(rows, quantized.config.hidden_size, generator=dice)
    positions = torch.randint(-30, 300, (rows,), generator=dice)
    masks: list[Tensor | None] = [None]
    for size in sizes[1:]:
        visible = torch.rand(size, cached + size, generator=dice) < 0.7
        visible[torch.arange(size), cached + torch.arange(size)] = True
        masks.append(visible)
    slabs = [quantized.new_slab(40) for _ in sizes]
    for slab in slabs:
        slab.keys.normal_(generator=dice)
        slab.values.normal_(generator=dice)

    def run(forward: object) -> list[Tensor]:
        own = [replace(slab, keys=slab.keys.clone(), values=slab.values.clone()) for slab in slabs]
        parts = zip(own, sizes, masks, strict=True)
        segments = [Segment(slab, size, 2, cached + 2, mask) for slab, size, mask in parts]
        assert callable(forward)
        hidden = forward(quantized.denoiser, x, positions, segments)
        return [hidden, *(slab.keys for slab in own), *(slab.values for slab in own)]

    before = x.clone()
    for ours, reference in zip(run(fused.forward), run(transformer.forward), strict=True):
        torch.testing.assert_close(ours, reference, rtol=2e-3, atol=2e-3)
    assert torch.equal(x, before)


@torch.inference_mode()
def test_two_int8_terms_are_as_good_as_float() -> None:
    """What is left of the error is the weights' rounding, far below which theirs is."""
    dice = torch.Generator().manual_seed(1)
    weight = torch.randn(48, 96, generator=dice)
    x = torch.randn(7, 96, generator=dice) * torch.logspace(
        -2, 2, 96
    )  # a few channels outweigh the others
    linear = make_linear(weight, "int8", keep_rows=True)
    exact = x @ linear.rows(torch.arange(48)).T
    error = (linear(x) - exact).abs().max() / exact.abs().max()
    one_term = x.abs().amax(1, keepdim=True) / 127
    coarse = ((x / one_term).round() * one_term) @ linear.rows(torch.arange(48)).T
    rounding = (x @ weight.T - exact).abs().max() / exact.abs().max()
    assert error < rounding / 25
    assert (coarse - exact).abs().max() / exact.abs().max() > 30 * error


def test_rows_of_zeros_stay_zeros() -> None:
    parts = (np.empty(8, np.float32), np.empty(2, np.float32), np.empty((4, 8), np.uint8))
    kernels.norm(np.zeros((2, 8), np.float32), np.ones(8, np.float32), np.float32(1e-5), *parts)
    assert (parts[2] == ZERO).all()
    assert np.isfinite(parts[1]).all()


def test_the_gate_is_silu() -> None:
    g = torch.cat((torch.linspace(-90, 90, 4001), torch.tensor([0.0, -0.0, 1e-8, -1e-8, 1e4])))
    u = torch.ones_like(g)
    product = torch.cat((torch.cat((g, u))[None], torch.zeros(1, 2 * len(g)))).contiguous()
    row, scales = np.empty(len(g), np.float32), np.ones(1, np.float32)
    kernels.gate(product.numpy(), scales, row, scales.copy(), np.empty((2, len(g)), np.uint8))
    torch.testing.assert_close(torch.from_numpy(row), F.silu(g), rtol=3e-5, atol=3e-4)


@torch.inference_mode()
def test_what_is_not_a_number_is_not_hidden(quantized: EmbeddedModel) -> None:
    """A broken model's outputs are refused further on, where they are seen to be broken."""
    x = torch.full((1, quantized.config.hidden_size), torch.nan)
    segment = Segment(quantized.new_slab(8), 1, 0, 0, None)
    hidden = fused.forward(quantized.base, x, torch.arange(1), [segment])
    assert hidden.isnan().all()
    assert quantized.base_logits(hidden).isnan().all()


def test_the_low_term_is_counted_in_its_own_steps() -> None:
    parts = (np.empty(3, np.float32), np.empty(1, np.float32), np.empty((2, 3), np.uint8))
    x = np.array([[1.0, 0.5, -0.25]], np.float32)
    kernels.norm(x, np.ones(3, np.float32), np.float32(0), *parts)
    row, scales, (high, low) = parts
    held = scales[0] * ((high - np.float32(ZERO)) + (low - np.float32(ZERO)) / np.float32(STEPS))
    np.testing.assert_allclose(held, row, atol=float(scales[0]) / STEPS)
