"""Filter: brackets and quotes that the document closes already, as editors type them ahead."""

from __future__ import annotations

from midfill_infill.brackets import PAIRS
from midfill_infill.canvas import Canvas
from midfill_infill.languages import facts_for
from midfill_infill.lexing import code_brackets


def closers(fill: str, canvas: Canvas) -> str | None:
    """Cut the fill before it closes what is closed behind the hole, unless it opens it again.

    So `bar)` becomes `bar` in `foo(|)`, while `bar()` and `a) + foo(b` stay. A bracket that the
    document leaves open may be closed.
    """
    if canvas.place.quote:
        return _within_quotes(fill, canvas.place.quote)
    if canvas.place.in_text:
        return fill
    cut = _closing_too_much(fill, canvas)
    return fill if cut is None else fill[:cut]


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


def _closing_too_much(fill: str, canvas: Canvas) -> int | None:
    """Where the fill first closes a bracket of the document that stays closed; None if nowhere."""
    outer = list(canvas.place.brackets)
    own: list[str] = []
    owed: list[str] = []  # what is closed behind the hole and so must be opened again
    cut: int | None = None
    for offset, char in code_brackets(fill, 0, len(fill), facts_for(canvas.language)):
        if char in PAIRS:
            own.append(char)
        elif own:
            if PAIRS[own[-1]] == char:
                own.pop()
        elif outer and PAIRS[outer[-1].char] == char and (bracket := outer.pop()).closed:
            owed.append(bracket.char)
            cut = offset if cut is None else cut
    return None if own[: len(owed)] == owed[::-1] else cut
