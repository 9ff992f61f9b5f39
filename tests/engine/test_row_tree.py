"""Rows of left-to-right drafts: what is kept, shared and run, against running everything."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.jobs import job_for, request_for, run_rows

from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.slab import Slab
from midfill_engine.worker.candidate import Candidate
from midfill_engine.worker.context import ContextPool
from midfill_engine.worker.drafts import growing_drafts
from midfill_engine.worker.job import Job, commit_step, count_rows, denoise_rows
from midfill_engine.worker.row_tree import Path, RowTree

REPETITIVE = "        self.balance = balance\n        self.owner = owner\n" * 4 + "        self.bal"
START = 3  # of the scratch area in the slab of these tests

tokens = st.lists(st.integers(0, 2), min_size=1, max_size=6)
paths = st.builds(lambda t, cut: Path([9, *t], min(cut, len(t))), tokens, st.integers(0, 6))


class Memory:
    """A slab in which each slot says which tokens lead to its row, as one number."""

    def __init__(self) -> None:
        self.slab = Slab(torch.zeros(1, 1, 80, 1), torch.zeros(1, 1, 80, 1))

    def run(self, tree: RowTree, wanted: list[Path]) -> list[list[tuple[int, ...]]]:
        """One pass; for each path, what its predictions were made from."""
        layout = tree.lay_out(wanted)
        tree.apply(layout, self.slab, START)
        for number, row in enumerate(layout.fresh):
            slot = START + layout.kept + number
            self.slab.keys[0, 0, slot] = row.token
            self.slab.values[0, 0, slot] = row.depth
            assert row.seen[-1] == layout.kept + number
            assert len(row.seen) == row.depth + 1
        return [
            [self.read(layout.fresh[number].seen) for number in numbers]
            for numbers in layout.predictions
        ]

    def read(self, seen: tuple[int, ...]) -> tuple[int, ...]:
        depths = [int(self.slab.values[0, 0, START + slot]) for slot in seen]
        assert depths == list(range(len(seen)))
        return tuple(int(self.slab.keys[0, 0, START + slot]) for slot in seen)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(paths, max_size=5), max_size=6))
def test_every_prediction_is_made_from_all_tokens_of_its_path(passes: list[list[Path]]) -> None:
    tree, memory = RowTree(), Memory()
    for wanted in passes:
        expected = [
            [tuple(p.tokens[: i + 1]) for i in range(p.wanted, len(p.tokens))] for p in wanted
        ]
        assert memory.run(tree, wanted) == expected


@given(st.lists(paths, min_size=1, max_size=5))
def test_no_row_is_run_twice(wanted: list[Path]) -> None:
    distinct = {tuple(p.tokens[: i + 1]) for p in wanted for i in range(len(p.tokens))}
    assert len(RowTree().lay_out(wanted).fresh) == len(distinct)


def test_a_pass_runs_new_tokens_only() -> None:
    tree, memory = RowTree(), Memory()
    memory.run(tree, [Path([9, 1, 2], 0), Path([9, 1, 3], 0)])
    layout = tree.lay_out([Path([9, 1, 3, 4], 3)])
    assert [row.token for row in layout.fresh] == [4]
    assert layout.kept == 3
    assert layout.moves == [(3, 2)]  # the row of 2 is forgotten


@pytest.mark.parametrize("quality", ["fast", "balanced", "best"])
@torch.inference_mode()
def test_kept_rows_change_no_fill(tiny: EmbeddedModel, quality: str) -> None:
    """Whole jobs, sampled drafts and copied proposals included, against running every row."""
    request = request_for(REPETITIVE, "\n", single_line=False, quality=quality)
    request = replace(request, max_tokens=30)

    def outcome(*, keep: bool) -> tuple[list[list[int]], int]:
        job = job_for(tiny, ContextPool(tiny.config, 1 << 30), REPETITIVE, "\n", quality)
        job.candidates = growing_drafts(tiny.vocabulary, request)
        drafts: list[Candidate] = list(job.candidates)
        rows = _run(tiny, job, keep=keep)
        return [draft.ids for draft in drafts], rows

    kept, few = outcome(keep=True)
    anew, many = outcome(keep=False)
    assert kept == anew
    assert few < many


def _run(model: EmbeddedModel, job: Job, *, keep: bool) -> int:
    """Denoise until every draft is done; how many rows that took."""
    count = 0
    while job.active:
        if not keep:
            job.tree = RowTree()
        counted = count_rows(job)
        rows = denoise_rows(job)
        assert len(rows.ids) == counted
        logits = model.denoiser_logits(run_rows(model.run_denoiser, [rows]))
        commit_step(job, 20 * logits, model.vocabulary)
        count += counted
    return count
