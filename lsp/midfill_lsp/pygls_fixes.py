"""What pygls 2.1 does otherwise than a server must, put right in one place.

Owns the protocol class and the converter that our server is built with. Knows nothing of midfill.
Each fix has a test of its own in `tests/lsp/test_pygls_fixes.py`. Where upstream has an issue, it
is named here as pygls#N.

- A request whose parameters do not decode gets an InvalidParams answer; upstream shows a pop-up
  and never answers. An answer of the client that does not decode fails the request it belongs to.
- Only the message itself is decoded as one; upstream also takes any object inside it that happens
  to have a `jsonrpc` key for a message.
- `workspace/executeCommand` is an ordinary async feature, so that cancelling it cancels the
  handler; upstream answers and lets it run on.
- Notifications leave nothing behind; upstream keeps a future for each of them.
- Requests of ours that are never answered leave nothing behind once given up (pygls#608), a late
  answer is no cause for a warning, and progress tokens are not pygls's to keep (pygls#607).
- `shutdown` cancels what is in flight without tripping over it (pygls#606); after it, requests are
  refused by name and answers are still taken in (pygls#605). Requests before `initialize` are
  refused by name.
- `exit` is recorded with its code, which upstream loses on the way out.
- Text documents are not pygls's business: it splits lines where LSP does not (see `positions`), and
  has none at the end of a file (pygls#550).
- Errors are logged; upstream shows a pop-up for each.
- `triggerKind` 0 is taken for an invocation, as some clients number it so.
- A message is handed on only after the handler of the one before has begun (see `pump`), so that a
  handler sees the document as it was when its request came, and a request known to be cancelled
  costs next to nothing (pygls#517).
"""

import asyncio
import json
import logging
import uuid
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from cattrs import Converter
from lsprotocol import types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcParseError,
    JsonRpcServerNotInitialized,
)
from pygls.protocol import LanguageServerProtocol, default_converter, lsp_method

from midfill_lsp.framing import Frames

T = TypeVar("T")
logger = logging.getLogger(__name__)

# Handlers of upstream's that are replaced by plain features of the server.
_NOT_BUILT_IN: Final = (
    types.TEXT_DOCUMENT_DID_OPEN,
    types.TEXT_DOCUMENT_DID_CHANGE,
    types.TEXT_DOCUMENT_DID_CLOSE,
    types.NOTEBOOK_DOCUMENT_DID_OPEN,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE,
    types.WORKSPACE_EXECUTE_COMMAND,
    types.WINDOW_WORK_DONE_PROGRESS_CANCEL,
)


def converter() -> Converter:
    """pygls's converter, with `triggerKind` 0 accepted."""
    made: Converter = default_converter()  # type: ignore[no-untyped-call]
    made.register_structure_hook(
        types.InlineCompletionTriggerKind,
        lambda value, _: types.InlineCompletionTriggerKind(value or 1),
    )
    return made


class Protocol(LanguageServerProtocol):
    """pygls's protocol with the fixes listed above."""

    def __init__(self, server: Any, converter: Converter) -> None:
        super().__init__(server, converter)
        self.exit_code: int | None = None  # set by `exit`
        # Called with the method and the raw parameters of a notification that does not decode.
        self.on_lost_notification: Callable[[str, Any], None] | None = None
        self._asked: set[str | int] = set()  # ids of requests of ours that are not answered yet

    @property
    def code_at_end(self) -> int:
        """What to exit with: 0 after `shutdown`, else 1."""
        return 0 if self._shutdown else 1

    def _register_builtin_features(self) -> None:
        super()._register_builtin_features()  # type: ignore[no-untyped-call]
        for method in _NOT_BUILT_IN:
            self.fm.builtin_features.pop(method, None)

    # What comes in

    def receive(self, body: bytes) -> None:
        """Take in the body of one message. Never raises on what a client may send."""
        try:
            data = json.loads(body)
        except (ValueError, RecursionError) as error:
            logger.error("a message that is no JSON: %s", error)
            self._send_error(None, JsonRpcParseError())
            return
        if not isinstance(data, dict) or not self._is_message(data):
            self._send_error(None, JsonRpcInvalidRequest())
        elif "method" not in data and data.get("id") not in self._asked:
            logger.info("an answer to nothing we wait for")
        elif (refusal := self._refusal(data.get("method"))) is None:
            self._dispatch(data)
        elif "id" in data:
            self._send_error(data["id"], refusal)

    def _is_message(self, data: dict[str, Any]) -> bool:
        """Whether it has the form of one; upstream takes ids and methods for keys unseen."""
        fits = isinstance(data.get("id"), str | int | None)
        fits = fits and isinstance(data.get("method"), str | None)
        return fits and data.get("jsonrpc") == self.VERSION

    def _refusal(self, method: Any) -> JsonRpcException | None:
        """Why this must not come now. Answers to requests of ours may come at any time."""
        if method is None or method == types.EXIT:
            return None
        if self._shutdown:
            return JsonRpcInvalidRequest("the server is shutting down")
        if self._workspace is None and method != types.INITIALIZE:
            return JsonRpcServerNotInitialized("send initialize first")
        if self._workspace is not None and method == types.INITIALIZE:
            return JsonRpcInvalidRequest("initialize has been sent before")
        return None

    def _dispatch(self, data: dict[str, Any]) -> None:
        try:
            message = self.structure_message(data)
        except (JsonRpcException, RecursionError) as error:
            self._undecodable(data, _reasons(error.__cause__ or error))
        else:
            self.handle_message(message)

    def _undecodable(self, data: dict[str, Any], reasons: str) -> None:
        method, msg_id = data.get("method"), data.get("id")
        if "method" not in data:
            pending = self._request_futures.get(data["id"])
            if pending is not None:
                pending.set_exception(JsonRpcInvalidRequest(f"an answer of no use: {reasons}"))
        elif "id" in data:
            problem = f"the parameters of {method} do not fit: {reasons}"
            self._send_error(msg_id, JsonRpcInvalidParams(problem))
        elif self.on_lost_notification is not None:
            self.on_lost_notification(str(method), data.get("params"))

    def handle_message(self, message: Any) -> None:
        """As upstream, but answers of the client are taken in after `shutdown` too."""
        if self._shutdown and not hasattr(message, "method"):
            result, error = getattr(message, "result", None), getattr(message, "error", None)
            self._handle_response(message.id, result, error)
        else:
            super().handle_message(message)

    def structured(self, raw: Any, kind: type[T]) -> T:
        """A value inside an `LSPAny`. Raises whatever cattrs makes of one that does not fit."""
        value: T = self._converter.structure(raw, kind)
        return value

    # What runs

    def _execute_handler(
        self,
        msg_id: Any,
        handler: Any,
        callback: Any,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        def done(future: Future[Any]) -> None:
            callback(future)
            self._request_futures.pop(msg_id, None)

        super()._execute_handler(msg_id, handler, done, args, kwargs)

    @lsp_method(types.SHUTDOWN)
    def lsp_shutdown(self, *args: Any) -> Any:
        """Cancel what is in flight, and answer."""
        if (handler := self.fm.features.get(types.SHUTDOWN)) is not None:
            yield handler, args, None
        for msg_id, future in list(self._request_futures.items()):
            if msg_id != self.msg_id and not future.done():
                future.cancel()
        self._shutdown = True

    @lsp_method(types.EXIT)
    def lsp_exit(self, *args: Any) -> None:  # type: ignore[override]
        """Have `pump` come to its end. The code is what the protocol asks for."""
        self.exit_code = self.code_at_end

    # What goes out

    def send_request(
        self,
        method: str,
        params: Any | None = None,
        callback: Callable[[Any], None] | None = None,
        msg_id: str | int | None = None,
    ) -> Future[Any]:
        """As upstream. Cancel the future to give the answer up; a late one is then ignored."""
        key = msg_id or str(uuid.uuid4())
        self._asked.add(key)
        future = super().send_request(method, params, callback, key)
        future.add_done_callback(lambda _: self._forget(key))
        return future

    def _handle_response(self, msg_id: Any, result: Any = None, error: Any = None) -> None:
        """As upstream, without a warning about an answer that came too late to be of use."""
        if msg_id in self._request_futures:
            super()._handle_response(msg_id, result, error)

    def _forget(self, msg_id: str | int) -> None:
        self._asked.discard(msg_id)
        self._request_futures.pop(msg_id, None)
        self._result_types.pop(msg_id, None)

    def _send_error(self, msg_id: Any, error: JsonRpcException) -> None:
        # By hand, as an id of null must be sent, and the converter leaves out what is None.
        shown = {"code": error.code, "message": error.message}
        self._send_data({"jsonrpc": self.VERSION, "id": msg_id, "error": shown})


async def pump(protocol: Protocol, chunks: AsyncIterator[bytes]) -> int:
    """Serve a client until it says `exit` or its stream ends. Returns the exit code.

    Handlers that are tasks begin one turn of the loop after their message, hence the pause.
    """
    frames = Frames()
    async for chunk in chunks:
        for body in frames.feed(chunk):
            protocol.receive(body)
            await asyncio.sleep(0)
            if protocol.exit_code is not None:
                return protocol.exit_code
    return protocol.code_at_end


def _reasons(error: BaseException) -> str:
    """The leaves of a tree of cattrs errors, on one line."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_reasons(inner) for inner in error.exceptions)
    where = "".join(f" in {note}" for note in getattr(error, "__notes__", ()))
    return f"{type(error).__name__} {error}{where}"
