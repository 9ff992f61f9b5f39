"""The text at a hole's edges that a fill repeats, because a model's token may straddle the edge.

Owns how much is taken back. Does not know the tokens: blanks and the part of a word cover what
tokenizers glue together, and the engine may take back more by itself.
"""

from __future__ import annotations

import re
from typing import Final

from midfill_infill.canvas import Hole

_MOST_CHARS: Final = 64  # of a word, and of blanks; what is longer is left in the context
_WORD_END: Final = re.compile(r"\w*\Z")
_BLANKS_END: Final = re.compile(r"[ \t]*\Z")
_WORD_START: Final = re.compile(r"\w*")


def heal_left(text: str, hole: Hole) -> str:
    """The document's own characters right before the hole that the fill begins with.

    The part of a word, the blanks before it, and the line break before these if that is all there
    is on the line.
    """
    word_start = _back(text, hole.start, _WORD_END)
    if word_start is None:
        return ""
    start = _back(text, word_start, _BLANKS_END)
    if start is None:
        return text[word_start : hole.start]
    if start and text[start - 1] in "\r\n":
        start -= 2 if text[start - 2 : start] == "\r\n" else 1
    return text[start : hole.start]


def heal_right(text: str, hole: Hole) -> str:
    """The rest of a word that the hole's end cuts in two."""
    if hole.end == 0 or not _is_word(text[hole.end - 1]):
        return ""
    rest = _WORD_START.match(text, hole.end, hole.end + _MOST_CHARS + 1)
    return rest[0] if rest and len(rest[0]) <= _MOST_CHARS else ""


def _back(text: str, end: int, pattern: re.Pattern[str]) -> int | None:
    """Where the characters of `pattern` before `end` start; None if they are too many."""
    lowest = max(0, end - _MOST_CHARS - 1)
    found = pattern.search(text[lowest:end])
    length = end - lowest - found.start() if found else 0
    return end - length if length <= _MOST_CHARS else None


def _is_word(char: str) -> bool:
    return char == "_" or char.isalnum()
