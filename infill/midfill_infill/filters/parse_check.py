"""Filter: a fill that leaves the code more broken than it was."""

from __future__ import annotations

from typing import Final

from midfill_infill.brackets import PAIRS
from midfill_infill.canvas import Canvas
from midfill_infill.languages import facts_for
from midfill_infill.languages.language import Language
from midfill_infill.lexing import code_brackets
from midfill_infill.syntax import count_faults, enclosing_bytes, parse

_OPENERS: Final = tuple(PAIRS)


def parse_check(fill: str, canvas: Canvas) -> str | None:
    """None if the item around the hole has more error and missing nodes with the fill than without.

    A fill that ends in an opening bracket is judged as if the person went on and closed it. Every
    fill passes where nothing can be said: in strings, comments and unknown languages, and in text
    beyond parsing.
    """
    place, language = canvas.place, facts_for(canvas.language)
    if language is None or place.scope_hole is None or place.in_text:
        return fill
    unfilled = parse(place.scope_before, place.scope_hole, place.scope_after, language)
    if unfilled is None:
        return fill
    widths = enclosing_bytes(unfilled)
    allowed = count_faults(unfilled, *widths)
    for attempt in _attempts(fill, language):
        filled = parse(place.scope_before, attempt, place.scope_after, language)
        if filled and count_faults(filled, *widths) <= allowed:
            return fill
    return None


def _attempts(fill: str, language: Language) -> list[str]:
    if not fill.rstrip().endswith(_OPENERS):
        return [fill]
    stack: list[str] = []
    for _, char in code_brackets(fill, 0, len(fill), language):
        if char in PAIRS:
            stack.append(PAIRS[char])
        elif stack:
            stack.pop()
    return [fill, fill + "\n" + "".join(reversed(stack))]
