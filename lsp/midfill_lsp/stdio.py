"""The two pipes to the editor.

Owns file descriptors 0 and 1 and the thread that reads. Knows nothing of messages.

`claim` has to run before anything is imported that might print or start a process: from then on
`print` goes to stderr, whoever calls it, and no child can hold the editor's pipes open.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

_CHUNK_BYTES: Final = 64 * 1024
_MAX_CHUNKS_AHEAD: Final = 1024  # 64 MiB read and not yet looked at; the editor waits beyond that


@dataclass(frozen=True, slots=True)
class Pipes:
    """Descriptors of our own for what were stdin and stdout."""

    source: int
    sink: int


def claim() -> Pipes:
    """Take stdin and stdout for the protocol; leave `/dev/null` and stderr in their places."""
    pipes = Pipes(os.dup(0), os.dup(1))  # neither is inherited by processes we start
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without a stderr
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
    os.close(nothing)
    return pipes


async def chunks(source: int) -> AsyncIterator[bytes]:
    """What comes from the editor, to the end of its stream.

    Reading has a thread to itself, which nothing else can fill up, and which the process does not
    wait for when it ends: another process may hold the pipe open long after the editor is gone.
    It reads on while we write, so that neither side can block the other for good.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes] = asyncio.Queue()
    ahead = threading.BoundedSemaphore(_MAX_CHUNKS_AHEAD)

    def read() -> None:
        chunk = b"-"
        while chunk:
            ahead.acquire()
            try:
                chunk = os.read(source, _CHUNK_BYTES)
            except OSError:
                chunk = b""
            try:
                loop.call_soon_threadsafe(queue.put_nowait, chunk)
            except RuntimeError:  # the loop has ended before the stream
                return

    threading.Thread(target=read, name="midfill-stdin", daemon=True).start()
    while chunk := await queue.get():
        ahead.release()
        yield chunk


class Sink:
    """Writes whole messages to the editor. Has the shape of a pygls writer."""

    def __init__(self, sink: int, on_broken: Callable[[], None]) -> None:
        """`on_broken` is called once, when the editor's end turns out to be closed."""
        self._sink = sink
        self._on_broken: Callable[[], None] | None = on_broken

    def write(self, data: bytes) -> None:
        """Write all of it, or find the pipe broken. Silent once it is."""
        view = memoryview(data)
        while view and self._on_broken is not None:
            try:
                view = view[os.write(self._sink, view) :]
            except OSError:
                broken, self._on_broken = self._on_broken, None
                broken()

    def close(self) -> None:
        """Nothing to do: the descriptor lives as long as the process."""
