"""An editor at the other end of a real server process: pytest-lsp's client with documents.

It has its own arithmetic of positions, so that it shares no mistake with the server.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil
from cattrs import Converter
from lsprotocol import types
from pygls.protocol import default_converter
from pytest_lsp import LanguageClient, client_capabilities
from pytest_lsp.client import register_lsp_features

from support.homes import MIDFILL, Home

LIMIT_S: Final = 60.0  # no answer takes nearly as long, even on a busy machine
URI: Final = "file:///project/example.py"
Encoding = types.PositionEncodingKind
_CODECS: Final = {
    Encoding.Utf8: ("utf-8", 1),
    Encoding.Utf16: ("utf-16-le", 2),
    Encoding.Utf32: ("utf-32-le", 4),
}
_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|$)")


@dataclass(slots=True)
class Buffer:
    """A document as the editor holds it."""

    text: str
    encoding: Encoding
    version: int = 1

    def offset(self, position: types.Position) -> int:
        """The offset of a position. Fails on one that is not between two characters of its line."""
        codec, width = _CODECS[self.encoding]
        line = list(_LINE.finditer(self.text))[position.line]
        content = line[0].rstrip("\r\n").encode(codec)
        assert position.character * width <= len(content), f"{position} is behind its line"
        return line.start() + len(content[: position.character * width].decode(codec))

    def position(self, offset: int) -> types.Position:
        codec, width = _CODECS[self.encoding]
        number, line = next(
            (number, line)
            for number, line in enumerate(_LINE.finditer(self.text))
            if line.end() > offset or line.end() == len(self.text)
        )
        before = self.text[line.start() : offset].encode(codec)
        return types.Position(number, len(before) // width)

    def range(self, start: int, end: int) -> types.Range:
        return types.Range(self.position(start), self.position(end))

    def replace(self, where: types.Range, new_text: str) -> None:
        start, end = self.offset(where.start), self.offset(where.end)
        self.text = self.text[:start] + new_text + self.text[end:]
        self.version += 1


@dataclass(slots=True)
class Editor:
    """A client and the documents it has open."""

    client: LanguageClient
    encoding: Encoding = Encoding.Utf16
    buffers: dict[str, Buffer] = field(default_factory=dict)
    drafts: list[Any] = field(default_factory=list)  # parameters of `midfill/draft`
    drafted: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def pid(self) -> int:
        """The server's process id."""
        assert self.client._server is not None
        return self.client._server.pid

    @property
    def rss(self) -> int:
        return int(psutil.Process(self.pid).memory_info().rss)

    @property
    def messages(self) -> list[str]:
        """What the user was shown."""
        return [shown.message for shown in self.client.messages]

    @property
    def logged(self) -> list[str]:
        return [line.message for line in self.client.log_messages]

    def open(self, text: str, *, uri: str = URI, language: str = "python") -> Buffer:
        buffer = self.buffers[uri] = Buffer(text, self.encoding)
        item = types.TextDocumentItem(uri, language, buffer.version, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return buffer

    async def complete(self, offset: int, *, uri: str = URI) -> list[types.InlineCompletionItem]:
        """The items at an offset, asked for by the user."""
        params = self.completion_params(offset, uri=uri)
        async with asyncio.timeout(LIMIT_S):
            answer = await self.client.text_document_inline_completion_async(params)
        assert isinstance(answer, types.InlineCompletionList)
        return list(answer.items)

    def completion_params(self, offset: int, *, uri: str = URI) -> types.InlineCompletionParams:
        position = self.buffers[uri].position(offset)
        context = types.InlineCompletionContext(types.InlineCompletionTriggerKind.Invoked)
        return types.InlineCompletionParams(context, types.TextDocumentIdentifier(uri), position)

    async def actions(
        self, start: int, end: int, *, uri: str = URI
    ) -> Sequence[types.CodeAction | types.Command]:
        where = self.buffers[uri].range(start, end)
        context = types.CodeActionContext([], only=[types.CodeActionKind.RefactorRewrite])
        params = types.CodeActionParams(types.TextDocumentIdentifier(uri), where, context)
        async with asyncio.timeout(LIMIT_S):
            return await self.client.text_document_code_action_async(params) or []

    async def fill(self, start: int, end: int, *, uri: str = URI) -> Any:
        """Choose the one code action for a selection, and have its command run."""
        (action,) = await self.actions(start, end, uri=uri)
        assert isinstance(action, types.CodeAction)
        assert action.command is not None
        params = types.ExecuteCommandParams(action.command.command, action.command.arguments)
        async with asyncio.timeout(LIMIT_S):
            return await self.client.workspace_execute_command_async(params)

    async def settled(self) -> None:
        """The server has handled all that was sent, and has had some turns of its loop since."""
        for _ in range(3):
            params = types.CodeActionParams(
                types.TextDocumentIdentifier("file:///project/nothing"),
                types.Range(types.Position(0, 0), types.Position(0, 0)),
                types.CodeActionContext([]),
            )
            async with asyncio.timeout(LIMIT_S):
                await self.client.text_document_code_action_async(params)

    def configure(self, **options: Any) -> None:
        self.client.set_configuration(options, section="midfill")
        params = types.DidChangeConfigurationParams({})
        self.client.workspace_did_change_configuration(params)

    def _apply(self, params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
        """Apply an edit as editors do: to the version it is for, and report it before answering."""
        (change,) = params.edit.document_changes or ()
        assert isinstance(change, types.TextDocumentEdit)
        (edit,) = change.edits
        assert isinstance(edit, types.TextEdit)
        uri = change.text_document.uri
        buffer = self.buffers[uri]
        assert change.text_document.version == buffer.version
        buffer.replace(edit.range, edit.new_text)
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(buffer.version, uri),
                [types.TextDocumentContentChangePartial(edit.range, edit.new_text)],
            )
        )
        return types.ApplyWorkspaceEditResult(applied=True)

    def _draft(self, params: Any) -> None:
        self.drafts.append(params)
        self.drafted.set()


@asynccontextmanager
async def editor(
    home: Home,
    *,
    encoding: Encoding = Encoding.Utf16,
    command: Sequence[str] = MIDFILL,
    environment: dict[str, str] | None = None,
    cwd: Path | None = None,
    **options: Any,
) -> AsyncIterator[Editor]:
    """An editor with VS Code's abilities, initialized. `options` lie over those of most tests."""
    client = LanguageClient(converter_factory=_converter)
    register_lsp_features(client)
    opened = Editor(client, encoding)
    client.feature(types.CLIENT_REGISTER_CAPABILITY)(lambda params: None)
    client.feature(types.WORKSPACE_APPLY_EDIT)(lambda params: opened._apply(params))
    client.feature("midfill/draft")(lambda params: opened._draft(params))
    await client.start_io(*command, env=environment or home.environment, cwd=cwd)
    try:
        params = _initialize_params(encoding, usual_options(home) | options)
        async with asyncio.timeout(LIMIT_S):
            answer = await client.initialize_session(params)
        assert answer.capabilities.position_encoding == encoding
        yield opened
        async with asyncio.timeout(LIMIT_S):
            await client.shutdown_session()
    finally:
        server = client._server
        assert server is not None
        if server.returncode is None:
            server.kill()
        await client.stop()


def usual_options(home: Home) -> dict[str, Any]:
    """The home's model; no deadline that a busy machine could miss; short fills."""
    return {
        "model": str(home.model),
        "minConfidence": 0,
        "maxTokens": 4,
        "automaticDeadlineMs": 60_000,
        "invokedDeadlineMs": 60_000,
    }


def _initialize_params(encoding: Encoding, options: dict[str, Any]) -> types.InitializeParams:
    capabilities = client_capabilities("visual-studio-code")
    assert capabilities.general is not None
    capabilities.general.position_encodings = [encoding]
    assert capabilities.text_document is not None
    capabilities.text_document.inline_completion = types.InlineCompletionClientCapabilities()
    return types.InitializeParams(capabilities, initialization_options=options)


def _converter() -> Converter:
    """The default one takes every action that has a command for a bare command."""
    made: Converter = default_converter()

    def action(raw: Any, _: Any) -> types.Command | types.CodeAction:
        kind = types.Command if isinstance(raw.get("command"), str) else types.CodeAction
        return made.structure(raw, kind)

    made.register_structure_hook(types.Command | types.CodeAction, action)
    return made
