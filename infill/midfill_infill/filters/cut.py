"""Filters: where a fill ends. After its line, or with the block that it is the body of."""

from __future__ import annotations

from midfill_infill.canvas import Canvas
from midfill_infill.lines import indent_of, width_of


def single_line(fill: str, canvas: Canvas) -> str | None:
    """Of a fill that may have one line only, the first; None if the rest of a word must follow."""
    if not canvas.single_line or "\n" not in fill:
        return fill
    return None if canvas.heal_right else fill.partition("\n")[0]


def block_end(fill: str, canvas: Canvas) -> str | None:
    """Cut a fill of several lines at the first that is indented less than the block.

    A brace that nothing in the document closes is closed by that line, if it does so.
    """
    floor = canvas.place.floor_width
    if floor is None:
        return fill
    lines = fill.split("\n")
    for number, line in enumerate(lines[1:], 1):
        if line.strip() and width_of(indent_of(line)) < floor:
            closing = [line[: line.index("}") + 1]] if _closes_block(line, canvas) else []
            return "\n".join(lines[:number] + closing)
    return fill


def _closes_block(line: str, canvas: Canvas) -> bool:
    brackets = canvas.place.brackets
    innermost_is_open = bool(brackets) and brackets[-1].char == "{" and not brackets[-1].closed
    return innermost_is_open and line.lstrip().startswith("}")
