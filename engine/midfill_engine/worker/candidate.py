"""One canvas on its way from masks to text.

Owns the state of a single draft: what is committed, what the edges demand, when it is done.
Knows nothing of logits or batches: it is told a token and a probability for each position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from midfill_engine.model.vocabulary import EMPTY, MASK, Vocabulary
from midfill_engine.protocol import Draft
from midfill_engine.worker.strategy import confidence_threshold, left_to_right

View = Literal["masked", "causal"]


@dataclass(frozen=True, slots=True)
class Edges:
    """What a fill must begin and end with."""

    certain: tuple[int, ...]  # tokens it starts with
    required: bytes  # what the text must go on with after them
    tail: tuple[int, ...]  # tokens it ends with; a canvas with a tail has no empties
    single_line: bool  # no line break may follow what is required


@dataclass(slots=True, eq=False)
class Candidate:
    """A canvas of ids, masks included. In the causal view it is filled strictly left to right."""

    edges: Edges
    view: View
    ids: list[int]
    masked: list[bool]
    confidences: list[float]
    required: bytes  # what is left of `edges.required`
    guesses: dict[int, tuple[int, float]] = field(default_factory=dict)  # last seen, per position

    @classmethod
    def of_length(cls, edges: Edges, view: View, length: int) -> Candidate:
        """A canvas with `length` masks between the edges."""
        ids = [*edges.certain, *[MASK] * length, *edges.tail]
        masked = [i == MASK for i in ids]
        return cls(edges, view, ids, masked, [0.0 if m else 1.0 for m in masked], edges.required)

    @property
    def done(self) -> bool:
        return not any(self.masked)

    @property
    def open_positions(self) -> list[int]:
        """Canvas positions whose tokens the next step is to predict, ascending."""
        positions = [i for i, m in enumerate(self.masked) if m]
        return positions[:1] if self.view == "causal" else positions

    @property
    def visible_ids(self) -> list[int]:
        """The ids a pass must run: the causal view needs none from its first mask on."""
        return self.ids[: self.masked.index(True)] if self.view == "causal" else self.ids

    @property
    def may_be_empty(self) -> bool:
        """Whether the fill may end before a position that is still masked."""
        return not self.edges.tail and not self.required

    def commit(
        self,
        tokens: Sequence[int],
        confidences: Sequence[float],
        threshold: float,
        vocabulary: Vocabulary,
    ) -> None:
        """Take one step's predictions for `open_positions` and keep those that are sure enough.

        While the left edge still demands text, the first of them was predicted under that demand
        and is kept whatever its probability.
        """
        positions = self.open_positions
        self.guesses = dict(zip(positions, zip(tokens, confidences, strict=True), strict=True))
        if self.view == "causal":
            keep = left_to_right(confidences)
        else:
            keep = confidence_threshold(confidences, threshold)
        if self.required:
            keep[0] = True
        for position, kept in zip(positions, keep, strict=True):
            if kept and self.masked[position]:
                self._set(position, *self.guesses[position], vocabulary)

    def conclude(self, vocabulary: Vocabulary) -> None:
        """Take the last step's guesses for whatever is still masked."""
        for position, guess in sorted(self.guesses.items()):
            if self.masked[position]:
                self._set(position, *guess, vocabulary)

    def tokens(self) -> list[int]:
        """The fill's ids: everything before the first empty. Only of a done candidate."""
        return self.ids[: self.ids.index(EMPTY)] if EMPTY in self.ids else self.ids

    def draft(self, vocabulary: Vocabulary) -> Draft:
        """The canvas as it may be shown, without empties."""
        shown = self.ids[: self.ids.index(EMPTY)] if EMPTY in self.ids else self.ids
        pieces = tuple(None if i == MASK else vocabulary.piece(i) for i in shown)
        return Draft(pieces, tuple(self.confidences[: len(shown)]))

    def _set(self, position: int, token: int, confidence: float, vocabulary: Vocabulary) -> None:
        if self.required and position == self.masked.index(True):
            self.required = self.required[len(vocabulary.token_bytes[token]) :]
        end = len(self.ids) if token == EMPTY else position + 1
        for i in range(position, end):
            self.ids[i], self.masked[i], self.confidences[i] = token, False, confidence
