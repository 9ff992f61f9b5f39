"""What surrounds a hole: indentation, open brackets, an open string, the statements to parse.

Owns the making of `Place`. Knows nothing of fills and of the filters that use what is found.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from midfill_infill.blocks import opener_before, statement_start
from midfill_infill.brackets import PAIRS, Bracket, BracketStack
from midfill_infill.canvas import Hole, OpenBracket, Place
from midfill_infill.languages.language import Language
from midfill_infill.lead import lead_of
from midfill_infill.lexing import Lexed, Span, code_brackets, end_mark, lex
from midfill_infill.lines import indent_of, line_end, line_start, next_line, width_of

_NEAR_BEFORE: Final = 6_000
_NEAR_AFTER: Final = 1_500
_SCOPE_BEFORE: Final = 8_000  # bounds of what is parsed: a millisecond or two of sound code
_SCOPE_HOLE: Final = 4_000
_SCOPE_AFTER: Final = 4_000
_STRING_CHARS: Final = 2_048  # behind the hole, where the end of its string is looked for
_INDENTED: Final = re.compile(r"^([ \t]+)(?=[^ \t\r\n*])", re.MULTILINE)
# A line that opens a block, and the first below it: their steps are levels, not alignment.
_HEAD_AND_BODY: Final = re.compile(
    r"^([ \t]*)\S[^\r\n]*[:{][ \t]*(?=(?:[\r\n][ \t]*)*[\r\n]([ \t]+)\S)", re.MULTILINE
)
_FURTHER_LINE: Final = re.compile(r"[\r\n]([ \t]*)(?=[^\s#)\]}])")
_CLOSING: Final = " \t)]},;:"
_ITEM_LINE: Final = re.compile(r"^[ \t]*(?=[^\s)\]}#])", re.MULTILINE)
_TOP_LINE: Final = re.compile(r"^[^\s)\]}]", re.MULTILINE)


def place_of(text: str, hole: Hole, language: Language | None) -> Place:
    """The surroundings of `hole`."""
    lexed = lex(text, hole.start, language)
    inside = lexed.inside
    unit, steps = _indentation(text, hole, language)
    base, floor = _widths(text, hole, lexed, language)
    return Place(
        indent_unit=unit,
        indent_steps=steps,
        lead=lead_of(text, hole, lexed, language),
        base_width=base,
        floor_width=floor,
        brackets=() if inside else tuple(_open_brackets(text, hole, lexed, language)),
        quote=_closing_quote(text, hole, inside) if inside else None,
        in_text=inside is not None,
        scope_before=_scope_before(text, hole, lexed),
        scope_hole=text[hole.start : hole.end] if hole.end - hole.start <= _SCOPE_HOLE else None,
        scope_after=_scope_after(text, hole),
    )


def _closing_quote(text: str, hole: Hole, inside: Span) -> str | None:
    """The mark that ends the string behind the hole.

    What ends a string of the hole's own line on a later line begins the next string in truth.
    """
    if inside.is_comment:
        return None
    limit = min(len(text), hole.end + _STRING_CHARS)
    if line_start(text, hole.start, max(0, hole.start - _NEAR_BEFORE)) <= inside.start:
        limit = line_end(text, hole.end, limit)
    return end_mark(text, inside, limit)


def _indentation(text: str, hole: Hole, language: Language | None) -> tuple[str, frozenset[int]]:
    """One level of indentation, by the lines near the hole, and all the steps they show."""
    near = text[max(0, hole.start - _NEAR_BEFORE) : hole.end + _NEAR_AFTER]
    indents: list[str] = _INDENTED.findall(near)
    if sum(indent[0] == "\t" for indent in indents) * 2 > len(indents):
        return "\t", frozenset([width_of("\t")])
    heads = ((width_of(head), width_of(body)) for head, body in _HEAD_AND_BODY.findall(near))
    steps = Counter(body - head for head, body in heads if 2 <= body - head <= 8)
    if not steps:
        widths = [0, *(width_of(indent) for indent in indents)]
        steps = Counter(b - a for a, b in pairwise(widths) if 2 <= b - a <= 8)
    if steps:
        return " " * steps.most_common(1)[0][0], frozenset(steps)
    return (language.indent_unit if language else "    "), frozenset()


def _widths(
    text: str, hole: Hole, lexed: Lexed, language: Language | None
) -> tuple[int, int | None]:
    """Columns of the statement's indentation, and the least that a fill's further lines have."""
    if hole.kind == "block" and (opener := opener_before(text, lexed, language)):
        return opener.base_width, opener.base_width + 1
    start = statement_start(text, hole.start, lexed)
    base = width_of(indent_of(text[start : hole.start]))
    if hole.kind != "selection":
        return base, None
    first = line_start(text, hole.start, max(0, hole.start - _NEAR_BEFORE))
    lines = re.split(r"\r\n|\n|\r", text[first : hole.end])
    return base, min(
        width_of(indent_of(line)) for line in lines if line.strip() or line is lines[0]
    )


def _open_brackets(
    text: str, hole: Hole, lexed: Lexed, language: Language | None
) -> list[OpenBracket]:
    """The brackets open at the hole, each with whether the text behind the hole closes it."""
    limit = min(len(text), hole.end + _SCOPE_AFTER)
    waiting = BracketStack(lexed.open_brackets)
    closed: set[int] = set()
    for offset, char in _unmatched_closers(text, hole.end, limit, language):
        _give_up_deeper(text, waiting, offset)
        if opener := waiting.close(char):
            closed.add(opener[0])
    if limit < len(text):
        closed.update(_closed_far_away(text, hole.end, limit, waiting))
    ended = _ended_line(text, hole, limit)
    return [
        OpenBracket(
            char, offset in closed, offset not in closed and char != "{" and offset >= ended
        )
        for offset, char in lexed.open_brackets
    ]


def _ended_line(text: str, hole: Hole, limit: int) -> int:
    """Where the hole's line starts; the hole, if code follows on it or, indented more, below."""
    start = line_start(text, hole.start, max(0, hole.start - _NEAR_BEFORE))
    stop = line_end(text, hole.end, limit)
    if text[hole.end : stop].strip(_CLOSING):
        return hole.start
    below = _FURTHER_LINE.search(text, stop, limit)
    deeper = below is not None and width_of(below[1]) > width_of(
        indent_of(text[start : hole.start])
    )
    return hole.start if deeper else start


def _closed_far_away(text: str, start: int, limit: int, waiting: BracketStack) -> list[int]:
    """The braces that are held to be closed beyond `limit`: all lines up to there lie inside."""
    behind = (match for match in _FURTHER_LINE.finditer(text, start, limit))
    least = min((width_of(match[1]) for match in behind), default=0)
    braces = [offset for offset, char in waiting.open if char == "{"]
    return [offset for offset in braces if _line_width(text, offset) < least]


def _unmatched_closers(
    text: str, start: int, stop: int, language: Language | None
) -> Iterator[Bracket]:
    inner = BracketStack()
    for offset, char in code_brackets(text, start, stop, language):
        if char in PAIRS:
            inner.push((offset, char))
        elif not inner.close(char):
            yield offset, char


def _give_up_deeper(text: str, waiting: BracketStack, closer: int) -> None:
    """A closer that starts its line does not close what was opened on a line indented more."""
    line = line_start(text, closer, max(0, closer - _NEAR_BEFORE))
    if text[line:closer].strip(" \t"):
        return
    width = width_of(text[line:closer])
    while waiting.open and _line_width(text, waiting.open[-1][0]) > width:
        waiting.pop()


def _line_width(text: str, offset: int) -> int:
    return width_of(
        indent_of(text[line_start(text, offset, max(0, offset - _NEAR_BEFORE)) : offset])
    )


def _scope_before(text: str, hole: Hole, lexed: Lexed) -> str:
    """The text before the hole from the first of the least indented lines that are near enough.

    These are items of the file, or those of the class or function that is longer than that.
    """
    if hole.start <= _SCOPE_BEFORE:
        return text[: hole.start]
    lowest = hole.start - _SCOPE_BEFORE
    spans = [span for span in lexed.spans if span.end > lowest]
    code = next((span.end for span in spans if span.start < lowest), lowest)
    starts = [span.start for span in spans]
    least, at = None, next_line(text, code, hole.start) or code
    for match in _ITEM_LINE.finditer(text, code, hole.start):
        line, width = match.start(), width_of(match[0])
        before = bisect_left(starts, line) - 1
        in_span = before >= 0 and line < spans[before].end
        if not in_span and (least is None or width < least):
            least, at = width, line
    return text[at : hole.start]


def _scope_after(text: str, hole: Hole) -> str:
    """The text behind the hole, up to the last line without indentation that is near enough."""
    limit = hole.end + _SCOPE_AFTER
    if limit >= len(text):
        return text[hole.end :]
    ends = [match.start() for match in _TOP_LINE.finditer(text, hole.end, limit)]
    return text[hole.end : ends[-1] if ends and ends[-1] > hole.end else limit]
