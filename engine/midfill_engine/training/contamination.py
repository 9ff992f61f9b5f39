"""Keeps evaluation problems out of the corpus.

Owns one question: does this text hold a piece of HumanEval, MBPP or their kin? It errs on the
side of dropping a file.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

_WORD: Final = re.compile(r"\w+")
_NAMES: Final = re.compile(r"human[_-]?eval|\bmbpp\b|apps_metric|code[_-]?contests", re.IGNORECASE)
_MBPP: Final = re.compile(
    r"write a (python )?function to (find|check|count|get|remove|convert|sort|calculate)", re.I
)
_LONG: Final = 10  # words; one match of this length is proof
_SHORT: Final = 6  # words; proof only together with the problem's function name


class Contamination:
    """The fingerprints of a set of problems."""

    def __init__(self, problems: Iterable[dict[str, str]]) -> None:
        self._long: set[tuple[str, ...]] = set()
        self._short: set[tuple[str, ...]] = set()
        self._functions: set[str] = set()
        for problem in problems:
            text = problem["prompt"] + problem["canonical_solution"] + problem["suffix"]
            self._long.update(_grams(text, _LONG))
            self._short.update(_grams(text, _SHORT))
            self._functions.add(problem["entry_point"])
        self._definition = re.compile(rf"\bdef ({'|'.join(sorted(self._functions)) or '(?!)'})\(")

    @classmethod
    def load(cls, path: Path | None) -> Contamination:
        """Read a gzipped JSON-lines file of problems."""
        if path is None:
            return cls([])
        with gzip.open(path, "rt") as lines:
            return cls(json.loads(line) for line in lines)

    def found_in(self, text: str) -> bool:
        if _NAMES.search(text) or _MBPP.search(text):
            return True
        if not self._long.isdisjoint(_grams(text, _LONG)):
            return True
        return bool(self._definition.search(text)) and not self._short.isdisjoint(
            _grams(text, _SHORT)
        )


def _grams(text: str, size: int) -> Iterator[tuple[str, ...]]:
    words = _WORD.findall(text.lower())
    return zip(*(words[i:] for i in range(size)), strict=False)
