"""Hand-written backward passes against plain autograd, largest differences printed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from midfill_engine.model.vocabulary import EMPTY, MASK
from midfill_engine.training import elementwise, functions
from midfill_engine.training.batches import Span
from midfill_engine.training.division import has_compiler
from midfill_engine.training.functions import (
    LayerContext,
    Teacher,
    Visible,
    adapted_linear,
    add_norm,
    canvas_attention,
    head_loss,
    swiglu,
)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def check(
    name: str, ours: Tensor, reference: Tensor, inputs: list[Tensor], tolerance: float = 1e-4
) -> None:
    """Compare values and the gradients of a random projection."""
    seed = torch.randn_like(reference)
    got = torch.autograd.grad((ours * seed).sum(), inputs, retain_graph=True)
    want = torch.autograd.grad((reference * seed).sum(), inputs, retain_graph=True)
    for label, a, b in [
        ("value", ours, reference),
        *zip([f"d{i}" for i in range(len(inputs))], got, want, strict=True),
    ]:
        gap = (a - b).abs()
        print(f"{name} {label}: max {gap.max():.2e} mean {gap.mean():.2e}")
        assert gap.max() < tolerance


def leaf(*shape: int) -> Tensor:
    return torch.randn(shape, requires_grad=True)


def test_adapted_linear() -> None:
    x, weight = leaf(5, 8), torch.randn(9, 8)
    a1, b1, a2, b2 = leaf(2, 8), leaf(6, 2), leaf(2, 8), leaf(3, 2)
    reference = x @ weight.t() + 2 * torch.cat((x @ a1.t() @ b1.t(), x @ a2.t() @ b2.t()), 1)
    check("linear", adapted_linear(x, weight, a1, b1, a2, b2), reference, [x, a1, b1, a2, b2])


def test_add_norm() -> None:
    x, y, weight = leaf(5, 8), leaf(5, 8), leaf(8)
    total, norm = add_norm(x, y, weight, 1e-5)
    z = x + y
    reference = z * torch.rsqrt((z * z).mean(-1, keepdim=True) + 1e-5) * weight
    check("norm", torch.cat((total, norm)), torch.cat((z, reference)), [x, y, weight])


def test_swiglu() -> None:
    both = leaf(5, 12)
    gate, up = both.chunk(2, 1)
    check("swiglu", swiglu(both), torch.nn.functional.silu(gate) * up, [both])


def test_attention() -> None:
    kv, g, size, rows, n, m = 2, 2, 8, 7, 5, 3
    qkv = leaf(rows, (kv * g + 2 * kv) * size)
    context = LayerContext(
        *(torch.randn(2, kv, n, size) for _ in range(2)),
        *(torch.randn(2, kv, m, size) for _ in range(2)),
    )
    spans = [Span(0, 4, 1, 3, 5), Span(4, 7, 0, 2, 4)]
    seen = [
        torch.rand(s.end - s.first, s.suffix + s.context + s.end - s.first) < 0.7 for s in spans
    ]
    angle = torch.rand(rows, 1, size // 2)
    visible = Visible(
        spans, [functions.bias_of(s, g, torch.float32) for s in seen], angle.cos(), angle.sin()
    )

    parts = qkv.view(rows, -1, size)
    turned = elementwise.rotate(parts[:, : kv * g + kv], angle.cos(), angle.sin())
    outs = []
    for i, (span, mask) in enumerate(zip(spans, seen, strict=True)):
        own, w = slice(span.first, span.end), span.window
        k, v = (
            torch.cat(
                (suffix[i, :, : span.suffix], prefix[w, :, : span.context], x.transpose(0, 1)), 1
            )
            for suffix, prefix, x in (
                (context.suffix_k, context.prefix_k, turned[own, kv * g :]),
                (context.suffix_v, context.prefix_v, parts[own, kv * g + kv :]),
            )
        )
        q = turned[own, : kv * g].transpose(0, 1)
        o = torch.nn.functional.scaled_dot_product_attention(
            q, k.repeat_interleave(g, 0), v.repeat_interleave(g, 0), mask
        )
        outs.append(o.transpose(0, 1).reshape(span.end - span.first, -1))
    check("attention", canvas_attention(qkv, kv, context, visible), torch.cat(outs), [qkv])


def arguments_of(name: str, rows: int) -> tuple[object, ...]:
    """Inputs as a pass has them: streams and norms in float32, the rest in bfloat16."""
    wide = [torch.randn(rows, 64) for _ in range(3)]
    narrow = [torch.randn(rows, 64).bfloat16() for _ in range(3)]
    column, weight = torch.rand(rows, 1) + 0.5, torch.rand(64) + 0.5
    angle = torch.rand(rows, 1, 16).bfloat16()
    return {
        "add_norm": (wide[0], narrow[0], weight, 1e-5),
        "add_norm_backward": (narrow[0], wide[0], wide[1], column, weight),
        "swiglu": (narrow[0],),
        "swiglu_backward": (narrow[0][:, :32], narrow[1]),
        "rotate": (narrow[0].view(rows, 2, 32), angle.cos(), angle.sin()),
        "cross_entropy": (narrow[0], column),
    }[name]


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method`:DeprecationWarning")  # torch's own
@pytest.mark.parametrize("name", elementwise.COMPILED)
def test_compiled_functions_are_the_plain_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_compiler("cpu"):
        pytest.skip("there is no C++ compiler")
    plain = getattr(elementwise, name)
    monkeypatch.setattr(elementwise, "COMPILED", (name,))
    monkeypatch.setattr(elementwise, name, plain)  # to be put back
    elementwise.compile_all()
    compiled = getattr(elementwise, name)
    assert compiled is not plain
    for rows in (5, 9):
        arguments = arguments_of(name, rows)
        got, want = (function(*arguments) for function in (compiled, plain))
        for ours, theirs in zip(tuple_of(got), tuple_of(want), strict=True):
            gap = (ours.float() - theirs.float()).abs()
            print(f"{name} {rows}: max {gap.max():.2e} mean {gap.mean():.2e}")
            assert ours.dtype == theirs.dtype
            # The order of sums may be another; bfloat16 has 8 bits.
            assert gap.max() <= theirs.abs().max() * (1e-5 if ours.dtype == torch.float32 else 8e-3)


def tuple_of(values: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return values if isinstance(values, tuple) else (values,)


def test_head_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "_LOSS_ROWS", 4)
    hidden, empty, head = leaf(10, 8), leaf(8), torch.randn(40, 8)
    targets, weights = torch.randint(17, 40, (10,)), torch.rand(10)
    targets[3] = EMPTY
    total, rows = head_loss(hidden, empty, head, targets, weights)
    keep = [i for i in range(40) if i != MASK]
    full = head.clone()
    full = torch.cat((full[:EMPTY], empty[None], full[EMPTY + 1 :]))[keep]
    moved = targets - (targets > MASK).long()
    reference = torch.nn.functional.cross_entropy(hidden @ full.t(), moved, reduction="none")
    assert torch.allclose(rows, reference, atol=1e-5)
    check("loss", total, (reference * weights).sum(), [hidden, empty])


def test_head_loss_with_a_teacher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "_LOSS_ROWS", 4)
    hidden, empty, head = leaf(10, 8), leaf(8), torch.randn(40, 8)
    targets, weights, shares = torch.randint(17, 40, (10,)), torch.rand(10), torch.rand(10)
    taught = torch.randn(10, 8)
    total, rows = head_loss(hidden, empty, head, targets, weights, Teacher(taught, shares))
    known = [i for i in range(40) if i not in (EMPTY, MASK)]
    wanted = torch.zeros(10, 40)
    wanted[:, known] = (taught @ head[known].t()).softmax(1) * shares[:, None]
    wanted[torch.arange(10), targets] += 1 - shares
    keep = [i for i in range(40) if i != MASK]
    full = torch.cat((head[:EMPTY], empty[None], head[EMPTY + 1 :]))[keep]
    reference = torch.nn.functional.cross_entropy(
        hidden @ full.t(), wanted[:, keep], reduction="none"
    )
    check("loss", total, (reference * weights).sum(), [hidden, empty])
    assert torch.equal(rows, head_loss(hidden, empty, head, targets, weights)[1])
