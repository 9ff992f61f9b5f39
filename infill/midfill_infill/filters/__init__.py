"""What is done to a fill before anyone sees it: small pure steps in a fixed order.

Owns the order. Each step gets the text that the step before it left and the canvas, and gives the
text on, or None if the fill is to be dropped; its name then is the reason. From `heal` on, the
text is what would be put into the hole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from midfill_infill.canvas import Canvas
from midfill_infill.filters.align import align
from midfill_infill.filters.blanks import closing_line, trailing_blanks
from midfill_infill.filters.closers import closers, left_open
from midfill_infill.filters.cut import block_end, single_line
from midfill_infill.filters.empty import empty
from midfill_infill.filters.heal import heal
from midfill_infill.filters.overlap import suffix_overlap
from midfill_infill.filters.parse_check import parse_check
from midfill_infill.filters.repeats import loop, repeated_lines
from midfill_infill.filters.special_tokens import special_tokens

Filter = Callable[[str, Canvas], str | None]

FILTERS: Final[tuple[Filter, ...]] = (
    special_tokens,
    heal,
    single_line,
    align,
    block_end,
    closers,
    left_open,
    suffix_overlap,
    repeated_lines,
    loop,
    trailing_blanks,
    empty,
    closing_line,
    parse_check,
)
