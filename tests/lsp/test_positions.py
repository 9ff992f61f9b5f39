"""Positions in three encodings, checked on texts with the place marked by `¦`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol.types import Position

from midfill_lsp.positions import (
    Encoding,
    line_end,
    line_starts,
    offset_at,
    position_at,
    spliced_line_starts,
)

TEXTS = st.text(st.sampled_from("ab\n\r\f\x85\u2028é漢😀\ud800\udc00"), max_size=30)
ENCODINGS = st.sampled_from(list(Encoding))


def check(marked: str, line: int, utf8: int, utf16: int, utf32: int) -> None:
    """The mark has this position, and the position leads to the mark."""
    offset, text = marked.index("¦"), marked.replace("¦", "")
    starts = line_starts(text)
    for encoding, character in zip(Encoding, (utf8, utf16, utf32), strict=True):
        position = position_at(text, starts, offset, encoding)
        assert (position.line, position.character) == (line, character), encoding
        assert offset_at(text, starts, Position(line, character), encoding) == offset


def check_clamped(marked: str, line: int, character: int, encoding: Encoding) -> None:
    """A position that is none of the text's leads to the mark."""
    offset, text = marked.index("¦"), marked.replace("¦", "")
    assert offset_at(text, line_starts(text), Position(line, character), encoding) == offset


def test_each_encoding_counts_in_its_own_units() -> None:
    check("¦", 0, 0, 0, 0)
    check("ab¦c", 0, 2, 2, 2)
    check("é¦", 0, 2, 1, 1)
    check("漢字¦ = 1", 0, 6, 2, 2)
    check("s = '😀'¦", 0, 10, 8, 7)
    check("a\nb😀¦\nc", 1, 5, 3, 2)
    check("\ud800¦x", 0, 3, 1, 1)  # a lone surrogate


def test_lines_end_at_lf_crlf_and_cr() -> None:
    check("a\r\nb¦\r\n", 1, 1, 1, 1)
    check("a\rb¦\rc", 1, 1, 1, 1)
    check("a\r\n¦\r\nb", 1, 0, 0, 0)
    check("a\n¦", 1, 0, 0, 0)


@pytest.mark.parametrize("character", ["\f", "\v", "\x1c", "\x85", "\u2028", "\u2029"])
def test_nothing_else_ends_a_line(character: str) -> None:
    assert line_starts(f"a{character}b\nc") == [0, 4]


def test_what_lies_past_an_end_is_clamped() -> None:
    for encoding in Encoding:
        check_clamped("ab¦\ncd", 0, 99, encoding)
        check_clamped("ab¦\r\ncd", 0, 99, encoding)
        check_clamped("ab\ncd¦", 9, 0, encoding)
        check_clamped("¦", 3, 7, encoding)


def test_what_lies_inside_a_character_is_its_start() -> None:
    check_clamped("¦😀x", 0, 1, Encoding.Utf16)
    check_clamped("¦😀x", 0, 3, Encoding.Utf8)
    check_clamped("¦漢x", 0, 2, Encoding.Utf8)


@given(TEXTS, ENCODINGS, st.data())
def test_a_position_leads_back_to_its_offset(
    text: str, encoding: Encoding, data: st.DataObject
) -> None:
    starts = line_starts(text)
    line = data.draw(st.integers(0, len(starts) - 1))
    offset = data.draw(st.integers(starts[line], line_end(text, starts, line)))
    assert offset_at(text, starts, position_at(text, starts, offset, encoding), encoding) == offset


@given(TEXTS, ENCODINGS, st.integers(0, 40), st.integers(0, 90))
def test_any_position_is_inside_the_text(
    text: str, encoding: Encoding, line: int, character: int
) -> None:
    assert 0 <= offset_at(text, line_starts(text), Position(line, character), encoding) <= len(text)


@given(TEXTS, TEXTS, st.data())
def test_line_starts_follow_an_edit(text: str, inserted: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    edited = text[:start] + inserted + text[end:]
    spliced = spliced_line_starts(line_starts(text), start, end, len(inserted), edited)
    assert spliced == line_starts(edited)
