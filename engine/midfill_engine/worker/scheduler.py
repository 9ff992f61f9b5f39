"""The loop that runs the model: at every denoising step the batch is whatever is active.

Owns the order of work and the clock. Requests come in from other threads as tickets; each is
answered exactly once through its `reply`, unless it was cancelled before. Whose turn it is among
them is `turns`' concern, and what a pass does `backend`'s. A tick takes in what has come, which
costs one pass of the base at most, or the probes of a few requests' lengths, and runs one pass of
the denoiser; before and after each pass whoever is late is answered with what there is, so a
deadline is kept to within one pass.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import torch

from midfill_engine.errors import EngineError, ModelError, RequestRejected
from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.full_attention import FullAttentionModel
from midfill_engine.protocol import Failure, FillResult, FillStats
from midfill_engine.worker.backend import Backend, backend_for
from midfill_engine.worker.job import (
    Job,
    Pool,
    Scorable,
    Work,
    commit_step,
    make_result,
    start_job,
    texts_to_score,
)
from midfill_engine.worker.threads import ThreadChooser
from midfill_engine.worker.turns import Ticket, Turns
from midfill_engine.worker.window import make_window

MAX_ACTIVE: Final = 16  # jobs in one batch; more wait their turn
CONTEXT_BYTES: Final = 80 * 1024 * 1024  # two contexts of the embedded model
ENCODE_ROWS: Final = 256  # with so many to encode, no more requests are taken in at once
_LOG: Final = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Run:
    """An admitted ticket."""

    ticket: Ticket
    job: Job

    def spent(self, seconds: float, field_name: str) -> None:
        """Book one pass of so many seconds on the job's account."""
        stats = self.job.stats
        spent = getattr(stats, field_name) + 1000 * seconds
        self.job.stats = replace(stats, passes=stats.passes + 1, **{field_name: spent})


class Scheduler:
    """Runs jobs step by step on the thread that calls `run`."""

    def __init__(
        self,
        load: Callable[[], EmbeddedModel | FullAttentionModel],
        clock: Callable[[], float] = time.monotonic,
        threads: ThreadChooser | None = None,
    ) -> None:
        self.clock = clock  # seconds; what tickets' times are told by
        self._threads = threads
        self._load = load
        self._changed = threading.Condition()
        self._inbox: list[Ticket] = []
        self._wanting: list[Callable[[EngineError | None], None]] = []
        self._closing = False
        self._runs: list[_Run] = []
        self._turns = Turns()
        self.clients = 1  # that are connected; set from any thread
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

    @property
    def _context_bytes(self) -> int:
        """What contexts may hold: room for two of each client, and for two more."""
        return CONTEXT_BYTES * (1 + self.clients)

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
            with self._changed:
                refused, self._inbox = self._inbox, []
            for ticket in refused:
                if not ticket.cancelled:
                    _refuse(ticket, known)
            return None
        self._pool = model.new_pool(self._context_bytes)
        self.held = model.held
        with self._changed:
            for ticket in self._inbox:
                ticket.received = self.clock()
        return model

    def _report_load(self, error: EngineError | None) -> None:
        with self._changed:
            wanting, self._wanting = self._wanting, []
        for call in wanting:
            call(error)

    def _tick(self, model: Backend) -> None:
        """One turn: admit and encode arrivals, one denoising step, score and answer."""
        self._drop_cancelled()
        self._finish_ready(model)
        self._admit(model)
        self._refuse_late()
        self._finish_ready(model)
        runs, rows = self._next_pass(model)
        self._guarded(partial(self._denoise, rows), model, runs)
        self._finish_ready(model)

    def _next_pass(self, model: Backend) -> tuple[list[_Run], int]:
        """Who takes part in the next denoising pass, and its rows, which are booked on them."""
        rows = {run.ticket: model.rows(run.job) for run in self._runs}
        chosen = self._turns.in_pass(rows, model.pass_rows, self.clock())
        for ticket in chosen:
            self._turns.book(ticket, rows[ticket])
        taking_part = [run for run in self._runs if run.ticket in chosen]
        return taking_part, sum(rows[ticket] for ticket in chosen)

    def _finish_ready(self, model: Backend) -> None:
        """Answer who is late, then who is done; with each that is scored others may become late."""
        while True:
            late = [run for run in self._runs if run.job.active and self._is_late(run)]
            ready = late or [run for run in self._runs if not run.job.active]
            if not ready:
                return
            self._guarded(self._finish, model, ready[:1])

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

    def _next_in(self, arrivals: Sequence[_Run]) -> Ticket | None:
        """The ticket that is admitted next, out of the inbox, if there is room for it.

        Others than this tick's arrivals may have to go back for it: what they have come to is
        lost, what their context holds is not.
        """
        assert self._pool is not None
        with self._changed:
            self._inbox = [ticket for ticket in self._inbox if not ticket.cancelled]
            running = [run.ticket for run in self._runs]
            self._turns.meet([*self._inbox, *running])
            ticket = self._turns.next_in(self._inbox, running)
            if ticket is None:
                return None
            if len(running) >= MAX_ACTIVE or not self._pool.has_room:
                settled = [run.ticket for run in self._runs if run not in arrivals]
                yielding = self._turns.gives_way(ticket, settled)
                if yielding is None:
                    return None
                self._release(next(run for run in self._runs if run.ticket is yielding))
                self._inbox.append(yielding)
            self._inbox.remove(ticket)
        return ticket

    def _admit(self, model: Backend) -> None:
        """Give arrivals a context each, and encode what their contexts lack in one pass."""
        assert self._pool is not None
        self._pool.bound(self._context_bytes)
        arrivals: list[_Run] = []
        work: list[Work] = []
        started = self.clock()
        while sum(len(ids) for ids, _ in work) < ENCODE_ROWS:
            ticket = self._next_in(arrivals)
            if ticket is None:
                break
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
            began = max(started, run.ticket.received)
            queue_ms = 1000 * (began - run.ticket.received)
            run.job.stats = replace(run.job.stats, queue_ms=queue_ms)
            run.spent(self.clock() - began, "encode_ms")

    def _start(self, model: Backend, ticket: Ticket) -> tuple[_Run, list[Work]]:
        request = ticket.request
        assert self._pool is not None
        window = make_window(model.vocabulary, request.prefix, request.prefix_line, request.suffix)
        candidates = model.plan(request)
        context, reused = self._pool.acquire(window)
        job = start_job(request, window, context, reused, candidates)
        run = _Run(ticket, job)
        self._runs.append(run)
        try:
            return run, model.open(job)
        except Exception:
            context.spoil()
            self._release(run)
            raise

    def _refuse_late(self) -> None:
        """Answer those that there was no room for until their deadline: with nothing, in time."""
        with self._changed:
            now = self.clock()
            late = [ticket for ticket in self._inbox if ticket.deadline < now]
            self._inbox = [ticket for ticket in self._inbox if ticket not in late]
        for ticket in late:
            if not ticket.cancelled:
                ticket.reply(_nothing(ticket, 1000 * (self.clock() - ticket.received)))

    def _denoise(self, rows: int, model: Backend, runs: Sequence[_Run]) -> None:
        """One step for all of them in one pass of so many rows."""
        if not runs:
            return
        started = self.clock()
        with self._threads.measured(rows) if self._threads else nullcontext():
            outputs = model.predict([run.job for run in runs])
        for run, logits in zip(runs, outputs, strict=True):
            try:
                commit_step(run.job, logits, model.vocabulary)
            except ModelError as error:  # the others' outputs are their own
                self._abort([run], error)
        self._step_s = self.clock() - started
        for run in [run for run in runs if run in self._runs]:
            run.spent(self._step_s, "denoise_ms")
            run.job.stats = replace(run.job.stats, steps=run.job.stats.steps + 1)
            if run.ticket.request.want_drafts:
                run.ticket.reply(run.job.draft_event(model.vocabulary))

    def _finish(self, model: Backend, runs: Sequence[_Run]) -> None:
        """Score what the runs have come to, as far as time allows, and answer."""
        for run in runs:
            if run.ticket.cancelled:
                self._release(run)
                continue
            late = bool(run.job.active)
            if late:
                run.job.conclude(model.vocabulary)
            items = texts_to_score(run.job, model.vocabulary)
            scores = self._score(model, run, items)
            total_ms = 1000 * (self.clock() - run.ticket.received)
            run.job.stats = replace(run.job.stats, total_ms=total_ms)
            calibration = model.calibrations.get(run.ticket.request.quality)
            result = make_result(run.job, items, scores, late, model.vocabulary, calibration)
            self._release(run)
            run.ticket.reply(result)

    def _score(
        self, model: Backend, run: _Run, items: Sequence[Scorable]
    ) -> Sequence[float] | None:
        """A score for each item; None where there is nothing to choose, or no time to."""
        started = self.clock()
        if len(items) < 2 or not run.job.plan.suffix_tokens:
            return None
        if run.ticket.deadline - started < self._score_s:
            self._score_s /= 2  # an estimate that is never checked must not stand for ever
            return None
        scores = model.score(run.job, items)
        if scores is None:
            return None
        self._score_s = self.clock() - started
        run.spent(self._score_s, "score_ms")
        return scores

    def _is_late(self, run: _Run) -> bool:
        """Whether another step would leave no time to choose before the deadline.

        The first step is always taken: it is what keeps the estimate true.
        """
        to_score = run.job.finished and run.job.plan.suffix_tokens
        needed = self._step_s + (self._score_s if to_score else 0)
        return run.job.stats.steps > 0 and self.clock() + needed > run.ticket.deadline

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


def _nothing(ticket: Ticket, waited_ms: float) -> FillResult:
    """The answer to a request that was never started."""
    stats = FillStats(waited_ms, 0, 0, 0, waited_ms, 0, 0, 0, 0, 0)
    return FillResult(ticket.request.request_id, (), at_deadline=True, stats=stats)


def _refuse(ticket: Ticket, error: EngineError) -> None:
    ticket.reply(Failure(ticket.request.request_id, type(error).__name__, str(error)))
