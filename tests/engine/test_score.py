"""Which tokens count for the fill and which for the suffix, and what the score makes of them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.jobs import job_for

from midfill_engine.calibration import EVIDENCE
from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.worker.candidate import Candidate
from midfill_engine.worker.context import SCRATCH_ROWS, ContextPool
from midfill_engine.worker.job import in_passes, make_result, score_rows, texts_to_score
from midfill_engine.worker.score import (
    ScoredText,
    score_of,
    scored_text,
    token_log_probabilities,
)

ROOM = 100


def check_split(model: EmbeddedModel, fill: str, suffix: str, parts: tuple[str, str]) -> None:
    """The text is split between fill and suffix as `parts` says."""
    scored = scored_text(model.vocabulary, fill, suffix, 4, ROOM)
    ids = list(scored.ids)
    decoded = [model.vocabulary.decode(i) for i in (ids[: scored.fill_ids], ids[scored.fill_ids :])]
    assert tuple(decoded) == parts


@pytest.mark.parametrize(
    ("fill", "suffix", "parts"),
    [
        ("return", "\n", ("return", "\n")),
        ("bal", "ance", ("balance", "")),  # one token: it starts in the fill
        ("self.bal", "ance", ("self.balance", "")),
        ("return", "", ("return", "")),
        ("", "return", ("", "return")),
        ("", "", ("", "")),
    ],
)
def test_a_token_across_the_seam_counts_for_the_fill(
    tiny: EmbeddedModel, fill: str, suffix: str, parts: tuple[str, str]
) -> None:
    check_split(tiny, fill, suffix, parts)


@settings(deadline=None)
@given(st.text(max_size=20), st.text(max_size=200), st.integers(0, 20), st.integers(0, 40))
def test_what_is_read_is_bounded_and_the_beginning_of_the_whole(
    tiny: EmbeddedModel, fill: str, suffix: str, suffix_tokens: int, room: int
) -> None:
    scored = scored_text(tiny.vocabulary, fill, suffix, suffix_tokens, room)
    assert 0 <= scored.fill_ids <= len(scored.ids) <= room
    assert len(scored.ids) - scored.fill_ids <= suffix_tokens
    spelled = b"".join(tiny.vocabulary.token_bytes[i] for i in scored.ids)
    assert (fill + suffix).encode().startswith(spelled)
    if len(scored.ids) < room:
        assert len(spelled) >= len(fill.encode())


def test_fill_and_suffix_count_alike() -> None:
    logs = torch.tensor([-1.0, -2.0, -4.0])
    assert score_of(ScoredText((5, 6, 7), 2), logs, ()) == -7
    assert score_of(ScoredText((5, 6, 7), 0), logs, ()) == -7


def test_the_denoisers_own_word_counts_twice() -> None:
    logs = torch.tensor([-1.0, -2.0, -4.0])
    assert score_of(ScoredText((5, 6, 7), 2), logs, (-0.5, -1.0)) == -10
    assert score_of(ScoredText((5, 6, 7), 3), -logs, (-0.5, -1.0)) == pytest.approx(7 / 3 - 1.5)


def test_where_nothing_follows_length_does_not_count() -> None:
    short, long = torch.tensor([-2.0]), torch.tensor([-2.0, -1.0, -1.0])
    assert score_of(ScoredText((5,), 1), short, ()) < score_of(ScoredText((5, 6, 7), 3), long, ())
    assert score_of(ScoredText((), 0), torch.empty(0), ()) == 0


def test_log_probabilities_of_what_came() -> None:
    logits = torch.tensor([[0.0, 0.0], [0.0, -torch.inf]])
    logs = token_log_probabilities(logits, torch.tensor([1, 0]))
    assert torch.allclose(logs, torch.tensor([0.5, 1.0]).log())


@pytest.mark.parametrize(
    ("texts", "scores", "known"),
    [
        (["a", "x"], None, [(0, 0, 0)] * 2),
        (["a", "x"], [-3.0, -5.0], [(2, -3, 1), (-2, -5, 1)]),
        (["a", "x"], [-30.0, -50.0], [(10, -30, 1), (-10, -50, 1)]),
        (["a"], [-3.0], [(0, 0, 0)]),
        (["a"], None, [(0, 0, 0)]),
        ([], None, []),
    ],
)
def test_what_scores_are_evidence_of(
    tiny: EmbeddedModel,
    texts: list[str],
    scores: list[float] | None,
    known: list[tuple[float, float, float]],
) -> None:
    """Of nothing, where nothing was scored or there was nothing to choose from."""
    job = job_for(tiny, ContextPool(tiny.config, 1 << 30), "x = ", "", "balanced")
    for candidate, text in zip(job.candidates, texts, strict=False):
        candidate.ids = tiny.vocabulary.encode(text)
        candidate.masked, candidate.confidences = [False], [0.5 if text == "a" else 0.25]
        assert len(candidate.ids) == 1
        job.finished.append(candidate)
    items = texts_to_score(job, tiny.vocabulary)
    result = make_result(job, items, scores, False, tiny.vocabulary, None)
    assert [fill.text for fill in result.fills] == texts
    pieces = [dict(zip(EVIDENCE, fill.evidence, strict=True)) for fill in result.fills]
    assert [(p["margin"], p["score_per_token"], p["scored"]) for p in pieces] == known


@torch.inference_mode()
def test_an_empty_fill_at_the_end_of_a_text_takes_no_row(tiny: EmbeddedModel) -> None:
    """There is nothing to predict, and the rows of others still go with their targets."""
    job = job_for(tiny, ContextPool(tiny.config, 1 << 30), "x = ", "", "balanced")
    empty, other = job.candidates[:2]
    for candidate, ids in ((empty, []), (other, tiny.vocabulary.encode("return"))):
        candidate.ids, candidate.masked = ids, [False] * len(ids)
    job.finished = [empty, other]
    items = texts_to_score(job, tiny.vocabulary)
    rows = score_rows(job, items)
    assert [item.text for item in items] == ["", "return"]
    assert len(rows.outputs) == sum(len(item.scored.ids) for item in items) > 0


def test_many_long_candidates_are_read_equally_far(tiny: EmbeddedModel) -> None:
    job = job_for(tiny, ContextPool(tiny.config, 1 << 30), "def f(n):", "\n    return n\n" * 20)
    for number in range(30):
        fill = tiny.vocabulary.encode(f" x{number} = [{'1, ' * (number % 7)}]")
        candidate = Candidate.of_length(job.candidates[0].edges, "masked", len(fill))
        candidate.ids, candidate.masked = fill, [False] * len(fill)
        job.finished.append(candidate)
    items = texts_to_score(job, tiny.vocabulary)
    suffix_tokens = {len(item.scored.ids) - item.scored.fill_ids for item in items}
    groups = in_passes(items)
    assert suffix_tokens == {job.plan.suffix_tokens}
    assert [item for group in groups for item in group] == items
    assert len(groups) > 1
    assert all(sum(len(i.scored.ids) for i in group) <= SCRATCH_ROWS for group in groups)
