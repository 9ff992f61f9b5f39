"""Whether a cursor stands where the body of a block is missing.

Owns the two block styles, by indentation and by braces. Knows nothing of what happens with the
answer. It never looks further than a few thousand characters to either side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from operator import itemgetter
from typing import Final

from midfill_infill.brackets import PAIRS
from midfill_infill.languages.language import Language
from midfill_infill.lexing import Lexed, Span
from midfill_infill.lines import indent_of, line_start, width_of

_REACH: Final = 8_192
# A brace that directly follows a word is a literal (`Point{`), except after these.
_BODY_WORDS: Final = re.compile(r"(?:^|[\s};])(?:else|try|do|finally|loop|unsafe)\Z")
_NO_BODY: Final = re.compile(r"(?:[=(\[,:?&|]|\breturn)\Z")
_STRING_PREFIX: Final = re.compile(r"[ \t]*[a-zA-Z]{0,2}")


@dataclass(frozen=True, slots=True)
class Opener:
    """The head of a block in front of the cursor, with nothing of a body between them."""

    base_width: int  # columns by which the statement that owns the block is indented
    adjacent: bool  # the cursor is on the opener's own line, right behind it
    body_missing: bool


def opener_before(text: str, lexed: Lexed, language: Language | None) -> Opener | None:
    """The block opener that the cursor at `lexed.stop` belongs to, if there is one."""
    if language is None or lexed.inside:
        return None
    cursor = lexed.stop
    line = line_start(text, cursor, max(0, cursor - _REACH))
    end = code_end(text, lexed, docstrings=language.blocks == "indentation")
    adjacent = end > line
    if adjacent and text[end:cursor].strip():
        return None  # a comment or a docstring stands between
    if not adjacent and text[line:cursor].strip():
        return None
    head = _head_by_colon if language.blocks == "indentation" else _head_by_brace
    start = head(text, end, lexed, language)
    if start is None:
        return None
    base = width_of(indent_of(text[start:end]))
    missing = _body_missing(text, cursor, base, braces=language.blocks == "braces")
    return Opener(base, adjacent, missing)


def statement_start(text: str, end: int, lexed: Lexed) -> int:
    """Where the first line of the statement starts whose last line has `end` in it or behind it.

    A line that closes a bracket belongs to the line on which the bracket was opened, and one that
    begins in a string or a comment to the line on which that begins.
    """
    start = line_start(text, end, max(0, end - _REACH))
    depth = 0
    spans = ((span.start, span) for span in reversed(lexed.spans))
    marks: Iterator[tuple[int, str | Span]]
    marks = merge(reversed(lexed.brackets), spans, key=itemgetter(0), reverse=True)
    for offset, mark in marks:
        if offset >= end:
            continue
        if isinstance(mark, Span):
            if offset < start < mark.end:
                start = line_start(text, offset, max(0, offset - _REACH))
            continue
        if offset < start and depth == 0:
            break
        depth = max(0, depth - 1) if mark in PAIRS else depth + 1
        if offset < start and depth == 0:
            start = line_start(text, offset, max(0, offset - _REACH))
    return start


def code_end(text: str, lexed: Lexed, *, docstrings: bool) -> int:
    """The end of the last code before the cursor, skipping comments and, if asked, docstrings."""
    lowest = max(0, lexed.stop - _REACH)
    end = lowest + len(text[lowest : lexed.stop].rstrip())
    for span in reversed(lexed.spans):
        if span.end < end or not (span.is_comment or (docstrings and _alone(text, span))):
            break
        lowest = max(0, span.start - _REACH)
        before = text[lowest : span.start]
        if not span.is_comment:
            before = before.rstrip("rRuUbBfF")
        end = lowest + len(before.rstrip())
    return end


def _alone(text: str, span: Span) -> bool:
    """A string with nothing but its prefix before it on its line."""
    line = line_start(text, span.start, max(0, span.start - _REACH))
    return _STRING_PREFIX.fullmatch(text, line, span.start) is not None


def _head_by_colon(text: str, end: int, lexed: Lexed, language: Language) -> int | None:
    if text[end - 1 : end] != ":" or lexed.open_brackets:
        return None
    start = statement_start(text, end, lexed)
    return start if re.compile(r"[ \t]*" + language.header).match(text, start, end) else None


def _head_by_brace(text: str, end: int, lexed: Lexed, language: Language) -> int | None:
    if text[end - 1 : end] != "{":
        return None
    before = text[max(0, end - 201) : end - 1]
    code = before.rstrip()
    if code.endswith("=>"):
        return statement_start(text, end - 1, lexed)
    if before == code and code[-1:] not in (")", "") and not _BODY_WORDS.search(code):
        return None
    return None if _NO_BODY.search(code) else statement_start(text, end - 1, lexed)


def _body_missing(text: str, cursor: int, base: int, *, braces: bool) -> bool:
    limit = min(len(text), cursor + _REACH)
    rest = text[cursor:limit]
    ahead = rest.lstrip()
    if not ahead:
        return True
    if braces and ahead.startswith("}"):
        return True
    start = cursor + len(rest) - len(ahead)
    line = line_start(text, start, cursor)
    if line == cursor:
        return False  # code follows on the cursor's own line
    return width_of(indent_of(text[line : start + 1])) <= base
