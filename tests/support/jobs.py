"""Jobs and passes without a scheduler."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.transformer import Segment
from midfill_engine.protocol import FillRequest, Quality
from midfill_engine.worker.context import ORIGIN, ContextPool
from midfill_engine.worker.drafts import growing_drafts
from midfill_engine.worker.job import Job, Rows, start_job
from midfill_engine.worker.window import make_window


def request_for(
    prefix: str = "def f(n):",
    suffix: str = "\n    return n\n",
    *,
    heal_left: str = "",
    heal_right: str = "",
    single_line: bool = True,
    quality: Quality = "fast",
    deadline_ms: int = 60_000,
    max_tokens: int = 24,
    want_drafts: bool = False,
    interactive: bool = True,
    request_id: int = 1,
) -> FillRequest:
    """A request with everything of no interest filled in."""
    return FillRequest(
        request_id=request_id,
        prefix=prefix,
        prefix_line=0,
        suffix=suffix,
        heal_left=heal_left,
        heal_right=heal_right,
        single_line=single_line,
        quality=quality,
        deadline_ms=deadline_ms,
        max_tokens=max_tokens,
        want_drafts=want_drafts,
        interactive=interactive,
    )


def job_for(
    model: EmbeddedModel, pool: ContextPool, prefix: str, suffix: str, quality: Quality = "fast"
) -> Job:
    """A job whose context is encoded."""
    request = request_for(prefix, suffix, quality=quality)
    window = make_window(model.vocabulary, prefix, 0, suffix)
    context, reused = pool.acquire(window)
    run_encode(model, context.open(window))
    candidates = growing_drafts(model.vocabulary, request)
    return start_job(request, window, context, reused, candidates)


def run_encode(model: EmbeddedModel, work: Sequence[tuple[list[int], Segment]]) -> None:
    """Encode one segment after the other."""
    for ids, segment in work:
        first = segment.write - ORIGIN
        model.run_base(ids, torch.arange(first, first + len(ids)), [segment])


def run_rows(
    run_pass: Callable[[Sequence[int], Tensor, Sequence[Segment]], Tensor], rows: Sequence[Rows]
) -> Tensor:
    """Hidden states of the wanted outputs of several jobs in one pass."""
    ids = [i for r in rows for i in r.ids]
    positions = torch.tensor([p for r in rows for p in r.positions])
    hidden = run_pass(ids, positions, [r.segment for r in rows])
    parts = torch.split(hidden, [len(r.ids) for r in rows])
    return torch.cat([part[r.outputs] for part, r in zip(parts, rows, strict=True)])
