"""From a hole to a canvas: cuts the context out of the document and says what bounds the fill.

Owns the windows' sizes. They are bounds in characters; whoever has a tokenizer trims further.
Knows nothing of models beyond that and nothing of editors.
"""

from __future__ import annotations

from typing import Final

from midfill_infill.canvas import Canvas, Hole
from midfill_infill.healing import heal_left, heal_right
from midfill_infill.languages import facts_for
from midfill_infill.lines import (
    count_breaks,
    line_end,
    line_start,
    newline_of,
    next_line,
    outside_break,
    plain,
)
from midfill_infill.place import place_of

PREFIX_CHARS: Final = 6_000
SUFFIX_CHARS: Final = 1_500
# A window starts only on every eighth line, so that it stays where it is while a person types.
WINDOW_LINES: Final = 8
# In a line longer than the window, it starts at multiples of this, for the same reason.
_WINDOW_CHARS: Final = 1_024
# Lines are numbered exactly up to here. Beyond, they are counted from a mark that typing does not
# move: the number only has to be the same for the same window.
_COUNTED_CHARS: Final = 4_194_304

_LINE_TOKENS: Final = 32
_BRACKET_TOKENS: Final = 24
_BLOCK_TOKENS: Final = 96
_MOST_TOKENS: Final = 256


def build_canvas(text: str, hole: Hole, language_id: str | None) -> Canvas:
    """The canvas of a hole that `hole_at` or `hole_for_range` found in this very text.

    A hole of another text is clamped into this one. Never raises.
    """
    start, end = sorted((outside_break(text, hole.start), outside_break(text, hole.end)))
    hole = Hole(start, end, hole.kind)
    language = facts_for(language_id)
    left, right = heal_left(text, hole), heal_right(text, hole)
    prefix_end, suffix_start = start - len(left), end + len(right)
    window = max(prefix_end - PREFIX_CHARS, 0)
    prefix_start, prefix_line = _window_start(text, window, prefix_end)
    return Canvas(
        hole=hole,
        prefix=plain(text[prefix_start:prefix_end]),
        prefix_line=prefix_line,
        suffix=plain(_suffix(text, suffix_start)),
        heal_left=plain(left),
        heal_right=right,
        single_line=not _spans_lines(text, hole),
        max_tokens=_max_tokens(hole),
        newline=newline_of(text[window : suffix_start + SUFFIX_CHARS]),
        language=language.key if language else None,
        place=place_of(text, hole, language),
    )


def _window_start(text: str, lowest: int, end: int) -> tuple[int, int]:
    """The first eighth line from `lowest` on and its number; lacking one, any line, or a cut."""
    if lowest == 0:
        return min(outside_break(text, 0), end), 0
    mark = max(0, lowest - _COUNTED_CHARS) // _COUNTED_CHARS * _COUNTED_CHARS
    at, number = lowest, count_breaks(text, mark, outside_break(text, lowest))
    first: tuple[int, int] | None = None
    while (found := next_line(text, at, end)) is not None:
        at, number = found, number + 1
        if number % WINDOW_LINES == 0:
            return at, number
        first = first or (at, number)
    if first:
        return first
    cut = outside_break(text, -(-lowest // _WINDOW_CHARS) * _WINDOW_CHARS)
    return min(cut, end), number


def _suffix(text: str, start: int) -> str:
    """The window behind the hole. Blanks that end the hole's line are of no use to a model."""
    line_stop = line_end(text, start, min(len(text), start + SUFFIX_CHARS))
    if not text[start:line_stop].strip(" \t"):
        start = line_stop
    window = text[start : start + SUFFIX_CHARS]
    if start + SUFFIX_CHARS >= len(text):
        return window
    whole_lines = line_start(window, len(window))
    return window[:whole_lines] if window[:whole_lines].strip() else window


def _spans_lines(text: str, hole: Hole) -> bool:
    """Whether a fill may have several lines: a body, several lines selected, or all of one."""
    if hole.kind != "selection":
        return hole.kind == "block"
    if "\n" in (selected := text[hole.start : hole.end]) or "\r" in selected:
        return True
    start = line_start(text, hole.start, max(0, hole.start - PREFIX_CHARS))
    stop = line_end(text, hole.end, min(len(text), hole.end + SUFFIX_CHARS))
    return not (text[start : hole.start] + text[hole.end : stop]).strip(" \t")


def _max_tokens(hole: Hole) -> int:
    if hole.kind == "selection":
        return min(_MOST_TOKENS, _LINE_TOKENS + (hole.end - hole.start) // 2)
    by_kind = {"line_rest": _LINE_TOKENS, "brackets": _BRACKET_TOKENS, "block": _BLOCK_TOKENS}
    return by_kind[hole.kind]
