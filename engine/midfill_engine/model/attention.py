"""Attention of packed rows, each block of them to keys of its own.

Owns the choice of the kernel, for every model of ours: one xformers call for all blocks on CUDA,
where every row sees all keys of its block; else torch's SDPA, block by block. Knows nothing of
where keys come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Rows that attend to the same keys."""

    rows: int
    keys: Tensor  # [kv_heads, K, head_dim]
    values: Tensor  # the same
    bias: Tensor | None = None  # [group · rows, K], added to the logits; None: sees everything


def attention(queries: Tensor, blocks: Sequence[Block]) -> Tensor:
    """Let each block's rows attend to its keys.

    Args:
        queries: [N, heads, head_dim], the blocks' rows one after the other.
        blocks: their `rows` add up to N. Query heads that share a key-value head lie together.

    Returns:
        [N, heads, head_dim], scaled as usual, by head_dim ** -0.5.
    """
    if queries.is_cuda and xformers_works() and all(block.bias is None for block in blocks):
        return packed_attention(queries, blocks)
    mixed = torch.empty_like(queries, memory_format=torch.contiguous_format)
    start = 0
    for block in blocks:
        stop = start + block.rows
        mixed[start:stop] = block_attention(queries[start:stop], block)
        start = stop
    return mixed


def block_attention(queries: Tensor, block: Block) -> Tensor:
    """One block of `attention` in SDPA. Query heads that share a key-value head are folded into the
    query length, so that keys and values are never repeated."""
    rows, heads, head_dim = queries.shape
    kv_heads = len(block.keys)
    group = heads // kv_heads
    q = queries.view(rows, kv_heads, group, head_dim)
    out = F.scaled_dot_product_attention(
        q.permute(1, 2, 0, 3).reshape(1, kv_heads, group * rows, head_dim),
        block.keys[None],
        block.values[None],
        attn_mask=block.bias,
    )
    out = out.view(kv_heads, group, rows, head_dim)
    return out.permute(2, 0, 1, 3).reshape(rows, heads, head_dim)


def packed_attention(queries: Tensor, blocks: Sequence[Block]) -> Tensor:
    """All blocks in one call of xformers; none may have a bias. As `attention` otherwise.

    Heads go in as [1, length, kv_heads, group, head_dim], keys and values expanded over the
    group without a copy.
    """
    from xformers.ops import fmha

    rows, heads, head_dim = queries.shape
    kv_heads = len(blocks[0].keys)
    group = heads // kv_heads
    keys = torch.cat([block.keys for block in blocks], 1).transpose(0, 1)
    values = torch.cat([block.values for block in blocks], 1).transpose(0, 1)
    shape = (1, len(keys), kv_heads, group, head_dim)
    out: Tensor = fmha.memory_efficient_attention_forward(
        queries.reshape(1, rows, kv_heads, group, head_dim),
        keys[None, :, :, None].expand(shape),
        values[None, :, :, None].expand(shape),
        attn_bias=_block_diagonal(
            tuple(block.rows for block in blocks),
            tuple(block.keys.shape[1] for block in blocks),
            queries.device,
        ),
    )
    return out.reshape(rows, heads, head_dim)


@lru_cache(maxsize=4)  # one pass asks for the same in every layer
def _block_diagonal(rows: tuple[int, ...], keys: tuple[int, ...], device: torch.device) -> Any:
    from xformers.ops.fmha.attn_bias import BlockDiagonalMask

    return BlockDiagonalMask.from_seqlens(rows, keys, device=device)


@lru_cache(maxsize=1)
def xformers_works() -> bool:
    """Whether xformers is there and has a kernel for the current CUDA device."""
    if not torch.cuda.is_available():
        return False
    try:
        probe = torch.zeros(8, 4, 64, device="cuda", dtype=torch.bfloat16)
        keys = torch.zeros(2, 16, 64, device="cuda", dtype=torch.bfloat16)
        packed_attention(probe, [Block(8, keys, keys)])
    except (ImportError, NotImplementedError, RuntimeError, ValueError):
        return False
    return True
