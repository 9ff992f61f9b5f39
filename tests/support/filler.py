"""Fills from a scheduler in this process."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.protocol import DraftEvent, Failure, FillRequest, FillResult
from midfill_engine.worker.scheduler import Scheduler, Ticket

_LIMIT_S = 120


@dataclass(frozen=True, slots=True)
class Filler:
    """Asks one scheduler, one request at a time."""

    scheduler: Scheduler

    def fill(self, request: FillRequest) -> FillResult:
        """The answer to a request that is not refused."""
        answers: queue.Queue[DraftEvent | FillResult | Failure] = queue.Queue()
        self.scheduler.submit(Ticket(request, answers.put))
        answer = answers.get(timeout=_LIMIT_S)
        assert isinstance(answer, FillResult), answer
        return answer


@contextmanager
def filler_for(model: EmbeddedModel) -> Iterator[Filler]:
    """A scheduler on a thread of its own."""
    scheduler = Scheduler(lambda: model)
    thread = threading.Thread(target=scheduler.run)
    thread.start()
    try:
        yield Filler(scheduler)
    finally:
        scheduler.close()
        thread.join()
