"""`textDocument/inlineCompletion`: ghost text at the cursor.

Always answered with a list, empty where there is nothing to show: some clients keep old ghost text
on null, others open a pop-up on an error. While what was shown is being typed, the answer is what
is left of it, and the engine is not asked.
"""

import logging
from collections.abc import Callable, Sequence

from lsprotocol import types

from midfill_engine.errors import EngineError
from midfill_engine.protocol import DraftEvent
from midfill_infill import Edit, build_canvas, hole_at
from midfill_lsp.documents import Document
from midfill_lsp.filling import Candidate, Judged, judged, request_for
from midfill_lsp.languages import language_of
from midfill_lsp.laps import Laps
from midfill_lsp.server import MidfillServer

logger = logging.getLogger(__name__)


async def inline_completion(
    ls: MidfillServer, params: types.InlineCompletionParams
) -> types.InlineCompletionList:
    """What could stand at the cursor. A newer request for the document takes this one's place."""
    document = ls.documents.get(params.text_document.uri)
    if document is None:
        return types.InlineCompletionList([])
    work = _items(ls, document, params)
    try:
        items = await ls.flights.run(document.uri, "completion", work)
    except Exception:  # the request's boundary: some clients show errors as pop-ups
        logger.exception("no completion in %s", document.uri)
        items = None
    return types.InlineCompletionList(items or [])


async def _items(
    ls: MidfillServer, document: Document, params: types.InlineCompletionParams
) -> list[types.InlineCompletionItem]:
    laps = Laps()
    caret = document.offset(params.position)
    settings = ls.settings
    rest = ls.typed_through.rest(document, caret, settings) if _is_unbidden(params) else None
    if rest is not None:
        return [_item(rest, document)]
    language = language_of(document.uri, document.language_id)
    hole = hole_at(document.text, caret, language)
    if hole is None:
        return []
    canvas = build_canvas(document.text, hole, language)
    effort = settings.invoked if _is_invoked(params) else settings.automatic
    request = request_for(canvas, effort, want_drafts=settings.drafts)
    msg_id = ls.protocol.msg_id
    laps.end("canvas")
    try:
        result = await ls.engine.fill(request, on_draft=_draft_sender(ls, document))
    except EngineError as error:
        ls.engine_failed(error)
        return []
    laps.end("engine")
    if not ls.documents.is_current(document):
        return []
    gate = result.gate if settings.min_confidence is None else settings.min_confidence
    shown, reason = _shown(judged(result, document.text, canvas), document, params, gate)
    laps.end("filters")
    if reason is not None:
        ls.log(f"no fill: {reason}")
    if settings.stats:
        confidence = shown[0].fill.confidence if shown else None
        ls.send_stats(document, msg_id, result, confidence, reason, laps)
    if shown and _is_unbidden(params):
        ls.typed_through.keep(document, shown[0].edit, settings)
    return [_item(candidate.edit, document) for candidate in shown]


def _shown(
    judgement: Judged, document: Document, params: types.InlineCompletionParams, gate: float
) -> tuple[Sequence[Candidate], str | None]:
    """What to show of the candidates, or why nothing."""
    if not judgement.candidates:
        return (), judgement.reason
    fitting = [
        c for c in judgement.candidates if _extends_selection(c.edit, document, params.context)
    ]
    if not fitting:
        return (), "what the model wrote does not go on from what the editor's menu selects"
    if _is_invoked(params):
        return fitting, None
    best = fitting[0]
    if best.fill.confidence < gate:
        return (), f"the model is too unsure of what it wrote ({best.fill.confidence:.2f})"
    return (best,), None


def _is_invoked(params: types.InlineCompletionParams) -> bool:
    return params.context.trigger_kind is types.InlineCompletionTriggerKind.Invoked


def _is_unbidden(params: types.InlineCompletionParams) -> bool:
    """Whether typing alone has led to the request: nobody asks, and no menu selects anything."""
    return not _is_invoked(params) and params.context.selected_completion_info is None


def _item(edit: Edit, document: Document) -> types.InlineCompletionItem:
    """Plain text with an explicit range: at the caret and empty, as all of a cursor's holes are."""
    replaced = document.range(edit.start, edit.end)
    return types.InlineCompletionItem(insert_text=edit.new_text, range=replaced)


def _draft_sender(ls: MidfillServer, document: Document) -> Callable[[DraftEvent], None] | None:
    if not ls.settings.drafts:
        return None
    msg_id = ls.protocol.msg_id
    return lambda event: ls.send_drafts(document.uri, document.version, msg_id, event)


def _extends_selection(
    edit: Edit, document: Document, context: types.InlineCompletionContext
) -> bool:
    """Whether the text goes on from what is selected in the editor's completion menu, if any is."""
    selected = context.selected_completion_info
    if selected is None:
        return True
    typed = document.text[document.offset(selected.range.start) : edit.start]
    return (typed + edit.new_text).startswith(selected.text)
