"""A stack of brackets that forgives those that were never closed.

Owns what counts as a bracket. Every operation takes constant time on average, so that no text,
however deeply nested, costs more than its length.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

PAIRS: Final = {"(": ")", "[": "]", "{": "}"}
Bracket = tuple[int, str]  # offset and character


class BracketStack:
    """Brackets that are open. One that was never closed does not hide those around it."""

    def __init__(self, brackets: Iterable[Bracket] = ()) -> None:
        self.open: list[Bracket] = []
        self._missing = dict.fromkeys(PAIRS.values(), 0)  # how many closers of each kind
        for bracket in brackets:
            self.push(bracket)

    def clear(self) -> None:
        """Nothing is open any more."""
        self.open.clear()
        self._missing = dict.fromkeys(PAIRS.values(), 0)

    def push(self, bracket: Bracket) -> None:
        """Open a bracket."""
        self.open.append(bracket)
        self._missing[PAIRS[bracket[1]]] += 1

    def close(self, closer: str) -> Bracket | None:
        """Close the innermost bracket of that kind and all inside it; None if there is none."""
        while self._missing[closer]:
            if PAIRS[(bracket := self.pop())[1]] == closer:
                return bracket
        return None

    def pop(self) -> Bracket:
        """Give up the innermost bracket."""
        bracket = self.open.pop()
        self._missing[PAIRS[bracket[1]]] -= 1
        return bracket
