"""An editor at the other end of a server in this process, and an engine that does as it is told."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from midfill_engine.protocol import DraftEvent, Fill, FillRequest, FillResult, FillStats
from midfill_lsp.framing import Frames, framed
from midfill_lsp.server import MidfillServer
from midfill_lsp.serving import serve, server_for

URI = "file:///project/example.py"
STATS = FillStats(
    queue_ms=0.0,
    encode_ms=0.0,
    denoise_ms=0.0,
    score_ms=0.0,
    total_ms=0.0,
    steps=1,
    passes=1,
    tokens=1,
    context_tokens=1,
    reused_tokens=0,
)


def fill(text: str, confidence: float = 0.9) -> Fill:
    return Fill(text, confidence, score=0.0, pieces=(text,), confidences=(confidence,))


def result(*fills: Fill) -> FillResult:
    return FillResult(request_id=0, fills=fills, at_deadline=False, stats=STATS)


class ScriptedEngine:
    """Answers with `texts`, healed as a worker would, or with what `script` makes of a request."""

    def __init__(self) -> None:
        self.requests: list[FillRequest] = []
        self.withdrawn: list[FillRequest] = []
        self.models: list[str] = []
        self.closed = 0
        self.texts: list[str] = ["42"]
        self.confidence = 0.9
        self.drafts: tuple[DraftEvent, ...] = ()
        self.script: Callable[[FillRequest], Awaitable[FillResult]] | None = None
        self.started: asyncio.Queue[FillRequest] = asyncio.Queue()

    def connect(self, model: str) -> ScriptedEngine:
        self.models.append(model)
        return self

    async def fill(
        self, request: FillRequest, *, on_draft: Callable[[DraftEvent], None] | None = None
    ) -> FillResult:
        self.requests.append(request)
        self.started.put_nowait(request)
        try:
            for event in self.drafts:
                assert on_draft is not None
                on_draft(event)
            if self.script is not None:
                return await self.script(request)
            return self.healed(request)
        except asyncio.CancelledError:
            self.withdrawn.append(request)
            raise

    def healed(self, request: FillRequest) -> FillResult:
        return result(
            *(
                fill(request.heal_left + text + request.heal_right, self.confidence)
                for text in self.texts
            )
        )

    async def close(self) -> None:
        self.closed += 1


class Editor:
    """A client that speaks JSON, so that it can also say what no library would let it say."""

    def __init__(self, server: MidfillServer) -> None:
        self.server = server
        self.answers: dict[str, Any] = {
            "workspace/applyEdit": {"applied": True},
            "window/workDoneProgress/create": None,
            "client/registerCapability": None,
            "workspace/configuration": [None],
        }
        self.unanswered: set[str] = set()  # methods of the server's that get no answer
        self.sent_by_server: dict[str, asyncio.Queue[Any]] = defaultdict(asyncio.Queue)
        self.log: list[dict[str, Any]] = []
        self._ids = itertools.count(1)
        self._pending: dict[Any, asyncio.Future[dict[str, Any]]] = {}
        self._input: asyncio.Queue[bytes] = asyncio.Queue()
        self._frames = Frames()
        self.gone = asyncio.Event()
        self._serving = asyncio.ensure_future(serve(server, self._chunks(), self, self.gone))

    # What the server sees

    async def _chunks(self) -> AsyncIterator[bytes]:
        while chunk := await self._input.get():
            yield chunk

    def write(self, data: bytes) -> None:
        for body in self._frames.feed(data):
            self._take(json.loads(body))

    def close(self) -> None:
        pass

    def _take(self, message: dict[str, Any]) -> None:
        self.log.append(message)
        if "method" not in message:
            future = self._pending.pop(message["id"], None)
            assert future is not None, f"an answer to nothing: {message}"
            future.set_result(message)
            return
        method = message["method"]
        self.sent_by_server[method].put_nowait(message.get("params"))
        if "id" in message and method not in self.unanswered:
            answer = {"jsonrpc": "2.0", "id": message["id"]}
            given = self.answers[method]
            refused = isinstance(given, dict) and "code" in given
            self.send(answer | ({"error": given} if refused else {"result": given}))

    # What a test does

    def send(self, message: Any) -> None:
        self.send_bytes(framed(json.dumps(message).encode()))

    def send_bytes(self, data: bytes) -> None:
        self._input.put_nowait(data)

    def notify(self, method: str, params: Any = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def post(self, method: str, params: Any = None, msg_id: Any = None) -> Sent:
        key = next(self._ids) if msg_id is None else msg_id
        future = self.expect(key)
        self.send({"jsonrpc": "2.0", "id": key, "method": method, "params": params})
        return Sent(key, future)

    def expect(self, msg_id: Any) -> asyncio.Future[dict[str, Any]]:
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._pending[msg_id] = future
        return future

    async def ask(self, method: str, params: Any = None) -> Any:
        answer = await self.post(method, params).answer
        assert "error" not in answer, answer
        return answer.get("result")

    async def error(self, method: str, params: Any = None) -> dict[str, Any]:
        answer = await self.post(method, params).answer
        assert "error" in answer, answer
        error: dict[str, Any] = answer["error"]
        return error

    async def said(self, method: str) -> Any:
        """The parameters of the next message of this kind."""
        return await self.sent_by_server[method].get()

    def silent_about(self, method: str) -> bool:
        return self.sent_by_server[method].empty()

    async def settled(self) -> None:
        """Everything sent so far has been handled."""
        answer = await self.post("midfill/barrier").answer
        assert answer["error"]["code"] == -32601

    async def initialize(
        self, capabilities: dict[str, Any] | None = None, options: Any = None, **more: Any
    ) -> Any:
        params = {"processId": None, "rootUri": None, "capabilities": capabilities or {}}
        if options is not None:
            params["initializationOptions"] = options
        answer = await self.ask("initialize", params | more)
        self.notify("initialized", {})
        await self.settled()
        return answer

    def open(
        self, text: str, *, uri: str = URI, version: int = 1, language: str = "python"
    ) -> None:
        item = {"uri": uri, "languageId": language, "version": version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": item})

    def change(self, version: int, *changes: Any, uri: str = URI) -> None:
        params = {"textDocument": {"uri": uri, "version": version}, "contentChanges": list(changes)}
        self.notify("textDocument/didChange", params)

    def complete(
        self, line: int, character: int, *, kind: int = 2, uri: str = URI, **context: Any
    ) -> Sent:
        params = {
            "textDocument": {"uri": uri},
            "position": {"line": line, "character": character},
            "context": {"triggerKind": kind} | context,
        }
        return self.post("textDocument/inlineCompletion", params)

    def fill(self, start: tuple[int, int], end: tuple[int, int], **more: Any) -> Sent:
        argument = {"uri": URI, "version": 1, "range": lsp_range(start, end)}
        arguments = [argument | more.pop("argument", {})]
        params = {"command": "midfill.fill", "arguments": arguments}
        return self.post("workspace/executeCommand", params | more)

    def cancel(self, msg_id: Any) -> None:
        self.notify("$/cancelRequest", {"id": msg_id})

    async def end(self) -> int:
        """Close the stream, as an editor that has gone away does."""
        self._input.put_nowait(b"")
        return await self._serving

    async def ended(self) -> int:
        return await self._serving

    @property
    def has_ended(self) -> bool:
        return self._serving.done()


class Sent:
    """A request on its way."""

    def __init__(self, msg_id: Any, answer: asyncio.Future[dict[str, Any]]) -> None:
        self.id = msg_id
        self.answer = answer

    async def items(self) -> list[dict[str, Any]]:
        """The items of a completion."""
        answer = await self.answer
        items: list[dict[str, Any]] = answer["result"]["items"]
        return items

    async def texts(self) -> list[str]:
        return [item["insertText"] for item in await self.items()]

    async def result(self) -> Any:
        answer = await self.answer
        assert "error" not in answer, answer
        return answer.get("result")

    async def code(self) -> int:
        answer = await self.answer
        code: int = answer["error"]["code"]
        return code


def lsp_range(start: tuple[int, int], end: tuple[int, int]) -> dict[str, Any]:
    return {
        "start": {"line": start[0], "character": start[1]},
        "end": {"line": end[0], "character": end[1]},
    }


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest_asyncio.fixture
async def editor(engine: ScriptedEngine) -> AsyncIterator[Editor]:
    """An editor whose server has not been initialized."""
    editor = Editor(server_for(engine.connect))
    yield editor
    if not editor.has_ended:
        await editor.end()
    assert not editor._pending, f"never answered: {list(editor._pending)}"


@pytest_asyncio.fixture
async def ready(editor: Editor) -> Editor:
    """An editor with the usual abilities, initialized."""
    await editor.initialize(USUAL)
    return editor


USUAL: dict[str, Any] = {
    "general": {"positionEncodings": ["utf-16"]},
    "textDocument": {
        "codeAction": {
            "codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["refactor.rewrite"]}}
        }
    },
    "workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True}},
}


@pytest.fixture
def draft_event() -> Callable[..., DraftEvent]:
    def made(step: int, **more: Any) -> DraftEvent:
        return replace(DraftEvent(request_id=0, step=step, drafts=()), **more)

    return made
