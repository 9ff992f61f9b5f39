"""Where a code point offset lies in LSP's terms, and back.

Owns the three position encodings and the rule of what ends a line: `\\n`, `\\r\\n` or a lone `\\r`,
and nothing else (not form feeds, not U+0085, not U+2028). Everything beyond this module counts
code points. Knows nothing of documents' names and versions.

Nothing here raises on a position: a line past the end is the end of the text, a column past the
end of its line is the end of that line, and a column inside a character is the character's start.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from lsprotocol import types

Encoding = types.PositionEncodingKind

_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_FINISHED_LINE_END: Final = re.compile(r"\n|\r(?!\n)")


def line_starts(text: str) -> list[int]:
    """Offsets at which lines start. There is always a first one, at 0."""
    return [0, *(match.end() for match in _LINE_END.finditer(text))]


def spliced_line_starts(
    starts: Sequence[int], start: int, end: int, inserted: int, text: str
) -> list[int]:
    """`line_starts(text)`, where `text` came of replacing `[start, end)` by `inserted` characters.

    Whether a line starts at an offset depends on the characters on both sides of it, so only
    offsets from `start` to the end of what was inserted, both included, are looked at again.
    """
    new_end = start + inserted
    kept = starts[: bisect_left(starts, start)] or [0]
    renewed = (
        match.end()
        for match in _FINISHED_LINE_END.finditer(text, max(start - 1, 0), new_end + 1)
        if match.end() <= new_end
    )
    shift = new_end - end
    return [*kept, *renewed, *(s + shift for s in starts[bisect_right(starts, end) :])]


def line_end(text: str, starts: Sequence[int], line: int) -> int:
    """Offset of the end of a line's content, before whatever ends it."""
    if line + 1 == len(starts):
        return len(text)
    end = starts[line + 1] - 1
    return end - 1 if text[end] == "\n" and end > starts[line] and text[end - 1] == "\r" else end


def offset_at(
    text: str, starts: Sequence[int], position: types.Position, encoding: Encoding
) -> int:
    """The offset in code points of an LSP position."""
    if position.line >= len(starts):
        return len(text)
    start, end = starts[position.line], line_end(text, starts, position.line)
    return start + _characters(text[start:end], position.character, encoding)


def position_at(
    text: str, starts: Sequence[int], offset: int, encoding: Encoding
) -> types.Position:
    """The LSP position of an offset in code points."""
    line = bisect_right(starts, offset) - 1
    return types.Position(line, _units(text[starts[line] : offset], encoding))


def _characters(line: str, units: int, encoding: Encoding) -> int:
    """How many characters of `line` lie within its first `units` code units."""
    if encoding is Encoding.Utf32 or line.isascii():
        return min(units, len(line))
    width = _utf16_width if encoding is Encoding.Utf16 else _utf8_width
    used = 0
    for index, character in enumerate(line):
        used += width(character)
        if used > units:
            return index
    return len(line)


def _units(text: str, encoding: Encoding) -> int:
    """How many code units `text` has. Lone surrogates count as what they would be encoded to."""
    if encoding is Encoding.Utf32 or text.isascii():
        return len(text)
    if encoding is Encoding.Utf8:
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _utf16_width(character: str) -> int:
    return 2 if character > "\uffff" else 1


def _utf8_width(character: str) -> int:
    return 1 + (character > "\x7f") + (character > "\u07ff") + (character > "\uffff")
