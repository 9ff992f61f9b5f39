"""From a fill to an edit of the document, or to the reason why there is none.

Owns the last step of a request: the filters in their order, the document's line breaks. Knows
nothing of where a fill came from.
"""

from __future__ import annotations

from dataclasses import dataclass

from midfill_infill.canvas import Canvas
from midfill_infill.filters import FILTERS


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace `text[start:end]` by `new_text`, whose line breaks are the document's.

    Offsets count code points. For a hole at a cursor the range is empty.
    """

    start: int
    end: int
    new_text: str

    def apply(self, text: str) -> str:
        """`text` with the edit made."""
        return text[: self.start] + self.new_text + text[self.end :]


@dataclass(frozen=True, slots=True)
class Dropped:
    """There is no edit. `reason` names the filter that refused the fill, or is "unchanged"."""

    reason: str


def finish(fill_text: str, text: str, canvas: Canvas) -> Edit | Dropped:
    """Clean a fill and turn it into an edit of `text`, the document the canvas was built from.

    `fill_text` begins with `canvas.heal_left` and ends with `canvas.heal_right`. Never raises.
    """
    fill = fill_text
    for apply in FILTERS:
        filtered = apply(fill, canvas)
        if filtered is None:
            return Dropped(apply.__name__)
        fill = filtered
    new_text = fill.replace("\n", canvas.newline)
    if text[canvas.hole.start : canvas.hole.end] == new_text:
        return Dropped("unchanged")
    return Edit(canvas.hole.start, canvas.hole.end, new_text)
