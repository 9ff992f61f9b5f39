"""Models with full attention, against transformers' plain forward pass and against themselves.

Each test prints the largest difference it saw.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from support.tiny_checkpoints import llama_twin, write_dream, write_llada, write_open_dcoder
from torch import Tensor
from transformers import LlamaForCausalLM

from midfill_engine.checkpoint import read_checkpoint
from midfill_engine.errors import ModelUnsupported
from midfill_engine.model import full_attention
from midfill_engine.model.dual_cache import DualCache, RefreshPolicy
from midfill_engine.model.full_attention import Canvas, FullAttentionModel, backbone_config
from midfill_engine.model.vocabulary import EMPTY, MASK

BOUND = 2e-5  # logits of these models reach 10
WRITERS = {"dream": write_dream, "open-dcoder": write_open_dcoder, "llada": write_llada}
TEXTS = [
    ("def f(n):\n    ", "\n    return n\n"),
    ("x", ""),
    ("", "\n0 1 23\n"),
    ("class Account:\n    def deposit(self, amount):\n", "        self.balance += amount\n"),
]


@pytest.fixture(scope="module", params=WRITERS)
def model(request: pytest.FixtureRequest, tmp_path_factory: Any) -> FullAttentionModel:
    directory = WRITERS[request.param](tmp_path_factory.mktemp(request.param) / "model")
    return load(directory)


@pytest.fixture(scope="module")
def dream(tmp_path_factory: Any) -> FullAttentionModel:
    return load(write_dream(tmp_path_factory.mktemp("dream") / "model"))


def load(directory: Path) -> FullAttentionModel:
    torch.set_num_threads(1)
    return FullAttentionModel.load(directory, "float32", "cpu")


def canvas_of(
    model: FullAttentionModel, number: int, length: int = 6, cache: DualCache | None = None
) -> Canvas:
    """A canvas with masks, a token in its middle, in one of the texts."""
    prefix, suffix = (model.vocabulary.encode(text) for text in TEXTS[number])
    ids = [MASK] * length
    ids[length // 2] = model.vocabulary.encode("return")[0]
    wanted = [i for i, token in enumerate(ids) if token == MASK]
    return Canvas(model.open(prefix, suffix), ids, wanted, cache)


@torch.inference_mode()
def plain_logits(model: FullAttentionModel, canvas: Canvas) -> Tensor:
    """Of transformers' own forward pass with its own attention: [wanted, V] in our order."""
    backbone = model._backbone
    theirs = {ours: real for real, ours in model.vocabulary.moved.items()}
    middle = [theirs.get(i, i) for i in canvas.ids]
    ids = [*canvas.frame.before, *middle, *canvas.frame.after]
    kept = backbone.config._attn_implementation
    backbone.set_attn_implementation("eager")
    try:
        mask = torch.zeros(1, 1, len(ids), len(ids))
        logits = backbone(torch.tensor([ids]), attention_mask=mask, use_cache=False).logits[0]
    finally:
        backbone.set_attn_implementation(kept)
    shift = 1 if model.checkpoint.family.shifted else 0
    rows = [len(canvas.frame.before) + i - shift for i in canvas.wanted]
    order = [theirs.get(i, i) for i in range(model.vocabulary.size)]
    return logits[rows][:, order]


def largest(name: str, ours: Tensor, theirs: Tensor) -> float:
    """The largest difference where neither is ruled out, printed with the mean."""
    seen = ours.isfinite()
    assert seen.any()
    difference = (ours - theirs)[seen].abs()
    print(f"{name}: max {difference.max():.2e}, mean {difference.mean():.2e}")
    return float(difference.max())


@torch.inference_mode()
def together(model: FullAttentionModel, canvases: Sequence[Canvas]) -> list[Tensor]:
    return model.logits(canvases)


@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_logits_equal_transformers(model: FullAttentionModel, number: int) -> None:
    if not model.checkpoint.family.framed and not TEXTS[number][0]:
        assert model.open([], []).before == ()  # nothing is put before an empty prefix
    canvas = canvas_of(model, number)
    (ours,) = together(model, [canvas])
    assert largest("logits", ours, plain_logits(model, canvas)) < BOUND


def test_the_model_sees_both_sides(model: FullAttentionModel) -> None:
    canvas = canvas_of(model, 0)
    other = Canvas(
        model.open(model.vocabulary.encode(TEXTS[0][0]), model.vocabulary.encode("\nprint(1)")),
        canvas.ids,
        canvas.wanted,
    )
    one, two = together(model, [canvas, other])
    assert largest("with another suffix", one, two) > 1e-3


def test_a_canvas_does_not_depend_on_its_batch(model: FullAttentionModel) -> None:
    canvases = [canvas_of(model, number, 3 + 4 * number) for number in range(len(TEXTS))]
    for canvas, ours in zip(canvases, together(model, canvases), strict=True):
        assert largest("batched", ours, together(model, [canvas])[0]) < BOUND


def test_a_cache_refreshed_in_every_step_is_exact(model: FullAttentionModel) -> None:
    cache = DualCache(RefreshPolicy(every=1, block=4))
    for _ in range(3):
        cached, exact = canvas_of(model, 0, cache=cache), canvas_of(model, 0)
        assert torch.equal(together(model, [cached])[0], together(model, [exact])[0])


def test_an_unchanged_canvas_gives_the_same_from_the_cache(model: FullAttentionModel) -> None:
    cache = DualCache(RefreshPolicy(every=8, block=64))
    canvas = canvas_of(model, 0, cache=cache)
    (first,), (second,) = together(model, [canvas]), together(model, [canvas])
    assert largest("from the cache", second, first) < BOUND


def test_a_cached_step_runs_the_canvas_alone(
    model: FullAttentionModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And in a shifted model the state before it, of which its first prediction is made."""
    rows = []
    run = model._backbone.model.forward

    def watched(**arguments: Any) -> Any:
        rows.append(arguments["input_ids"].shape[1])
        return run(**arguments)

    monkeypatch.setattr(model._backbone.model, "forward", watched)
    canvas = canvas_of(model, 0, cache=DualCache(RefreshPolicy(every=3, block=64)))
    for _ in range(4):
        together(model, [canvas])
    whole = len(canvas.frame.before) + 6 + len(canvas.frame.after)
    alone = 6 + model.checkpoint.family.shifted
    assert rows == [whole, alone, alone, whole]


def test_what_is_cached_is_what_the_refresh_saw(model: FullAttentionModel) -> None:
    """A cached step equals a pass in which all outside the canvas has the old keys and values."""
    cache = DualCache(RefreshPolicy(every=8, block=64))
    canvas = canvas_of(model, 3, cache=cache)
    together(model, [canvas])
    kept = [*cache.keys, *cache.values]
    ids = list(canvas.ids)
    ids[0] = model.vocabulary.encode("self")[0]
    changed = Canvas(canvas.frame, ids, canvas.wanted[1:], cache)
    (approximate,) = together(model, [changed])
    assert all(a is b for a, b in zip(kept, [*cache.keys, *cache.values], strict=True))
    (exact,) = together(model, [Canvas(canvas.frame, ids, canvas.wanted[1:])])
    assert largest("an approximation", approximate, exact) > BOUND


def test_caches_of_different_shapes_share_a_pass(model: FullAttentionModel) -> None:
    """Some read, some refresh, one has none; each as if it were alone."""

    def canvases() -> list[Canvas]:
        policies = [RefreshPolicy(8, 64), RefreshPolicy(1, 64), RefreshPolicy(8, 64)]
        made = [canvas_of(model, i, 4 + i, DualCache(p)) for i, p in enumerate(policies)]
        return [*made, canvas_of(model, 3, 9)]

    batch, single = canvases(), canvases()
    for _ in range(3):
        alone = [together(model, [canvas])[0] for canvas in single]
        for ours, theirs in zip(together(model, batch), alone, strict=True):
            assert largest("batched with caches", ours, theirs) < BOUND


@pytest.mark.parametrize(
    ("before", "after", "due"),
    [
        ([MASK] * 4, [MASK] * 4, False),
        ([MASK] * 4, [MASK] * 5, True),  # another length
        ([MASK] * 4, [7, MASK, MASK, MASK], False),
        ([7, MASK, MASK, MASK], [7, 7, MASK, MASK], True),  # a block has come to its end
        ([7, 7, MASK, MASK], [7, 7, 7, MASK], False),
    ],
)
def test_when_a_cache_is_made_anew(before: list[int], after: list[int], due: bool) -> None:
    cache = DualCache(RefreshPolicy(every=9, block=2))
    cache.start_anew(before, MASK)
    cache.keys.append(torch.zeros(1))
    assert cache.is_due(after, MASK) is due


def test_more_rows_than_a_pass_takes(
    dream: FullAttentionModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    canvases = [canvas_of(dream, number, 5) for number in range(len(TEXTS))]
    at_once = together(dream, canvases)
    monkeypatch.setattr(full_attention, "PASS_ROWS", 25)
    for ours, theirs in zip(together(dream, canvases), at_once, strict=True):
        assert largest("in several passes", ours, theirs) < BOUND


def test_what_a_caller_has_put_into_a_canvas_counts(dream: FullAttentionModel) -> None:
    canvas = canvas_of(dream, 0)
    other = list(canvas.ids)
    other[3] = dream.vocabulary.encode("class")[0]
    (ours,) = together(dream, [canvas])
    (theirs,) = together(dream, [Canvas(canvas.frame, other, canvas.wanted)])
    assert largest("another token", ours, theirs) > 1e-3


def test_special_tokens_are_ruled_out(dream: FullAttentionModel) -> None:
    (logits,) = together(dream, [canvas_of(dream, 0)])
    ruled_out = set((~logits.isfinite().any(0)).nonzero()[:, 0].tolist())
    assert ruled_out == set(dream.vocabulary.never.tolist()) - {EMPTY}


def test_length_moves_are_not_ruled_out(tmp_path: Path) -> None:
    model = load(write_dream(tmp_path / "on", expand=True))
    vocabulary = model.vocabulary
    (logits,) = together(model, [canvas_of(model, 0)])
    assert {vocabulary.expand, vocabulary.delete} == set(vocabulary.length_moves)
    assert logits[:, list(vocabulary.length_moves)].isfinite().all()
    assert not logits[:, EMPTY].isfinite().any()


@torch.inference_mode()
def test_llada_is_a_llama_with_other_names(tmp_path: Path) -> None:
    directory = write_llada(tmp_path / "llada")
    stored = {k: v for path in directory.glob("*.safetensors") for k, v in load_file(path).items()}
    twin = LlamaForCausalLM(backbone_config(read_checkpoint(directory))).eval()
    twin.load_state_dict(llama_twin(stored))
    ids = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])
    model = load(directory)
    model._backbone.set_attn_implementation("sdpa")
    difference = (model._backbone(ids).logits - twin(ids).logits).abs().max()
    print(f"LLaDA and Llama: {difference:.1e}")
    assert difference == 0.0


def test_without_transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = write_dream(tmp_path / "dream")
    monkeypatch.setattr(full_attention, "find_spec", lambda _name: None)
    with pytest.raises(ModelUnsupported, match=r"midfill\[models\]"):
        load(directory)


@torch.inference_mode()
def test_a_tied_head(tmp_path: Path) -> None:
    """As the smallest Qwen2 models have it: there is no lm_head in the file."""
    model = load(write_open_dcoder(tmp_path / "open", tied=True))
    (stored,) = (load_file(path) for path in (tmp_path / "open").glob("*.safetensors"))
    assert torch.equal(model._backbone.lm_head.weight, stored["model.embed_tokens.weight"])
    canvas = canvas_of(model, 0)
    assert largest("tied", model.logits([canvas])[0], plain_logits(model, canvas)) < 10 * BOUND


@torch.inference_mode()
def test_bfloat16(tmp_path: Path) -> None:
    directory = write_dream(tmp_path / "dream")
    model = FullAttentionModel.load(directory, "bfloat16", "cpu")
    canvas = canvas_of(model, 0)
    (ours,), (theirs,) = model.logits([canvas]), load(directory).logits([canvas])
    assert ours.dtype == torch.float32
    assert largest("bfloat16", ours, theirs) < 1.0
