"""One fill request inside the worker, from its window to its answer.

Owns what a request needs over its life and turns it into rows of a pass and back. It runs no
pass and reads no clock: the scheduler does.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from midfill_engine.calibration import Calibration, confidence_by, gate_of
from midfill_engine.errors import ModelCorrupt
from midfill_engine.model.transformer import Segment
from midfill_engine.model.vocabulary import EMPTY, Vocabulary
from midfill_engine.protocol import DraftEvent, Fill, FillRequest, FillResult, FillStats
from midfill_engine.worker.candidate import Candidate, Prediction
from midfill_engine.worker.context import ORIGIN, SCRATCH_ROWS, Context
from midfill_engine.worker.evidence import evidence_of, token_log_probabilities_of
from midfill_engine.worker.length_moves import drop_moves, move_length
from midfill_engine.worker.plan import SAMPLING_TEMPERATURE, SHARE_OF_SAMPLES, Plan, plan_for
from midfill_engine.worker.row_tree import Layout, Path, RowTree
from midfill_engine.worker.score import ScoredText, scored_text, token_log_probabilities
from midfill_engine.worker.window import Window

_NO_STATS: Final = FillStats(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


class Handle(Protocol):
    """A context, in whichever way a model holds it."""

    def spoil(self) -> None:
        """Forget everything: a pass failed half-way."""
        ...


class Pool(Protocol):
    """The contexts of a model."""

    @property
    def nbytes(self) -> int:
        """What they hold."""
        ...

    @property
    def has_room(self) -> bool:
        """Whether another can be had."""
        ...

    def bound(self, limit_bytes: int) -> None:
        """Set another limit to what they hold."""
        ...

    def acquire(self, window: Window) -> tuple[Handle, int]:
        """A context for a job, and how many of the window's tokens it has."""
        ...

    def release(self, context: Any) -> None:
        """Take back a context that `acquire` gave."""
        ...


@dataclass(slots=True, eq=False)
class Job:
    """A request, its context and its candidates."""

    request: FillRequest
    window: Window
    context: Handle
    candidates: list[Candidate]
    stats: FillStats
    finished: list[Candidate] = field(default_factory=list)
    tree: RowTree = field(default_factory=RowTree)  # of the causal candidates

    @property
    def plan(self) -> Plan:
        return plan_for(self.request)

    @property
    def encoded_context(self) -> Context:
        """The context of a job on the embedded model."""
        assert isinstance(self.context, Context)
        return self.context

    @property
    def active(self) -> list[Candidate]:
        """Candidates that are not done, in a fixed order."""
        return [c for c in self.candidates if not c.done]

    @property
    def turn(self) -> list[Candidate]:
        """The first of the active ones that fit into one pass; at least one does."""
        taken, rows = [], 0
        for candidate in self.active:
            rows += len(candidate.visible_ids) + 1
            if rows <= SCRATCH_ROWS:
                taken.append(candidate)
        return taken

    def conclude(self, vocabulary: Vocabulary) -> None:
        """End it here: fill what is masked with the last step's guesses.

        A draft that knows no end is given up.
        """
        for candidate in sorted(self.active, key=lambda c: c.view == "causal"):
            candidate.conclude(self.candidates, vocabulary)
            drop_moves(candidate, vocabulary)
            if candidate.done:
                self.finished.append(candidate)
        self.candidates = [c for c in self.candidates if c.done]

    def draft_event(self, vocabulary: Vocabulary) -> DraftEvent:
        """What a client that watches is shown after a step."""
        drafts = tuple(c.draft(vocabulary) for c in self.candidates)
        return DraftEvent(self.request.request_id, self.stats.steps, drafts)


def start_job(
    request: FillRequest, window: Window, context: Handle, reused: int, candidates: list[Candidate]
) -> Job:
    """A job whose account is empty but for what its context costs."""
    tokens = len(window.prefix) + len(window.suffix)
    stats = replace(_NO_STATS, context_tokens=tokens, reused_tokens=reused)
    return Job(request, window, context, candidates, stats)


Work = tuple[list[int], Segment | Job]  # ids to run before a job's first step, and whose they are


@dataclass(frozen=True, slots=True)
class Rows:
    """A job's part of a pass, and which of its rows' outputs are wanted."""

    ids: list[int]
    positions: list[int]
    segment: Segment
    outputs: list[int]  # row numbers within `ids`


def denoise_rows(job: Job) -> Rows:
    """The canvases whose turn it is, each behind a copy of the prefix's last token."""
    turn = job.turn
    layout = job.tree.lay_out(_paths(job, turn))
    job.tree.apply(layout, job.encoded_context.slab, job.encoded_context.scratch_slot)
    masked = [[job.window.prefix[-1], *c.visible_ids] for c in turn if c.view == "masked"]
    rows = _rows(job, layout, masked, job.encoded_context.first_slot)
    causal, start = iter(layout.predictions), len(layout.fresh)
    for candidate in turn:
        if candidate.view == "causal":
            rows.outputs.extend(next(causal))
        else:
            rows.outputs.extend(start + position for position in candidate.open_positions)
            start += 1 + len(candidate.visible_ids)
    return rows


def count_rows(job: Job) -> int:
    """How many rows `denoise_rows` would make."""
    turn = job.turn
    masked = sum(1 + len(c.visible_ids) for c in turn if c.view == "masked")
    return len(job.tree.lay_out(_paths(job, turn)).fresh) + masked


def _paths(job: Job, turn: Sequence[Candidate]) -> list[Path]:
    """The rows of causal drafts. The row of a token predicts the next one."""
    first = job.window.prefix[-1]
    return [Path([first, *c.visible_ids], c.open_positions[0]) for c in turn if c.view == "causal"]


@dataclass(frozen=True, slots=True)
class Scorable:
    """A finished candidate and what of it the base will read."""

    candidate: Candidate
    text: str
    scored: ScoredText


def score_rows(job: Job, items: Sequence[Scorable]) -> Rows:
    """All finished fills with the head of the suffix. The base sees no suffix but this."""
    first = job.window.prefix[-1]
    # An empty fill before an empty suffix has nothing to predict.
    paths = [Path([first, *item.scored.ids[:-1]], 0) for item in items if item.scored.ids]
    layout = RowTree().lay_out(paths)
    rows = _rows(job, layout, [], ORIGIN)
    rows.outputs.extend(row for wanted in layout.predictions for row in wanted)
    return rows


def texts_to_score(job: Job, vocabulary: Vocabulary) -> list[Scorable]:
    """The finished candidates with distinct, whole texts.

    A canvas too short for what its left edge demands has come to nothing.
    """
    texts: dict[str, Candidate] = {}
    for candidate in job.finished:
        text = vocabulary.decode(candidate.tokens())
        if text is not None and not candidate.required:
            texts.setdefault(text, candidate)
    wanted, suffix = job.plan.suffix_tokens, job.request.suffix
    return [
        Scorable(candidate, text, scored_text(vocabulary, text, suffix, wanted, SCRATCH_ROWS))
        for text, candidate in texts.items()
    ]


def in_passes(items: Sequence[Scorable]) -> list[list[Scorable]]:
    """The items in groups that fit one pass each. None is cut: all are read equally far."""
    groups: list[list[Scorable]] = [[]]
    room = SCRATCH_ROWS
    for item in items:
        if len(item.scored.ids) > room:
            groups.append([])
            room = SCRATCH_ROWS
        groups[-1].append(item)
        room -= len(item.scored.ids)
    return groups


def commit_step(job: Job, logits: Tensor, vocabulary: Vocabulary) -> None:
    """Give each candidate whose turn it was its predictions.

    Args:
        logits: [outputs, V], the open positions of each in order; changed in place.

    Raises:
        ModelCorrupt: the logits are not numbers.
    """
    turn = job.turn
    parts = _parts([len(c.open_positions) for c in turn])
    for candidate, part in zip(turn, parts, strict=True):
        _constrain(candidate, logits[part], vocabulary)
    tokens = torch.cat(
        [_choose(c, logits[part], job.plan.samples) for c, part in zip(turn, parts, strict=True)]
    )
    confidences = token_log_probabilities(logits, tokens).exp().tolist()
    if any(math.isnan(c) for c in confidences):
        raise ModelCorrupt("the model's outputs are not numbers (NaN or infinite)")
    chosen = tokens.tolist()
    for candidate, part in zip(turn, parts, strict=True):
        prediction = Prediction(chosen[part], confidences[part], logits[part])
        candidate.commit(prediction, vocabulary)
    for candidate in turn:
        move_length(candidate, vocabulary)
        candidate.propose(job.candidates, vocabulary)
    job.finished += [c for c in turn if c.done]
    if _has_enough(job):
        job.conclude(vocabulary)


def _has_enough(job: Job) -> bool:
    """Whether what is left to denoise is not worth its passes."""
    samples = sum(c.seed is not None for c in job.finished)
    stragglers = all(c.seed is not None for c in job.active)
    return stragglers and samples >= SHARE_OF_SAMPLES * job.plan.samples


def make_result(
    job: Job,
    items: Sequence[Scorable],
    scores: Sequence[float] | None,
    at_deadline: bool,
    vocabulary: Vocabulary,
    calibration: Calibration | None,
) -> FillResult:
    """The answer: the items by their scores, or without them by their confidence, best first."""
    ranks = scores or [confidence(item.candidate) for item in items]
    ranked = sorted(range(len(items)), key=lambda i: -ranks[i])
    drafts = [vocabulary.decode(candidate.tokens()) for candidate in job.finished]
    untouched = job.request.heal_left + job.request.heal_right
    fills = []
    for i in ranked:
        others = [score for j, score in enumerate(scores or ()) if j != i]
        known = (ranks[i], others, len(items[i].scored.ids), drafts, untouched)
        evidence = evidence_of(items[i].candidate, items[i].text, *known)
        fills.append(_fill(items[i], ranks[i], evidence, vocabulary, calibration))
    stats = replace(job.stats, tokens=len(fills[0].pieces) if fills else 0)
    gate = gate_of(calibration)
    return FillResult(job.request.request_id, tuple(fills), at_deadline, stats, gate)


def _fill(
    item: Scorable,
    score: float,
    evidence: tuple[float, ...],
    vocabulary: Vocabulary,
    calibration: Calibration | None,
) -> Fill:
    tokens = item.candidate.tokens()
    return Fill(
        text=item.text,
        confidence=confidence_by(calibration, evidence),
        score=score,
        pieces=tuple(vocabulary.piece(t) for t in tokens),
        confidences=tuple(item.candidate.confidences[: len(tokens)]),
        evidence=evidence,
    )


def confidence(candidate: Candidate) -> float:
    """Geometric mean of the probabilities with which a fill's tokens, its end included, came."""
    logs = token_log_probabilities_of(candidate)
    return math.exp(sum(logs) / len(logs))


def _choose(candidate: Candidate, logits: Tensor, samples: int) -> Tensor:
    """A token for each of a candidate's open positions: logits [open, V] → [open].

    A sampled draft draws by a number that depends on nothing but the draft and the position, so
    the same request is answered in the same way whatever else is running, and whatever is
    proposed. The numbers of the drafts of one hole are spread evenly: each is distributed as if
    it were drawn alone, and together they differ more often.
    """
    if candidate.seed is None:
        return logits.max(1).indices  # argmax is several times slower
    offset = candidate.seed / samples
    drawn = [(random.Random(p).random() + offset) % 1 for p in candidate.open_positions]
    cumulative = (logits / SAMPLING_TEMPERATURE).softmax(1).cumsum(1)
    targets = torch.tensor(drawn, device=logits.device)[:, None] * cumulative[:, -1:]
    return torch.searchsorted(cumulative, targets, right=True)[:, 0]


def _constrain(candidate: Candidate, logits: Tensor, vocabulary: Vocabulary) -> None:
    """Rule out what may not stand at a candidate's open positions: logits [open, V], in place.

    In a single line a line break means that the line ends here: its probability goes to *empty*.
    """
    single_line = candidate.edges.single_line
    if single_line:
        breaks = vocabulary.line_breaks
        ends = torch.cat((logits[:, breaks], logits[:, EMPTY, None]), 1).logsumexp(1)
        past_edge = logits[1:] if candidate.required else logits  # the edge may hold a line break
        past_edge.index_fill_(1, breaks, -torch.inf)
        logits[:, EMPTY] = ends
    if candidate.edges.tail:
        logits[:, EMPTY] = -torch.inf
    logits[candidate.endless(vocabulary), EMPTY] = -torch.inf
    if candidate.required:
        allowed = vocabulary.beginnings(candidate.required, single_line)
        logits[0].masked_fill_(~allowed, -torch.inf)


def _rows(job: Job, layout: Layout, masked: Sequence[list[int]], first_slot: int) -> Rows:
    """Pack what a tree is to run and masked canvases, which do not see one another.

    All begin with the prefix's last token. No outputs are wanted yet.
    """
    context, fresh = job.encoded_context, layout.fresh
    sizes = [len(fresh), *map(len, masked)]
    rows, cached = sum(sizes), context.scratch_slot - first_slot
    visible = torch.zeros(rows, cached + layout.kept + rows, dtype=torch.bool)
    visible[:, :cached] = True
    looking = [row for row, path in enumerate(fresh) for _ in path.seen]
    visible[looking, [cached + slot for path in fresh for slot in path.seen]] = True
    for part in _parts(sizes)[1:]:
        visible[part, cached + layout.kept + part.start : cached + layout.kept + part.stop] = True
    position = len(job.window.prefix) - 1
    depths = [path.depth for path in fresh] + [i for canvas in masked for i in range(len(canvas))]
    write = context.scratch_slot + layout.kept
    return Rows(
        ids=[path.token for path in fresh] + [i for canvas in masked for i in canvas],
        positions=[position + depth for depth in depths],
        segment=Segment(context.slab, rows, first_slot, write, visible),
        outputs=[],
    )


def _parts(sizes: Sequence[int]) -> list[slice]:
    ends = list(accumulate(sizes))
    return [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
