"""One fill request inside the worker, from its window to its answer.

Owns what a request needs over its life and turns it into rows of a pass and back. It runs no
pass and reads no clock: the scheduler does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from midfill_engine.errors import ModelCorrupt, RequestRejected
from midfill_engine.model.transformer import Segment
from midfill_engine.model.vocabulary import EMPTY, Vocabulary
from midfill_engine.protocol import DraftEvent, Fill, FillRequest, FillResult, FillStats
from midfill_engine.worker.candidate import Candidate, Edges
from midfill_engine.worker.context import ORIGIN, SCRATCH_ROWS, Context
from midfill_engine.worker.length_moves import drop_moves, move_length
from midfill_engine.worker.plan import PLANS, SAMPLING_TEMPERATURE, Plan, causal_length, lengths
from midfill_engine.worker.score import ScoredText, scored_text, token_log_probabilities
from midfill_engine.worker.window import Window

MAX_EDGE_TOKENS: Final = 160  # or bytes, of what is not certain
MAX_EDGE_CHARACTERS: Final = 4096  # more is not even tokenized
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

    @property
    def plan(self) -> Plan:
        return PLANS[self.request.quality]

    @property
    def encoded_context(self) -> Context:
        """The context of a job on the embedded model."""
        assert isinstance(self.context, Context)
        return self.context

    @property
    def active(self) -> list[Candidate]:
        """Candidates with masks left, in a fixed order."""
        return [c for c in self.candidates if not c.done]

    def conclude(self, vocabulary: Vocabulary) -> None:
        """End it here: fill what is masked with the last step's guesses.

        A draft that no step has seen yet has none, and is given up.
        """
        for candidate in self.active:
            candidate.conclude(vocabulary)
            drop_moves(candidate, vocabulary)
            if candidate.done:
                self.finished.append(candidate)
        self.candidates = [c for c in self.candidates if c.done]

    def draft_event(self, vocabulary: Vocabulary) -> DraftEvent:
        """What a client that watches is shown after a step."""
        drafts = tuple(c.draft(vocabulary) for c in self.candidates)
        return DraftEvent(self.request.request_id, self.stats.steps, drafts)


def start_job(
    request: FillRequest,
    window: Window,
    context: Handle,
    reused: int,
    candidates: list[Candidate],
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
    """All unfinished canvases, each behind a copy of the prefix's last token."""
    first = job.window.prefix[-1]
    canvases = [[first, *c.visible_ids] for c in job.active]
    outputs, start = [], 0
    for candidate, canvas in zip(job.active, canvases, strict=True):
        outputs += [start + position for position in candidate.open_positions]
        start += len(canvas)
    causal = [c.view == "causal" for c in job.active]
    return _rows(job, canvases, causal, job.encoded_context.first_slot, outputs)


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
    canvases = [[first, *item.scored.ids[:-1]] for item in items if item.scored.ids]
    outputs = list(range(sum(map(len, canvases))))
    return _rows(job, canvases, [True] * len(canvases), ORIGIN, outputs)


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
    """Give each candidate its predictions.

    Args:
        logits: [outputs, V], in the order of `denoise_rows(job).outputs`; changed in place.

    Raises:
        ModelCorrupt: the logits are not numbers.
    """
    active = job.active
    parts = _parts([len(c.open_positions) for c in active])
    for candidate, part in zip(active, parts, strict=True):
        _constrain(candidate, logits[part], vocabulary)
    tokens = torch.cat([_choose(c, logits[part]) for c, part in zip(active, parts, strict=True)])
    confidences = token_log_probabilities(logits, tokens).exp().tolist()
    if any(math.isnan(c) for c in confidences):
        raise ModelCorrupt("the model's outputs are not numbers (NaN or infinite)")
    chosen = tokens.tolist()
    for candidate, part in zip(active, parts, strict=True):
        candidate.commit(chosen[part], confidences[part], job.plan.threshold, vocabulary)
    for candidate in active:
        move_length(candidate, vocabulary)
        candidate.propose(job.candidates)
    job.finished += [c for c in active if c.done]
    if not job.plan.all_drafts and any(c.view == "causal" for c in job.finished):
        job.conclude(vocabulary)


def make_result(
    job: Job,
    items: Sequence[Scorable],
    scores: Sequence[float],
    at_deadline: bool,
    vocabulary: Vocabulary,
) -> FillResult:
    """The answer: the items by their scores, best first."""
    ranked = sorted(zip(scores, range(len(items)), strict=True), key=lambda pair: -pair[0])
    fills = tuple(_fill(items[i], score, vocabulary) for score, i in ranked)
    stats = replace(job.stats, tokens=len(fills[0].pieces) if fills else 0)
    return FillResult(job.request.request_id, fills, at_deadline, stats)


def _fill(item: Scorable, score: float, vocabulary: Vocabulary) -> Fill:
    tokens = item.candidate.tokens()
    return Fill(
        text=item.text,
        confidence=confidence(item.candidate),
        score=score,
        pieces=tuple(vocabulary.piece(t) for t in tokens),
        confidences=tuple(item.candidate.confidences[: len(tokens)]),
    )


def confidence(candidate: Candidate) -> float:
    """Geometric mean of the probabilities with which a fill's tokens, its end included, came."""
    end = len(candidate.tokens()) + 1
    counted = candidate.confidences[len(candidate.edges.certain) : end]
    return math.exp(sum(math.log(max(c, 1e-9)) for c in counted) / max(len(counted), 1))


def plan_candidates(vocabulary: Vocabulary, request: FillRequest) -> list[Candidate]:
    """The canvases a request's quality asks for.

    Raises:
        RequestRejected: its edges cannot be put into this model's tokens, or it asks for nothing.
    """
    if request.quality not in PLANS:
        raise RequestRejected(f"there is no quality {request.quality!r}")
    if request.max_tokens < 1:
        raise RequestRejected(f"a fill needs at least one token, not {request.max_tokens}")
    plan = PLANS[request.quality]
    edges = _edges(vocabulary, request)
    drafts = [
        Candidate.of_length(edges, "masked", length)
        for length in lengths(plan, request.max_tokens, request.single_line, bool(edges.tail))
    ]
    if plan.causal_length and not edges.tail:
        length = causal_length(plan, request.max_tokens, request.single_line)
        seeds = [None, *range(plan.samples)]
        drafts += [Candidate.of_length(edges, "causal", length, seed) for seed in seeds]
    return _within_one_pass(drafts)


def _within_one_pass(drafts: Sequence[Candidate]) -> list[Candidate]:
    """As many of the drafts as have room beside one another, each behind its first row."""
    ends = accumulate(len(draft.ids) + 1 for draft in drafts)
    return [draft for draft, end in zip(drafts, ends, strict=True) if end <= SCRATCH_ROWS]


def _edges(vocabulary: Vocabulary, request: FillRequest) -> Edges:
    if len(request.heal_left) + len(request.heal_right) > MAX_EDGE_CHARACTERS:
        raise RequestRejected("the text to be healed at the hole's edges is too long")
    for text in (request.heal_left, request.heal_right):
        if not vocabulary.can_spell(text):
            raise RequestRejected(f"no tokens of this model spell {text!r}")
    certain, required = vocabulary.heal(request.heal_left)
    tail = vocabulary.encode(request.heal_right)
    if len(certain) + len(required) + len(tail) > MAX_EDGE_TOKENS:
        raise RequestRejected("the text to be healed at the hole's edges is too long")
    return Edges(tuple(certain), required, tuple(tail), request.single_line)


def _choose(candidate: Candidate, logits: Tensor) -> Tensor:
    """A token for each of a candidate's open positions: logits [open, V] → [open].

    Sampling is by Gumbel noise that depends on nothing but the draft and how far it has come, so
    the same request is answered in the same way whatever else is running.
    """
    if candidate.seed is None:
        return logits.max(1).indices  # argmax is several times slower
    generator = torch.Generator().manual_seed(1000 * candidate.seed + sum(candidate.masked))
    uniform = torch.rand(logits.shape, generator=generator).clamp_(1e-9).to(logits.device)
    return (logits / SAMPLING_TEMPERATURE - uniform.log_().neg_().log_()).max(1).indices


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
    if candidate.required:
        allowed = vocabulary.beginnings(candidate.required, single_line)
        logits[0].masked_fill_(~allowed, -torch.inf)


def _rows(
    job: Job,
    canvases: Sequence[list[int]],
    causal: Sequence[bool],
    first_slot: int,
    outputs: list[int],
) -> Rows:
    """Pack canvases that all begin with the prefix's last token and do not see one another."""
    slot = job.encoded_context.scratch_slot
    sizes = [len(canvas) for canvas in canvases]
    rows, cached = sum(sizes), slot - first_slot
    visible = torch.zeros(rows, cached + rows, dtype=torch.bool)
    visible[:, :cached] = True
    for part, one_way in zip(_parts(sizes), causal, strict=True):
        block = visible[part, cached + part.start : cached + part.stop]
        block.fill_(True)
        if one_way:
            block.tril_()
    position = len(job.window.prefix) - 1
    return Rows(
        ids=[i for canvas in canvases for i in canvas],
        positions=[position + i for size in sizes for i in range(size)],
        segment=Segment(job.encoded_context.slab, rows, first_slot, slot, visible),
        outputs=outputs,
    )


def _parts(sizes: Sequence[int]) -> list[slice]:
    ends = list(accumulate(sizes))
    return [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
