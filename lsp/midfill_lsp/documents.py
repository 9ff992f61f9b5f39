"""The open documents: versioned, immutable snapshots, kept in step with the editor.

Owns the text of every open document and the bound on it: at most `max_bytes` for each document the
editor holds open, nothing for one that is larger, nothing for one that was closed. Knows nothing
of languages' syntax, and never reads the disk: what the editor shows is what counts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lsprotocol import types

from midfill_lsp.positions import (
    Encoding,
    line_starts,
    offset_at,
    position_at,
    spliced_line_starts,
)


@dataclass(frozen=True, slots=True)
class Document:
    """One version of one document. Offsets are in code points."""

    uri: str
    version: int
    language_id: str
    text: str
    starts: Sequence[int]  # where its lines start
    encoding: Encoding

    def offset(self, position: types.Position) -> int:
        """The offset of a position, clamped into the text."""
        return offset_at(self.text, self.starts, position, self.encoding)

    def range(self, start: int, end: int) -> types.Range:
        """The range from one offset to another."""
        return types.Range(
            position_at(self.text, self.starts, start, self.encoding),
            position_at(self.text, self.starts, end, self.encoding),
        )


class Documents:
    """The documents an editor holds open, by URI."""

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes` bounds a document's size in UTF-8."""
        self.max_bytes = max_bytes
        self.encoding = Encoding.Utf16  # what the protocol says until something else is agreed on
        self._open: dict[str, Document | None] = {}  # None: open, but too large to be kept

    def __len__(self) -> int:
        return len(self._open)

    def get(self, uri: str) -> Document | None:
        """The newest version; None for one that is not open or too large."""
        return self._open.get(uri)

    def is_current(self, document: Document) -> bool:
        """Whether the document still is what the editor shows."""
        return self._open.get(document.uri) is document

    def open(self, item: types.TextDocumentItem) -> Document | None:
        """Keep a document. None if it is too large."""
        self._open[item.uri] = None
        if _fits(item.text, self.max_bytes):
            starts = line_starts(item.text)
            self._open[item.uri] = Document(
                item.uri, item.version, item.language_id, item.text, starts, self.encoding
            )
        return self._open[item.uri]

    def change(
        self,
        uri: str,
        version: int,
        changes: Iterable[types.TextDocumentContentChangeEvent],
    ) -> Document | None:
        """Apply the editor's changes in their order. None if the document is not, or no more, kept.

        A document that has grown too large stays unknown until it is opened again: changes to a
        part of it say nothing about the rest.
        """
        document = self._open.get(uri)
        if document is None:
            return None
        text, starts = document.text, document.starts
        for change in changes:
            text, starts = _changed(text, starts, change, document.encoding)
            if not _fits(text, self.max_bytes):
                self._open[uri] = None
                return None
        changed = replace(document, version=version, text=text, starts=starts)
        self._open[uri] = changed
        return changed

    def close(self, uri: str) -> None:
        """Forget a document. One that was not open is none of our concern."""
        self._open.pop(uri, None)


def _changed(
    text: str,
    starts: Sequence[int],
    change: types.TextDocumentContentChangeEvent,
    encoding: Encoding,
) -> tuple[str, Sequence[int]]:
    """Text and line starts after one change."""
    if not isinstance(change, types.TextDocumentContentChangePartial):
        return change.text, line_starts(change.text)
    start = offset_at(text, starts, change.range.start, encoding)
    end = max(start, offset_at(text, starts, change.range.end, encoding))
    changed = text[:start] + change.text + text[end:]
    return changed, spliced_line_starts(starts, start, end, len(change.text), changed)


def _fits(text: str, max_bytes: int) -> bool:
    """Whether the text has at most so many bytes. Encodes it only where counting cannot tell."""
    if len(text) * 4 <= max_bytes:
        return True
    return len(text) <= max_bytes and len(text.encode("utf-8", "surrogatepass")) <= max_bytes
