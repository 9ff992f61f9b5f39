"""What the engine computes, against slow and plain computations of the same things.

Each test prints the largest difference it saw. The bound on hidden states is 1e-4 in float32.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from support.jobs import job_for, run_encode, run_rows
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.slab import Slab
from midfill_engine.model.transformer import Segment
from midfill_engine.model.vocabulary import END_OF_TEXT, MASK
from midfill_engine.model_files import load_weights
from midfill_engine.worker.context import ORIGIN, Context, ContextPool
from midfill_engine.worker.job import Job, denoise_rows, score_rows, texts_to_score
from midfill_engine.worker.row_tree import RowTree
from midfill_engine.worker.score import token_log_probabilities
from midfill_engine.worker.window import Window

BOUND = 1e-4
PREFIX = "class Account:\n    def deposit(self, amount):\n        if amount <= 0:"
SUFFIX = "\n        self.balance += amount\n        return self.balance\n"


def reference(directory: Path) -> LlamaForCausalLM:
    """Transformers' own model with the same weights."""
    raw = json.loads((directory / "config.json").read_text())
    raw.pop("midfill", None)
    model = LlamaForCausalLM(LlamaConfig(**raw)).eval()
    tensors = {name: torch.from_numpy(value) for name, value in load_weights(directory)}
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert missing == ["lm_head.weight"], missing
    assert not unexpected
    model.tie_weights()
    return model


def largest(name: str, ours: Tensor, theirs: Tensor) -> float:
    """The largest difference, printed with the mean."""
    difference = (ours - theirs).abs()
    print(f"{name}: max {difference.max():.2e}, mean {difference.mean():.2e}")
    return float(difference.max())


def plain_pass(model: EmbeddedModel, ids: list[int], first_position: int = 0) -> Tensor:
    """Hidden states of the base over a whole sequence at once, causal, nothing cached."""
    slab = Slab.empty(model.config, len(ids))
    visible = torch.ones(len(ids), len(ids), dtype=torch.bool).tril_()
    positions = torch.arange(first_position, first_position + len(ids))
    return model.run_base(ids, positions, [Segment(slab, len(ids), 0, 0, visible)])


@torch.inference_mode()
def test_base_equals_transformers(tiny: EmbeddedModel, tiny_model: Path) -> None:
    ids = tiny.vocabulary.encode(PREFIX + SUFFIX)
    output = reference(tiny_model)(torch.tensor([ids]), output_hidden_states=True)
    hidden = plain_pass(tiny, ids)
    assert largest("hidden states", hidden, output.hidden_states[-1][0]) < BOUND
    logits = tiny.base_logits(hidden)
    assert largest("logits", logits, output.logits[0]) < BOUND * tiny.config.hidden_size**0.5


@pytest.mark.embedded
@torch.inference_mode()
def test_the_embedded_base_equals_transformers(embedded_dir: Path) -> None:
    model = EmbeddedModel.load("embedded", "float32")
    ids = model.vocabulary.encode(PREFIX + SUFFIX)
    output = reference(embedded_dir)(torch.tensor([ids]), output_hidden_states=True)
    hidden = plain_pass(model, ids)
    assert largest("embedded hidden states", hidden, output.hidden_states[-1][0]) < BOUND
    assert torch.equal(model.base_logits(hidden).argmax(1), output.logits[0].argmax(1))


@torch.inference_mode()
def test_positions_only_matter_relative_to_one_another(tiny: EmbeddedModel) -> None:
    ids = tiny.vocabulary.encode(SUFFIX)
    before, after = plain_pass(tiny, ids, -len(ids)), plain_pass(tiny, ids, 40)
    assert largest("shifted positions", before, after) < BOUND


@torch.inference_mode()
def test_keys_appended_token_by_token_equal_one_full_pass(tiny: EmbeddedModel) -> None:
    prefix = tuple(tiny.vocabulary.encode(PREFIX))
    whole, grown = new_context(tiny), new_context(tiny)
    run_encode(tiny, whole.open(Window(prefix, ())))
    for end in range(1, len(prefix) + 1):
        run_encode(tiny, grown.open(Window(prefix[:end], ())))
    slots = slice(ORIGIN, ORIGIN + len(prefix) - 1)
    for name in ("keys", "values"):
        one = getattr(whole.slab, name)[:, :, slots]
        many = getattr(grown.slab, name)[:, :, slots]
        assert largest(name, one, many) < BOUND


@torch.inference_mode()
def test_suffix_is_encoded_behind_a_hidden_sink(tiny: EmbeddedModel) -> None:
    suffix = tuple(tiny.vocabulary.encode(SUFFIX))
    context = new_context(tiny)
    run_encode(tiny, context.open(Window((END_OF_TEXT,), suffix)))
    slab = Slab.empty(tiny.config, len(suffix) + 1)
    rows = len(suffix) + 1
    visible = torch.ones(rows, rows, dtype=torch.bool).tril_()
    positions = torch.arange(-rows, 0)
    tiny.run_base([END_OF_TEXT, *suffix], positions, [Segment(slab, rows, 0, 0, visible)])
    kept = context.slab.keys[:, :, context.first_slot : ORIGIN]
    assert kept.shape[2] == len(suffix)
    assert largest("suffix keys", kept, slab.keys[:, :, 1:]) < BOUND


@torch.inference_mode()
def test_a_step_does_not_depend_on_its_batch(tiny: EmbeddedModel) -> None:
    pool = ContextPool(tiny.config, 1 << 30)
    texts = [(PREFIX, SUFFIX), ("def f(n):", "\n    return n\n"), ("x = ", "")]
    jobs = [job_for(tiny, pool, prefix, suffix, "balanced") for prefix, suffix in texts]
    together = run_rows(tiny.run_denoiser, [denoise_rows(job) for job in jobs])
    alone = torch.cat([run_rows(tiny.run_denoiser, [denoise_rows(job)]) for job in jobs])
    assert largest("hidden states", together, alone) < BOUND


@torch.inference_mode()
def test_canvases_of_one_request_do_not_see_one_another(tiny: EmbeddedModel) -> None:
    pool = ContextPool(tiny.config, 1 << 30)
    job = job_for(tiny, pool, PREFIX, SUFFIX, quality="best")
    together = run_rows(tiny.run_denoiser, [denoise_rows(job)])
    candidates = job.candidates
    parts = []
    for candidate in candidates:
        job.candidates = [candidate]
        parts.append(run_rows(tiny.run_denoiser, [denoise_rows(job)]))
    assert len(candidates) > 3
    assert largest("hidden states", together, torch.cat(parts)) < BOUND


@torch.inference_mode()
def test_causal_view_equals_its_token_by_token_run(tiny: EmbeddedModel) -> None:
    """All of a fill in one causal pass, against a pass for each token."""
    job = causal_job(tiny)
    candidate = job.candidates[0]
    fill = tiny.vocabulary.encode(" return self.balance")
    steps = []
    for count in range(len(fill) + 1):
        candidate.ids = [*fill[:count], *[MASK] * (len(fill) + 1 - count)]
        candidate.masked = [i >= count for i in range(len(fill) + 1)]
        rows = denoise_rows(job)
        assert len(rows.ids) == 1  # the others are kept from the passes before
        steps.append(run_rows(tiny.run_denoiser, [rows]))
    job.tree = RowTree()
    rows = denoise_rows(job)
    assert len(rows.ids) == len(fill) + 1
    at_once = tiny.run_denoiser(rows.ids, torch.tensor(rows.positions), [rows.segment])
    assert largest("hidden states", at_once, torch.cat(steps)) < BOUND


@torch.inference_mode()
def test_score_equals_a_plain_full_sequence_computation(tiny: EmbeddedModel) -> None:
    pool = ContextPool(tiny.config, 1 << 30)
    job = job_for(tiny, pool, PREFIX, SUFFIX, quality="balanced")
    for number, candidate in enumerate(job.candidates):
        fill = tiny.vocabulary.encode(f"\n            return {number * 11}")
        candidate.ids = fill
        candidate.masked = [False] * len(fill)
        candidate.confidences = [1.0] * len(fill)
    job.finished = list(job.candidates)
    items = texts_to_score(job, tiny.vocabulary)
    assert len(items) == len(job.candidates)
    hidden = run_rows(tiny.run_base, [score_rows(job, items)])
    targets = torch.tensor([i for item in items for i in item.scored.ids])
    ours = token_log_probabilities(tiny.base_logits(hidden), targets)
    plain = torch.cat([plain_score(tiny, job, list(item.scored.ids)) for item in items])
    assert largest("log probabilities", ours, plain) < BOUND * 10


def plain_score(model: EmbeddedModel, job: Job, ids: list[int]) -> Tensor:
    """Log probabilities of `ids` after the prefix, from one uncached pass over everything."""
    prefix = list(job.window.prefix)
    logits = model.base_logits(plain_pass(model, prefix + ids))
    return logits.log_softmax(1)[len(prefix) - 1 : -1].gather(1, torch.tensor(ids)[:, None])[:, 0]


@torch.inference_mode()
def test_int8_is_close_to_float_and_exact_across_batches(
    tiny: EmbeddedModel, tiny_model: Path
) -> None:
    quantized = EmbeddedModel.load(str(tiny_model), "int8")
    ids = tiny.vocabulary.encode(PREFIX + SUFFIX)
    ours, theirs = plain_pass(quantized, ids), plain_pass(tiny, ids)
    assert largest("int8 hidden states", ours, theirs) < 0.1
    x = torch.randn(40, tiny.config.hidden_size, generator=torch.Generator().manual_seed(1))
    linear = quantized.base.layers[0].qkv
    assert torch.equal(linear(x)[3:9], linear(x[3:9]))


def new_context(model: EmbeddedModel) -> Context:
    return Context(Slab.empty(model.config, ORIGIN + 512))


def causal_job(model: EmbeddedModel) -> Job:
    job = job_for(model, ContextPool(model.config, 1 << 30), PREFIX, SUFFIX, quality="balanced")
    job.candidates = [c for c in job.candidates if c.view == "causal"][:1]
    return job


@pytest.mark.parametrize("capacity", [1, 5])
def test_slab_says_what_it_holds(tiny: EmbeddedModel, capacity: int) -> None:
    slab = Slab.empty(tiny.config, capacity)
    assert slab.capacity == capacity
    assert slab.nbytes == slab.keys.nbytes + slab.values.nbytes > 0
