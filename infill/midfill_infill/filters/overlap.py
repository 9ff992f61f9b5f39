"""Filter: the end of a fill that stands behind the hole already."""

from __future__ import annotations

from typing import Final

from midfill_infill.brackets import PAIRS
from midfill_infill.canvas import Canvas
from midfill_infill.languages import facts_for
from midfill_infill.lexing import code_brackets

_MOST_CHARS: Final = 256
_QUOTES: Final = "\"'`"


def suffix_overlap(fill: str, canvas: Canvas) -> str | None:
    """Take from the fill's end what the rest of the line begins with, in whole tokens.

    An overlap that would tear a pair of brackets or quotes of the fill apart is none.
    """
    if canvas.heal_right:
        return fill
    after = canvas.line_after.rstrip()
    for tail in (after, after.lstrip()):
        for length in range(min(len(tail), len(fill), _MOST_CHARS), 0, -1):
            if fill.endswith(tail[:length]) and _is_whole(fill, tail, length, canvas):
                return fill[:-length]
    return fill


def _is_whole(fill: str, tail: str, length: int, canvas: Canvas) -> bool:
    overlap = tail[:length]
    if not overlap.strip():
        return False
    if _in_word(fill[-length - 1 : -length] + overlap[0]) or _in_word(
        tail[length - 1 : length + 1]
    ):
        return False
    return canvas.place.in_text or _is_balanced(overlap, canvas)


def _in_word(two: str) -> bool:
    return len(two) == 2 and all(char == "_" or char.isalnum() for char in two)


def _is_balanced(text: str, canvas: Canvas) -> bool:
    if any(text.count(quote) % 2 for quote in _QUOTES):
        return False
    depth = 0
    for _, char in code_brackets(text, 0, len(text), facts_for(canvas.language)):
        depth += 1 if char in PAIRS else -1
        if depth < 0:
            return False
    return depth == 0
