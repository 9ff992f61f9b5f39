"""The loop that runs the model: at every denoising step the batch is whatever is active.

Owns the order of work and the clock. Requests come in from other threads as tickets; each is
answered exactly once through its `reply`, unless it was cancelled before.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import torch

from midfill_engine.errors import EngineError, ModelError, RequestRejected
from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.full_attention import FullAttentionModel
from midfill_engine.protocol import DraftEvent, Failure, FillRequest, FillResult
from midfill_engine.worker.backend import Backend, backend_for
from midfill_engine.worker.job import (
    Job,
    Pool,
    Scorable,
    Work,
    commit_step,
    confidence,
    make_result,
    start_job,
    texts_to_score,
)
from midfill_engine.worker.window import make_window

MAX_ACTIVE: Final = 16  # jobs in one batch; more wait their turn
CONTEXT_BYTES: Final = 160 * 1024 * 1024
_LOG: Final = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Ticket:
    """A request on its way in, and where its answer goes."""

    request: FillRequest
    reply: Callable[[DraftEvent | FillResult | Failure], None]
    received: float = field(default_factory=time.monotonic)
    cancelled: bool = False  # set from any thread; seen before the next step


@dataclass(slots=True, eq=False)
class _Run:
    """An admitted ticket."""

    ticket: Ticket
    job: Job
    deadline: float  # on the monotonic clock

    def spent(self, seconds: float, field_name: str) -> None:
        """Book one pass of so many seconds on the job's account."""
        stats = self.job.stats
        spent = getattr(stats, field_name) + 1000 * seconds
        self.job.stats = replace(stats, passes=stats.passes + 1, **{field_name: spent})


class Scheduler:
    """Runs jobs step by step on the thread that calls `run`."""

    def __init__(self, load: Callable[[], EmbeddedModel | FullAttentionModel]) -> None:
        self._load = load
        self._changed = threading.Condition()
        self._inbox: list[Ticket] = []
        self._wanting: list[Callable[[EngineError | None], None]] = []
        self._closing = False
        self._runs: list[_Run] = []
        self.held = ("", "")  # how the model's weights are held, and where, once it is loaded
        self._pool: Pool | None = None
        self._step_s = 0.0  # how long the last denoising pass took
        self._score_s = 0.0  # and the last scoring pass

    @property
    def active(self) -> int:
        """Requests that are not answered yet."""
        return len(self._runs) + len(self._inbox)

    @property
    def cache_bytes(self) -> int:
        """Bytes held by contexts."""
        return self._pool.nbytes if self._pool else 0

    def submit(self, ticket: Ticket) -> None:
        """Queue a request; from any thread."""
        with self._changed:
            self._inbox.append(ticket)
            self._changed.notify()

    def when_loaded(self, call: Callable[[EngineError | None], None]) -> None:
        """Have `call` told, on the model's thread, that it is loaded or why it cannot be."""
        with self._changed:
            self._wanting.append(call)
            self._changed.notify()

    def close(self) -> None:
        """Make `run` return after the step it is in; from any thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def run(self) -> None:
        """Serve until closed. The model is loaded on first need."""
        model = None
        while self._has_work():
            model = model or self._try_load()
            if model is not None:
                self._report_load(None)
                with torch.inference_mode():
                    self._tick(model)

    def _has_work(self) -> bool:
        """Wait for it; False when closed."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closing or self._inbox or self._runs or self._wanting
            )
            return not self._closing

    def _try_load(self) -> Backend | None:
        """Load the model, or refuse all that wait for it; the next request tries again.

        A person waits for the model, not for a deadline: clocks start when it is there.
        """
        try:
            model = backend_for(self._load())
        except Exception as error:  # noqa: BLE001 - the worker outlives a failed load
            _LOG.error("the model could not be loaded", exc_info=error)
            known = error if isinstance(error, EngineError) else ModelError(f"loading: {error!r}")
            self._report_load(known)
            for ticket in self._take(len(self._inbox)):
                _refuse(ticket, known)
            return None
        self._pool = model.new_pool(CONTEXT_BYTES)
        self.held = model.held
        with self._changed:
            for ticket in self._inbox:
                ticket.received = time.monotonic()
        return model

    def _report_load(self, error: EngineError | None) -> None:
        with self._changed:
            wanting, self._wanting = self._wanting, []
        for call in wanting:
            call(error)

    def _tick(self, model: Backend) -> None:
        """One turn: admit and encode arrivals, one denoising step, score and answer."""
        self._drop_cancelled()
        self._admit(model)
        runs = self._turn()
        self._guarded(
            self._denoise, model, [r for r in runs if r.job.active and not self._is_late(r)]
        )
        for run in runs:
            if run in self._runs and (not run.job.active or self._is_late(run)):
                self._guarded(self._finish, model, [run])

    def _guarded(
        self,
        work: Callable[[Backend, Sequence[_Run]], None],
        model: Backend,
        runs: Sequence[_Run],
    ) -> None:
        """Do a piece of work; where it fails, so do the requests that it was for."""
        try:
            work(model, runs)
        except Exception as error:  # noqa: BLE001 - the worker outlives any one pass
            self._abort(runs, error)

    def _turn(self) -> list[_Run]:
        """Whose turn it is: requests that nobody waits for stand back, until they are late."""
        now = time.monotonic()
        first = [r for r in self._runs if r.ticket.request.interactive or r.deadline < now]
        return first or list(self._runs)

    def _take(self, count: int) -> list[Ticket]:
        """Up to so many tickets from the inbox, interactive ones first."""
        with self._changed:
            waiting = [ticket for ticket in self._inbox if not ticket.cancelled]
            waiting.sort(key=lambda ticket: not ticket.request.interactive)
            taken, self._inbox = waiting[:count], waiting[count:]
        return taken

    def _admit(self, model: Backend) -> None:
        """Give arrivals a context each, and encode what their contexts lack in one pass."""
        arrivals: list[_Run] = []
        work: list[Work] = []
        started = time.monotonic()
        for ticket in self._take(MAX_ACTIVE - len(self._runs)):
            try:
                run, missing = self._start(model, ticket)
            except RequestRejected as error:
                _refuse(ticket, error)
                continue
            except Exception as error:  # noqa: BLE001 - the worker outlives any one request
                _LOG.error("a request could not be started", exc_info=error)
                _refuse(ticket, RequestRejected(f"the engine failed: {error!r}"))
                continue
            arrivals.append(run)
            work += missing
        if work:
            try:
                model.encode(work)
            except Exception as error:  # noqa: BLE001 - the worker outlives any one pass
                self._abort(arrivals, error)
        for run in arrivals:
            run.spent(time.monotonic() - started, "encode_ms")

    def _start(self, model: Backend, ticket: Ticket) -> tuple[_Run, list[Work]]:
        request = ticket.request
        assert self._pool is not None
        window = make_window(model.vocabulary, request.prefix, request.prefix_line, request.suffix)
        candidates = model.plan(request)
        context, reused = self._pool.acquire(window)
        job = start_job(request, window, context, reused, candidates)
        job.stats = replace(job.stats, queue_ms=1000 * (time.monotonic() - ticket.received))
        run = _Run(ticket, job, ticket.received + request.deadline_ms / 1000)
        self._runs.append(run)
        return run, model.open(job)

    def _denoise(self, model: Backend, runs: Sequence[_Run]) -> None:
        """One step for all of them in one pass."""
        if not runs:
            return
        started = time.monotonic()
        for run, logits in zip(runs, model.predict([run.job for run in runs]), strict=True):
            try:
                commit_step(run.job, logits, model.vocabulary)
            except ModelError as error:  # the others' outputs are their own
                self._abort([run], error)
        self._step_s = time.monotonic() - started
        for run in [run for run in runs if run in self._runs]:
            run.spent(self._step_s, "denoise_ms")
            run.job.stats = replace(run.job.stats, steps=run.job.stats.steps + 1)
            if run.ticket.request.want_drafts:
                run.ticket.reply(run.job.draft_event(model.vocabulary))

    def _finish(self, model: Backend, runs: Sequence[_Run]) -> None:
        """Score what the runs have come to, as far as time allows, and answer."""
        for run in runs:
            if run.ticket.cancelled:
                continue
            late = bool(run.job.active)
            if late:
                run.job.conclude(model.vocabulary)
            items = texts_to_score(run.job, model.vocabulary)
            scores = self._score(model, run, items)
            total_ms = 1000 * (time.monotonic() - run.ticket.received)
            run.job.stats = replace(run.job.stats, total_ms=total_ms)
            result = make_result(run.job, items, scores, late, model.vocabulary)
            self._release(run)
            run.ticket.reply(result)

    def _score(self, model: Backend, run: _Run, items: Sequence[Scorable]) -> list[float]:
        """A score for each item; where the deadline leaves no time, its confidence."""
        started = time.monotonic()
        if len(items) < 2:
            return [confidence(item.candidate) for item in items]
        if run.deadline - started < self._score_s:
            self._score_s /= 2  # an estimate that is never checked must not stand for ever
            return [confidence(item.candidate) for item in items]
        scores = model.score(run.job, items)
        self._score_s = time.monotonic() - started
        run.spent(self._score_s, "score_ms")
        return scores

    def _is_late(self, run: _Run) -> bool:
        """Whether another step would leave no time to choose before the deadline.

        The first step is always taken: it is what keeps the estimate true.
        """
        needed = self._step_s + (self._score_s if run.job.finished else 0)
        return run.job.stats.steps > 0 and time.monotonic() + needed > run.deadline

    def _drop_cancelled(self) -> None:
        for run in [r for r in self._runs if r.ticket.cancelled]:
            self._release(run)

    def _abort(self, runs: Sequence[_Run], error: Exception) -> None:
        """Answer runs whose pass failed, and trust nothing it may have left half-written."""
        _LOG.error("a pass failed", exc_info=error)
        for run in [r for r in runs if r in self._runs]:
            run.job.context.spoil()
            self._release(run)
            known = error if isinstance(error, ModelError) else None
            _refuse(run.ticket, known or RequestRejected(f"the engine failed: {error!r}"))

    def _release(self, run: _Run) -> None:
        assert self._pool is not None
        self._runs.remove(run)
        self._pool.release(run.job.context)


def _refuse(ticket: Ticket, error: EngineError) -> None:
    ticket.reply(Failure(ticket.request.request_id, type(error).__name__, str(error)))
