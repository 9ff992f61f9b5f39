"""Filters: brackets and quotes in balance with those that editors type ahead, and in themselves."""

from __future__ import annotations

from dataclasses import dataclass

from midfill_infill.brackets import PAIRS
from midfill_infill.canvas import Canvas
from midfill_infill.languages import facts_for
from midfill_infill.lexing import code_brackets, find_spans


@dataclass(frozen=True, slots=True)
class _Balance:
    """What a fill does to the brackets around it."""

    left_open: int  # of the fill's own brackets, how many it does not close
    takes_from: int | None  # where it first closes what is closed behind the hole, for good


def closers(fill: str, canvas: Canvas) -> str | None:
    """Cut the fill before it closes what is closed behind the hole, unless it opens it again.

    So `bar)` becomes `bar` in `foo($0)`, while `bar()` and `a) + foo(b` stay. A bracket that the
    document leaves open may be closed.
    """
    if canvas.place.quote:
        return _within_quotes(fill, canvas.place.quote)
    if canvas.place.in_text:
        return fill
    return fill[: _balance(fill, canvas).takes_from]


def left_open(fill: str, canvas: Canvas) -> str | None:
    """Keep the lines after which no bracket of the fill is open; None if there are none.

    A fill may end with an opening bracket or a comma, where a person would go on in a new line.
    """
    if canvas.place.in_text or (goes_on(fill, canvas) and not canvas.line_after.strip()):
        return fill
    lines = fill.split("\n")
    while lines and _balance("\n".join(lines), canvas).left_open:
        lines.pop()
    return "\n".join(lines) if lines else None


def goes_on(fill: str, canvas: Canvas) -> bool:
    """The fill's code ends as a line does that has more below it."""
    code = fill
    for span in reversed(find_spans(fill, 0, len(fill), facts_for(canvas.language))):
        if span.quoted.kind == "string" or span.end < len(code.rstrip()):
            break
        code = fill[: span.start]
    return code.rstrip().endswith((*PAIRS, ","))


def _within_quotes(fill: str, quote: str) -> str:
    """An odd number of the closing marks would end the string before its end."""
    marks = [at for at in _find_all(fill, quote) if not _is_escaped(fill, at)]
    return fill[: marks[0]] if len(marks) % 2 else fill


def _find_all(text: str, mark: str) -> list[int]:
    found = []
    at = text.find(mark)
    while at >= 0:
        found.append(at)
        at = text.find(mark, at + len(mark))
    return found


def _is_escaped(text: str, at: int) -> bool:
    before = text[:at]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _balance(fill: str, canvas: Canvas) -> _Balance:
    outer = list(canvas.place.brackets)
    own: list[str] = []
    owed: list[str] = []  # what is closed behind the hole and so must be opened again
    takes_from: int | None = None
    for offset, char in code_brackets(fill, 0, len(fill), facts_for(canvas.language)):
        if char in PAIRS:
            own.append(char)
        elif own:
            if PAIRS[own[-1]] == char:
                own.pop()
        elif outer and PAIRS[outer[-1].char] == char and (bracket := outer.pop()).closed:
            owed.append(bracket.char)
            takes_from = offset if takes_from is None else takes_from
    if own[: len(owed)] == owed[::-1]:
        return _Balance(len(own) - len(owed), None)
    return _Balance(len(own), takes_from)
