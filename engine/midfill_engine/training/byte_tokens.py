"""The vocabulary counted in bytes: what lies where in a window of source text.

Owns the arithmetic between bytes and tokens. Holes are chosen in bytes, since grammars count so.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from midfill_engine.model.vocabulary import Vocabulary

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ByteTokens:
    """A vocabulary whose texts are bytes; what is not UTF-8 becomes replacement characters."""

    vocabulary: Vocabulary
    lengths: Ints  # [V] bytes of each token

    @classmethod
    def load(cls, directory: Path) -> ByteTokens:
        """Read a model's vocabulary.

        Raises:
            ModelMissing, ModelCorrupt: as `Vocabulary.load`.
        """
        vocabulary = Vocabulary.load(directory)
        return cls(vocabulary, np.array([len(b) for b in vocabulary.token_bytes], np.int64))

    def encode(self, text: bytes) -> list[int]:
        """Token ids of a text."""
        return self.vocabulary.encode(text.decode("utf-8", "replace"))

    def decode(self, ids: npt.NDArray[np.integer]) -> bytes:
        """The bytes of `ids`, which need not make whole characters."""
        return b"".join([self.vocabulary.token_bytes[i] for i in ids.tolist()])

    def word_starts(self, text: bytes) -> Ints:
        """Offsets at which a word begins, and the end of the text, ascending.

        A word is what the tokenizer keeps apart: no token reaches across its edges.
        """
        string = text.decode("utf-8", "replace")
        starts = np.array([*self.vocabulary.word_starts(string), len(string)], np.int64)
        if len(string) == len(text):
            return starts
        widths = [len(character.encode()) for character in string]
        return np.concatenate([[0], np.cumsum(widths)])[starts]
