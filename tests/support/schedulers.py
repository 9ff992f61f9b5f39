"""A scheduler in a thread of its own, as in a worker, and what it is asked."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.protocol import DraftEvent, Failure, FillRequest, FillResult
from midfill_engine.worker.scheduler import CONTEXT_BYTES, Scheduler
from midfill_engine.worker.turns import Ticket

LIMIT_S: Final = 60.0


class Stage:
    """A model whose passes can be watched, held up or made to fail."""

    def __init__(self, model: EmbeddedModel, **replaced: Any) -> None:
        self._model = model
        self._replaced = replaced

    def __getattr__(self, name: str) -> Any:
        return self._replaced.get(name) or getattr(self._model, name)


class Asked:
    """A request, its ticket, and all that was replied to it."""

    def __init__(self, request: FillRequest, client: int = 0) -> None:
        self.replies: list[DraftEvent | FillResult | Failure] = []
        self.on_reply: Callable[[], None] = lambda: None
        self._final: queue.Queue[FillResult | Failure] = queue.Queue()
        self.ticket = Ticket(request, self._take, 0.0, client)

    def answer(self) -> FillResult | Failure:
        return self._final.get(timeout=LIMIT_S)

    def result(self) -> FillResult:
        answer = self.answer()
        assert isinstance(answer, FillResult), answer
        return answer

    def failure(self) -> Failure:
        answer = self.answer()
        assert isinstance(answer, Failure), answer
        return answer

    def _take(self, message: DraftEvent | FillResult | Failure) -> None:
        self.replies.append(message)
        self.on_reply()
        if not isinstance(message, DraftEvent):
            self._final.put(message)


class Running:
    """A scheduler at work."""

    def __init__(self, load: Callable[[], EmbeddedModel], clock: Callable[[], float]) -> None:
        self.scheduler = Scheduler(load, clock)
        self.asked: list[Asked] = []

    def ask(self, *requests: FillRequest) -> list[Asked]:
        asked = [Asked(request) for request in requests]
        self.submit(*asked)
        return asked

    def fill(self, request: FillRequest) -> FillResult:
        return self.ask(request)[0].result()

    def submit(self, *asked: Asked) -> None:
        self.asked += asked
        for one in asked:
            one.ticket.received += self.scheduler.clock()
            self.scheduler.submit(one.ticket)

    def check_nothing_is_kept(self) -> None:
        pool = self.scheduler._pool
        assert self.scheduler.active == 0
        assert pool is None or not any(context.busy for context in pool._contexts)
        assert self.scheduler.cache_bytes <= CONTEXT_BYTES * (1 + self.scheduler.clients)


@contextmanager
def running(
    load: Callable[[], Any], clock: Callable[[], float] = time.monotonic
) -> Iterator[Running]:
    """A scheduler in its thread. In the end every request must have had one answer, or none if it
    was withdrawn, and nothing may be left of any."""
    run = Running(load, clock)
    thread = threading.Thread(target=run.scheduler.run)
    thread.start()
    try:
        yield run
        loaded = threading.Event()
        run.scheduler.when_loaded(lambda _error: loaded.set())  # after the tick in progress
        assert loaded.wait(LIMIT_S)
    finally:
        run.scheduler.close()
        thread.join(LIMIT_S)
    assert not thread.is_alive()
    for asked in run.asked:
        answers = [r for r in asked.replies if not isinstance(r, DraftEvent)]
        assert len(answers) == (0 if asked.ticket.cancelled else 1)
        assert all(r.request_id == asked.ticket.request.request_id for r in asked.replies)
    run.check_nothing_is_kept()
