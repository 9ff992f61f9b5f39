"""Work under way for a document, at most one of each kind, the newest.

Owns superseding: whoever waits for work that newer work or an edit has made pointless is let go at
once, and the work is cancelled. Knows nothing of what the work is.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Literal, TypeVar

Kind = Literal["completion", "command"]
T = TypeVar("T")


class Flights:
    """All work under way."""

    def __init__(self) -> None:
        self._dropped: dict[tuple[str, Kind], asyncio.Future[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()  # asyncio itself holds tasks weakly

    def __len__(self) -> int:
        return len(self._tasks)

    async def run(self, uri: str, kind: Kind, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of the work, or None as soon as it is dropped.

        Cancelling the caller cancels the work.
        """
        self.drop(uri, kind)
        dropped = asyncio.get_running_loop().create_future()
        self._dropped[uri, kind] = dropped
        task = self._started(_unless_dropped(dropped, work))
        try:
            await asyncio.wait({task, dropped}, return_when=asyncio.FIRST_COMPLETED)
            return None if dropped.done() else task.result()
        finally:
            task.cancel()
            if self._dropped.get((uri, kind)) is dropped:
                del self._dropped[uri, kind]

    def drop(self, uri: str, kind: Kind) -> None:
        """Let go whoever waits for work of this kind."""
        dropped = self._dropped.pop((uri, kind), None)
        if dropped is not None and not dropped.done():
            dropped.set_result(None)

    def drop_all(self, uri: str) -> None:
        """The document is another now: nothing under way for it is of use."""
        self.drop(uri, "completion")
        self.drop(uri, "command")

    def _started(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._landed)
        return task

    def _landed(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may be left to ask for it


async def _unless_dropped(dropped: asyncio.Future[None], work: Coroutine[Any, Any, T]) -> T | None:
    """Begin a turn of the loop later: what the message behind it makes pointless is never begun."""
    try:
        await asyncio.sleep(0)
        return None if dropped.done() else await work
    finally:
        work.close()
