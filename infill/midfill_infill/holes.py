"""Where the hole is: at a cursor, or for a selection.

Owns the decision what kind of hole a place is, and that some places are none. Knows nothing of
the context that a model gets, which `building` cuts out.
"""

from __future__ import annotations

import re
from typing import Final

from midfill_infill.blocks import opener_before
from midfill_infill.brackets import PAIRS
from midfill_infill.canvas import Hole
from midfill_infill.languages import facts_for
from midfill_infill.languages.language import Language
from midfill_infill.lexing import lex
from midfill_infill.lines import line_end, line_start, outside_break

_LINE_CHARS: Final = 2_048  # of a longer line, only this much to either side is looked at
_BINARY_CHARS: Final = 1_024  # this near to a NUL there is no text to complete
# What an editor may have typed ahead, or what ends a statement whose middle is being written.
_TAIL: Final = re.compile(r"""[ \t)\]}>'"`;,:]*(?:\{[ \t]*)?""")
_CLOSERS: Final = frozenset(PAIRS.values())


def hole_at(text: str, offset: int, language_id: str | None) -> Hole | None:
    """The hole at a cursor, always an empty range; None where completing makes no sense.

    `offset` counts code points and is clamped into the text. Never raises.
    """
    cursor = outside_break(text, offset)
    if _is_binary(text, cursor, cursor):
        return None
    language = facts_for(language_id)
    before = text[line_start(text, cursor, max(0, cursor - _LINE_CHARS)) : cursor]
    after = text[cursor : line_end(text, cursor, min(len(text), cursor + _LINE_CHARS))]
    lexed = lex(text, cursor, language)
    opener = opener_before(text, lexed, language)
    if opener and opener.body_missing:
        return Hole(cursor, cursor, "block")
    if opener and opener.adjacent:
        return None  # the block has its body already
    if _is_tail(after, language):
        return None if _before_closer(before, after) else Hole(cursor, cursor, "line_rest")
    if not before.strip():
        return None  # in front of a line of code
    in_brackets = not lexed.inside and _closes_bracket(after)
    return Hole(cursor, cursor, "brackets" if in_brackets else "line_rest")


def hole_for_range(text: str, start: int, end: int, language_id: str | None) -> Hole | None:
    """The hole for a selection. An empty one is a cursor.

    Blanks and line breaks at the selection's edges stay in the document, so that its indentation
    is kept. Offsets are clamped. Never raises.
    """
    start, end = sorted((outside_break(text, start), outside_break(text, end)))
    selected = text[start:end]
    if not selected:
        return hole_at(text, start, language_id)
    if _is_binary(text, start, end):
        return None
    if core := selected.strip(" \t\r\n"):
        lead = len(selected) - len(selected.lstrip(" \t\r\n"))
        return Hole(start + lead, start + lead + len(core), "selection")
    last_break = selected.endswith(("\r", "\n")) + selected.endswith("\r\n")
    return Hole(start, end - last_break, "selection")


def _is_binary(text: str, start: int, end: int) -> bool:
    return text.find("\0", max(0, start - _BINARY_CHARS), end + _BINARY_CHARS) >= 0


def _is_tail(after: str, language: Language | None) -> bool:
    """Nothing but blanks, closers, delimiters and a comment."""
    rest = after[_end_of_tail(after) :]
    return not rest or (language is not None and rest.startswith(language.line_comment))


def _end_of_tail(after: str) -> int:
    match = _TAIL.match(after)
    return match.end() if match else 0


def _before_closer(before: str, after: str) -> bool:
    """On a line that only closes a block: what is missing belongs on a line before it."""
    return not before.strip() and after.lstrip(" \t").startswith("}")


def _closes_bracket(after: str) -> bool:
    depth = 0
    for char in after:
        if char in PAIRS:
            depth += 1
        elif char in _CLOSERS:
            depth -= 1
        if depth < 0:
            return True
    return False
