"""Making a canvas longer or shorter once it is there.

Owns the two moves of models that were trained to choose a hole's length (a token *expand* becomes
two masks, a token *delete* goes), and giving a draft the length that `length` has chosen.

Source: Wu et al. 2026, "DreamOn" (arXiv 2602.01326), and its published decoding loop.
"""

from __future__ import annotations

from typing import TypeVar

from midfill_engine.model.vocabulary import MASK, Vocabulary
from midfill_engine.worker.candidate import Candidate

T = TypeVar("T")


def move_length(candidate: Candidate, vocabulary: Vocabulary) -> None:
    """Carry out the moves that a step has committed, from the right so that places stay true."""
    if vocabulary.expand is None:
        return
    for position in range(len(candidate.ids) - 1, -1, -1):
        token = candidate.ids[position]
        if token == vocabulary.expand:
            _replace(candidate, position, 2)
            candidate.expansions += 1
        elif token == vocabulary.delete:
            _replace(candidate, position, 0)


def drop_moves(candidate: Candidate, vocabulary: Vocabulary) -> None:
    """Take out moves that there is no step left to carry out."""
    for position in range(len(candidate.ids) - 1, -1, -1):
        if candidate.ids[position] in vocabulary.length_moves:
            _replace(candidate, position, 0)


def resize(candidate: Candidate, length: int) -> None:
    """Give a draft that no step has seen `length` masks between its edges."""
    first = len(candidate.edges.certain)
    last = len(candidate.ids) - len(candidate.edges.tail)
    candidate.ids[first:last] = [MASK] * length
    candidate.masked[first:last] = [True] * length
    candidate.confidences[first:last] = [0.0] * length


def _replace(candidate: Candidate, position: int, masks: int) -> None:
    """Put so many masks in the place of one token; what is known of the others moves along."""
    rest = slice(position, position + 1)
    candidate.ids[rest] = [MASK] * masks
    candidate.masked[rest] = [True] * masks
    candidate.confidences[rest] = [0.0] * masks
    candidate.guesses = _moved(candidate.guesses, position, masks)
    candidate.history = _moved(candidate.history, position, masks)


def _moved(known: dict[int, T], position: int, masks: int) -> dict[int, T]:
    return {
        (at if at < position else at + masks - 1): value
        for at, value in known.items()
        if at != position
    }
