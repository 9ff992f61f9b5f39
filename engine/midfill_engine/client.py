"""The way to a worker, for code that must not import torch.

Owns the connection: it is made, and a worker started, on first need, and made anew after a worker
has gone. Every call ends with a result or with an `EngineError`, whatever becomes of the worker.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from midfill_engine import errors
from midfill_engine.endpoint import answers, build, endpoint_for, starting
from midfill_engine.errors import (
    EngineError,
    ProtocolError,
    RequestRejected,
    WorkerLost,
    WorkerOutdated,
    WorkerUnavailable,
)
from midfill_engine.paths import absolute_model
from midfill_engine.protocol import (
    PROTOCOL_VERSION,
    QUALITIES,
    Cancel,
    DraftEvent,
    Failure,
    FillRequest,
    FillResult,
    Hello,
    Message,
    StatusRequest,
    StatusResult,
    Welcome,
    encode,
    read_message,
)
from midfill_engine.spawn import spawn_worker

_ATTEMPTS: Final = 3  # a worker may go away between our finding it and its answer
_STREAM_LIMIT_BYTES: Final = 1024 * 1024
PATIENCE_S: Final = 120.0  # for a worker's start, its loading and its queue, beyond any deadline
MAX_UNSENT_BYTES: Final = 8 * 1024 * 1024  # a worker that does not read is given up

WeightChoice = Literal["auto", "float32", "bfloat16", "int8"]


class EngineClient:
    """Fills holes with the worker of one model. Made cheaply; connects on first need."""

    def __init__(
        self,
        *,
        model: str = "embedded",
        weights: WeightChoice = "auto",
        on_log: Callable[[str], None] | None = None,
    ) -> None:
        self._model = absolute_model(model)
        self._weights = weights
        self._log = on_log or (lambda _line: None)
        self._ids = itertools.count(1)
        self._connecting = asyncio.Lock()
        self._connection: _Connection | None = None
        self._closed = False

    async def fill(
        self, request: FillRequest, *, on_draft: Callable[[DraftEvent], None] | None = None
    ) -> FillResult:
        """Fill one hole. `request.request_id` is chosen here. Cancelling withdraws the request.

        Raises:
            ModelMissing, ModelCorrupt, ModelUnsupported: the worker has no model to run.
            WorkerLost: the worker went away, or stands still long after the deadline. The next
                call connects anew, and starts another where none is left.
            WorkerUnavailable: no worker could be started.
            WorkerOutdated: the worker is of another version of midfill, and serves others.
            RequestRejected: the worker refused.
        """
        if request.quality not in QUALITIES:
            raise RequestRejected(f"there is no quality {request.quality!r}")
        sent = replace(request, request_id=next(self._ids))
        async with self._within(max(request.deadline_ms, 0) / 1000 + PATIENCE_S):
            answer = await (await self._connected()).ask(sent, on_draft)
        if not isinstance(answer, FillResult):
            raise ProtocolError(f"a fill was answered with {type(answer).__name__}")
        return answer

    async def status(self) -> StatusResult:
        """How the worker is, once it has loaded its model. Raises what `fill` does."""
        async with self._within(PATIENCE_S):
            answer = await (await self._connected()).ask(StatusRequest(next(self._ids)), None)
        if not isinstance(answer, StatusResult):
            raise ProtocolError(f"a status request was answered with {type(answer).__name__}")
        return answer

    async def close(self) -> None:
        """Say goodbye. Requests in flight end with `WorkerLost`."""
        self._closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    @asynccontextmanager
    async def _within(self, limit_s: float) -> AsyncIterator[None]:
        """Give a worker that stands still up, and whatever else waits for it.

        Raises:
            WorkerLost: the limit was reached.
        """
        try:
            async with asyncio.timeout(limit_s):
                yield
        except TimeoutError:
            if self._connection is not None:
                self._connection.abort()
            raise WorkerLost(f"the worker has not answered for {limit_s:.0f} s") from None

    async def _connected(self) -> _Connection:
        async with self._connecting:
            if self._connection is None or self._connection.lost:
                connection = await self._connect()
                if self._closed:
                    await connection.close()
                    raise WorkerLost("the client was closed")
                self._connection = connection
            return self._connection

    async def _connect(self) -> _Connection:
        endpoint = endpoint_for(self._model, self._weights)
        reason: Exception | None = None
        for attempt in range(_ATTEMPTS):
            if attempt:
                await asyncio.to_thread(self._start_unless_running, endpoint)
            try:
                return await _Connection.open(endpoint)
            except (OSError, WorkerLost) as error:
                reason = error
        raise WorkerUnavailable(f"no worker stays ({reason})") from reason

    def _start_unless_running(self, endpoint: Path) -> None:
        """Start a worker, unless another process has done so while we waited for the lock."""
        try:
            with starting(endpoint):
                if not answers(endpoint):
                    self._log("starting a worker")
                    spawn_worker(self._model, self._weights, endpoint)
        except OSError as error:
            raise WorkerUnavailable(f"the worker could not be started: {error}") from error


@dataclass(slots=True)
class _Waiting:
    """A request in flight."""

    answer: asyncio.Future[Message]
    on_draft: Callable[[DraftEvent], None] | None


@dataclass(slots=True, eq=False)
class _Connection:
    """A connection past its hello, and the requests in flight on it."""

    writer: asyncio.StreamWriter
    waiting: dict[int, _Waiting] = field(default_factory=dict)
    reading: asyncio.Task[None] | None = None
    lost: bool = False

    @classmethod
    async def open(cls, endpoint: Path) -> _Connection:
        """Connect and say hello.

        Raises:
            OSError: nobody listens.
            WorkerLost: the worker hung up before its welcome, or went because it is of no use.
            WorkerOutdated: it is of another version, and others use it.
            WorkerUnavailable: whoever listens is no worker.
        """
        reader, writer = await asyncio.open_unix_connection(
            str(endpoint), limit=_STREAM_LIMIT_BYTES
        )
        try:
            writer.write(encode(Hello(PROTOCOL_VERSION, build())))
            welcome = await read_message(reader)
            if welcome is None:
                raise WorkerLost("the worker hung up")
            if not isinstance(welcome, Welcome):
                raise WorkerUnavailable(f"whoever listens at {endpoint} is no worker of ours")
            _check(welcome)
        except BaseException as error:
            writer.close()
            if isinstance(error, ProtocolError):
                raise WorkerLost(f"the worker hung up: {error}") from error
            raise
        connection = cls(writer)
        connection.reading = asyncio.create_task(connection._read(reader))
        return connection

    async def ask(
        self,
        request: FillRequest | StatusRequest,
        on_draft: Callable[[DraftEvent], None] | None,
    ) -> Message:
        """Send a request and wait for its answer. Raises what the worker's `Failure` names."""
        if self.lost:
            raise WorkerLost("the worker has gone away")
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self.waiting[request.request_id] = _Waiting(future, on_draft)
        try:
            self._check_that_it_reads()
            self.writer.write(encode(request))
            answer = await future
        except BaseException:
            if not self.lost:
                self.writer.write(encode(Cancel(request.request_id)))
            raise
        finally:
            self.waiting.pop(request.request_id, None)
        if isinstance(answer, Failure):
            raise _error_of(answer)
        return answer

    def abort(self) -> None:
        """Hang up with no last word, which might never be read. Requests end with `WorkerLost`."""
        self.lost = True
        self.writer.transport.abort()

    def _check_that_it_reads(self) -> None:
        if self.writer.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self.abort()
            raise WorkerLost("the worker does not read what it is sent")

    async def close(self) -> None:
        """Hang up."""
        self.writer.close()
        if self.reading is not None:
            self.reading.cancel()
            with suppress(asyncio.CancelledError):
                await self.reading
        self._end("the connection was closed")  # a reader cancelled before its start has not

    async def _read(self, reader: asyncio.StreamReader) -> None:
        reason = "the worker has gone away"
        try:
            while (message := await read_message(reader)) is not None:
                self._dispatch(message)
        except (OSError, ProtocolError) as error:
            reason = f"the worker has gone away: {error}"
        finally:
            self._end(reason)

    def _end(self, reason: str) -> None:
        """Nothing more will come."""
        self.lost = True
        self.writer.close()
        for waiting in self.waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(WorkerLost(reason))

    def _dispatch(self, message: Message) -> None:
        """Hand a message to its request. An answer to a withdrawn one finds none."""
        waiting = self.waiting.get(getattr(message, "request_id", 0))
        if waiting is None or waiting.answer.done():
            return
        if not isinstance(message, DraftEvent):
            waiting.answer.set_result(message)
        elif waiting.on_draft is not None:
            try:
                waiting.on_draft(message)
            except Exception as error:  # noqa: BLE001 - it is the caller's own, and goes there
                waiting.answer.set_exception(error)


def _check(welcome: Welcome) -> None:
    """Whether the worker is of our version and build. Raises what `_Connection.open` does."""
    if (welcome.version, welcome.build) == (PROTOCOL_VERSION, build()):
        return
    if not welcome.others:
        raise WorkerLost("a worker of another version of midfill has gone, as nobody needs it")
    raise WorkerOutdated(
        f"the worker {welcome.worker_pid} is of another version of midfill and serves "
        f"{welcome.others} other client(s); restart the editors that were started before midfill "
        f"was updated, or end it: kill {welcome.worker_pid}"
    )


def _error_of(failure: Failure) -> EngineError:
    cls = getattr(errors, failure.kind, EngineError)
    if not (isinstance(cls, type) and issubclass(cls, EngineError)):
        cls = EngineError
    return cls(failure.message)
