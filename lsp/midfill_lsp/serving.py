"""Runs a server for one client, from the first byte to the last.

Owns the order in which things come to their end: the client says `exit`, or its stream ends, or it
stops reading, or its process is gone. Whichever is first, the engine is let go of and the exit
code returned.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Final, Protocol

from midfill_lsp import lifetime
from midfill_lsp.features import register
from midfill_lsp.pygls_fixes import pump
from midfill_lsp.server import Engine, MidfillServer
from midfill_lsp.stdio import Pipes, Sink, chunks

_CLOSING_S: Final = 1.0
logger = logging.getLogger(__name__)


class Writer(Protocol):
    """Where messages go."""

    def write(self, data: bytes) -> None:
        """Write one whole message."""

    def close(self) -> None:
        """No more will be written."""


def server_for(connect: Callable[[str], Engine]) -> MidfillServer:
    """A server with all its methods, not yet connected to anything."""
    server = MidfillServer(connect)
    register(server)
    return server


async def serve_pipes(pipes: Pipes, connect: Callable[[str], Engine]) -> int:
    """Serve the editor at the other end. Returns the exit code."""
    gone = asyncio.Event()
    server = server_for(connect)
    server.on_client_process = lambda pid: lifetime.watch(pid, gone.set)
    code = await serve(server, chunks(pipes.source), Sink(pipes.sink, gone.set), gone)
    lifetime.leave_within(lifetime.GRACE_S, code)
    return code


async def serve(
    server: MidfillServer, source: AsyncIterator[bytes], writer: Writer, gone: asyncio.Event
) -> int:
    """Serve a client until it ends it, or until it is `gone`. Returns the exit code."""
    server.protocol.set_writer(writer)
    serving = asyncio.ensure_future(pump(server.protocol, source))
    leaving = asyncio.ensure_future(gone.wait())
    try:
        await asyncio.wait({serving, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return serving.result() if serving.done() else server.protocol.code_at_end
    finally:
        serving.cancel()
        leaving.cancel()
        await _close(server)


async def _close(server: MidfillServer) -> None:
    try:
        await asyncio.wait_for(server.close(), _CLOSING_S)
    except TimeoutError:
        logger.warning("the engine did not close within %s s", _CLOSING_S)
