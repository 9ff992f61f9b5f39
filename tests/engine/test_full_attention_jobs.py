"""Fills by models with full attention, through the scheduler that serves them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.jobs import request_for
from support.schedulers import running
from support.tiny_checkpoints import write_dream, write_llada
from torch import Tensor

from midfill_engine.model.full_attention import FullAttentionModel
from midfill_engine.model.vocabulary import EMPTY, MASK
from midfill_engine.protocol import QUALITIES, FillRequest, FillResult, Quality
from midfill_engine.worker import full_attention
from midfill_engine.worker.candidate import Candidate, Edges
from midfill_engine.worker.full_attention import FullAttention
from midfill_engine.worker.job import Job, start_job
from midfill_engine.worker.length_moves import drop_moves, move_length
from midfill_engine.worker.strategies import STRATEGIES
from midfill_engine.worker.window import make_window

TEXTS = [
    ("class Account:\n    def deposit(self, amount):\n        self.balance", "\n    return 1\n"),
    ("def f(n):\n    return", "\n\n\ndef g(n):\n    return n\n"),
    ("x = ", ""),
    ("", "\n    return a\n"),
]


@pytest.fixture(scope="module")
def dream(tmp_path_factory: Any) -> FullAttentionModel:
    return load(write_dream(tmp_path_factory.mktemp("dream") / "model"))


@pytest.fixture(scope="module")
def llada(tmp_path_factory: Any) -> FullAttentionModel:
    return load(write_llada(tmp_path_factory.mktemp("llada") / "model"))


@pytest.fixture(scope="module")
def dreamon(tmp_path_factory: Any) -> FullAttentionModel:
    return load(write_dream(tmp_path_factory.mktemp("on") / "model", expand=True))


@pytest.fixture(autouse=True)
def probing(monkeypatch: pytest.MonkeyPatch) -> None:
    """These models are small enough to be probed on the CPU."""
    monkeypatch.setattr(full_attention, "PROBING_DEVICES", ("cpu", "cuda"))


def load(directory: Path) -> FullAttentionModel:
    torch.set_num_threads(1)
    return FullAttentionModel.load(directory, "float32", "cpu")


def requests(**options: Any) -> list[FillRequest]:
    return [
        replace(request_for(prefix, suffix, **options), request_id=number)
        for number, (prefix, suffix) in enumerate(TEXTS, 1)
    ]


def fills(result: FillResult) -> dict[str, float]:
    return {fill.text: round(fill.confidence, 3) for fill in result.fills}


def check_same(one: FillResult, other: FillResult) -> None:
    assert fills(one).keys() == fills(other).keys()
    for text, confidence in fills(one).items():
        assert fills(other)[text] == pytest.approx(confidence, abs=0.002)


@pytest.mark.parametrize("name", ["dream", "llada", "dreamon"])
@pytest.mark.parametrize("quality", QUALITIES)
def test_a_result_does_not_depend_on_its_batch(
    name: str, quality: Quality, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(name)
    with running(lambda: model) as run:
        alone = [run.fill(one) for one in requests(quality=quality)]
        together = [one.result() for one in run.ask(*requests(quality=quality))]
        assert any(result.fills for result in alone)
        for one, other in zip(alone, together, strict=True):
            check_same(one, other)
            assert one.stats.steps


@pytest.mark.parametrize("heal", [("ret", ""), ("\n        sel", ""), ("", "ance"), ("0", "15")])
@pytest.mark.parametrize("name", ["dream", "llada", "dreamon"])
def test_every_fill_has_its_edges(
    name: str, heal: tuple[str, str], request: pytest.FixtureRequest
) -> None:
    with running(lambda: request.getfixturevalue(name)) as run:
        for result in [
            run.fill(request_for(*TEXTS[0], heal_left=heal[0], heal_right=heal[1], quality=quality))
            for quality in QUALITIES
        ]:
            for fill in result.fills:
                assert fill.text.startswith(heal[0])
                assert fill.text.endswith(heal[1])
                assert "" not in fill.pieces


def test_drafts_are_shown_and_a_deadline_is_kept(dream: FullAttentionModel) -> None:
    with running(lambda: dream) as run:
        (asked,) = run.ask(request_for(*TEXTS[0], quality="best", want_drafts=True))
        assert asked.result().stats.steps == len(asked.replies) - 1
        assert run.fill(request_for(*TEXTS[0], quality="best", deadline_ms=1)).stats.steps == 1


def test_outputs_that_are_no_numbers_fail_the_request_they_belong_to(
    dream: FullAttentionModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits = dream.logits

    def broken(canvases: Any) -> list[Tensor]:
        parts = logits(canvases)
        for canvas, part in zip(canvases, parts, strict=True):
            if canvas.frame.before[-1] == poisoned:
                part[0, 40] = torch.nan
        return parts

    poisoned = dream.open(dream.vocabulary.encode(TEXTS[2][0]), []).before[-1]
    with running(lambda: dream) as run:
        sound = run.fill(requests()[0])
        monkeypatch.setattr(dream, "logits", broken)
        good, _, bad, _ = run.ask(*requests())
        failure = bad.failure()
        assert failure.kind == "ModelCorrupt"
        assert "not numbers" in failure.message
        check_same(good.result(), sound)
        monkeypatch.setattr(dream, "logits", logits)
        assert run.fill(requests()[2]).fills


def scripted(
    model: FullAttentionModel,
    monkeypatch: pytest.MonkeyPatch,
    decide: Callable[[list[int], int], tuple[int, float]],
) -> list[list[int]]:
    """Have `decide(canvas, position)` predict, as a token and its logit; returns what ran."""
    seen: list[list[int]] = []

    def logits(canvases: Any) -> list[Tensor]:
        parts = []
        for canvas in canvases:
            ids = list(canvas.ids)
            seen.append(ids)
            part = torch.full((len(canvas.wanted), model.vocabulary.size), -5.0)
            for row, position in enumerate(canvas.wanted):
                token, logit = decide(ids, position)
                part[row, token] = logit
            parts.append(part)
        return parts

    monkeypatch.setattr(model, "logits", logits)
    return seen


def test_masks_grow_and_go_as_the_model_says(
    dreamon: FullAttentionModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of a canvas's masks expands until there are ten; then every other one goes."""
    expand, delete = dreamon.vocabulary.length_moves
    word = dreamon.vocabulary.encode("self")[0]

    def decide(ids: list[int], position: int) -> tuple[int, float]:
        if len(ids) < 10 and word not in ids:
            return (expand, 20.0) if position == 0 else (word, 0.0)
        return (delete if position % 2 else word), 20.0

    seen = scripted(dreamon, monkeypatch, decide)
    with running(lambda: dreamon) as run:
        result = run.fill(request_for(*TEXTS[0], max_tokens=24))
    assert [len(ids) for ids in seen] == [8, 9, 10]
    assert [fill.text for fill in result.fills] == ["self" * 5]


def test_a_canvas_does_not_grow_for_ever(
    dreamon: FullAttentionModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that always wants more is stopped at the length asked for."""
    expand = dreamon.vocabulary.length_moves[0]
    seen = scripted(dreamon, monkeypatch, lambda ids, position: (expand, 20.0))
    with running(lambda: dreamon) as run:
        result = run.fill(request_for(*TEXTS[0], max_tokens=12))
    assert max(len(ids) for ids in seen) <= 12
    assert all(len(fill.pieces) <= 12 for fill in result.fills)


def test_a_canvas_that_grows_and_shrinks_comes_to_an_end(
    dreamon: FullAttentionModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    expand, delete = dreamon.vocabulary.length_moves

    def decide(ids: list[int], position: int) -> tuple[int, float]:
        return (expand if len(ids) < 3 else delete), 20.0 if position == 0 else 0.0

    scripted(dreamon, monkeypatch, decide)
    with running(lambda: dreamon) as run:
        assert run.fill(request_for(*TEXTS[0], max_tokens=12)).stats.steps < 50


def draft(ids: list[int]) -> Candidate:
    made = Candidate.of_length(Edges((), b"", (), True), "masked", len(ids))
    made.ids, made.masked = list(ids), [i == MASK for i in ids]
    return made


def test_a_move_takes_the_guesses_along(dreamon: FullAttentionModel) -> None:
    expand, delete = dreamon.vocabulary.length_moves
    made = draft([50, expand, MASK, delete, MASK])
    made.guesses = {1: (expand, 0.9), 2: (51, 0.5), 3: (delete, 0.9), 4: (52, 0.4)}
    made.history = {position: [torch.tensor(position)] for position in range(5)}
    move_length(made, dreamon.vocabulary)
    assert made.ids == [50, MASK, MASK, MASK, MASK]
    assert made.masked == [False, True, True, True, True]
    assert made.guesses == {3: (51, 0.5), 4: (52, 0.4)}
    assert {place: int(seen[0]) for place, seen in made.history.items()} == {0: 0, 3: 2, 4: 4}
    assert len(made.confidences) == 5


def test_moves_that_come_too_late_leave_no_trace(dreamon: FullAttentionModel) -> None:
    expand, delete = dreamon.vocabulary.length_moves
    made = draft([50, expand, 51, delete])
    drop_moves(made, dreamon.vocabulary)
    assert made.ids == [50, 51]
    assert dreamon.vocabulary.decode(made.ids) is not None


def test_text_ends_at_the_first_end_of_text(
    dream: FullAttentionModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a model without length moves; masks behind it are given up with it."""
    word = dream.vocabulary.encode("self")[0]

    def decide(ids: list[int], position: int) -> tuple[int, float]:
        return (EMPTY, 20.0) if position == 2 else (word, 20.0 if position < 2 else 0.0)

    scripted(dream, monkeypatch, decide)
    with running(lambda: dream) as run:
        (fill,) = run.fill(request_for(*TEXTS[0])).fills
    assert fill.text == "selfself"


@pytest.mark.parametrize("name", ["dream", "dreamon"])
def test_a_full_canvas_is_whole(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It neither grows nor is cut after its last line break: what follows is the suffix."""
    model = request.getfixturevalue(name)
    word, line = (model.vocabulary.encode(text)[0] for text in ("self", "\n"))

    def decide(ids: list[int], position: int) -> tuple[int, float]:
        return (line if position == 1 else word), 20.0

    scripted(model, monkeypatch, decide)
    with running(lambda: model) as run:
        for deadline_ms in (1, 60_000):
            asked = request_for(*TEXTS[0], single_line=False, max_tokens=8, deadline_ms=deadline_ms)
            (fill,) = run.fill(asked).fills
            assert fill.text == "self\n" + "self" * 6


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_comes_to_an_end_whatever_the_length_does(
    dreamon: FullAttentionModel, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    """The model's outputs are drawn anew in each step, expansions and deletions among them."""
    dice = random.Random(1)
    tokens = [*dreamon.vocabulary.length_moves, *dreamon.vocabulary.encode("self.a b")]

    def decide(ids: list[int], position: int) -> tuple[int, float]:
        return dice.choice(tokens), dice.uniform(0, 20)

    seen = scripted(dreamon, monkeypatch, decide)
    with running(lambda: dreamon) as run:
        asked = replace(request_for(*TEXTS[0], max_tokens=12), strategy=strategy)
        result = run.fill(asked)
    assert not result.at_deadline
    assert max(len(ids) for ids in seen) <= 12
    special = {dreamon.vocabulary.piece(move) for move in dreamon.vocabulary.length_moves}
    assert not any(special & set(fill.pieces) for fill in result.fills)


@torch.inference_mode()
def test_a_step_from_the_cache_is_booked_with_its_own_rows(dream: FullAttentionModel) -> None:
    """And one that fills the cache with those of the frame as well."""
    model = FullAttention(dream)
    request = request_for(*TEXTS[0])
    window = make_window(dream.vocabulary, request.prefix, 0, request.suffix)
    context, reused = model.new_pool(0).acquire(window)
    job = start_job(request, window, context, reused, model.plan(request))
    model.open(job)
    canvas, frame = len(job.candidates[0].ids), context.frame
    assert model.rows(job) == len(frame.before) + canvas + len(frame.after)
    model.predict([job])
    assert model.rows(job) == canvas + 1
    model.predict([job])
    assert model.rows(job) == canvas + 1


def test_lengths_are_probed_where_there_is_time(
    dream: FullAttentionModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is surest of five masks at first sight, so the first draft has five."""
    word = dream.vocabulary.encode("self")[0]

    def decide(ids: list[int], position: int) -> tuple[int, float]:
        return word, 20.0 if len(ids) == 5 else 1.0

    seen = scripted(dream, monkeypatch, decide)
    with running(lambda: dream) as run:
        fast = run.fill(request_for(*TEXTS[0], quality="fast"))
        assert {len(ids) for ids in seen} == {8}
        balanced = run.fill(request_for(*TEXTS[0], quality="balanced"))
        monkeypatch.setattr(full_attention, "PROBING_DEVICES", ("cuda",))
        seen.clear()
        run.fill(request_for(*TEXTS[0], quality="balanced"))
    assert fast.fills[0].text == "self" * 8
    assert balanced.fills[0].text == "self" * 5
    assert {len(ids) for ids in seen} == {6, 10, 16}


def test_a_job_too_large_for_its_cache_runs_exactly(
    dream: FullAttentionModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    caches = []
    logits = dream.logits

    def watched(canvases: Any) -> list[Tensor]:
        caches.append([canvas.cache for canvas in canvases])
        return logits(canvases)

    monkeypatch.setattr(dream, "logits", watched)
    with running(lambda: dream) as run:
        run.fill(requests()[0])
        assert all(cache is not None for cache in caches[-1])
        monkeypatch.setattr(full_attention, "CACHE_BYTES", 1)
        run.fill(requests()[0])
    assert caches[-1] == [None]


def test_an_aborted_job_leaves_no_cache(
    dream: FullAttentionModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[Job] = []
    predict = full_attention.FullAttention.predict

    def failing(self: Any, running_jobs: Any) -> list[Tensor]:
        jobs.extend(running_jobs)
        predict(self, running_jobs)
        raise RuntimeError("out of memory")

    monkeypatch.setattr(full_attention.FullAttention, "predict", failing)
    with running(lambda: dream) as run:
        assert "out of memory" in run.ask(requests()[0])[0].failure().message
        assert run.scheduler.cache_bytes == 0
    assert not jobs[0].context.caches  # type: ignore[attr-defined]
