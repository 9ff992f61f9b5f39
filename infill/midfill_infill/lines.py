"""Lines, blanks and indentation of a text, in code points.

Owns the rule that a line ends at "\\n", "\\r\\n" or a lone "\\r" and nowhere else. Knows nothing of
languages. Every search takes a bound, so that a text without line breaks costs no more than one
that has them.
"""

from __future__ import annotations

import re
from typing import Final

TAB_WIDTH: Final = 4  # columns; only used to compare indentation that mixes tabs and spaces
_BREAK: Final = re.compile(r"\r\n|\n|\r")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def line_start(text: str, offset: int, limit: int = 0) -> int:
    """Where the line of `offset` starts, or `limit` if that is later."""
    return max(text.rfind("\n", limit, offset), text.rfind("\r", limit, offset), limit - 1) + 1


def line_end(text: str, offset: int, limit: int) -> int:
    """Where the line of `offset` ends, its line break excluded, or `limit` if that is earlier."""
    found = _BREAK.search(text, offset, limit)
    return found.start() if found else limit


def next_line(text: str, offset: int, limit: int) -> int | None:
    """Where the line after that of `offset` starts; None if there is none before `limit`."""
    found = _BREAK.search(text, offset, limit)
    return found.end() if found else None


def outside_break(text: str, offset: int) -> int:
    """`offset`, clamped into the text, and moved out of a "\\r\\n" and behind a byte order mark."""
    offset = max(0, min(offset, len(text)))
    if text[offset - 1 : offset + 1] == "\r\n" and offset > 0:
        return offset - 1
    return 1 if offset == 0 and text.startswith("\ufeff") else offset


def count_breaks(text: str, start: int, end: int) -> int:
    """How many line breaks `text[start:end]` holds, which must not cut a "\\r\\n"."""
    breaks = text.count("\n", start, end)
    if text.find("\r", start, end) >= 0:
        breaks += text.count("\r", start, end) - text.count("\r\n", start, end)
    return breaks


def plain(text: str) -> str:
    """`text` as a model may see it: "\\n" line ends, no lone surrogates, for they have no UTF-8."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _SURROGATE.sub("\ufffd", text)


def newline_of(text: str) -> str:
    """The line break that `text` uses most; "\\n" if it has none."""
    crlf = text.count("\r\n")
    styles = {"\n": text.count("\n") - crlf, "\r\n": crlf, "\r": text.count("\r") - crlf}
    return max(styles, key=styles.__getitem__)


def indent_of(line: str) -> str:
    """The blanks with which `line` begins."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def width_of(indent: str) -> int:
    """The columns that some blanks take."""
    return len(indent.expandtabs(TAB_WIDTH)) if "\t" in indent else len(indent)


def indent_to(width: int, unit: str) -> str:
    """Blanks of `width` columns in the style of `unit`, one level of indentation."""
    if unit == "\t":
        return "\t" * (width // TAB_WIDTH) + " " * (width % TAB_WIDTH)
    return " " * width
