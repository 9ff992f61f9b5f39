"""The tokens of a context: how much of prefix and suffix the model is shown.

Pure: the same text has the same window, whatever was asked before. Owns the budgets, which are
those the embedded model was trained with, and the rule that keeps a window in place while a person
types. It begins at a line whose number is a multiple of `ANCHOR_LINES`, so the first token changes
only once in so many lines and caches stay valid. Which of these lines it is follows from the lines
before the hole's own, with room kept for that one: half a word can take more tokens than the whole,
and the start would go to and fro while it is typed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from midfill_engine.model.vocabulary import END_OF_TEXT, Vocabulary

PREFIX_TOKENS: Final = 400
SUFFIX_TOKENS: Final = 72
ANCHOR_LINES: Final = 8
LINE_TOKENS: Final = 32  # kept for what stands before the hole in its own line
_PREFIX_CHARACTERS: Final = 6 * PREFIX_TOKENS  # code has about 3.3 characters a token
_SUFFIX_CHARACTERS: Final = 8 * SUFFIX_TOKENS
_TOKEN_ANCHOR: Final = 128  # where lines are too long to anchor at
_CHARACTER_ANCHOR: Final = 512  # where a line is longer than a window


@dataclass(frozen=True, slots=True)
class Window:
    """What the model sees of the text around a hole."""

    prefix: tuple[int, ...]  # 1 … PREFIX_TOKENS ids
    suffix: tuple[int, ...]  # 0 … SUFFIX_TOKENS ids


def make_window(vocabulary: Vocabulary, prefix: str, prefix_line: int, suffix: str) -> Window:
    """Tokenize both sides, each on its own, within the budgets.

    `prefix_line` is the number of the document's line on which `prefix` starts. An empty prefix
    becomes the end-of-text token, since the first token of a canvas is predicted from one.
    """
    ids = _prefix_ids(vocabulary, prefix, prefix_line) or [END_OF_TEXT]
    after = vocabulary.encode(suffix[:_SUFFIX_CHARACTERS])[:SUFFIX_TOKENS]
    return Window(tuple(ids), tuple(after))


def _prefix_ids(vocabulary: Vocabulary, prefix: str, line: int) -> list[int]:
    earliest = max(len(prefix) - _PREFIX_CHARACTERS, 0)
    line_start = prefix.rfind("\n") + 1
    ids: list[int] = []
    for start in _anchors(prefix, line, earliest):
        whole_lines = vocabulary.encode(prefix[start:line_start])
        if start < line_start and len(whole_lines) > PREFIX_TOKENS - LINE_TOKENS:
            continue
        ids = vocabulary.encode(prefix[start:])
        if len(ids) <= PREFIX_TOKENS:
            return ids
    ids = ids or vocabulary.encode(prefix[_multiple_from(earliest, _CHARACTER_ANCHOR) :])
    surplus = len(ids) - PREFIX_TOKENS
    return ids if surplus <= 0 else ids[_multiple_from(surplus, _TOKEN_ANCHOR) :]


def _anchors(prefix: str, line: int, earliest: int) -> list[int]:
    """Offsets from `earliest` on at which a window may begin, ascending; the start is one."""
    starts = [] if earliest else [0]
    position = max(earliest - 1, 0)
    line += prefix.count("\n", 0, position)
    position = prefix.find("\n", position)
    while position >= 0:
        line += 1
        if line % ANCHOR_LINES == 0:
            starts.append(position + 1)
        position = prefix.find("\n", position + 1)
    return starts


def _multiple_from(least: int, unit: int) -> int:
    """The smallest multiple of `unit` that is not below `least`."""
    return -(-least // unit) * unit
