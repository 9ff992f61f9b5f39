"""Places in a file as people write them: `LINE:COL`, both from 1, columns in code points.

Owns that syntax and what is said of a place that does not exist. The first column is before the
first character of a line, the last one behind its last.
"""

import re
from dataclasses import dataclass
from typing import Final

from midfill_lsp.cli.source import Source
from midfill_lsp.errors import PlaceError
from midfill_lsp.positions import line_end, line_starts

_PLACE: Final = re.compile(r"([1-9][0-9]{0,8}):([1-9][0-9]{0,8})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Place:
    """A place between two characters."""

    line: int  # from 1
    column: int  # from 1, in code points

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


def parse_place(text: str) -> Place:
    """`LINE:COL`. Raises ValueError for anything else."""
    match = _PLACE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not LINE:COL, both from 1")
    return Place(int(match[1]), int(match[2]))


def parse_range(text: str) -> tuple[Place, Place]:
    """`LINE:COL-LINE:COL`. Raises ValueError for anything else."""
    first, dash, last = text.partition("-")
    if not dash:
        raise ValueError(f"{text!r} is not LINE:COL-LINE:COL")
    start, end = parse_place(first), parse_place(last)
    if (end.line, end.column) <= (start.line, start.column):
        raise ValueError(f"{text!r} does not end behind its start")
    return start, end


def offset_of(place: Place, source: Source) -> int:
    """The offset in code points.

    Raises:
        PlaceError: the text has no such line, or the line no such column.
    """
    text, name = source.text, source.shown_name
    starts = line_starts(text)
    if place.line > len(starts):
        raise PlaceError(f"{place} is past the end of {name}, whose last line is {len(starts)}")
    start = starts[place.line - 1]
    last_column = line_end(text, starts, place.line - 1) - start + 1
    if place.column > last_column:
        raise PlaceError(
            f"{place} is past the end of line {place.line} of {name}, "
            f"whose last column is {last_column}"
        )
    return start + place.column - 1


def place_at(offset: int, text: str) -> Place:
    """The place of an offset."""
    starts = line_starts(text[:offset])
    return Place(len(starts), offset - starts[-1] + 1)
