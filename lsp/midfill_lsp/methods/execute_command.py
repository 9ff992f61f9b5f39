"""`workspace/executeCommand`: `midfill.fill` fills a selection and has the editor apply it.

Its one argument is `{uri, version, range}`; `version` may be null for "as it is now". The answer
is `{applied: true}` or `{applied: false, reason: …}`; what the user should know is shown as well,
since editors ignore the answers to commands.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams

from midfill_engine.errors import EngineError
from midfill_engine.protocol import DraftEvent
from midfill_infill import Edit, build_canvas, hole_for_range
from midfill_lsp.documents import Document
from midfill_lsp.filling import judged, request_for
from midfill_lsp.languages import language_of
from midfill_lsp.laps import Laps
from midfill_lsp.progress import Progress, work_done
from midfill_lsp.server import MidfillServer

COMMAND: Final = "midfill.fill"
_APPLY_LIMIT_S: Final = 30.0  # an editor may ask its user first
_STALE: Final = "the document has changed meanwhile"


@dataclass(frozen=True, slots=True)
class _Selection:
    uri: str
    version: int | None
    range: types.Range


class _NotFilled(Exception):
    """The selection stays as it is; the message says why."""


async def execute_command(ls: MidfillServer, params: types.ExecuteCommandParams) -> dict[str, Any]:
    """Run a command. Cancelling the request cancels the fill.

    Raises:
        JsonRpcInvalidParams: there is no such command, or its arguments do not fit.
    """
    if params.command != COMMAND:
        raise JsonRpcInvalidParams(f"there is no command {params.command!r}")
    selection = _selection(ls, params.arguments)
    try:
        await _fill(ls, selection, params.work_done_token)
    except _NotFilled as outcome:
        ls.tell(f"midfill: {outcome}", types.MessageType.Info)
        return {"applied": False, "reason": str(outcome)}
    except EngineError as error:
        ls.engine_failed(error, asked_for=True)
        return {"applied": False, "reason": str(error)}
    return {"applied": True}


def _selection(ls: MidfillServer, arguments: Any) -> _Selection:
    """The command's one argument."""
    try:
        (argument,) = arguments
        uri, version = argument["uri"], argument.get("version")
        where = ls.protocol.structured(argument["range"], types.Range)
    except Exception as error:  # the request's boundary: any JSON may come
        raise JsonRpcInvalidParams(
            f"{COMMAND} takes [{{uri, version, range}}]: {error!r}"
        ) from error
    if not isinstance(uri, str) or not isinstance(version, int | None):
        raise JsonRpcInvalidParams(f"{COMMAND}: uri must be a string, version a number or null")
    return _Selection(uri, version, where)


async def _fill(
    ls: MidfillServer, selection: _Selection, token: types.ProgressToken | None
) -> None:
    """Fill the selection and have the editor apply it.

    The edit is found in a flight, which an edit by the user or a newer command ends; applying it
    is not, as the editor reports its own change before it answers.
    """
    document = ls.documents.get(selection.uri)
    if document is None:
        raise _NotFilled("the document is not open, or too large")
    if selection.version not in (None, document.version):
        raise _NotFilled(_STALE)

    def give_up() -> None:
        ls.flights.drop(document.uri, "command")

    with work_done(ls, token, "midfill: filling the selection", give_up) as progress:
        edit = await ls.flights.run(
            document.uri, "command", _edit(ls, document, selection.range, progress)
        )
    if edit is None:
        raise _NotFilled(_STALE if not ls.documents.is_current(document) else "given up")
    await _apply(ls, document, edit)


async def _edit(
    ls: MidfillServer, document: Document, where: types.Range, progress: Progress
) -> Edit:
    laps = Laps()
    start, end = document.offset(where.start), document.offset(where.end)
    language = language_of(document.uri, document.language_id)
    hole = hole_for_range(document.text, start, end, language)
    if hole is None:
        raise _NotFilled("there is nothing to fill in the selection")
    canvas = build_canvas(document.text, hole, language)
    request = request_for(canvas, ls.settings.invoked, want_drafts=True)
    msg_id, wants_drafts = ls.protocol.msg_id, ls.settings.drafts

    def on_draft(event: DraftEvent) -> None:
        progress.report(f"step {event.step}")
        if wants_drafts:
            ls.send_drafts(document.uri, document.version, msg_id, event)

    laps.end("canvas")
    result = await ls.engine.fill(request, on_draft=on_draft)
    laps.end("engine")
    judgement = judged(result, document.text, canvas)
    laps.end("filters")
    best = judgement.candidates[0] if judgement.candidates else None
    if ls.settings.stats:
        confidence, reason = (best.fill.confidence, None) if best else (None, judgement.reason)
        ls.send_stats(document, msg_id, result, confidence, reason, laps)
    if best is None:
        raise _NotFilled(judgement.reason)
    return best.edit


async def _apply(ls: MidfillServer, document: Document, edit: Edit) -> None:
    if not ls.documents.is_current(document):
        raise _NotFilled(_STALE)
    workspace = ls.client_capabilities.workspace
    if workspace is None or not workspace.apply_edit:
        raise _NotFilled("this editor cannot apply edits of a server")
    params = types.ApplyWorkspaceEditParams(_workspace_edit(ls, document, edit), label="midfill")
    try:
        answer = await asyncio.wait_for(
            ls.workspace_apply_edit_async(params), timeout=_APPLY_LIMIT_S
        )
    except TimeoutError as error:
        raise _NotFilled("the editor did not say whether it applied the edit") from error
    except JsonRpcException as error:
        raise _NotFilled(f"the editor did not apply the edit: {error}") from error
    if not answer.applied:
        raise _NotFilled(answer.failure_reason or "the editor did not apply the edit")


def _workspace_edit(ls: MidfillServer, document: Document, edit: Edit) -> types.WorkspaceEdit:
    """Bound to the document's version, where the editor has that."""
    change = types.TextEdit(document.range(edit.start, edit.end), edit.new_text)
    workspace = ls.client_capabilities.workspace
    edits = workspace.workspace_edit if workspace else None
    if edits is None or not edits.document_changes:
        return types.WorkspaceEdit(changes={document.uri: [change]})
    versioned = types.OptionalVersionedTextDocumentIdentifier(document.uri, document.version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(versioned, [change])])
