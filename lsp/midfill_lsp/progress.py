"""Work-done progress: shown where the client can, never waited for.

Owns the tokens of progress under way and what their cancel buttons do. Knows nothing of the work.

The client's consent to a token of ours is asked for while the work goes on. Until it has come, and
if it never comes, nothing is shown: no client can hold the work up by not answering.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.exceptions import JsonRpcException

if TYPE_CHECKING:
    from midfill_lsp.server import MidfillServer

Token = str | int


class ProgressTokens:
    """What to call when the user presses cancel, by token."""

    def __init__(self) -> None:
        self._cancels: dict[Token, Callable[[], None]] = {}

    def __len__(self) -> int:
        return len(self._cancels)

    def cancel(self, token: Token) -> None:
        """The user has pressed cancel. A token that has ended is none of our concern."""
        if (cancel := self._cancels.get(token)) is not None:
            cancel()

    @contextmanager
    def held(self, token: Token, cancel: Callable[[], None]) -> Iterator[None]:
        """Keep `cancel` under `token` for as long as the work goes on."""
        self._cancels[token] = cancel
        try:
            yield
        finally:
            self._cancels.pop(token, None)


class Progress:
    """One piece of work's progress."""

    def __init__(self, ls: "MidfillServer", token: Token, title: str) -> None:
        self._ls = ls
        self.token = token
        self._title = title
        self._begun = False

    def begin(self) -> None:
        """The client knows the token: show the title and a cancel button."""
        self._begun = True
        self._send(types.WorkDoneProgressBegin(title=self._title, cancellable=True))

    def report(self, message: str) -> None:
        """Show how far it is, if anything is shown."""
        if self._begun:
            self._send(types.WorkDoneProgressReport(message=message))

    def end(self) -> None:
        """Take it off the screen."""
        if self._begun:
            self._send(types.WorkDoneProgressEnd())

    def _send(
        self,
        value: types.WorkDoneProgressBegin
        | types.WorkDoneProgressReport
        | types.WorkDoneProgressEnd,
    ) -> None:
        self._ls.protocol.notify(types.PROGRESS, types.ProgressParams(self.token, value))


@contextmanager
def work_done(
    ls: "MidfillServer", token: Token | None, title: str, cancel: Callable[[], None]
) -> Iterator[Progress]:
    """Show progress for the work inside: under the client's token, else under one of ours."""
    progress = Progress(ls, str(uuid.uuid4()) if token is None else token, title)
    consent: asyncio.Task[None] | None = None
    if token is not None:
        progress.begin()
    elif _can_create(ls.client_capabilities):
        consent = asyncio.get_running_loop().create_task(_begin_with_consent(ls, progress))
    try:
        with ls.progress_tokens.held(progress.token, cancel):
            yield progress
    finally:
        if consent is not None:
            consent.cancel()
        progress.end()


async def _begin_with_consent(ls: "MidfillServer", progress: Progress) -> None:
    params = types.WorkDoneProgressCreateParams(progress.token)
    try:
        await ls.window_work_done_progress_create_async(params)
    except JsonRpcException as error:
        ls.log(f"the client refuses to show progress: {error}")
    else:
        progress.begin()


def _can_create(capabilities: types.ClientCapabilities) -> bool:
    return capabilities.window is not None and bool(capabilities.window.work_done_progress)
