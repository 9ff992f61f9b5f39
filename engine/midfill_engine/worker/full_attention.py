"""Jobs on a model with full attention.

Owns what such a job needs beside its drafts: the frame around them, a dual cache for each, and the
probes that choose their lengths. Every draft is a sequence of its own, of any length, packed with
the others into one pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor

from midfill_engine.calibration import Calibration
from midfill_engine.model.dual_cache import DualCache, RefreshPolicy
from midfill_engine.model.full_attention import PASS_ROWS, Canvas, Frame, FullAttentionModel
from midfill_engine.model.vocabulary import END_OF_TEXT, MASK, Vocabulary
from midfill_engine.protocol import FillRequest, Quality
from midfill_engine.worker.candidate import Candidate
from midfill_engine.worker.drafts import fitting_drafts
from midfill_engine.worker.job import Job, Scorable, Work
from midfill_engine.worker.length import PUBLISHED_BIAS, START, lengths_around, probed_length
from midfill_engine.worker.length_moves import resize
from midfill_engine.worker.window import Window

CACHE_BYTES: Final = 512 * 1024 * 1024  # of one job; one that would need more runs exactly
_POLICIES: Final[Mapping[Quality, RefreshPolicy]] = {
    "fast": RefreshPolicy(every=8, block=8),
    "balanced": RefreshPolicy(every=4, block=8),
    "best": RefreshPolicy(every=1, block=8),
}
_PROBING: Final = ("balanced", "best")  # qualities that can wait for a better length
PROBING_DEVICES: Final = ("cuda",)  # dozens of whole sequences: on a CPU no deadline allows that
_LONGEST_PROBE: Final = 64  # tokens


@dataclass(slots=True, eq=False)
class FullAttentionContext:
    """One job's frame and caches. Nothing of it is of use to another job."""

    frame: Frame = field(default_factory=lambda: Frame((), ()))
    caches: dict[Candidate, DualCache] = field(default_factory=dict)

    def spoil(self) -> None:
        """Forget everything: a pass failed half-way."""
        self.caches = {}


class FullAttentionPool:
    """The contexts of the jobs that run, each of at most `CACHE_BYTES`."""

    def __init__(self) -> None:
        self._contexts: list[FullAttentionContext] = []

    @property
    def nbytes(self) -> int:
        return sum(cache.nbytes for c in self._contexts for cache in c.caches.values())

    @property
    def has_room(self) -> bool:
        """Always: the number of jobs is bounded, and so is what each holds."""
        return True

    def bound(self, limit_bytes: int) -> None:
        """Nothing: as above."""

    def acquire(self, window: Window) -> tuple[FullAttentionContext, int]:
        """A context of the job's own: it can reuse no tokens of another's."""
        context = FullAttentionContext()
        self._contexts.append(context)
        return context, 0

    def release(self, context: object) -> None:
        """Drop a context."""
        self._contexts = [c for c in self._contexts if c is not context]


class FullAttention:
    """A model with full attention, as the scheduler runs it."""

    def __init__(self, model: FullAttentionModel) -> None:
        self._model = model

    @property
    def vocabulary(self) -> Vocabulary:
        return self._model.vocabulary

    @property
    def held(self) -> tuple[str, str]:
        return self._model.weights, self._model.device

    @property
    def calibrations(self) -> Mapping[str, Calibration]:
        """None: there are only those of an adapter."""
        return {}

    @property
    def pass_rows(self) -> int:
        return PASS_ROWS

    def new_pool(self, limit_bytes: int) -> FullAttentionPool:
        """Bounded by the number of jobs and `CACHE_BYTES`, not by `limit_bytes`."""
        return FullAttentionPool()

    def plan(self, request: FillRequest) -> list[Candidate]:
        """The masked drafts: there is no causal view of such a model."""
        return fitting_drafts(self._model.vocabulary, request)

    def open(self, job: Job) -> list[Work]:
        """Set the frame. What has to run first are the probes, where the lengths are open."""
        context = _context(job)
        prefix = [] if job.window.prefix == (END_OF_TEXT,) else job.window.prefix
        context.frame = self._model.open(prefix, job.window.suffix)
        moves_itself = self._model.vocabulary.expand is not None
        fast_enough = self._model.device.startswith(PROBING_DEVICES)
        if moves_itself or not fast_enough or job.request.quality not in _PROBING:
            return []
        return [([*context.frame.before, *context.frame.after], job)]

    def encode(self, work: Sequence[Work]) -> None:
        """Probe lengths, and give the jobs' drafts those that promise most."""
        for _, job in work:
            assert isinstance(job, Job)
            self._choose_lengths(job)

    def rows(self, job: Job) -> int:
        """All of a frame's where a cache is due, and a whole draft's."""
        return sum(self._model.rows(self._canvas(job, draft)) for draft in job.turn)

    def predict(self, jobs: Sequence[Job]) -> list[Tensor]:
        canvases = [self._canvas(job, draft) for job in jobs for draft in job.turn]
        logits = iter(self._model.logits(canvases))
        return [
            torch.cat([self._limited(draft, next(logits)) for draft in job.turn]) for job in jobs
        ]

    def score(self, job: Job, items: Sequence[Scorable]) -> None:
        """None: such a model has no likelihood of a whole fill in one pass."""

    def _canvas(self, job: Job, draft: Candidate) -> Canvas:
        context = _context(job)
        if draft not in context.caches and self._may_cache(job):
            context.caches[draft] = DualCache(_POLICIES[job.request.quality])
        cache = context.caches.get(draft)
        return Canvas(context.frame, draft.visible_ids, draft.open_positions, cache)

    def _may_cache(self, job: Job) -> bool:
        """Decided by the job alone, so that its result does not depend on others."""
        frame = _context(job).frame
        if _POLICIES[job.request.quality].every == 1:
            return False
        tokens = (len(frame.before) + len(frame.after)) * len(job.candidates)
        return tokens * self._model.bytes_per_token <= CACHE_BYTES

    def _limited(self, draft: Candidate, logits: Tensor) -> Tensor:
        """Rule out what would make a draft longer than it may be, or never end."""
        expand = self._model.vocabulary.expand
        # Every open position might be committed as one that expands.
        longest = len(draft.ids) + len(draft.open_positions)
        if expand is not None and (longest > draft.limit or draft.expansions >= draft.limit):
            logits[:, expand] = -torch.inf
        return logits

    def _choose_lengths(self, job: Job) -> None:
        first = job.candidates[0]
        edges = first.edges

        def probe(lengths: Sequence[int]) -> list[float]:
            frame = _context(job).frame
            start = len(edges.certain)
            canvases = [
                Canvas(
                    frame,
                    [*edges.certain, *[MASK] * length, *edges.tail],
                    range(start, start + length),
                )
                for length in lengths
            ]
            return [
                float(logits.softmax(1).amax(1).mean()) for logits in self._model.logits(canvases)
            ]

        most = min(job.request.max_tokens, _LONGEST_PROBE)
        best = probed_length(probe, PUBLISHED_BIAS, start=min(START, most), most=most)
        chosen = lengths_around(best, len(job.candidates), most)
        job.candidates = job.candidates[: len(chosen)]
        for draft, length in zip(job.candidates, chosen, strict=True):
            resize(draft, length)


def _context(job: Job) -> FullAttentionContext:
    assert isinstance(job.context, FullAttentionContext)
    return job.context
