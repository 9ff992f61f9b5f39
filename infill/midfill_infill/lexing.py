"""Strings, comments and brackets before a cursor, told apart without a parser.

Owns the scan that says whether a cursor is in a string or a comment and which brackets are open
there. It reads the facts of `languages` and nothing else. A parser would say more about whole
code, but text around a cursor is broken, and this is exact where a parser guesses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from midfill_infill.brackets import PAIRS, Bracket, BracketStack
from midfill_infill.languages.language import GUESSED_STRINGS, Language, Quoted
from midfill_infill.lines import next_line

_BRACKETS: Final = frozenset("()[]{}")
# Strings are followed from the document's beginning, where the state is known. In a longer text
# the scan starts this many characters before the cursor and supposes code there.
_EXACT_CHARS: Final = 98_304
_GUESS_CHARS: Final = 32_768
_NEAR_CHARS: Final = 8_192  # how far before the cursor spans and brackets are kept


@dataclass(frozen=True, slots=True)
class Span:
    """A string or a comment, its marks included."""

    quoted: Quoted
    start: int
    end: int
    closed: bool

    @property
    def is_comment(self) -> bool:
        return self.quoted.kind == "comment"


@dataclass(frozen=True, slots=True)
class Lexed:
    """What was seen in a text up to `stop`."""

    stop: int
    spans: tuple[Span, ...]  # near `stop` only, like the brackets
    brackets: tuple[Bracket, ...]  # those of the code
    open_brackets: tuple[Bracket, ...]

    @property
    def inside(self) -> Span | None:
        """The string or comment in which `stop` lies."""
        last = self.spans[-1] if self.spans else None
        return last if last and last.end == self.stop and not last.closed else None


def lex(text: str, stop: int, language: Language | None) -> Lexed:
    """Scan `text` up to `stop`."""
    start = 0
    if stop > _EXACT_CHARS:
        guess = stop - _GUESS_CHARS
        start = next_line(text, guess, stop) or guess
    near = max(start, stop - _NEAR_CHARS)
    spans = tuple(find_spans(text, start, stop, language, since=near))
    brackets, left_open = _brackets_between(text, near, stop, spans, language)
    return Lexed(stop, spans, tuple(brackets), tuple(left_open))


def find_spans(
    text: str, start: int, stop: int, language: Language | None, *, since: int = 0
) -> list[Span]:
    """The strings and comments of `text[start:stop]` that end behind `since`.

    At `start` there is code.
    """
    kinds = language.quoted if language else GUESSED_STRINGS
    candidate, pattern = _patterns(kinds)
    spans: list[Span] = []
    at = start
    while found := candidate.search(text, at, stop):
        at = found.start()
        match = pattern.match(text, at, stop)
        if match is None or match.lastindex is None:
            at += 1
            continue
        start, at = at, match.end()
        if at > since:
            kind, has_end = divmod(match.lastindex - 1, 2)
            spans.append(Span(kinds[kind], start, at, bool(has_end)))
    return spans


def code_brackets(text: str, start: int, stop: int, language: Language | None) -> list[Bracket]:
    """The brackets of `text[start:stop]` outside strings and comments; at `start` there is code."""
    spans = find_spans(text, start, stop, language)
    return _brackets_between(text, start, stop, spans, None)[0]


def end_mark(text: str, span: Span, limit: int) -> str | None:
    """The mark with which an open span ends behind the cursor; None if not before `limit`."""
    match = re.compile(f"{span.quoted.body}({span.quoted.end or '(?!)'})").match(
        text, span.start, limit
    )
    return match[1] if match else None


@cache
def _patterns(kinds: tuple[Quoted, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """One pattern for where a span may begin, one for a whole span: (body)(end)?|(body)(end)?…"""
    first = "".join(sorted({kind.first for kind in kinds}))
    whole = "|".join(f"({kind.body})({kind.end or '(?!)'})?" for kind in kinds)
    return re.compile(f"[{re.escape(first)}]"), re.compile(whole)


def _brackets_between(
    text: str, start: int, stop: int, spans: Sequence[Span], language: Language | None
) -> tuple[list[Bracket], list[Bracket]]:
    """All brackets of the code, and those of them that are open at `stop`."""
    pattern = _bracket_pattern(language.never_in_brackets if language else "")
    seen: list[Bracket] = []
    stack = BracketStack()
    at = start
    for code_end, next_start in [(s.start, s.end) for s in spans if s.end > start] + [(stop, stop)]:
        for match in pattern.finditer(text, at, max(at, code_end)):
            char = match[0]
            if char not in _BRACKETS:
                stack.clear()
                continue
            seen.append((match.start(), char))
            if char in PAIRS:
                stack.push(seen[-1])
            else:
                stack.close(char)
        at = next_start
    return seen, stack.open


@cache
def _bracket_pattern(never_inside: str) -> re.Pattern[str]:
    line = rf"|^[ \t]*{never_inside}" if never_inside else ""
    return re.compile(rf"[()\[\]{{}}]{line}", re.MULTILINE)


def continued_lines(text: str, language: Language | None) -> set[int]:
    """Numbers of the lines of `text` ("\\n" line ends) that go on with what a line before began."""
    spans = find_spans(text, 0, len(text), language)
    brackets, _ = _brackets_between(text, 0, len(text), spans, None)
    lines = text.split("\n")
    continued = {n for n in range(1, len(lines)) if lines[n - 1].endswith("\\")}
    for span in spans:
        first = text.count("\n", 0, span.start)
        continued.update(range(first + 1, first + 1 + text.count("\n", span.start, span.end)))
    opened: list[int] = []
    for offset, char in brackets:
        line = text.count("\n", 0, offset)
        if char in PAIRS:
            opened.append(line)
        elif opened:
            start = opened.pop()
            if char != "}":
                continued.update(range(start + 1, line + 1))
    return continued
