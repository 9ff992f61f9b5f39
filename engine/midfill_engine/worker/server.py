"""The worker's side of the sockets.

Owns connections, who asked for what, and when the worker may go. The model runs on a thread of
its own; only messages cross over. Every request is answered once: by the scheduler, by its
cancellation, or by nobody, if its client has gone.
"""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import logging
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar, cast

import psutil
import torch

from midfill_engine.client import WeightChoice
from midfill_engine.errors import EngineError, ProtocolError, RequestCancelled, RequestRejected
from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.full_attention import FullAttentionModel
from midfill_engine.protocol import (
    PROTOCOL_VERSION,
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
from midfill_engine.worker.loading import load_model
from midfill_engine.worker.scheduler import Scheduler
from midfill_engine.worker.threads import ThreadChooser
from midfill_engine.worker.turns import Ticket

LINGER_S: Final = 2.0  # how long the worker waits for another client after the last one
FIRST_CLIENT_S: Final = 30.0  # and for the first
MAX_PENDING: Final = 64  # requests of one client at a time
MAX_UNSENT_BYTES: Final = 8 * 1024 * 1024  # a client that does not read is let go
_LOG: Final = logging.getLogger(__name__)
T = TypeVar("T")


async def serve(
    listener: socket.socket,
    model: str,
    weights: str,
    build: str,
    on_retire: Callable[[], object],
) -> None:
    """Serve clients until the last one has been gone for a while.

    A client of another build than `build` has the worker retire, if no other needs it: it listens
    no more, and `on_retire` is called before the client is told.
    """
    threads = ThreadChooser(_cores(), torch.set_num_threads)
    scheduler = Scheduler(lambda: _load(model, cast(WeightChoice, weights)), threads=threads)
    thread = threading.Thread(target=scheduler.run, name="model")
    thread.start()
    worker = _Worker(scheduler, threads, model, build)
    server = await asyncio.start_unix_server(worker.handle, sock=listener)

    def retire() -> None:
        server.close()
        on_retire()

    worker.retire = retire
    try:
        await worker.until_unneeded()
    finally:
        server.close()
        scheduler.close()
        thread.join()


def _cores() -> int:
    """Physical cores, as far as this process may use them."""
    allowed = len(psutil.Process().cpu_affinity()) if hasattr(psutil.Process, "cpu_affinity") else 0
    physical = psutil.cpu_count(logical=False) or 1
    return min(physical, allowed) if allowed else physical


def _load(model: str, weights: WeightChoice) -> EmbeddedModel | FullAttentionModel:
    loaded = load_model(model, weights)
    with suppress(AttributeError, OSError):  # glibc keeps what the float copies held otherwise
        ctypes.CDLL(None).malloc_trim(0)
    return loaded


class _Worker:
    """What all connections share."""

    def __init__(
        self, scheduler: Scheduler, threads: ThreadChooser, model: str, build: str
    ) -> None:
        self.scheduler = scheduler
        self.threads = threads
        self.model = model
        self.build = build
        self.retire: Callable[[], None] = lambda: None
        self.clients = 0  # connections, welcome or not
        self.welcomed = 0  # clients of our build
        self._retired = False
        self.numbers = itertools.count(1)  # one for each connection
        self._changed = asyncio.Event()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client, from hello to goodbye."""
        self._count(1)
        connection = _Connection(self, writer)
        try:
            await connection.serve(reader)
        except (ProtocolError, ConnectionError) as error:
            _LOG.warning("a client was let go: %s", error)
        finally:
            connection.abandon()
            self._count(-1)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def _count(self, change: int) -> None:
        self.clients += change
        self.scheduler.clients = self.clients
        self._changed.set()

    def greet(self, hello: Hello) -> Welcome:
        """The answer to a client's hello. Whom nobody needs, and this one cannot use, goes."""
        if not self.suits(hello) and not self.welcomed and not self._retired:
            self._retired = True
            self.retire()
        return Welcome(PROTOCOL_VERSION, self.build, os.getpid(), self.model, self.welcomed)

    def suits(self, hello: Hello) -> bool:
        """Whether the client speaks our protocol and is of our build."""
        return (hello.version, hello.build) == (PROTOCOL_VERSION, self.build)

    async def until_unneeded(self) -> None:
        """Return when no client has been there for `LINGER_S`, or none is left after retiring."""
        patience = FIRST_CLIENT_S
        while True:
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), None if self.clients else patience)
            except TimeoutError:
                if not self.clients:
                    return
            patience = 0 if self._retired else LINGER_S

    def status(self, request_id: int) -> StatusResult:
        """How the worker is now."""
        memory = psutil.Process().memory_info()
        return StatusResult(
            request_id=request_id,
            worker_pid=os.getpid(),
            model=self.model,
            weights=self.scheduler.held[0],
            threads=self.threads.threads,
            rss_bytes=memory.rss,
            cache_bytes=self.scheduler.cache_bytes,
            active=self.scheduler.active,
            clients=self.clients,
            device=self.scheduler.held[1],
        )


class _Connection:
    """One client's requests in flight."""

    def __init__(self, worker: _Worker, writer: asyncio.StreamWriter) -> None:
        self._worker = worker
        self._writer = writer
        self._number = next(worker.numbers)
        self._pending: dict[int, Ticket] = {}

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Answer until the client goes.

        Raises:
            ProtocolError: it says something that is no message, or in the wrong place.
        """
        hello = await read_message(reader)
        if hello is None:
            return
        if not isinstance(hello, Hello):
            raise ProtocolError("it did not say hello first")
        self._send(self._worker.greet(hello))
        if not self._worker.suits(hello):
            raise ProtocolError(f"it is of version {hello.version}, build {hello.build}")
        self._worker.welcomed += 1
        try:
            while (message := await read_message(reader)) is not None:
                self._receive(message)
        finally:
            self._worker.welcomed -= 1

    def abandon(self) -> None:
        """Nobody will read the answers."""
        for ticket in self._pending.values():
            ticket.cancelled = True
        self._pending.clear()

    def _receive(self, message: Message) -> None:
        match message:
            case FillRequest():
                self._fill(message)
            case Cancel():
                self._cancel(message.request_id)
            case StatusRequest():
                self._status(message.request_id)
            case _:
                raise ProtocolError(f"a client does not send {type(message).__name__}")

    def _fill(self, request: FillRequest) -> None:
        if request.request_id in self._pending:
            raise ProtocolError(f"request {request.request_id} is still in flight")
        if len(self._pending) >= MAX_PENDING:
            self._refuse(request.request_id, RequestRejected("too many requests in flight"))
            return

        def answer(message: DraftEvent | FillResult | Failure) -> None:
            self._answer(ticket, message)

        scheduler = self._worker.scheduler
        ticket = Ticket(request, self._from_thread(answer), scheduler.clock(), self._number)
        self._pending[request.request_id] = ticket
        scheduler.submit(ticket)

    def _answer(self, ticket: Ticket, message: DraftEvent | FillResult | Failure) -> None:
        """Pass on what the scheduler says, unless the request has been answered already."""
        if self._pending.get(message.request_id) is not ticket:
            return
        if not isinstance(message, DraftEvent):
            del self._pending[message.request_id]
        self._send(message)

    def _cancel(self, request_id: int) -> None:
        """Answer at once; the scheduler drops the request before its next step."""
        ticket = self._pending.pop(request_id, None)
        if ticket is not None:
            ticket.cancelled = True
            self._refuse(request_id, RequestCancelled("the request was withdrawn"))

    def _status(self, request_id: int) -> None:
        def loaded(error: EngineError | None) -> None:
            if error is not None:
                self._refuse(request_id, error)
            else:
                self._send(self._worker.status(request_id))

        self._worker.scheduler.when_loaded(self._from_thread(loaded))

    def _refuse(self, request_id: int, error: EngineError) -> None:
        self._send(Failure(request_id, type(error).__name__, str(error)))

    def _send(self, message: Message) -> None:
        if self._writer.is_closing():
            return
        self._writer.write(encode(message))
        if self._writer.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            _LOG.warning("a client does not read its answers and is let go")
            self._writer.transport.abort()

    def _from_thread(self, function: Callable[[T], None]) -> Callable[[T], None]:
        loop = asyncio.get_running_loop()

        def call(value: T) -> None:
            with suppress(RuntimeError):  # the loop has ended: so have all clients
                loop.call_soon_threadsafe(function, value)

        return call
