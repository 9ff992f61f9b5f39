"""Systems that do as they are told."""

from __future__ import annotations

from collections.abc import Mapping

from midfill_engine.protocol import Fill, FillRequest, FillResult, FillStats
from midfill_lsp.evaluation.problems import Problem, Suite
from midfill_lsp.evaluation.systems import System
from midfill_lsp.settings import DEFAULTS

STATS = FillStats(0, 1, 2, 3, 6, steps=4, passes=6, tokens=3, context_tokens=9, reused_tokens=0)


def problem(
    before: str, expected: str, after: str, *, suite: Suite = "held-out", test: str | None = None
) -> Problem:
    """A problem in Python."""
    text, name = before + after, f"{before}|{expected}"
    return Problem(name, suite, "line", "python", "p", text, len(before), expected, test)


def teller(says: Mapping[str, float], *, gate: float = 0.3) -> System:
    """Fills every hole with these texts, each of a confidence."""

    async def fill(request: FillRequest) -> FillResult:
        fills = (
            Fill(request.heal_left + text + request.heal_right, sure, 0.0, (text,), (sure,))
            for text, sure in says.items()
        )
        return FillResult(request.request_id, tuple(fills), False, STATS, gate)

    return System("balanced", DEFAULTS.invoked, fill)
