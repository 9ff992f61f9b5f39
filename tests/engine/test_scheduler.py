"""The loop that runs the model.

Its model is the tiny one, behind a `Stage` where a test needs a hand in what passes do.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, cast

import pytest
from support.jobs import request_for
from support.schedulers import LIMIT_S, Asked, Running, Stage, running
from support.wordy_model import write_wordy_model

from midfill_engine.errors import EngineError, ModelMissing
from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.protocol import QUALITIES, DraftEvent, FillRequest, FillResult, Quality
from midfill_engine.worker import scheduler
from midfill_engine.worker.backend import ContextCached
from midfill_engine.worker.context import ContextPool
from midfill_engine.worker.scheduler import MAX_ACTIVE
from midfill_engine.worker.window import Window

PREFIX: Final = "class Account:\n    def deposit(self, amount):\n        self.balance"
TEXTS: Final = [
    (PREFIX, "\n        return self.balance\n"),
    ("def f(n):\n    return", "\n\n\ndef g(n):\n    return n\n"),
    ("x = ", ""),
    ("", "\n    return a\n"),
    ("for _ in range(n", "):\n    a, b = b, a + b\n"),
]


def requests(**options: Any) -> list[FillRequest]:
    return [
        replace(request_for(prefix, suffix, **options), request_id=number)
        for number, (prefix, suffix) in enumerate(TEXTS, 1)
    ]


def fills(result: FillResult) -> dict[str, tuple[tuple[str, ...], float]]:
    return {fill.text: (fill.pieces, round(fill.score, 2)) for fill in result.fills}


@pytest.mark.parametrize("quality", QUALITIES)
def test_results_do_not_depend_on_what_else_is_running(busy: Running, quality: Quality) -> None:
    asked = [*requests(quality=quality), *requests(quality=quality, single_line=False)][:9]
    alone = [busy.fill(request) for request in asked]
    together = [one.result() for one in busy.ask(*asked)]
    assert any(result.fills for result in alone)
    for one, other in zip(alone, together, strict=True):
        assert set(fills(one)) == set(fills(other))
        for text, (pieces, score) in fills(one).items():
            assert fills(other)[text][0] == pieces
            assert fills(other)[text][1] == pytest.approx(score, abs=0.05)


def test_more_requests_than_fit_into_a_batch(busy: Running) -> None:
    asked = busy.ask(*requests() * 5)
    assert len(asked) > MAX_ACTIVE
    assert all(not one.result().at_deadline for one in asked)


@pytest.mark.parametrize(("clients", "reused"), [(1, False), (5, True)])
def test_each_client_finds_what_it_has_encoded(
    tiny: EmbeddedModel, monkeypatch: pytest.MonkeyPatch, clients: int, reused: bool
) -> None:
    """However many there are; the bound that suits one of them is too small for five texts."""
    asked = [request_for(letter * 90, "\n") for letter in "vwxyz"]
    one = ContextPool(tiny.config, 1)
    one.acquire(Window((20,), ()))
    monkeypatch.setattr(scheduler, "CONTEXT_BYTES", one.nbytes)
    with running(lambda: tiny) as run:
        run.scheduler.clients = clients
        for request in asked:
            run.fill(request)
        stats = [run.fill(request).stats for request in asked]
    assert [one.reused_tokens > one.context_tokens / 2 for one in stats] == [reused] * 5


@pytest.fixture(scope="module")
def wordy(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedModel:
    """What it writes is text whenever it is stopped."""
    directory = write_wordy_model(tmp_path_factory.mktemp("wordy") / "model")
    return EmbeddedModel.load(str(directory), "float32")


@pytest.mark.parametrize("deadline_ms", [1, 0, -1000])
def test_a_deadline_that_has_passed_still_gets_one_step(
    wordy: EmbeddedModel, deadline_ms: int
) -> None:
    with running(lambda: wordy) as run:
        results = [run.fill(r) for r in requests(deadline_ms=deadline_ms, quality="best")]
    assert all(result.at_deadline and result.stats.steps == 1 for result in results)
    assert all(result.fills for result in results)


def test_a_withdrawn_request_is_not_started(busy: Running) -> None:
    withdrawn = Asked(request_for())
    withdrawn.ticket.cancelled = True
    busy.submit(withdrawn)
    assert busy.fill(request_for()).fills
    assert withdrawn.replies == []


def test_a_request_withdrawn_on_its_way_ends_there(busy: Running) -> None:
    withdrawn = Asked(request_for(quality="best", want_drafts=True))

    def withdraw() -> None:
        withdrawn.ticket.cancelled = True

    withdrawn.on_reply = withdraw
    busy.submit(withdrawn)
    assert busy.fill(request_for(quality="best")).fills
    assert len(withdrawn.replies) == 1


def test_a_request_withdrawn_in_its_last_step_is_not_answered(busy: Running) -> None:
    withdrawn = Asked(request_for(deadline_ms=1, want_drafts=True))

    def withdraw() -> None:
        withdrawn.ticket.cancelled = True

    withdrawn.on_reply = withdraw
    busy.submit(withdrawn)
    assert busy.fill(request_for()).fills


def check_order(tiny: EmbeddedModel, asked: list[FillRequest], expected: list[int]) -> None:
    """Requests that come in while the model is loaded are answered in this order."""
    go, order = threading.Event(), cast(list[int], [])

    def load() -> EmbeddedModel:
        assert go.wait(LIMIT_S)
        return tiny

    with running(load) as run:
        for request in asked:
            one = Asked(request)
            one.on_reply = lambda number=request.request_id: order.append(number)
            run.submit(one)
        go.set()
        for one in run.asked:
            one.result()
    assert order == expected


def test_requests_that_somebody_waits_for_go_first(tiny: EmbeddedModel) -> None:
    background = [request_for(interactive=False, max_tokens=1, request_id=n) for n in (1, 2)]
    waited_for = request_for(quality="best", request_id=3)
    check_order(tiny, [*background, waited_for], [3, 1, 2])


def test_a_late_request_is_answered_though_nobody_waits_for_it(tiny: EmbeddedModel) -> None:
    background = request_for(interactive=False, deadline_ms=0, request_id=1)
    waited_for = request_for(quality="best", request_id=2)
    check_order(tiny, [background, waited_for], [1, 2])


def test_the_clock_starts_when_the_model_is_there(tiny: EmbeddedModel) -> None:
    """A request that has waited an hour for it is not cut short."""
    go = threading.Event()

    def load() -> EmbeddedModel:
        assert go.wait(LIMIT_S)
        return tiny

    with running(load) as run:
        early = Asked(request_for(quality="best"))
        early.ticket.received -= 3600
        run.submit(early)
        go.set()
        assert not early.result().at_deadline


def failing(count: int, call: Callable[..., Any]) -> Callable[..., Any]:
    """`call`, but for its `count`-th call."""
    calls = iter(range(1, 1_000_000))

    def run(*args: Any) -> Any:
        if next(calls) == count:
            raise RuntimeError("no memory")
        return call(*args)

    return run


@pytest.mark.parametrize("name", ["run_denoiser", "denoiser_logits", "run_base", "base_logits"])
def test_a_pass_that_fails_fails_its_request_only(tiny: EmbeddedModel, name: str) -> None:
    stage = Stage(tiny, **{name: failing(1, getattr(tiny, name))})
    with running(lambda: stage) as run:
        failure = run.ask(requests(quality="best", heal_right="ance")[0])[0].failure()
        assert (failure.kind, "no memory" in failure.message) == ("RequestRejected", True)
        for request in requests():
            assert run.fill(request).stats.steps


def test_a_context_that_cannot_be_opened_is_given_back(
    tiny: EmbeddedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ContextCached, "open", failing(1, ContextCached.open))
    with running(lambda: tiny) as run:
        asked = run.ask(request_for())[0]
        assert "no memory" in asked.failure().message
        assert run.fill(request_for()).stats.reused_tokens == 0


def test_a_score_that_fails_does_not_take_others_along(tiny: EmbeddedModel) -> None:
    go = threading.Event()
    stage = Stage(tiny, base_logits=failing(1, tiny.base_logits))

    def load() -> Any:
        assert go.wait(LIMIT_S)
        return stage

    with running(load) as run:
        asked = run.ask(*requests(quality="best", heal_right="ance")[:2] * 2)
        go.set()
        kinds = sorted(type(one.answer()).__name__ for one in asked)
        assert kinds == ["Failure", "FillResult", "FillResult", "FillResult"]


def test_what_a_failed_pass_left_behind_is_not_reused(tiny: EmbeddedModel) -> None:
    stage = Stage(tiny, run_denoiser=failing(1, tiny.run_denoiser))
    with running(lambda: stage) as run:
        run.ask(request_for())[0].failure()
        assert run.fill(request_for()).stats.reused_tokens == 0
        assert run.fill(request_for()).stats.reused_tokens > 0


def test_a_model_that_cannot_be_loaded_is_tried_again(tiny: EmbeddedModel) -> None:
    outcomes: list[Exception | None] = [ModelMissing("nothing there"), OSError("bad disk"), None]

    def load() -> EmbeddedModel:
        error = outcomes.pop(0)
        if error is not None:
            raise error
        return tiny

    with running(load) as run:
        failure = run.ask(request_for())[0].failure()
        assert (failure.kind, failure.message) == ("ModelMissing", "nothing there")
        failure = run.ask(request_for())[0].failure()
        assert (failure.kind, "bad disk" in failure.message) == ("ModelError", True)
        assert run.fill(request_for()).fills


def test_who_asks_for_the_model_is_told(tiny: EmbeddedModel) -> None:
    outcomes: list[Exception | None] = [ModelMissing("nothing there"), None]
    told: queue.Queue[EngineError | None] = queue.Queue()

    def load() -> EmbeddedModel:
        error = outcomes.pop(0)
        if error is not None:
            raise error
        return tiny

    with running(load) as run:
        run.scheduler.when_loaded(told.put)
        assert isinstance(told.get(timeout=LIMIT_S), ModelMissing)
        run.scheduler.when_loaded(told.put)
        assert told.get(timeout=LIMIT_S) is None


@pytest.mark.parametrize("quality", QUALITIES)
def test_drafts_sharpen_step_by_step(busy: Running, quality: Quality) -> None:
    for request in requests(quality=quality, want_drafts=True):
        (asked,) = busy.ask(request)
        result = asked.result()
        events = [reply for reply in asked.replies if isinstance(reply, DraftEvent)]
        assert [event.step for event in events] == list(range(1, result.stats.steps + 1))
        # The last step may end drafts that are not worth their time any more.
        for before, after in pairwise(events[:-1]):
            for old, new in zip(before.drafts, after.drafts, strict=True):
                pairs = list(zip(old.pieces, new.pieces, strict=False))
                grown = len(new.pieces) > len(old.pieces)
                assert not grown or None not in new.pieces[: len(old.pieces)]
                assert all(was in (None, now) for was, now in pairs)


def test_no_drafts_for_who_does_not_want_them(busy: Running) -> None:
    (asked,) = busy.ask(request_for())
    asked.result()
    assert len(asked.replies) == 1
