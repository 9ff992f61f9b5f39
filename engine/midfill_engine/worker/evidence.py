"""What is known of each fill of a request when all its drafts are done.

Pure. Owns how the pieces of `calibration.EVIDENCE` are got, not what they are worth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from midfill_engine.worker.candidate import Candidate

_LEAST: Final = 1e-9
_MARGIN_NATS: Final = 10.0


def token_log_probabilities_of(candidate: Candidate) -> list[float]:
    """Those with which a fill's tokens came, its end included; never empty, in nats."""
    end = min(len(candidate.tokens()) + 1, len(candidate.ids) - len(candidate.edges.tail))
    counted = candidate.confidences[len(candidate.edges.certain) : end]
    return [math.log(max(c, _LEAST)) for c in counted] or [0.0]


def evidence_of(
    candidate: Candidate,
    text: str,
    score: float,
    others: Sequence[float],
    scored_tokens: int,
    drafts: Sequence[str | None],
    untouched: str,
) -> tuple[float, ...]:
    """The evidence on one fill, in the order of `EVIDENCE`.

    Args:
        candidate: the draft that became the fill.
        text: the fill's.
        score: the fill's, in nats.
        others: the scores of the other fills.
        scored_tokens: how many tokens the score is of.
        drafts: the texts of all finished drafts of the request.
        untouched: what a fill is that adds nothing.
    """
    logs = token_log_probabilities_of(candidate)
    nothing = sum(d is not None and d.strip() == untouched.strip() for d in drafts)
    margin = score - max(others) if others else 0.0
    return (
        sum(logs) / len(logs),
        min(logs),
        sum(draft == text for draft in drafts) / max(len(drafts), 1),
        nothing / max(len(drafts), 1),
        max(-_MARGIN_NATS, min(_MARGIN_NATS, margin)),
        score / max(scored_tokens, 1) if others else 0.0,
        float(bool(others)),
        math.log(len(logs)),
    )
