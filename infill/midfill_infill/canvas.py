"""The values this package hands out for one hole: where it is, and what a model is told about it.

Owns `Hole`, `Canvas` and `Place`. Knows nothing of how they are found, nor of models or editors.
Every offset counts code points of the document's text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

HoleKind = Literal["line_rest", "brackets", "block", "selection"]


@dataclass(frozen=True, slots=True)
class Hole:
    """What may be replaced: the document's text outside `[start, end)` is never changed.

    A hole at a cursor is empty: a fill is inserted at the caret, and what is already behind the
    caret (closers that the editor typed, blanks) stays.
    """

    start: int
    end: int
    kind: HoleKind


@dataclass(frozen=True, slots=True)
class OpenBracket:
    """A bracket that is open where the hole starts."""

    char: str
    closed: bool  # the text behind the hole closes it, so a fill must not
    wanting: bool  # a fill should close it: its line ends behind the hole, and nothing else does


@dataclass(frozen=True, slots=True)
class Place:
    """What the filters must know of the hole's surroundings beyond prefix and suffix."""

    indent_unit: str  # one level of the file's indentation: "\t" or some spaces
    indent_steps: frozenset[int]  # columns by which lines near the hole are deeper than their owner
    lead: str  # blanks that a fill on an empty line begins with
    base_width: int  # columns by which the statement that owns the hole is indented
    floor_width: int | None  # a line with less indentation ends a fill of several lines
    brackets: tuple[OpenBracket, ...]  # outermost first
    quote: str | None  # the hole lies in a string that ends behind it with this
    in_text: bool  # the hole lies in a string or a comment
    scope_before: str  # text up to the hole that is worth parsing: whole statements where possible
    scope_hole: str | None  # what the hole holds; None if that is too long to be parsed
    scope_after: str  # likewise behind the hole


@dataclass(frozen=True, slots=True)
class Canvas:
    """A hole with its context, as a model sees it: line ends are "\\n", no byte order mark.

    A fill begins with `heal_left` and ends with `heal_right`. Both are in the document, outside
    the hole, and in neither `prefix` nor `suffix`: they were taken back because a model's token
    may straddle the edge.
    """

    hole: Hole
    prefix: str
    prefix_line: int  # number of the document's line on which `prefix` starts
    suffix: str
    heal_left: str
    heal_right: str
    single_line: bool  # no line break may follow `heal_left`
    max_tokens: int
    newline: str  # the document's own line break, into which those of a fill are turned
    language: str | None  # our key; None when the language is unknown
    place: Place

    @property
    def line_before(self) -> str:
        """The hole's first line, up to the hole (as far as the window reaches)."""
        return (self.prefix + self.heal_left).rpartition("\n")[2]

    @property
    def line_after(self) -> str:
        """The rest of the hole's last line, behind the hole."""
        return (self.heal_right + self.suffix).partition("\n")[0]
