"""The indentation of a line that is still empty, where the lines around it leave no choice.

Owns that judgement. A cursor that stands behind blanks has its indentation from the person; this
is for one at the start of an empty line. Knows nothing of what is done with the answer.
"""

from __future__ import annotations

from typing import Final

from midfill_infill.blocks import code_end, opener_before, statement_start
from midfill_infill.canvas import Hole
from midfill_infill.languages.language import Language
from midfill_infill.lexing import Lexed
from midfill_infill.lines import indent_of, line_end, line_start, width_of

_REACH: Final = 8_192
_MOST: Final = 64  # characters; more is alignment, and too much to demand of a model
_OPENS: Final = ("{", ":")  # a literal or a label, where it is no block that is opened
_GOES_ON: Final = tuple("=+-*/%&|^<>?.\\")  # at a line's end or start, its statement has others


def lead_of(text: str, hole: Hole, lexed: Lexed, language: Language | None) -> str:
    """The blanks a fill begins with; "" where there are none, or where several depths are likely.

    `lexed` is of the text up to the hole.
    """
    cursor = hole.start
    if language is None or lexed.inside or hole.kind != "line_rest":
        return ""
    if line_start(text, cursor, max(0, cursor - _REACH)) != cursor:
        return ""
    if line_end(text, cursor, min(len(text), cursor + _REACH)) != cursor:
        return ""
    if lexed.open_brackets and lexed.open_brackets[-1][1] != "{":
        return ""
    content = _content(text, cursor)
    above, below = _above(text, lexed), _below(text, cursor, content)
    if above is None or below is None:
        return ""
    if opener := opener_before(text, lexed, language):
        return _bounded(below) if width_of(below) > opener.base_width else ""
    closes = text.startswith(("}", ")", "]"), content)
    step = width_of(below) - width_of(above)
    code = text[max(0, lexed.stop - _REACH) : code_end(text, lexed, docstrings=False)]
    if code.endswith(_OPENS):
        return _bounded(below) if step > 0 and not closes else ""
    if step > 0 and (code.endswith(_GOES_ON) or text.startswith(_GOES_ON, content)):
        return ""
    return _bounded(above) if closes or step >= 0 else ""


def _bounded(lead: str) -> str:
    return lead if len(lead) <= _MOST else ""


def _above(text: str, lexed: Lexed) -> str | None:
    """The indentation of the last statement before the cursor."""
    lowest = max(0, lexed.stop - _REACH)
    code = text[lowest : lexed.stop].rstrip()
    if not code:
        return None
    end = lowest + len(code)
    span = next((span for span in reversed(lexed.spans) if span.start < end), None)
    if span and span.end >= end:  # a string of several lines, perhaps
        end = span.start
    return indent_of(text[statement_start(text, end, lexed) : end + 1])


def _below(text: str, cursor: int, content: int) -> str | None:
    """The indentation of the next line that holds something, whose first character is `content`."""
    if content == min(len(text), cursor + _REACH):
        return None
    return indent_of(text[line_start(text, content, cursor) : content + 1])


def _content(text: str, cursor: int) -> int:
    rest = text[cursor : cursor + _REACH]
    return cursor + len(rest) - len(rest.lstrip())
