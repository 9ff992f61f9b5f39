"""Filter: the text at the hole's edges that the fill has to repeat, and that the document has."""

from __future__ import annotations

from midfill_infill.canvas import Canvas


def heal(fill: str, canvas: Canvas) -> str | None:
    """Take `heal_left` and `heal_right` off the fill; None if it does not have both."""
    left, right = canvas.heal_left, canvas.heal_right
    if not fill.startswith(left) or not fill.endswith(right) or len(fill) < len(left + right):
        return None
    return fill[len(left) : len(fill) - len(right)]
