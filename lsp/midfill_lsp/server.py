"""The server's state: documents, settings, the engine, and what it tells the editor.

Owns what outlives a request. Knows nothing of single LSP methods, which are in `methods`, nor of
pipes and processes, which are `serving`'s concern.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Protocol

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from midfill_engine.errors import EngineError, ModelError, WorkerOutdated
from midfill_engine.protocol import DraftEvent, FillRequest, FillResult
from midfill_lsp import pygls_fixes
from midfill_lsp.documents import Document, Documents
from midfill_lsp.flights import Flights
from midfill_lsp.laps import Laps
from midfill_lsp.options import Options, parse_options
from midfill_lsp.progress import ProgressTokens
from midfill_lsp.remedies import advice
from midfill_lsp.settings import DEFAULTS, resolve
from midfill_lsp.typed_through import TypedThrough
from midfill_lsp.version import VERSION

NAME = "midfill"
logger = logging.getLogger(__name__)


class Engine(Protocol):
    """What the server needs of the engine's client, and tests put in its place."""

    async def fill(
        self, request: FillRequest, *, on_draft: Callable[[DraftEvent], None] | None = None
    ) -> FillResult:
        """Fill one hole. Raises `EngineError` only; cancelling the caller withdraws the request."""

    async def close(self) -> None:
        """Let go of the worker."""


class MidfillServer(LanguageServer):
    """One editor's server."""

    protocol: pygls_fixes.Protocol

    def __init__(self, connect: Callable[[str], Engine]) -> None:
        """`connect` makes the client for a model's name; it must do nothing costly yet."""
        super().__init__(
            NAME,
            VERSION,
            text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
            protocol_cls=pygls_fixes.Protocol,
            converter_factory=pygls_fixes.converter,
        )
        self.settings = DEFAULTS
        self.documents = Documents(DEFAULTS.max_file_bytes)
        self.flights = Flights()
        self.typed_through = TypedThrough()
        self.progress_tokens = ProgressTokens()
        # What to do about the client's process id; without a process of our own, nothing.
        self.on_client_process: Callable[[int], object] = lambda pid: None
        self._connect = connect
        self._engine: Engine | None = None
        self._initial_options = Options()
        self._told: set[str] = set()
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def engine(self) -> Engine:
        """The client for the model that is set."""
        if self._engine is None:
            self._engine = self._connect(self.settings.model)
        return self._engine

    def forget(self, uri: str) -> None:
        """Let go of all that is known of a document."""
        self.flights.drop_all(uri)
        self.typed_through.forget(uri)
        self.documents.close(uri)

    # Settings

    def configure(self, raw: object, *, initial: bool = False) -> None:
        """Take in what the editor has set. Later settings lie over the initial ones."""
        options, problems = parse_options(raw)
        if initial:
            self._initial_options = options
        before, self.settings = self.settings, resolve(options.over(self._initial_options))
        self.documents.max_bytes = self.settings.max_file_bytes
        self.typed_through.clear()
        if self.settings.model != before.model:
            self._drop_engine()
        if problems:
            self.tell_once(f"midfill keeps the defaults for: {'; '.join(problems)}")

    def _drop_engine(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            task = asyncio.get_running_loop().create_task(engine.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Let go of the engine."""
        self._drop_engine()
        await asyncio.gather(*self._closing, return_exceptions=True)

    # What the editor is told

    def log(self, text: str) -> None:
        """Write a line to the editor's log of this server."""
        self.window_log_message(types.LogMessageParams(types.MessageType.Log, text))

    def tell(self, text: str, kind: types.MessageType = types.MessageType.Warning) -> None:
        """Show a message to the user."""
        self.window_show_message(types.ShowMessageParams(kind, text))

    def tell_once(self, text: str) -> None:
        """Show a message to the user, unless the same one has been shown before."""
        if text not in self._told:
            self._told.add(text)
            self.tell(text)

    def engine_failed(self, error: EngineError, *, asked_for: bool = False) -> None:
        """Log why the engine gave nothing.

        What the user can mend is shown, once; anything else is if the user has asked for the fill.
        """
        self.log(f"no fill: {type(error).__name__}: {error}")
        if isinstance(error, ModelError):
            self.tell_once(f"midfill: {advice(error, self.settings.model)}")
        elif isinstance(error, WorkerOutdated):
            self.tell_once(f"midfill: {error}")
        elif asked_for:
            self.tell(f"midfill: {error}")

    def send_drafts(
        self, uri: str, version: int, msg_id: str | int | None, event: DraftEvent
    ) -> None:
        """Let the editor watch: one notification for each denoising step."""
        drafts = [{"pieces": d.pieces, "confidences": d.confidences} for d in event.drafts]
        params: dict[str, Any] = {"uri": uri, "version": version, "step": event.step}
        params |= {"requestId": msg_id, "drafts": drafts}
        self.protocol.notify("midfill/draft", params)

    def send_stats(
        self,
        document: Document,
        msg_id: str | int | None,
        result: FillResult,
        confidence: float | None,
        reason: str | None,
        laps: Laps,
    ) -> None:
        """Tell a client that counts what a fill has cost and what became of it.

        `confidence` is that of the fill that is offered. `reason` says why none is. `laps` are the
        server's own stages; what `engineMs` has more than `totalMs` went into the way there and
        back.
        """
        params: dict[str, Any] = {"uri": document.uri, "version": document.version}
        params |= {"requestId": msg_id, "confidence": confidence, "reason": reason}
        params |= {"atDeadline": result.at_deadline}
        params |= {_camel_case(name): value for name, value in asdict(result.stats).items()}
        params |= {f"{stage}Ms": ms for stage, ms in laps.ms.items()}
        self.protocol.notify("midfill/stats", params)

    def report_server_error(self, error: Exception, source: Any) -> None:
        """A fault of ours or a message of no use: into the log, not into the user's face."""
        logger.error("%s: %s", getattr(source, "__name__", source), error)


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
