"""Holes cut into a text that is whole, so that what comes back can be compared.

Owns what stands in a hole until it is filled. Pure; knows nothing of servers.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from midfill_lsp.samples import SampleHole

# What people write where they do not know yet. It is what the server is told to replace.
PLACEHOLDER: Final = "..."
MASK: Final = "░"


@dataclass(frozen=True, slots=True)
class Cut:
    """A text with a hole at `[start, end)`; an empty one is a cursor. Offsets are code points."""

    what: str
    text: str
    start: int
    end: int
    removed: str

    @property
    def at_cursor(self) -> bool:
        """Whether nothing is selected."""
        return self.start == self.end

    @property
    def masked_text(self) -> str:
        """The text with every letter of what was removed shown as a mask."""
        return self.text[: self.start] + self.masked + self.text[self.end :]

    @property
    def masked(self) -> str:
        """What was removed, every letter of it shown as a mask."""
        return re.sub(r"\S", MASK, self.removed)


def cut_range(text: str, start: int, end: int) -> Cut:
    """Cut a part out and select the placeholder that is put there."""
    return _selected("the selection", text, start, end)


def cut_samples(text: str, holes: Sequence[SampleHole]) -> list[Cut]:
    """The sample's holes, each cut into a text of its own."""
    return [_cut_sample(text, hole) for hole in holes]


def _cut_sample(text: str, hole: SampleHole) -> Cut:
    start = text.index(hole.before + hole.removed) + len(hole.before)
    end = start + len(hole.removed)
    if hole.at_cursor:
        return Cut(hole.what, text[:start] + text[end:], start, start, hole.removed)
    return _selected(hole.what, text, start, end)


def _selected(what: str, text: str, start: int, end: int) -> Cut:
    with_hole = text[:start] + PLACEHOLDER + text[end:]
    return Cut(what, with_hole, start, start + len(PLACEHOLDER), text[start:end])
