"""The document store: incremental changes, versions, and what is not kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from midfill_lsp.documents import Document, Documents
from midfill_lsp.positions import Encoding

URI = "file:///a.py"


def opened(text: str, encoding: Encoding = Encoding.Utf16, max_bytes: int = 1000) -> Documents:
    documents = Documents(max_bytes)
    documents.encoding = encoding
    documents.open(types.TextDocumentItem(URI, "python", 1, text))
    return documents


def replaced(
    start: types.Position, end: types.Position, text: str
) -> types.TextDocumentContentChangePartial:
    return types.TextDocumentContentChangePartial(types.Range(start, end), text)


def check(marked: str, new: str, expected: str, encoding: Encoding = Encoding.Utf16) -> None:
    """Replacing what stands between the two marks `¦` gives the expected text."""
    before, between, after = marked.split("¦")
    documents = opened(before + between + after, encoding)
    document = documents.get(URI)
    assert document is not None
    span = document.range(len(before), len(before) + len(between))
    changed = documents.change(URI, 2, [replaced(span.start, span.end, new)])
    assert changed is not None
    assert (changed.text, changed.version) == (expected, 2)


@pytest.mark.parametrize("encoding", list(Encoding))
def test_changes_land_where_the_editor_made_them(encoding: Encoding) -> None:
    check("¦¦", "x", "x", encoding)
    check("a = ¦1¦\n", "22", "a = 22\n", encoding)
    check("s = '😀¦¦'\n", "漢", "s = '😀漢'\n", encoding)
    check("a¦\r\n¦b\r\n", "", "ab\r\n", encoding)
    check("a\fb\n\u2028c¦d¦\n", "", "a\fb\n\u2028c\n", encoding)


def test_changes_of_one_notification_follow_upon_each_other() -> None:
    documents = opened("ab\n")
    at = types.Position
    first = replaced(at(0, 2), at(0, 2), "\ncd")
    second = replaced(at(1, 1), at(1, 2), "!")
    changed = documents.change(URI, 2, [first, second])
    assert changed is not None
    assert changed.text == "ab\nc!\n"


def test_a_whole_text_replaces_everything() -> None:
    documents = opened("old")
    changed = documents.change(URI, 5, [types.TextDocumentContentChangeWholeDocument("new\n")])
    assert changed is not None
    assert (changed.text, changed.starts) == ("new\n", [0, 4])


def test_a_range_that_ends_before_it_starts_is_taken_as_empty() -> None:
    documents = opened("abc")
    changed = documents.change(URI, 2, [replaced(types.Position(0, 2), types.Position(0, 0), "x")])
    assert changed is not None
    assert changed.text == "abxc"


def test_snapshots_do_not_change() -> None:
    documents = opened("a")
    before = documents.get(URI)
    assert before is not None
    assert documents.is_current(before)
    documents.change(URI, 2, [types.TextDocumentContentChangeWholeDocument("b")])
    assert before.text == "a"
    assert not documents.is_current(before)


def test_a_document_opened_again_is_another_one() -> None:
    documents = opened("a")
    before = documents.get(URI)
    assert before is not None
    documents.close(URI)
    documents.open(types.TextDocumentItem(URI, "python", 1, "a"))
    assert not documents.is_current(before)


def test_closed_documents_are_freed() -> None:
    documents = opened("a")
    documents.close(URI)
    documents.close("file:///never-opened.py")
    assert len(documents) == 0
    assert documents.change(URI, 2, []) is None
    assert len(documents) == 0


@pytest.mark.parametrize(
    ("text", "fits"),
    [("a" * 1000, True), ("a" * 1001, False), ("漢" * 333, True), ("漢" * 334, False)],
)
def test_the_size_counts_in_bytes(text: str, fits: bool) -> None:
    assert (opened(text).get(URI) is not None) is fits


def test_a_document_that_grows_too_large_is_let_go_until_opened_again() -> None:
    documents = opened("a" * 999)
    start = types.Position(0, 0)
    assert documents.change(URI, 2, [replaced(start, start, "bb")]) is None
    assert documents.change(URI, 3, [replaced(start, types.Position(0, 9), "")]) is None
    assert documents.get(URI) is None
    assert documents.open(types.TextDocumentItem(URI, "python", 4, "small")) is not None


EDITS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 20), st.text("a\n\r😀é", max_size=4)), max_size=6
)


@given(st.text("ab\n\r😀é\f", max_size=20), EDITS, st.sampled_from(list(Encoding)))
def test_many_changes_equal_the_same_edits_of_a_string(
    text: str, edits: list[tuple[int, int, str]], encoding: Encoding
) -> None:
    documents = opened(text, encoding)
    for version, (first, second, new) in enumerate(edits, start=2):
        document = documents.get(URI)
        assert document is not None
        start, end = (on_line(document, offset) for offset in sorted((first, second)))
        span = document.range(start, end)
        text = text[:start] + new + text[end:]
        documents.change(URI, version, [replaced(span.start, span.end, new)])
    document = documents.get(URI)
    assert document is not None
    assert document.text == text


def on_line(document: Document, offset: int) -> int:
    """The offset, or the nearest one before it that an editor can name."""
    offset = min(offset, len(document.text))
    return offset - (document.text[offset - 1 : offset + 1] == "\r\n")
