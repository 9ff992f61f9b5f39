"""Filter: a fill that leaves the code more broken than it was."""

from __future__ import annotations

from typing import Final

from midfill_infill.blocks import opener_before
from midfill_infill.brackets import PAIRS
from midfill_infill.canvas import Canvas, Place
from midfill_infill.filters.closers import goes_on
from midfill_infill.languages import facts_for
from midfill_infill.languages.language import Language
from midfill_infill.lexing import code_brackets, lex
from midfill_infill.syntax import Parsed, count_faults, enclosing_bytes, parse

_NAME: Final = "x"
# What a hole may lack for the code around it to be sound, as short as it gets.
_LACKING: Final = {
    "braces": ("x = {", "x = [", "x() {", "if (x) {", "x;"),
    "indentation": ("x = {", "x = [", "try:"),
}


def parse_check(fill: str, canvas: Canvas) -> str | None:
    """None if the item around the hole has more error and missing nodes with the fill than without.

    "Without" an empty hole holds a name, if that is sounder than nothing: `x = ` is at fault only
    for want of a fill. Where a fill leaves faults, it holds what makes the code soundest: the head
    of a table whose rows stand below, `try:`, a parenthesis that the fill should close. A fill at a
    cursor that goes on in a new line may be closed there; in the place of a selection nobody types
    on, nor adds the body that its last line lacks, which grammars by indentation do not count as a
    fault. Every fill passes where nothing can be said: in strings, comments and unknown languages,
    and in text beyond parsing.
    """
    place, language = canvas.place, facts_for(canvas.language)
    if language is None or place.scope_hole is None or place.in_text:
        return fill
    unfilled = _parse(place.scope_hole, place, language)
    if unfilled is None:
        return fill
    if canvas.hole.kind == "selection":
        was, is_now = (_lacks_body(m, place, language) for m in (place.scope_hole, fill))
        if is_now and not was:
            return None
    widths = enclosing_bytes(unfilled)
    parsed = (_parse(attempt, place, language) for attempt in _attempts(fill, canvas, language))
    left = min((count_faults(filled, *widths) for filled in parsed if filled), default=None)
    if left is None or left > count_faults(unfilled, *widths):
        return None
    if not left or place.scope_hole:
        return fill
    held = (_parse(m, place, language) for m in (_NAME, *_lacking(fill, canvas, language)))
    sounder = any(holding and count_faults(holding, *widths) < left for holding in held)
    return None if sounder else fill


def _lacking(fill: str, canvas: Canvas, language: Language) -> tuple[str, ...]:
    if goes_on(fill, canvas):
        return ()
    inmost = canvas.place.brackets[-1:]
    closed = (_NAME + PAIRS[b.char] for b in inmost if b.wanting)
    return (*_LACKING[language.blocks], *closed)


def _parse(middle: str, place: Place, language: Language) -> Parsed | None:
    return parse(place.scope_before, middle, place.scope_after, language)


def _lacks_body(middle: str, place: Place, language: Language) -> bool:
    """Whether the last line opens a block, with nothing of a body behind the hole."""
    end = len(place.scope_before) + len(middle)
    text = place.scope_before + middle + place.scope_after
    opener = opener_before(text, lex(text, end, language), language)
    return opener is not None and opener.body_missing


def _attempts(fill: str, canvas: Canvas, language: Language) -> list[str]:
    """The fill, and if it ends where a person would go on in a new line, the fill closed."""
    if canvas.hole.kind == "selection" or not goes_on(fill, canvas):
        return [fill]
    stack: list[str] = []
    for _, char in code_brackets(fill, 0, len(fill), language):
        if char in PAIRS:
            stack.append(PAIRS[char])
        elif stack:
            stack.pop()
    return [fill, fill + "\n" + "".join(reversed(stack))]
