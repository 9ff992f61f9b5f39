"""What the scheduler asks of a model, whichever way it sees a context.

Owns that interface, and how the embedded model stands behind it: contexts are encoded once by the
causal base, exactly, and only canvases run at each step. How a model with full attention does is
`full_attention`'s concern. A result never depends on which jobs share a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Final, Protocol

import torch
from torch import Tensor

from midfill_engine.calibration import Calibration
from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.full_attention import FullAttentionModel
from midfill_engine.model.transformer import Segment
from midfill_engine.model.vocabulary import Vocabulary
from midfill_engine.protocol import FillRequest
from midfill_engine.worker.candidate import Candidate
from midfill_engine.worker.context import ORIGIN, ContextPool
from midfill_engine.worker.drafts import growing_drafts
from midfill_engine.worker.evidence import token_log_probabilities_of
from midfill_engine.worker.full_attention import FullAttention
from midfill_engine.worker.job import (
    Job,
    Pool,
    Rows,
    Scorable,
    Work,
    count_rows,
    denoise_rows,
    in_passes,
    score_rows,
)
from midfill_engine.worker.score import score_of, token_log_probabilities

SHARED_PASS_ROWS: Final = 384  # of several requests in a pass of the denoiser; one may have more


class Backend(Protocol):
    """A model that jobs can be run on."""

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def held(self) -> tuple[str, str]:
        """How the weights are held, and on which device."""
        ...

    @property
    def calibrations(self) -> Mapping[str, Calibration]:
        """Of the fills' confidences, by quality."""
        ...

    @property
    def pass_rows(self) -> int:
        """How many rows of several jobs should share a pass; one alone may have more."""
        ...

    def new_pool(self, limit_bytes: int) -> Pool:
        """Contexts of at most so many bytes."""
        ...

    def plan(self, request: FillRequest) -> list[Candidate]:
        """The drafts a request begins with. Raises `RequestRejected`."""
        ...

    def open(self, job: Job) -> list[Work]:
        """Make a job's context that of its window: what has to run before its first step."""
        ...

    def encode(self, work: Sequence[Work]) -> None:
        """Run what was found missing."""
        ...

    def rows(self, job: Job) -> int:
        """How many rows of a pass the job's next step takes."""
        ...

    def predict(self, jobs: Sequence[Job]) -> list[Tensor]:
        """One pass: for each job [outputs, V], the open positions, in order, of the drafts whose
        turn it is."""
        ...

    def score(self, job: Job, items: Sequence[Scorable]) -> list[float] | None:
        """What each finished draft is ranked by, higher first; None: by its confidence."""
        ...


def backend_for(model: EmbeddedModel | FullAttentionModel) -> Backend:
    """The model, as the scheduler runs it."""
    return FullAttention(model) if isinstance(model, FullAttentionModel) else ContextCached(model)


class ContextCached:
    """The embedded model."""

    def __init__(self, model: EmbeddedModel) -> None:
        self._model = model

    @property
    def vocabulary(self) -> Vocabulary:
        return self._model.vocabulary

    @property
    def held(self) -> tuple[str, str]:
        return self._model.weights, self._model.device

    @property
    def calibrations(self) -> Mapping[str, Calibration]:
        return self._model.calibrations

    @property
    def pass_rows(self) -> int:
        return SHARED_PASS_ROWS

    def new_pool(self, limit_bytes: int) -> ContextPool:
        return ContextPool(self._model.config, limit_bytes, self._model.new_slab)

    def plan(self, request: FillRequest) -> list[Candidate]:
        return growing_drafts(self._model.vocabulary, request)

    def open(self, job: Job) -> list[Work]:
        return [*job.encoded_context.open(job.window)]

    def encode(self, work: Sequence[Work]) -> None:
        """Run the base over missing context tokens; their keys and values are what is wanted."""
        segments = [segment for _, segment in work if isinstance(segment, Segment)]
        ids = [i for part, _ in work for i in part]
        positions = [s.write - ORIGIN + i for s in segments for i in range(s.rows)]
        self._model.run_base(ids, torch.tensor(positions), segments)

    def rows(self, job: Job) -> int:
        return count_rows(job)

    def predict(self, jobs: Sequence[Job]) -> list[Tensor]:
        rows = [denoise_rows(job) for job in jobs]
        logits = self._model.denoiser_logits(_run_rows(self._model.run_denoiser, rows))
        return list(torch.split(logits, [len(r.outputs) for r in rows]))

    def score(self, job: Job, items: Sequence[Scorable]) -> list[float]:
        """The noisy-channel score of each item, and the denoiser's own word."""
        return [score for group in in_passes(items) for score in self._score_pass(job, group)]

    def _score_pass(self, job: Job, items: Sequence[Scorable]) -> list[float]:
        """In one pass of the base."""
        hidden = _run_rows(self._model.run_base, [score_rows(job, items)])
        targets = torch.tensor([i for item in items for i in item.scored.ids])
        chosen = token_log_probabilities(self._model.base_logits(hidden), targets)
        parts = torch.split(chosen, [len(item.scored.ids) for item in items])
        return [
            score_of(item.scored, part, token_log_probabilities_of(item.candidate))
            for item, part in zip(items, parts, strict=True)
        ]


def _run_rows(
    run_pass: Callable[[Sequence[int], Tensor, Sequence[Segment]], Tensor], rows: Sequence[Rows]
) -> Tensor:
    """One packed pass over several jobs' rows; the hidden states of the outputs they want."""
    hidden = run_pass(
        [i for r in rows for i in r.ids],
        torch.tensor([p for r in rows for p in r.positions]),
        [r.segment for r in rows],
    )
    starts = accumulate((len(r.ids) for r in rows), initial=0)
    wanted = [start + i for start, r in zip(starts, rows, strict=False) for i in r.outputs]
    return hidden[wanted]
