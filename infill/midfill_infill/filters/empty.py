"""Filter: a fill of which nothing is left."""

from __future__ import annotations

from midfill_infill.canvas import Canvas


def empty(fill: str, canvas: Canvas) -> str | None:
    """None if the fill is blank."""
    return fill if fill.strip() else None
