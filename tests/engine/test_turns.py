"""Whose turn it is: priority, fairness between clients, and deadlines on a clock of the test's."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import pytest
from support.jobs import request_for
from support.schedulers import LIMIT_S, Asked, Stage, running

from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.protocol import DraftEvent, FillResult
from midfill_engine.worker import backend
from midfill_engine.worker import scheduler as scheduler_module
from midfill_engine.worker.turns import Ticket, Turns

FLOODING: Final = 1
OTHER: Final = 2
ROOM: Final = 100


def ticket(
    client: int, *, received: float = 0.0, interactive: bool = True, deadline_ms: int = 60_000
) -> Ticket:
    request = request_for(interactive=interactive, deadline_ms=deadline_ms)
    return Ticket(request, lambda _answer: None, received, client)


def turns(*tickets: Ticket) -> Turns:
    made = Turns()
    made.meet(tickets)
    return made


def passes(account: Turns, rows: dict[Ticket, int], count: int) -> list[list[Ticket]]:
    """So many passes, each booked."""
    taken = []
    for _ in range(count):
        account.meet(rows)
        taken.append(account.in_pass(rows, ROOM, 0.0))
        for one in taken[-1]:
            account.book(one, rows[one])
    return taken


def test_all_that_is_active_takes_part_while_there_is_room() -> None:
    tickets = [ticket(FLOODING), ticket(FLOODING), ticket(OTHER)]
    taken = turns(*tickets).in_pass(dict.fromkeys(tickets, 30), ROOM, 0.0)
    assert set(taken) == set(tickets)


def test_one_that_is_too_large_for_a_pass_runs_alone() -> None:
    large, small = ticket(FLOODING), ticket(OTHER, received=1)
    (first, second) = passes(turns(large, small), {large: 3 * ROOM, small: 10}, 2)
    assert first == [large]
    assert second == [small]


@pytest.mark.parametrize("rows", [20, 60, 100, 350])
def test_a_flood_leaves_every_second_pass_to_others(rows: int) -> None:
    flood = {ticket(FLOODING, received=n): rows for n in range(8)}
    other = ticket(OTHER, received=9)
    account = turns(*flood, other)
    passes(account, flood, 20)
    seen = [other in taken for taken in passes(account, {**flood, other: 20}, 40)]
    assert all(a or b for a, b in pairwise(seen))


def test_rows_are_shared_alike() -> None:
    tickets = {ticket(client, received=n): 60 for client in (1, 2, 3) for n in range(client)}
    taken = [one.client for part in passes(turns(*tickets), tickets, 60) for one in part]
    assert [taken.count(client) for client in (1, 2, 3)] == [20, 20, 20]


def test_an_idle_hour_earns_nothing() -> None:
    """Who comes anew is level with the others, not ahead of them by what they have had."""
    old, new = {ticket(1): 100}, ticket(2)
    account = turns(*old)
    passes(account, old, 1000)
    taken = passes(account, {**old, new: 100}, 10)
    assert sum(new in part for part in taken) == 5


def test_background_work_stands_back_until_it_is_late() -> None:
    waited_for = ticket(1)
    background = ticket(2, interactive=False, deadline_ms=1000)
    rows = {waited_for: 10, background: 10}
    account = turns(*rows)
    assert account.in_pass(rows, ROOM, 0.5) == [waited_for]
    assert set(account.in_pass(rows, ROOM, 1.5)) == set(rows)
    assert account.in_pass({background: 10}, ROOM, 0.5) == [background]


def test_who_comes_in_next() -> None:
    background = ticket(3, interactive=False)
    flood, other = [ticket(FLOODING, received=n) for n in range(3)], ticket(OTHER, received=9)
    account = turns(background, *flood, other)
    assert account.next_in([background, *flood, other], [flood[0]]) is other
    assert account.next_in([background, *flood], []) is flood[0]
    assert account.next_in([background], flood) is background
    assert account.next_in([], flood) is None


def test_who_gives_way() -> None:
    background = ticket(FLOODING, interactive=False)
    flood = [ticket(FLOODING, received=n) for n in range(3)]
    account = Turns()
    assert account.gives_way(ticket(OTHER), [background, *flood]) is background
    assert account.gives_way(ticket(OTHER), flood) is flood[-1]
    assert account.gives_way(ticket(OTHER), flood[:1]) is None
    assert account.gives_way(ticket(OTHER, interactive=False), flood) is None
    assert account.gives_way(ticket(FLOODING), flood) is None


class Passes:
    """Counts the passes of a model's denoiser."""

    def __init__(self, model: EmbeddedModel) -> None:
        self.count = 0
        self._run = model.run_denoiser
        self.stage = Stage(model, run_denoiser=self._counted)

    def _counted(self, *args: Any) -> Any:
        self.count += 1
        return self._run(*args)


def contexts(model: EmbeddedModel, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave room for so many requests at a time."""
    monkeypatch.setattr(scheduler_module, "MAX_ACTIVE", count)


@pytest.mark.parametrize(("quality", "rows"), [("fast", 3), ("best", 60)])
def test_a_client_that_floods_does_not_starve_another(
    tiny: EmbeddedModel, monkeypatch: pytest.MonkeyPatch, quality: Any, rows: int
) -> None:
    """The other's steps follow one another at every second pass at the latest, the first too."""
    contexts(tiny, 4, monkeypatch)
    monkeypatch.setattr(backend, "SHARED_PASS_ROWS", rows)
    counted = Passes(tiny)
    other = Asked(request_for(want_drafts=True, request_id=99), OTHER)
    seen: list[int] = []
    other.on_reply = lambda: seen.append(counted.count)
    flood = [
        Asked(request_for(quality=quality, want_drafts=True, request_id=n), FLOODING)
        for n in range(1, 13)
    ]

    with running(lambda: counted.stage) as run:

        def come_late() -> None:
            flood[0].on_reply = lambda: None
            seen.append(counted.count)
            run.submit(other)

        flood[0].on_reply = come_late
        run.submit(*flood)
        assert other.result().stats.steps > 2
        assert max(b - a for a, b in pairwise(seen)) <= 2
        waiting = sum(not any(isinstance(r, FillResult) for r in one.replies) for one in flood)
        assert waiting > 2
        for one in flood:
            assert one.result().stats.steps


def test_background_work_goes_back_for_what_somebody_waits_for(
    tiny: EmbeddedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts(tiny, 2, monkeypatch)
    background = [
        Asked(request_for(interactive=False, quality="best", want_drafts=True, request_id=n))
        for n in (1, 2)
    ]
    waited_for = Asked(request_for(quality="best", request_id=3))
    order: list[int] = []
    with running(lambda: tiny) as run:

        def come_late() -> None:
            background[0].on_reply = lambda: None
            run.submit(waited_for)

        background[0].on_reply = come_late
        run.submit(*background)
        for one in background:
            # The first reply is a draft; what is noted is the last one.
            one._final = noting(one._final, lambda number: order.append(number))
        waited_for._final = noting(waited_for._final, lambda number: order.append(number))
        assert waited_for.result().fills
        assert all(one.result().stats.steps > 1 for one in background)
    assert order[0] == 3


def noting(final: Any, note: Callable[[int], None]) -> Any:
    put = final.put

    def noted(answer: Any) -> None:
        note(answer.request_id)
        put(answer)

    final.put = noted
    return final


class SlowModel:
    """Passes of random length on a clock that nothing else moves."""

    LONGEST_S: Final = 0.1

    def __init__(self, model: EmbeddedModel, seed: int) -> None:
        self.now = 0.0
        self._dice = random.Random(seed)
        slow = {name: self._slowed(getattr(model, name)) for name in ("run_base", "run_denoiser")}
        self.stage = Stage(model, **slow)

    def _slowed(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def slowed(*args: Any) -> Any:
            self.now += self._dice.uniform(0.005, self.LONGEST_S)
            return run(*args)

        return slowed


@pytest.mark.parametrize("seed", range(6))
def test_a_deadline_is_kept_to_within_one_pass(tiny: EmbeddedModel, seed: int) -> None:
    """From the second step on; a first step is taken whatever the time."""
    slow, dice = SlowModel(tiny, seed), random.Random(seed)
    go = threading.Event()

    def load() -> Any:
        assert go.wait(LIMIT_S)
        return slow.stage

    over: list[float] = []
    with running(load, lambda: slow.now) as run:
        asked = [
            Asked(
                request_for(
                    quality=dice.choice(["fast", "balanced", "best"]),
                    deadline_ms=dice.randint(400, 2000),
                    request_id=number,
                    single_line=dice.random() < 0.5,
                ),
                client=number % 3,
            )
            for number in range(1, 13)
        ]
        for one in asked:
            one.on_reply = lambda one=one: over.append(slow.now - one.ticket.deadline)
        run.submit(*asked)
        go.set()
        results = [one.result() for one in asked]
    assert any(result.at_deadline for result in results)
    assert max(over) <= SlowModel.LONGEST_S


def test_who_cannot_be_started_in_time_is_answered_in_time(
    tiny: EmbeddedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts(tiny, 1, monkeypatch)
    slow = SlowModel(tiny, 1)
    with running(lambda: slow.stage, lambda: slow.now) as run:
        first = Asked(request_for(quality="best", deadline_ms=10_000, want_drafts=True))
        second = Asked(request_for(deadline_ms=100, request_id=2))
        over: list[float] = []
        second.on_reply = lambda: over.append(slow.now - second.ticket.deadline)

        def come_late() -> None:
            first.on_reply = lambda: None
            run.submit(second)

        first.on_reply = come_late
        run.submit(first)
        assert first.result().fills
        answer = second.result()
    assert (answer.fills, answer.at_deadline, answer.stats.steps) == ((), True, 0)
    assert answer.stats.total_ms >= 100
    assert over[0] <= SlowModel.LONGEST_S
    assert any(isinstance(reply, DraftEvent) for reply in first.replies)
