"""Tokens copied from the text around the hole: proposals that cost no pass.

Owns the search for what followed similar text before. Knows nothing of models: what it proposes
is for a causal pass to verify.

Source: the n-gram lookup of Saxena 2023, "Prompt Lookup Decoding", and of Yang et al. 2023,
"Inference with Reference: Lossless Acceleration of Large Language Models" (arXiv:2304.04487).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import islice
from typing import Final

from midfill_engine.model.vocabulary import Vocabulary

_PREFIX_CHARACTERS: Final = 6_000  # of the nearest text, what is searched
_SUFFIX_CHARACTERS: Final = 1_500
_LONGEST_MATCH: Final = 16  # tokens; a longer one would not change what is proposed
_PROPOSED_A_TOKEN: Final = 2  # so many tokens are proposed for each one that matched
MAX_PROPOSED: Final = 8  # more are seldom confirmed, and every one is a row of the pass
_OCCURRENCES: Final = 200  # of one token, the nearest


class CopySource:
    """The tokens around a hole, and where each of them stands."""

    def __init__(self, prefix: Sequence[int], suffix: Sequence[int]) -> None:
        self._texts = (suffix, prefix)
        self._places: dict[int, list[tuple[Sequence[int], int]]] = defaultdict(list)
        for text in self._texts:
            for position, token in enumerate(text[:-1]):
                self._places[token].append((text, position))
        self._end = tuple(prefix[-_LONGEST_MATCH:])

    @classmethod
    def of_texts(cls, vocabulary: Vocabulary, prefix: str, suffix: str) -> CopySource:
        """The nearest of both, in tokens."""
        return cls(
            vocabulary.encode(prefix[-_PREFIX_CHARACTERS:]),
            vocabulary.encode(suffix[:_SUFFIX_CHARACTERS]),
        )

    def after(self, known: Sequence[int]) -> list[int]:
        """What followed the longest match of the text that ends with a canvas's `known` tokens.

        Of matches of one length, the nearest before the hole is taken. The better the match, the
        more is proposed.
        """
        recent = [*self._end, *known][-_LONGEST_MATCH:]
        if not recent:
            return []
        places = islice(reversed(self._places.get(recent[-1], [])), _OCCURRENCES)
        best, length = None, 0
        for text, position in places:
            matched = _matched(text, position, recent)
            if matched > length:
                best, length = (text, position + 1), matched
        if best is None:
            return []
        text, start = best
        count = min(_PROPOSED_A_TOKEN * length, MAX_PROPOSED)
        return list(text[start : start + count])


def _matched(text: Sequence[int], position: int, recent: Sequence[int]) -> int:
    """How many tokens of `text` up to and with `position` equal the last of `recent`."""
    count = 0
    while count < min(len(recent), position + 1) and (text[position - count] == recent[-1 - count]):
        count += 1
    return count
