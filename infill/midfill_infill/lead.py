"""The indentation of a line that is still empty, where the lines around it leave no choice.

Owns that judgement. A cursor that stands behind blanks has its indentation from the person; this
is for one at the start of an empty line. Code decides; a comment above may choose between depths
that the code has, one below counts for nothing. Knows nothing of what is done with the answer.
"""

from __future__ import annotations

from typing import Final

from midfill_infill.blocks import code_end, opener_before, statement_start
from midfill_infill.canvas import Hole
from midfill_infill.languages.language import Language
from midfill_infill.lexing import Lexed, find_spans
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
    content, end = _content(text, cursor, language), code_end(text, lexed, docstrings=False)
    below = _below(text, cursor, content)
    if below is None or (above := _above(text, end, lexed, below)) is None:
        return ""
    if opener := opener_before(text, lexed, language):
        return _bounded(below) if width_of(below) > opener.base_width else ""
    closes = text.startswith(("}", ")", "]"), content)
    step = width_of(below) - width_of(above)
    code = text[max(0, end - 1) : end]
    if code.endswith(_OPENS):
        return _bounded(below) if step > 0 and not closes else ""
    if step > 0 and (code.endswith(_GOES_ON) or text.startswith(_GOES_ON, content)):
        return ""
    return _bounded(above) if closes or step >= 0 else ""


def _bounded(lead: str) -> str:
    return lead if len(lead) <= _MOST else ""


def _above(text: str, end: int, lexed: Lexed, below: str) -> str | None:
    """The indentation of the last statement before the cursor, which ends at `end`.

    Or that of a comment below it, which announces what comes, where that may stand there: at the
    depth of the code above or below, or of a block around. At any other depth it means nothing.
    """
    if not text[max(0, end - 1) : end].strip():
        return None
    start = statement_start(text, end, lexed)
    code, comment = indent_of(text[start : end + 1]), _comment_above(text, end, lexed)
    if comment is None:
        return code
    width = width_of(comment)
    if width in (width_of(code), width_of(below)):
        return comment
    return comment if width < width_of(code) and _block_around(text, start, width, lexed) else code


def _comment_above(text: str, end: int, lexed: Lexed) -> str | None:
    """The indentation of the last comment before the cursor that has no code on its line."""
    last = lexed.spans[-1].start if lexed.spans else 0
    start = statement_start(text, last, lexed)
    return indent_of(text[start : last + 1]) if start >= end > 0 else None


def _block_around(text: str, start: int, width: int, lexed: Lexed) -> bool:
    """Whether a block that the statement at `start` lies in is indented by `width` columns."""
    lowest, spans = max(0, start - _REACH), [span for span in lexed.spans if span.start < start]
    while start > lowest:
        end, start = start, line_start(text, start - 1, lowest)
        indent = indent_of(text[start:end])
        first = start + len(indent)
        while spans and spans[-1].start > first:
            spans.pop()
        span = spans[-1] if spans and first < spans[-1].end else None
        if span and (span.is_comment or span.start < first):
            continue
        if text[first:end].strip() and width_of(indent) <= width:
            return width_of(indent) == width
    return False


def _below(text: str, cursor: int, content: int) -> str | None:
    """The indentation of the next line of code, whose first character is `content`."""
    if content == min(len(text), cursor + _REACH):
        return None
    return indent_of(text[line_start(text, content, cursor) : content + 1])


def _content(text: str, cursor: int, language: Language) -> int:
    """Where the code behind the cursor begins: comments may stand at any depth."""
    limit = min(len(text), cursor + _REACH)
    content = _past_blanks(text, cursor, limit)
    for span in find_spans(text, cursor, limit, language):
        if span.start != content or not span.is_comment:
            break
        content = _past_blanks(text, span.end, limit)
    return content


def _past_blanks(text: str, start: int, limit: int) -> int:
    rest = text[start:limit]
    return start + len(rest) - len(rest.lstrip())
