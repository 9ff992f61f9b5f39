"""`textDocument/didOpen`, `didChange`, `didClose`: the editor's text is ours too."""

from typing import Any

from lsprotocol import types

from midfill_lsp.server import MidfillServer


def did_open(ls: MidfillServer, params: types.DidOpenTextDocumentParams) -> None:
    """Keep the document, or say once that it is too large."""
    ls.forget(params.text_document.uri)
    if ls.documents.open(params.text_document) is None:
        _tell_too_large(ls, params.text_document.uri)


def did_change(ls: MidfillServer, params: types.DidChangeTextDocumentParams) -> None:
    """Follow the document. What is under way for the version before is of no use any more."""
    uri, version = params.text_document.uri, params.text_document.version
    ls.flights.drop_all(uri)
    kept_before = ls.documents.get(uri) is not None
    kept = ls.documents.change(uri, version, params.content_changes) is not None
    if kept_before and not kept:
        ls.typed_through.forget(uri)
        _tell_too_large(ls, uri)


def did_close(ls: MidfillServer, params: types.DidCloseTextDocumentParams) -> None:
    """Forget the document."""
    ls.forget(params.text_document.uri)


def lost_notification(ls: MidfillServer, method: str, params: Any) -> None:
    """A notification came that could not be read. A document it may have changed is not known now.

    Filling holes in a text that the user no longer sees would be worse than being silent in it.
    """
    ls.log(f"a {method} notification could not be read")
    item = params.get("textDocument") if isinstance(params, dict) else None
    uri = item.get("uri") if isinstance(item, dict) else None
    if isinstance(uri, str) and method.startswith("textDocument/did"):
        ls.forget(uri)


def _tell_too_large(ls: MidfillServer, uri: str) -> None:
    name = uri.rsplit("/", 1)[-1]
    limit = ls.settings.max_file_bytes
    ls.tell_once(f"midfill is inactive in {name}: it is too large (`maxFileBytes` is {limit})")
