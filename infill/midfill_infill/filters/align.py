"""Filter: indentation. A fill's own is turned into that of the file, line by line.

Three faults of models are mended: tabs for spaces or the reverse, a body that starts at another
depth than the place has, and a column too many or too few.
"""

from __future__ import annotations

from typing import Final

from midfill_infill.canvas import Canvas
from midfill_infill.languages import facts_for
from midfill_infill.lexing import continued_lines
from midfill_infill.lines import indent_of, indent_to, width_of

# No blank belongs between one of these and what follows in the same line.
_NO_BLANK_AFTER: Final = tuple(" \t([.!~@")


def align(fill: str, canvas: Canvas) -> str | None:
    """Indent the lines of the fill as the file does, keeping their order of depth."""
    if canvas.place.in_text:
        return fill
    before = canvas.line_before
    first, *rest = fill.split("\n")
    if not before.strip():
        lead = canvas.place.lead  # as the neighbours have it, in whatever blanks
        lines = [first.removeprefix(lead), *rest]
        return lead + _indented(lines, width_of(before + lead), canvas)
    if before.endswith(_NO_BLANK_AFTER):
        first = first.lstrip(" \t")
    if not rest:
        return first
    return first + "\n" + _indented(rest, None, canvas)


def _indented(lines: list[str], have: int | None, canvas: Canvas) -> str:
    """The lines with their indentation mended. `have` columns of the first are there already.

    None stands for lines that all begin in the fill. Empty lines in front are dropped.
    """
    widths = _widths(lines, have or 0, canvas)
    body = next((n for n, line in enumerate(lines) if line.strip()), len(lines))
    contents = [line.lstrip(" \t") for line in lines[body:]]
    if not contents:
        return ""
    widths = widths[body:]
    if canvas.hole.kind == "block":
        widths = _as_body(widths, contents, have, canvas)
    elif have is not None:
        widths[0] = have or min(widths[0], _deepest(canvas))
    first = widths[0]
    widths = _without_slips(widths, contents, canvas)
    if have:
        widths[0] = first - have  # that line is where the cursor put it
    unit = canvas.place.indent_unit
    pairs = zip(widths, contents, strict=True)
    return "\n".join(text and indent_to(max(0, width), unit) + text for width, text in pairs)


def _columns(canvas: Canvas) -> int:
    """What one level of the file's indentation takes."""
    return width_of(canvas.place.indent_unit)


def _widths(lines: list[str], have: int, canvas: Canvas) -> list[int]:
    """The columns at which the lines' contents start, a level counted as the file does."""
    indents = [indent_of(line) for line in lines]
    columns = _columns(canvas)
    if canvas.place.indent_unit == "\t":
        spaces = [len(indent) for indent in indents if indent and "\t" not in indent]
        step = 4 if all(count % 4 == 0 for count in spaces) else 2
        widths = [
            width_of(indent) if "\t" in indent else _scaled(len(indent), step, columns)
            for indent in indents
        ]
    else:
        widths = [len(indent.expandtabs(columns)) for indent in indents]
    return [widths[0] + have, *widths[1:]]


def _scaled(width: int, step: int, columns: int) -> int:
    """`width` in levels of `step` columns, as levels of `columns`. What is left over stays."""
    return width // step * columns + width % step


def _as_body(widths: list[int], contents: list[str], have: int | None, canvas: Canvas) -> list[int]:
    """Start a body where the cursor stands, if that is deeper than its owner, or one level in."""
    base = canvas.place.base_width
    wanted = have if have and have > base else base + _columns(canvas)
    step = widths[0] - base
    if have is None and step > 0:
        # No indentation was given, so the model chose its own. What is none of the file's is
        # translated level by level.
        steps = canvas.place.indent_steps
        level = wanted - base if steps and step not in steps else step
        return [base + _scaled(w - base, step, level) if w > base else w for w in widths]
    deeper = [w for w, text in zip(widths[1:], contents[1:], strict=True) if text]
    if step > 0 and wanted in deeper:
        return [wanted, *widths[1:]]  # a slip of the first line only
    return [width + wanted - widths[0] for width in widths]


def _deepest(canvas: Canvas) -> int:
    """How far a line may be indented below the last one that holds something."""
    above = next((line for line in reversed(canvas.prefix.split("\n")) if line.strip()), "")
    return width_of(indent_of(above)) + _columns(canvas)


def _without_slips(widths: list[int], contents: list[str], canvas: Canvas) -> list[int]:
    """Put lines that are a column beside a level onto it, but for what continues a line."""
    if canvas.place.brackets and canvas.place.brackets[-1].char != "{":
        return widths
    base, columns = canvas.place.base_width, _columns(canvas)
    continued = continued_lines("\n".join(contents), facts_for(canvas.language))
    mended: list[int] = []
    for number, (width, text) in enumerate(zip(widths, contents, strict=True)):
        beside = (width - base) % columns
        on_grid = bool(mended) and (width - mended[0]) % columns == 0
        if number not in continued and not on_grid and not text.startswith("*"):
            width -= beside == 1
            width += beside == columns - 1 and columns > 2
        mended.append(width)
    return mended
