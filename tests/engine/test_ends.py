"""Where a left-to-right draft ends other than by an *empty* of its own."""

from __future__ import annotations

import pytest
import torch
from support.single_tokens import tokens

from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.vocabulary import EMPTY, Vocabulary
from midfill_engine.worker.candidate import Candidate, Edges, Prediction

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
