"""Finds files that are near copies of files seen before.

Owns what a near copy is: shingles of `_LINES` lines in a row, as in Broder, "On the resemblance and
containment of documents", 1997, with blanks and comments taken out of the lines, so that neither
layout nor a licence text makes or hides a copy. A copy under other names, or in another language,
is not found.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import Final

_LINES: Final = 4
_SHARE: Final = 0.4  # of a file's shingles; more make it a copy
_BLANKS: Final = re.compile(r"\s+")
_COMMENT: Final = re.compile(r"\s*(#(?!include|define|if|else|end)|//|/?\*|--)")
_MIN_CHARACTERS: Final = 4  # shorter lines are in every file


class Duplicates:
    """The files seen so far, of both sides of the split.

    Held-out files come first: what is learnt from must not hold most of one of them, however
    much else it holds.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._held_out: dict[int, int] = {}  # shingle -> the held-out file it is of
        self._sizes: list[int] = []  # shingles of each held-out file

    def is_new(self, text: str, validation: bool) -> bool:
        """Whether a file is no near copy; if so, it is seen from now on."""
        shingles = _shingles(text)
        if len(shingles & self._seen) > _SHARE * len(shingles):
            return False
        if not validation and self._holds_a_held_out_file(shingles):
            return False
        self._seen |= shingles
        if validation:
            new = shingles - self._held_out.keys()
            self._held_out.update(dict.fromkeys(new, len(self._sizes)))
            self._sizes.append(len(new))
        return True

    def _holds_a_held_out_file(self, shingles: set[int]) -> bool:
        if self._held_out.keys().isdisjoint(shingles):
            return False
        hits = Counter(self._held_out[s] for s in shingles if s in self._held_out)
        return any(count > _SHARE * self._sizes[file] for file, count in hits.items())


def _shingles(text: str) -> set[int]:
    lines = [_BLANKS.sub("", line) for line in text.split("\n") if not _COMMENT.match(line)]
    lines = [line for line in lines if len(line) >= _MIN_CHARACTERS]
    return {
        stable_hash("\n".join(lines[i : i + _LINES]))
        for i in range(max(1, len(lines) - _LINES + 1))
    }


def stable_hash(text: str) -> int:
    """64 bits that are the same in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
