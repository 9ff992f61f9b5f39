"""One canvas on its way from masks to text.

Owns the state of a single draft: what is committed, what the edges demand, when it is done.
Knows nothing of batches: it is told what a pass predicts, and a strategy tells it what of that
to take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from midfill_engine.model.vocabulary import EMPTY, MASK, Vocabulary
from midfill_engine.protocol import Draft
from midfill_engine.worker.copying import MAX_PROPOSED, CopySource
from midfill_engine.worker.length import ends_in_word, tokens_to_overrun, want_brackets
from midfill_engine.worker.strategies import DEFAULT, STRATEGIES, Moves, Step, Strategy
from midfill_engine.worker.strategies.verification import verified

View = Literal["masked", "causal"]


@dataclass(frozen=True, slots=True)
class Edges:
    """What a fill must begin and end with."""

    certain: tuple[int, ...]  # tokens it starts with
    required: bytes  # what the text must go on with after them
    tail: tuple[int, ...]  # tokens it ends with; a canvas with a tail has no empties
    single_line: bool  # no line break may follow what is required
    may_close: int | None = None  # brackets it may close beyond its own; None: any number
    must_close: int | None = None  # and those before which it does not end; None: it ends anywhere


@dataclass(frozen=True, slots=True)
class Rule:
    """A strategy and its number."""

    strategy: Strategy
    level: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a pass says of a draft's open positions."""

    tokens: Sequence[int]  # [open] what was chosen at each
    confidences: Sequence[float]  # [open] probability of each of these
    logits: Tensor  # [open, V] what they were chosen from


@dataclass(slots=True, eq=False)
class Candidate:
    """A canvas of ids, masks included.

    In the masked view any position may be committed, as its rule decides. In the causal view the
    canvas is filled strictly left to right, by as many tokens a step as the view confirms of what
    is proposed to it. A canvas that is full without an end grows, as far as it may; one that does
    not grow is done when it is full. `length_moves` may change its length besides.
    """

    edges: Edges
    view: View
    ids: list[int]
    masked: list[bool]
    confidences: list[float]
    required: bytes  # what is left of `edges.required`
    seed: int | None  # of a sampled draft; None: always the likeliest token
    rule: Rule  # of the masked view
    block: int  # how much it grows at a time; 0: not at all
    limit: int  # how many ids it may have
    bound: int  # how many of the first positions the left edge has settled
    edits_left: int  # steps in which a full canvas may still be revised
    copies: CopySource | None  # causal view: where text may be copied from
    steps: int = 0
    expansions: int = 0  # how often a token has become two masks
    guesses: dict[int, tuple[int, float]] = field(default_factory=dict)  # last seen, per position
    history: dict[int, list[Tensor]] = field(default_factory=dict)  # log probabilities, newest 1st
    proposed: list[int] = field(default_factory=list)  # causal view: what may come next

    @classmethod
    def of_length(
        cls,
        edges: Edges,
        view: View,
        length: int,
        seed: int | None = None,
        *,
        most: int | None = None,
        rule: Rule | None = None,
        copies: CopySource | None = None,
        grows: bool = True,
    ) -> Candidate:
        """A canvas with `length` masks between the edges, and room for `most` of them."""
        rule = rule or Rule(STRATEGIES[DEFAULT], STRATEGIES[DEFAULT].level)
        ids = [*edges.certain, *[MASK] * length, *edges.tail]
        masked = [i == MASK for i in ids]
        return cls(
            edges=edges,
            view=view,
            ids=ids,
            masked=masked,
            confidences=[0.0 if m else 1.0 for m in masked],
            required=edges.required,
            seed=seed,
            rule=rule,
            block=length if grows and not edges.tail else 0,
            limit=len(edges.certain) + (most or length) + len(edges.tail),
            bound=len(edges.certain),
            edits_left=rule.strategy.post_edits if view == "masked" else 0,
            copies=copies,
        )

    @property
    def done(self) -> bool:
        return not any(self.masked) and not (self.edits_left and self.open_positions)

    @property
    def open_positions(self) -> list[int]:
        """Canvas positions whose tokens the next step is to predict, ascending."""
        if self.view == "causal":
            first = self.masked.index(True)
            return list(range(first, min(first + len(self.proposed) + 1, len(self.ids))))
        if self.rule.strategy.revises:
            end = self.ids.index(EMPTY) + 1 if EMPTY in self.ids else len(self.ids)
            return list(range(self.bound, min(end, len(self.ids) - len(self.edges.tail))))
        return [i for i, m in enumerate(self.masked) if m]

    @property
    def visible_ids(self) -> list[int]:
        """The ids a pass must run: of the causal view, only what stands left of a prediction."""
        if self.view == "causal":
            return self.ids[: self.masked.index(True)] + self.proposed
        return self.ids

    def endless(self, vocabulary: Vocabulary) -> list[bool]:
        """For each open position, whether the draft may not end there for want of a bracket.

        Only a left-to-right draft knows what stands before.
        """
        must_close, positions = self.edges.must_close, self.open_positions
        if self.view != "causal" or must_close is None:
            return [False] * len(positions)
        known = [*self.ids[: positions[0]], *self.proposed][len(self.edges.certain) :]
        texts = [vocabulary.token_bytes[i] for i in known]
        wanting = want_brackets(texts, must_close, single_line=self.edges.single_line)
        return wanting[-len(positions) :]

    def commit(self, prediction: Prediction, vocabulary: Vocabulary) -> None:
        """Take one step's predictions for `open_positions` and do what the rule decides.

        While the left edge still demands text, the leftmost position was predicted under that
        demand and no other was: it is committed, and others only where it meets the demand.
        """
        positions = self.open_positions
        step = self._step(positions, prediction)
        self.guesses = {
            p: (token, confidence)
            for p, token, confidence in zip(
                positions, prediction.tokens, prediction.confidences, strict=True
            )
            if self.masked[p] and (self.view == "masked" or p == positions[0])
        }
        self._remember(step, positions)
        if self.view == "causal":
            moves = Moves(tuple(range(verified(prediction.tokens, self.proposed))))
        else:
            moves = self.rule.strategy.decide(step, self.rule.level)
        self._carry_out(moves, step, positions, vocabulary)
        self.proposed = []
        self.steps += 1
        self._end_before_overrun(vocabulary)
        self._grow(vocabulary)

    def propose(self, siblings: Sequence[Candidate], vocabulary: Vocabulary) -> None:
        """Let a causal draft try what may come next, for its next step to verify.

        That is what followed similar text around the hole, or else what masked drafts of the same
        hole expect. Only as much is tried as could be confirmed: while the left edge demands
        text, the first token must meet all of it, and a single line has no line breaks.
        """
        if self.view != "causal" or self.done:
            return
        known = self.ids[: self.masked.index(True)]
        proposal = self.copies.after(known) if self.copies else []
        if not proposal:
            proposal = max((s.expected_after(known) for s in siblings), key=len, default=[])
        room = min(len(self.ids) - len(known) - 1, MAX_PROPOSED)
        self.proposed = self._confirmable(proposal[:room], vocabulary)

    def expected_after(self, known: list[int]) -> list[int]:
        """The tokens this draft has or guesses after `known`; none if it begins otherwise."""
        if self.view == "causal":
            return []
        whole = self._guessed()
        ends = [i for i, token in enumerate(whole) if token in (MASK, EMPTY)]
        whole = whole[: ends[0]] if ends else whole
        return whole[len(known) :] if whole[: len(known)] == known else []

    def conclude(self, siblings: Sequence[Candidate], vocabulary: Vocabulary) -> None:
        """Come to an end without another step, if there is a sensible one.

        A masked draft takes the last step's guesses for whatever is still masked. They were made
        with no regard to the left edge, so it must have what it demands by now. A causal draft
        goes on as a masked one does that begins alike. Failing an end, a draft of several lines
        ends with its last whole one, and a causal one of a single line with its last whole word.
        """
        self.edits_left = 0
        if self.required or self.done:
            return
        known = self.masked.index(True)
        if self.view == "masked":
            for position, guess in sorted(self.guesses.items()):
                if self.masked[position]:
                    self._set(position, *guess, vocabulary)
        else:
            rest = max((s.ending_after(self.ids[:known]) for s in siblings), key=len, default=[])
            if rest:
                self._end_with(known, rest)
        if EMPTY not in self.ids and self.edges.single_line and self.view == "causal":
            self._end_with_whole_word(vocabulary)
        elif self.block and EMPTY not in self.ids:
            self._end_with_whole_line(vocabulary)

    def ending_after(self, known: list[int]) -> list[tuple[int, float]]:
        """What this draft has or guesses from `known` to its end, with its probabilities.

        None if it begins otherwise, or knows no end.
        """
        if self.view == "causal":
            return []
        whole = self._guessed()
        if (
            EMPTY not in whole
            or MASK in whole[: whole.index(EMPTY)]
            or whole[: len(known)] != known
        ):
            return []
        end = whole.index(EMPTY) + 1
        sure = [self.guesses[i][1] if m else self.confidences[i] for i, m in enumerate(self.masked)]
        return list(zip(whole, sure, strict=True))[len(known) : end]

    def tokens(self) -> list[int]:
        """Everything before the first empty; of a done candidate, the fill's ids."""
        return self.ids[: self.ids.index(EMPTY)] if EMPTY in self.ids else self.ids

    def draft(self, vocabulary: Vocabulary) -> Draft:
        """The canvas as it may be shown, without empties."""
        shown = self.tokens()
        pieces = tuple(None if i == MASK else vocabulary.piece(i) for i in shown)
        return Draft(pieces, tuple(self.confidences[: len(shown)]))

    def _guessed(self) -> list[int]:
        """The ids, with the last guess where there is a mask, or a mask where there is none."""
        return [
            self.guesses.get(i, (MASK, 0.0))[0] if masked else self.ids[i]
            for i, masked in enumerate(self.masked)
        ]

    def _confirmable(self, proposal: list[int], vocabulary: Vocabulary) -> list[int]:
        texts = [vocabulary.token_bytes[token] for token in proposal]
        if self.required and not (texts and texts[0].startswith(self.required)):
            return []
        if self.edges.single_line:
            texts = [t[len(self.required) :] if i == 0 else t for i, t in enumerate(texts)]
            broken = [i for i, text in enumerate(texts) if b"\n" in text or b"\r" in text]
            return proposal[: broken[0]] if broken else proposal
        return proposal

    def _step(self, positions: list[int], prediction: Prediction) -> Step:
        return Step(
            tokens=prediction.tokens,
            confidences=prediction.confidences,
            logits=prediction.logits,
            masked=[self.masked[p] for p in positions],
            standing=[self.ids[p] for p in positions],
            number=self.steps,
            history=[self.history.get(p, []) for p in positions],
        )

    def _remember(self, step: Step, positions: list[int]) -> None:
        if self.rule.strategy.lookback and self.view == "masked":
            for position, now in zip(positions, step.log_probabilities, strict=True):
                earlier = self.history.get(position, [])
                self.history[position] = [now, *earlier][: self.rule.strategy.lookback]

    def _carry_out(
        self, moves: Moves, step: Step, positions: list[int], vocabulary: Vocabulary
    ) -> None:
        was_full = not any(self.masked)
        commits = sorted({0, *moves.commits} if self.required else moves.commits)
        remasks = () if self.required else moves.remasks
        for i in remasks:
            self.ids[positions[i]], self.masked[positions[i]] = MASK, True
            self.confidences[positions[i]] = 0.0
        for i in commits:
            position = positions[i]
            if EMPTY in self.ids[:position] or (self.required and i):
                break
            self._set(position, step.tokens[i], step.confidences[i], vocabulary)
        if was_full:
            self.edits_left = self.edits_left - 1 if commits else 0

    def _grow(self, vocabulary: Vocabulary) -> None:
        """Another block, where the canvas is full and has found no end."""
        if not self.block or any(self.masked) or EMPTY in self.ids:
            return
        more = max(0, min(self.block, self.limit - len(self.ids)))
        self.ids += [MASK] * more
        self.masked += [True] * more
        self.confidences += [0.0] * more
        if not more:
            self._end_with_whole_line(vocabulary)

    def _end_with(self, position: int, rest: Sequence[tuple[int, float]]) -> None:
        """Put `rest`, whose last is an empty, from `position` on, and end there."""
        self.ids[position:] = [token for token, _ in rest]
        self.confidences[position:] = [confidence for _, confidence in rest]
        self.masked = [False] * len(self.ids)

    def _end_before_overrun(self, vocabulary: Vocabulary) -> None:
        """End a left-to-right draft that has closed what the text behind the hole closes.

        The token with that bracket stays, as other text may be in it: filters see to it.
        """
        if self.view != "causal" or self.edges.may_close is None or self.required:
            return
        known = self.masked.index(True) if True in self.masked else len(self.ids)
        first = len(self.edges.certain)
        texts = [vocabulary.token_bytes[i] for i in self.ids[first:known] if i != EMPTY]
        if (count := tokens_to_overrun(texts, self.edges.may_close)) is not None:
            end = first + count
            self._end_with(end, [(EMPTY, self.confidences[end - 1])])

    def _end_with_whole_line(self, vocabulary: Vocabulary) -> None:
        """End a fill of several lines at the last line break that it has come to."""
        known = self.masked.index(True) if any(self.masked) else len(self.ids)
        texts = [vocabulary.token_bytes[i] for i in self.ids[:known]]
        breaks = [i for i in range(self.bound + 1, known) if b"\n" in texts[i]]
        if breaks and not self.edges.single_line:
            self._end_with(breaks[-1], [(EMPTY, self.confidences[breaks[-1]])])

    def _end_with_whole_word(self, vocabulary: Vocabulary) -> None:
        """End a fill of one line behind the last word that is known to have ended."""
        known = self.masked.index(True)
        texts = [vocabulary.token_bytes[i] for i in self.ids[:known]]
        ends = [i for i in range(self.bound + 1, known) if not ends_in_word(texts[i - 1], texts[i])]
        if ends:
            self._end_with(ends[-1], [(EMPTY, self.confidences[ends[-1]])])

    def _set(self, position: int, token: int, confidence: float, vocabulary: Vocabulary) -> None:
        if self.required and position == self.masked.index(True):
            self.required = self.required[len(vocabulary.token_bytes[token]) :]
            self.bound = position + 1
        end = len(self.ids) if token == EMPTY else position + 1
        for i in range(position, end):
            self.ids[i], self.masked[i], self.confidences[i] = token, False, confidence
