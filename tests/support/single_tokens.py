"""Texts that are one token each in a small model's vocabulary."""

from __future__ import annotations

from midfill_engine.model.vocabulary import Vocabulary


def tokens(vocabulary: Vocabulary, *texts: str) -> list[int]:
    """One token for each text."""
    ids = [vocabulary.encode(text) for text in texts]
    assert all(len(i) == 1 for i in ids), ids
    return [i[0] for i in ids]
