"""Attention of packed rows, against a plain computation with xformers' own masks.

Each test prints the largest difference it saw. What calls xformers on CUDA is run here with that
plain computation in the place of its kernel.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest
import torch
from torch import Tensor

from midfill_engine.model import attention as module
from midfill_engine.model.attention import Block, attention, packed_attention

HEADS, HEAD_DIM = 6, 16
SHAPES = [
    [(5, 9)],
    [(1, 1), (1, 40), (7, 7)],
    [(3, 12), (20, 21), (1, 5), (8, 64)],
]


@pytest.fixture(scope="module")
def attn_bias() -> Any:
    pytest.importorskip("xformers", reason="xformers is not installed: no oracle for masks")
    from xformers.ops.fmha import attn_bias

    return attn_bias


def packed(shapes: list[tuple[int, int]], kv_heads: int) -> tuple[Tensor, list[Block]]:
    generator = torch.Generator().manual_seed(7)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    queries = normal(sum(rows for rows, _ in shapes), HEADS, HEAD_DIM)
    blocks = [
        Block(rows, normal(kv_heads, keys, HEAD_DIM), normal(kv_heads, keys, HEAD_DIM))
        for rows, keys in shapes
    ]
    return queries, blocks


def plain(queries: Tensor, keys: Tensor, values: Tensor, bias: Tensor) -> Tensor:
    """Softmax over everything at once: [N, H, D], [M, H, D] twice, [N, M] → [N, H, D]."""
    logits = torch.einsum("nhd,mhd->hnm", queries, keys) * HEAD_DIM**-0.5
    return torch.einsum("hnm,mhd->nhd", (logits + bias).softmax(-1), values)


def expected(queries: Tensor, blocks: list[Block], bias: Tensor) -> Tensor:
    """Of all blocks at once, under one mask."""
    group = HEADS // len(blocks[0].keys)
    keys, values = (
        torch.cat(parts, 1).repeat_interleave(group, 0).transpose(0, 1)
        for parts in ([b.keys for b in blocks], [b.values for b in blocks])
    )
    return plain(queries, keys, values, bias)


def largest(name: str, ours: Tensor, theirs: Tensor) -> float:
    difference = (ours - theirs).abs()
    print(f"{name}: max {difference.max():.2e}, mean {difference.mean():.2e}")
    return float(difference.max())


@pytest.mark.parametrize("kv_heads", [1, 2, 6])
@pytest.mark.parametrize("shapes", SHAPES)
def test_blocks_see_their_own_keys_alone(
    attn_bias: Any, shapes: list[tuple[int, int]], kv_heads: int
) -> None:
    queries, blocks = packed(shapes, kv_heads)
    mask = attn_bias.BlockDiagonalMask.from_seqlens(
        [rows for rows, _ in shapes], [keys for _, keys in shapes]
    )
    bias = mask.materialize((len(queries), sum(keys for _, keys in shapes)))
    ours = attention(queries, blocks)
    assert largest("block diagonal", ours, expected(queries, blocks, bias)) < 1e-5


def test_a_biased_block_is_masked_as_xformers_would(attn_bias: Any) -> None:
    queries, (block,) = packed([(6, 6)], 2)
    causal = attn_bias.LowerTriangularMask().materialize((6, 6))
    folded = causal.repeat(HEADS // 2, 1)
    ours = attention(queries, [Block(6, block.keys, block.values, folded)])
    assert largest("causal", ours, expected(queries, [block], causal)) < 1e-5


@pytest.mark.parametrize("kv_heads", [1, 2, 6])
@pytest.mark.parametrize("shapes", SHAPES)
def test_what_xformers_is_given(
    attn_bias: Any,
    monkeypatch: pytest.MonkeyPatch,
    shapes: list[tuple[int, int]],
    kv_heads: int,
) -> None:
    """Its tensors are [1, length, kv_heads, group, head_dim]; nothing is copied for the group."""
    from xformers.ops import fmha

    def kernel(query: Tensor, key: Tensor, value: Tensor, attn_bias: Any) -> Tensor:
        assert query.shape[0] == key.shape[0] == 1
        assert query.shape[2:] == key.shape[2:] == (kv_heads, HEADS // kv_heads, HEAD_DIM)
        assert kv_heads == HEADS or key.stride(3) == value.stride(3) == 0
        bias = attn_bias.materialize((query.shape[1], key.shape[1]))
        q, k, v = (t[0].reshape(t.shape[1], HEADS, HEAD_DIM) for t in (query, key, value))
        return plain(q, k, v, bias).view(query.shape)

    monkeypatch.setattr(fmha, "memory_efficient_attention_forward", kernel)
    module._block_diagonal.cache_clear()
    queries, blocks = packed(shapes, kv_heads)
    ours = packed_attention(queries, blocks)
    assert largest("packed", ours, attention(queries, blocks)) < 1e-5


def test_a_block_does_not_depend_on_the_others() -> None:
    queries, blocks = packed(SHAPES[2], 2)
    together = attention(queries, blocks)
    ends = list(accumulate(block.rows for block in blocks))
    for block, end in zip(blocks, ends, strict=True):
        alone = attention(queries[end - block.rows : end], [block])
        assert torch.equal(alone, together[end - block.rows : end])


def test_xformers_is_not_taken_where_it_has_no_kernel() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device: see `make gpu-check`")
    assert not module.xformers_works()
