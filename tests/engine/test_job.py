"""A request's drafts in their passes: room, proposals, samples."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from support.jobs import job_for, request_for, run_rows

from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.vocabulary import EMPTY
from midfill_engine.worker import job as job_module
from midfill_engine.worker.candidate import Candidate, Edges
from midfill_engine.worker.context import SCRATCH_ROWS, ContextPool
from midfill_engine.worker.copying import CopySource
from midfill_engine.worker.drafts import growing_drafts
from midfill_engine.worker.job import Job, commit_step, denoise_rows

EDGES = Edges((), b"", (), single_line=False)
REPETITIVE = "        self.balance = balance\n        self.owner = owner\n" * 4 + "        self.bal"


def run_to_the_end(model: EmbeddedModel, job: Job, sharpness: float = 1.0) -> int:
    """Denoise until every draft is done; how many passes that took."""
    passes = 0
    while job.active:
        rows = denoise_rows(job)
        assert 0 < len(rows.ids) <= SCRATCH_ROWS
        logits = model.denoiser_logits(run_rows(model.run_denoiser, [rows]))
        commit_step(job, sharpness * logits, model.vocabulary)
        passes += 1
    return passes


@torch.inference_mode()
def test_drafts_that_do_not_fit_into_one_pass_take_turns(tiny: EmbeddedModel) -> None:
    job = job_for(tiny, ContextPool(tiny.config, 1 << 30), "x = ", "\n", quality="balanced")
    drafts = [Candidate.of_length(EDGES, "masked", 120) for _ in range(5)]
    job.candidates = list(drafts)
    assert job.turn == drafts[:3]
    run_to_the_end(tiny, job)
    assert set(job.finished) == set(drafts)
    assert len({tuple(draft.ids) for draft in drafts}) == 1  # waiting changes nothing


@pytest.mark.parametrize("must_close", [None, 2])
@pytest.mark.parametrize("single_line", [True, False])
@torch.inference_mode()
def test_copied_proposals_change_nothing_but_the_passes(
    tiny: EmbeddedModel, single_line: bool, must_close: int | None
) -> None:
    """Every left-to-right draft, greedy or sampled, with proposals and without."""

    request = replace(
        request_for(REPETITIVE, "\n", single_line=single_line, quality="balanced"),
        max_tokens=40,
        must_close=must_close,
    )

    def outcome(source: CopySource | None) -> tuple[list[list[int]], int]:
        job = job_for(tiny, ContextPool(tiny.config, 1 << 30), REPETITIVE, "\n", "balanced")
        drafts = [c for c in growing_drafts(tiny.vocabulary, request) if c.view == "causal"]
        passes = 0
        for draft in drafts:
            draft.copies, draft.proposed = source, []
            job.candidates = [draft]
            passes += run_to_the_end(tiny, job, sharpness=0.1)  # else all samples are alike
        return [draft.tokens() for draft in drafts], passes

    plain, passes = outcome(None)
    # What one draft writes is proposed to all of them: some of it holds, some does not.
    copied, fewer = outcome(CopySource([token for tokens in plain for token in tokens], []))
    print(f"{passes} passes without copies, {fewer} with")
    assert plain == copied
    assert len({tuple(tokens) for tokens in plain}) > 1
    assert fewer < passes


@torch.inference_mode()
def test_what_is_copied_saves_passes(tiny: EmbeddedModel) -> None:
    """A greedy draft whose own tokens stand in the text already is read, not written."""

    def passes(source: CopySource | None) -> tuple[list[int], int]:
        job = job_for(tiny, ContextPool(tiny.config, 1 << 30), "def f(n):", "\n", "balanced")
        draft = Candidate.of_length(EDGES, "causal", 24, copies=source)
        draft.propose([], tiny.vocabulary)
        job.candidates = [draft]
        return draft.tokens(), run_to_the_end(tiny, job)

    written, alone = passes(None)
    written = [*written, EMPTY] if len(written) < 24 else written
    text = [*tiny.vocabulary.encode("def f(n):"), *written]
    again, fewer = passes(CopySource([*text, *tiny.vocabulary.encode("\ndef f(n):")], []))
    assert again == [t for t in written if t != EMPTY]
    print(f"{len(written)} tokens: {alone} passes alone, {fewer} with copies")
    assert fewer < alone / 2


@torch.inference_mode()
def test_the_last_of_the_samples_are_not_waited_for(tiny: EmbeddedModel) -> None:
    """Three of four are enough, when the drafts that are not sampled are done, too."""
    job = job_for(tiny, ContextPool(tiny.config, 1 << 30), "x = ", "\n", quality="balanced")
    lengths = [(None, 4), (0, 2), (1, 3), (2, 5), (3, 30)]
    drafts = [Candidate.of_length(EDGES, "causal", length, seed) for seed, length in lengths]
    job.candidates = list(drafts)
    assert run_to_the_end(tiny, job) == 5
    assert set(job.finished) == set(drafts[:4])


def test_samples_are_distributed_as_the_model_says() -> None:
    """Each of four drafts by itself; together they are more often different than by chance."""
    logits = torch.tensor([2.0, 1.0, 0.5, 0.0, -1.0])
    expected = (logits / job_module.SAMPLING_TEMPERATURE).softmax(0)
    positions = 2000
    counts = torch.zeros(4, 5)
    chosen = []
    for seed in range(4):
        draft = Candidate.of_length(EDGES, "masked", positions, seed)
        chosen.append(job_module._choose(draft, logits.expand(positions, 5).clone(), 4))
        counts[seed] = torch.bincount(chosen[-1], minlength=5) / positions
    distinct = sum(len(set(column)) for column in torch.stack(chosen).T.tolist()) / positions
    print(f"largest deviation {float((counts - expected).abs().max()):.3f}, {distinct:.2f} differ")
    assert torch.allclose(counts, expected.expand(4, 5), atol=0.04)
    by_chance = float((1 - (1 - expected) ** 4).sum())
    assert distinct > by_chance + 0.2
