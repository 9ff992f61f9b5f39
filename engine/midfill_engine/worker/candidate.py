"""One canvas on its way from masks to text.

Owns the state of a single draft: what is committed, what the edges demand, when it is done.
Knows nothing of logits or batches: it is told a token and a probability for each position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from midfill_engine.model.vocabulary import EMPTY, MASK, Vocabulary
from midfill_engine.protocol import Draft
from midfill_engine.worker.strategy import left_edge_and_threshold, verified

View = Literal["masked", "causal"]
MAX_PROPOSED: Final = 8  # more are seldom confirmed, and every one is a row of the pass


@dataclass(frozen=True, slots=True)
class Edges:
    """What a fill must begin and end with."""

    certain: tuple[int, ...]  # tokens it starts with
    required: bytes  # what the text must go on with after them
    tail: tuple[int, ...]  # tokens it ends with; a canvas with a tail has no empties
    single_line: bool  # no line break may follow what is required


@dataclass(slots=True, eq=False)
class Candidate:
    """A canvas of ids, masks included.

    In the masked view any position may be committed. In the causal view it is filled strictly
    left to right, by as many tokens a step as the view confirms of what another draft proposes.
    """

    edges: Edges
    view: View
    ids: list[int]
    masked: list[bool]
    confidences: list[float]
    required: bytes  # what is left of `edges.required`
    seed: int | None = None  # of a sampled draft; None: always the likeliest token
    guesses: dict[int, tuple[int, float]] = field(default_factory=dict)  # last seen, per position
    proposed: list[int] = field(default_factory=list)  # causal view: what may come next
    expansions: int = 0  # how often a token has become two masks (see `length_moves`)

    @classmethod
    def of_length(cls, edges: Edges, view: View, length: int, seed: int | None = None) -> Candidate:
        """A canvas with `length` masks between the edges."""
        ids = [*edges.certain, *[MASK] * length, *edges.tail]
        masked = [i == MASK for i in ids]
        confidences = [0.0 if m else 1.0 for m in masked]
        return cls(edges, view, ids, masked, confidences, edges.required, seed)

    @property
    def done(self) -> bool:
        return not any(self.masked)

    @property
    def open_positions(self) -> list[int]:
        """Canvas positions whose tokens the next step is to predict, ascending."""
        if self.view == "causal":
            first = self.masked.index(True)
            return list(range(first, min(first + len(self.proposed) + 1, len(self.ids))))
        return [i for i, m in enumerate(self.masked) if m]

    @property
    def visible_ids(self) -> list[int]:
        """The ids a pass must run: of the causal view, only what stands left of a prediction."""
        if self.view == "causal":
            return self.ids[: self.masked.index(True)] + self.proposed
        return self.ids

    def commit(
        self,
        tokens: Sequence[int],
        confidences: Sequence[float],
        threshold: float,
        vocabulary: Vocabulary,
    ) -> None:
        """Take one step's predictions for `open_positions` and keep those that are sure enough.

        The leftmost always is; while the left edge still demands text, it was predicted under
        that demand, and no other was.
        """
        positions = self.open_positions
        predictions = list(zip(tokens, confidences, strict=True))
        if self.view == "causal":
            count = verified(tokens, self.proposed)
            keep = [i < count for i in range(len(positions))]
            self.guesses = {positions[0]: predictions[0]}
        else:
            keep = left_edge_and_threshold(confidences, threshold)
            self.guesses = dict(zip(positions, predictions, strict=True))
        for position, prediction, kept in zip(positions, predictions, keep, strict=True):
            if self.required and position != positions[0]:
                break
            if kept and self.masked[position]:
                self._set(position, *prediction, vocabulary)
        self.proposed = []

    def propose(self, siblings: Sequence[Candidate]) -> None:
        """Let a causal draft try what masked drafts of the same hole expect to come next."""
        if self.view != "causal" or self.done or self.required:
            return
        known = self.masked.index(True)
        proposals = (sibling.expected_after(self.ids[:known]) for sibling in siblings)
        room = len(self.ids) - known - 1
        self.proposed = max(proposals, key=len, default=[])[: min(room, MAX_PROPOSED)]

    def expected_after(self, known: list[int]) -> list[int]:
        """The tokens this draft has or guesses after `known`; none if it begins otherwise."""
        if self.view == "causal":
            return []
        ids = [
            self.guesses.get(i, (MASK, 0.0))[0] if m else self.ids[i]
            for i, m in enumerate(self.masked)
        ]
        ends = [i for i, token in enumerate(ids) if token in (MASK, EMPTY)]
        whole = ids[: ends[0]] if ends else ids
        return whole[len(known) :] if whole[: len(known)] == known else []

    def conclude(self, vocabulary: Vocabulary) -> None:
        """Take the last step's guesses for whatever is still masked.

        They were made with no regard to the left edge, so it must have what it demands by now.
        """
        if self.required:
            return
        for position, guess in sorted(self.guesses.items()):
            if self.masked[position]:
                self._set(position, *guess, vocabulary)

    def tokens(self) -> list[int]:
        """Everything before the first empty; of a done candidate, the fill's ids."""
        return self.ids[: self.ids.index(EMPTY)] if EMPTY in self.ids else self.ids

    def draft(self, vocabulary: Vocabulary) -> Draft:
        """The canvas as it may be shown, without empties."""
        shown = self.tokens()
        pieces = tuple(None if i == MASK else vocabulary.piece(i) for i in shown)
        return Draft(pieces, tuple(self.confidences[: len(shown)]))

    def _set(self, position: int, token: int, confidence: float, vocabulary: Vocabulary) -> None:
        if self.required and position == self.masked.index(True):
            self.required = self.required[len(vocabulary.token_bytes[token]) :]
        end = len(self.ids) if token == EMPTY else position + 1
        for i in range(position, end):
            self.ids[i], self.masked[i], self.confidences[i] = token, False, confidence
