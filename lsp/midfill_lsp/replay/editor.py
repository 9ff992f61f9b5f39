"""An editor without a screen: one document, typed into, completed and changed by a real server.

Owns the editor's text and its version, and what an editor says of itself. Positions are in code
points, which the server is asked to agree to. Knows nothing of what is typed, or when.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from lsprotocol import types

from midfill_lsp.positions import Encoding, line_starts, offset_at, position_at
from midfill_lsp.replay.connection import Connection, connected
from midfill_lsp.version import VERSION

_CAPABILITIES: Final = {
    "general": {"positionEncodings": ["utf-32"]},
    "textDocument": {"inlineCompletion": {}},
    "workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True}},
}
_INVOKED: Final = 1
_AUTOMATIC: Final = 2
Watcher = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Item:
    """A completion that is offered: put `text` in place of `[start, end)`."""

    start: int
    end: int
    text: str


class Editor:
    """One window on one file. Made by `editing`."""

    def __init__(self, uri: str, language_id: str) -> None:
        self.text = ""
        self.version = 0
        self.on_draft: Watcher = lambda params: None
        self.on_stats: Watcher = lambda params: None
        self._uri = uri
        self._language_id = language_id
        self._connection: Connection | None = None

    @property
    def server(self) -> Connection:
        """The way to the server."""
        assert self._connection is not None
        return self._connection

    async def begin(self, connection: Connection, options: dict[str, Any]) -> None:
        """Introduce ourselves to the server."""
        self._connection = connection
        client = {"processId": os.getpid(), "rootUri": None, "capabilities": _CAPABILITIES}
        about = {"clientInfo": {"name": "midfill", "version": VERSION}}
        await self.server.ask("initialize", client | about | {"initializationOptions": options})
        self.server.notify("initialized", {})

    # The document

    def show(self, text: str) -> None:
        """Open the document with this text; one that is open is closed before."""
        if self.version:
            self.server.notify("textDocument/didClose", {"textDocument": {"uri": self._uri}})
        self.text, self.version = text, self.version + 1
        item: dict[str, Any] = {"uri": self._uri, "languageId": self._language_id}
        item |= {"version": self.version, "text": text}
        self.server.notify("textDocument/didOpen", {"textDocument": item})

    def replace(self, start: int, end: int, text: str) -> None:
        """Change a part of the text."""
        change = {"range": self._range(start, end), "text": text}
        self.text = self.text[:start] + text + self.text[end:]
        self.version += 1
        document = {"uri": self._uri, "version": self.version}
        params = {"textDocument": document, "contentChanges": [change]}
        self.server.notify("textDocument/didChange", params)

    # What is asked of the server

    def complete(self, offset: int, *, automatic: bool) -> tuple[int, asyncio.Future[Any]]:
        """Ask for ghost text. The request's id, and its answer to come (see `items`)."""
        params = {
            "textDocument": {"uri": self._uri},
            "position": self._position(offset),
            "context": {"triggerKind": _AUTOMATIC if automatic else _INVOKED},
        }
        return self.server.post("textDocument/inlineCompletion", params)

    async def fill(self, start: int, end: int) -> str | None:
        """Have a selection filled. None if it was, else the server's reason why not."""
        where = {"uri": self._uri, "version": self.version, "range": self._range(start, end)}
        params = {"command": "midfill.fill", "arguments": [where]}
        answer = await self.server.ask("workspace/executeCommand", params)
        return None if answer["applied"] else str(answer["reason"])

    def items(self, answer: Any) -> list[Item]:
        """What an answer to `complete` offers for the text as it is now."""
        return [Item(*self._span(i["range"]), i["insertText"]) for i in answer["items"]]

    # What the server says

    def handle(self, method: str, params: Any) -> Any:
        """Take in what comes from the server; the answer, to a request."""
        if method == "workspace/applyEdit":
            return self._apply(params["edit"])
        if method == "midfill/draft":
            self.on_draft(params)
        elif method == "midfill/stats":
            self.on_stats(params)
        return NotImplemented

    def _apply(self, edit: Any) -> Any:
        (change,) = edit["documentChanges"]
        if change["textDocument"]["version"] != self.version:
            return {"applied": False, "failureReason": "the document has changed meanwhile"}
        for one in change["edits"]:
            self.replace(*self._span(one["range"]), one["newText"])
        return {"applied": True}

    def _position(self, offset: int) -> dict[str, int]:
        found = position_at(self.text, line_starts(self.text), offset, Encoding.Utf32)
        return {"line": found.line, "character": found.character}

    def _range(self, start: int, end: int) -> dict[str, Any]:
        return {"start": self._position(start), "end": self._position(end)}

    def _span(self, where: Any) -> tuple[int, int]:
        starts = line_starts(self.text)
        start, end = (
            offset_at(self.text, starts, types.Position(**where[edge]), Encoding.Utf32)
            for edge in ("start", "end")
        )
        return start, end


@asynccontextmanager
async def editing(uri: str, language_id: str, options: dict[str, Any]) -> AsyncIterator[Editor]:
    """An editor and its server, which has ended when this does. Nothing is open yet.

    `options` are the server's `initializationOptions`.
    """
    editor = Editor(uri, language_id)
    async with connected(editor.handle) as connection:
        await editor.begin(connection, options)
        yield editor
