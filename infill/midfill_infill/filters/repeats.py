"""Filters: text that is there already, right below the hole or in the fill itself."""

from __future__ import annotations

import re
from typing import Final

from midfill_infill.canvas import Canvas

# Lines that say too little for a second one of them to be a repetition.
_LEAST_WORD_CHARS: Final = 4
_COMMON: Final = re.compile(
    r"\s*(?:pass|(?:break|continue|return);?|[}]? ?else ?[:{]?|#else|#endif|try:|finally:|default:)"
)
_WORD_CHAR: Final = re.compile(r"\w")
_LETTER: Final = re.compile(r"[^\W\d_]")
_LEAST_ROUNDS: Final = 5
_LEAST_LOOP_CHARS: Final = 16


def repeated_lines(fill: str, canvas: Canvas) -> str | None:
    """Cut the fill where it comes to the line below the hole; None if it does at once."""
    below = next((line for line in canvas.suffix.split("\n")[1:] if line.strip()), "").rstrip()
    if not _says_something(below):
        return fill
    lines = fill.split("\n")
    whole = [canvas.line_before + lines[0], *lines[1:]]
    whole[-1] += canvas.line_after
    for number, line in enumerate(whole):
        if line.rstrip() == below:
            return "\n".join(lines[:number]) or None
    return fill


def _says_something(line: str) -> bool:
    return not _COMMON.fullmatch(line) and len(_WORD_CHAR.findall(line)) >= _LEAST_WORD_CHARS


def loop(fill: str, canvas: Canvas) -> str | None:
    """None if the whole fill is one short piece of text over and over."""
    text = fill.strip()
    period = _period(text)
    rounds = len(text) // period if period else 0
    is_loop = rounds >= _LEAST_ROUNDS and len(text) >= _LEAST_LOOP_CHARS
    return None if is_loop and _LETTER.search(text) else fill


def _period(text: str) -> int:
    """The shortest distance by which `text` equals itself shifted (Knuth, Morris and Pratt)."""
    border = [0] * len(text)
    length = 0
    for at in range(1, len(text)):
        while length and text[at] != text[length]:
            length = border[length - 1]
        length += text[at] == text[length]
        border[at] = length
    return len(text) - length
