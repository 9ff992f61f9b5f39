"""From a text and a cursor to a hole with its context, and from a fill back to an edit.

Pure: no input or output, and no exception on any text, cursor or fill. Where nothing sensible can
be done, the answer is None or `Dropped`. Knows nothing of editors, models or positions in any
unit but code points.
"""

from midfill_infill.building import build_canvas
from midfill_infill.canvas import Canvas, Hole, HoleKind, OpenBracket, Place
from midfill_infill.edit import Dropped, Edit, finish
from midfill_infill.filters import FILTERS, Filter
from midfill_infill.holes import hole_at, hole_for_range
from midfill_infill.languages import language_for

__all__ = [
    "FILTERS",
    "Canvas",
    "Dropped",
    "Edit",
    "Filter",
    "Hole",
    "HoleKind",
    "OpenBracket",
    "Place",
    "build_canvas",
    "finish",
    "hole_at",
    "hole_for_range",
    "language_for",
]
