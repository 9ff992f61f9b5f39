"""JSON-RPC with a server process over its pipes, as an editor holds it.

Owns the process and the matching of answers to requests. Knows nothing of documents. Messages
are plain JSON values, as nothing here needs more.
"""

import asyncio
import itertools
import json
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, BinaryIO, Final

from midfill_lsp.errors import ReplayError
from midfill_lsp.framing import Frames, framed

# Isolated, so that the directory we are started in cannot put its own modules in our place.
SERVER: Final = (sys.executable, "-I", "-m", "midfill_lsp", "serve")
_CHUNK_BYTES: Final = 64 * 1024
_GOODBYE_S: Final = 5.0
_NO_SUCH_METHOD: Final = -32601

Message = dict[str, Any]
# Called with a method and its parameters; what it gives is the answer, if one is wanted.
Handler = Callable[[str, Any], Any]


class Connection:
    """One running server. Made by `connected`."""

    def __init__(self, process: Process, handler: Handler, stderr: BinaryIO) -> None:
        self._process = process
        self._handler = handler
        self._stderr = stderr
        self._ids = itertools.count(1)
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._reading = asyncio.ensure_future(self._read())

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._process.pid

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    def post(self, method: str, params: Any) -> tuple[int, asyncio.Future[Any]]:
        """Send a request. Gives its id and its answer to come.

        The answer fails with `ReplayError` if it is an error or never comes.
        """
        msg_id = next(self._ids)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._reading.done():
            answer.set_exception(ReplayError(self._last_words()))
            return msg_id, answer
        self._pending[msg_id] = answer
        self._send({"id": msg_id, "method": method, "params": params})
        return msg_id, answer

    async def ask(self, method: str, params: Any) -> Any:
        """The answer to a request.

        Raises:
            ReplayError: it is an error, or the server is gone.
        """
        return await self.post(method, params)[1]

    async def close(self) -> None:
        """End the server as the protocol has it; by force if it does not go."""
        with suppress(ReplayError, TimeoutError):
            await asyncio.wait_for(self.ask("shutdown", None), _GOODBYE_S)
            self.notify("exit", None)
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), _GOODBYE_S)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._reading

    def _send(self, message: Message) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(framed(json.dumps({"jsonrpc": "2.0", **message}).encode()))

    async def _read(self) -> None:
        assert self._process.stdout is not None
        frames = Frames()
        try:
            while chunk := await self._process.stdout.read(_CHUNK_BYTES):
                for body in frames.feed(chunk):
                    self._take(json.loads(body))
        finally:
            for answer in self._pending.values():
                if not answer.done():
                    answer.set_exception(ReplayError(self._last_words()))
            self._pending.clear()

    def _take(self, message: Message) -> None:
        if "method" in message:
            answer = self._handler(message["method"], message.get("params"))
            if "id" in message:
                self._send({"id": message["id"], **_answered(message["method"], answer)})
            return
        waiting = self._pending.pop(message["id"])
        if waiting.cancelled():
            return
        if "error" in message:
            waiting.set_exception(ReplayError(f"the server answers: {message['error']}"))
        else:
            waiting.set_result(message.get("result"))

    def _last_words(self) -> str:
        """What to say of a server that is gone: the last line it left on stderr."""
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return f"the server has ended: {lines[-1]}" if lines else "the server has ended"


@asynccontextmanager
async def connected(handler: Handler) -> AsyncIterator[Connection]:
    """A server process of our own, which has ended when this does.

    `handler` gets what the server says of itself. To a request it gives the answer, or
    `NotImplemented`.
    """
    with tempfile.TemporaryFile() as stderr:
        process = await asyncio.create_subprocess_exec(
            *SERVER, stdin=PIPE, stdout=PIPE, stderr=stderr
        )
        connection = Connection(process, handler, stderr)
        try:
            yield connection
        finally:
            await connection.close()


def _answered(method: str, answer: Any) -> Message:
    if answer is NotImplemented:
        return {"error": {"code": _NO_SUCH_METHOD, "message": f"no {method} here"}}
    return {"result": answer}
