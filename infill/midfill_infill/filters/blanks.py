"""Filters: blanks that a person would not leave behind, and the line break they would add."""

from __future__ import annotations

import re
from typing import Final

from midfill_infill.canvas import Canvas
from midfill_infill.lines import indent_to

_BEFORE_BREAK: Final = re.compile(r"[ \t]+(?=\n)")
_NEEDS_NO_BLANK: Final = tuple(" \t)]},;:")


def trailing_blanks(fill: str, canvas: Canvas) -> str | None:
    """Strip blanks at the ends of lines, and at the fill's end unless text follows right there."""
    fill = _BEFORE_BREAK.sub("", fill)
    after = canvas.line_after
    if not after.strip():
        return fill.rstrip()
    return fill.rstrip(" \t") if after.startswith(_NEEDS_NO_BLANK) else fill


def closing_line(fill: str, canvas: Canvas) -> str | None:
    """Put the brace that an editor typed ahead on a line of its own, below a body of lines."""
    if canvas.hole.kind != "block" or "\n" not in fill or not canvas.line_after.startswith("}"):
        return fill
    place = canvas.place
    return fill.rstrip() + "\n" + indent_to(place.base_width, place.indent_unit)
