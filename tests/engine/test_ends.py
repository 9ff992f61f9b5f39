"""Where a left-to-right draft ends other than by an *empty* of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from support.jobs import job_for
from support.single_tokens import tokens

from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.vocabulary import EMPTY, Vocabulary
from midfill_engine.worker.candidate import Candidate, Edges, Prediction
from midfill_engine.worker.context import ContextPool
from midfill_engine.worker.job import commit_step

SURE = 0.95


@pytest.fixture(scope="module")
def vocabulary(tiny: EmbeddedModel) -> Vocabulary:
    return tiny.vocabulary


def draft(required: bytes = b"", may_close: int | None = None) -> Candidate:
    edges = Edges((), required, (), single_line=True, may_close=may_close)
    return Candidate.of_length(edges, "causal", 6)


def step(vocabulary: Vocabulary, candidate: Candidate, ids: list[int]) -> None:
    logits = torch.zeros(len(ids), vocabulary.size)
    candidate.commit(Prediction(ids, [SURE] * len(ids), logits), vocabulary)


@pytest.mark.parametrize(("may_close", "ends"), [(0, True), (1, False), (None, False)])
def test_causal_ends_with_a_bracket_of_the_suffix(
    vocabulary: Vocabulary, may_close: int | None, ends: bool
) -> None:
    name, close, colon = tokens(vocabulary, "self", ")", ":")
    candidate = draft(may_close=may_close)
    candidate.proposed = [name, close]
    step(vocabulary, candidate, [name, close, colon])
    assert candidate.ids[:3] == [name, close, EMPTY if ends else colon]
    assert candidate.done == ends


def test_brackets_of_the_token_that_meets_the_left_edge_count(vocabulary: Vocabulary) -> None:
    opening, name, close = tokens(vocabulary, "(", "self", ")")
    candidate = draft(b"(", may_close=0)
    for token in (opening, name, close, name):
        step(vocabulary, candidate, [token])
    assert not candidate.done


def test_at_its_end_a_line_keeps_its_whole_words(vocabulary: Vocabulary) -> None:
    name, dot = tokens(vocabulary, "self", ".")
    for known, want in (([name, dot, name], [name, dot]), ([name, name], None), ([name], None)):
        candidate = draft()
        for token in known:
            step(vocabulary, candidate, [token])
        candidate.conclude([], vocabulary)
        assert candidate.done == (want is not None)
        assert want is None or candidate.tokens() == want


def test_it_does_not_end_before_the_brackets_it_must_close(vocabulary: Vocabulary) -> None:
    """Nor behind what is proposed to it, whatever of that closes one."""
    name, close, comma = tokens(vocabulary, "self", ")", ",")
    edges = Edges((), b"", (), single_line=True, must_close=1)
    candidate = Candidate.of_length(edges, "causal", 6)
    step(vocabulary, candidate, [name])
    candidate.proposed = [comma, name, close]
    assert candidate.endless(vocabulary) == [True, False, True, False]
    masked = Candidate.of_length(edges, "masked", 3)
    assert masked.endless(vocabulary) == [False] * 3
    required = Candidate.of_length(replace(edges, required=b"se"), "causal", 6)
    required.proposed = [name, close]
    assert required.endless(vocabulary) == [True, True, False]


def test_a_draft_whose_likeliest_token_is_an_end_closes_its_bracket(tiny: EmbeddedModel) -> None:
    end, close = EMPTY, tokens(tiny.vocabulary, ")")[0]
    for must_close, want in ((1, close), (0, end), (None, end)):
        pool = ContextPool(tiny.config, 1 << 30)
        job = job_for(tiny, pool, "f(", "\n", quality="fast")
        for candidate in job.candidates:
            candidate.edges = replace(candidate.edges, must_close=must_close)
        logits = torch.zeros(1, tiny.vocabulary.size)
        logits[0, end], logits[0, close] = 9.0, 5.0
        commit_step(job, logits, tiny.vocabulary)
        assert [c.ids[0] for c in job.candidates] == [want]
