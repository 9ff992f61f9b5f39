"""What became of one problem in one system's hands.

Owns how an answer is judged: exactness, similarity, tests, faults. Every answer goes the way that
it goes in an editor: canvas, request, filters, edit.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from midfill_engine.protocol import FillStats
from midfill_infill.languages import facts_for
from midfill_infill.syntax import count_faults, parse
from midfill_lsp.evaluation.problems import Problem
from midfill_lsp.evaluation.sandbox import runs_through
from midfill_lsp.evaluation.systems import System
from midfill_lsp.filling import Candidate, judged, request_for

_BLANKS: Final = re.compile(r"[ \t]+$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A fill that came through the filters."""

    text: str
    confidence: float
    exact: bool  # the document is as it was written, but for blanks that end a line
    passed: bool | None  # the tests; None where there are none or a better fill has passed them
    evidence: tuple[float, ...]  # what the confidence was made of


@dataclass(frozen=True, slots=True)
class Outcome:
    """An answer, judged. The best fill is the first; without one, all is as bad as it can be."""

    system: str
    name: str
    suite: str
    kind: str
    language: str
    package: str
    expected: str
    attempts: tuple[Attempt, ...]
    shown: bool  # while typing: there is a fill, and it is sure enough
    reason: str | None  # why there is no fill
    similarity: float  # of the best fill and what was expected, 0…1
    sound: bool | None  # no more faults than the file had; None without a fill, or unknown
    excess: int | None  # characters of the best fill beyond what was expected
    stats: FillStats | None  # None where midfill sees no hole

    @property
    def offered(self) -> bool:
        """There is a fill for somebody who asks."""
        return bool(self.attempts)

    @property
    def exact(self) -> bool:
        """The best fill is."""
        return self.offered and self.attempts[0].exact

    @property
    def passed(self) -> bool:
        """The best fill has."""
        return self.offered and bool(self.attempts[0].passed)

    @property
    def any_exact(self) -> bool:
        """One of the fills is: the most that ranking could reach."""
        return any(attempt.exact for attempt in self.attempts)

    @property
    def any_passed(self) -> bool:
        """One of the fills has."""
        return any(attempt.passed for attempt in self.attempts)


async def outcome_of(problem: Problem, system: System) -> Outcome:
    """Have a system fill a problem's hole, and judge what it says.

    Raises:
        EngineError: it failed.
    """
    canvas = problem.canvas()
    if canvas is None:
        return _outcome(problem, system, (), "no hole", None, 1.0)
    result = await system.fill(request_for(canvas, system.effort, want_drafts=False))
    judgement = judged(result, problem.text, canvas)
    attempts = await asyncio.to_thread(_attempts, problem, judgement.candidates)
    reason = None if attempts else judgement.reason
    return _outcome(problem, system, attempts, reason, result.stats, result.gate)


def _attempts(problem: Problem, candidates: Sequence[Candidate]) -> tuple[Attempt, ...]:
    attempts: list[Attempt] = []
    for candidate in candidates:
        text = candidate.edit.new_text
        to_test = problem.test is not None and not any(a.passed for a in attempts)
        passed = runs_through(problem.filled(text) + (problem.test or "")) if to_test else None
        exact = _settled(problem.filled(text)) == _settled(problem.whole)
        fill = candidate.fill
        attempts.append(Attempt(text, fill.confidence, exact, passed, fill.evidence))
    return tuple(attempts)


def _outcome(
    problem: Problem,
    system: System,
    attempts: tuple[Attempt, ...],
    reason: str | None,
    stats: FillStats | None,
    gate: float,
) -> Outcome:
    best = attempts[0] if attempts else None
    return Outcome(
        system=system.name,
        name=problem.name,
        suite=problem.suite,
        kind=problem.kind,
        language=problem.language,
        package=problem.package,
        expected=problem.expected,
        attempts=attempts,
        shown=best is not None and best.confidence >= gate,
        reason=reason,
        similarity=similarity(best.text, problem.expected) if best else 0.0,
        sound=is_sound(problem, best.text) if best else None,
        excess=len(best.text.strip()) - len(problem.expected.strip()) if best else None,
        stats=stats,
    )


def similarity(text: str, expected: str) -> float:
    """Edit similarity: twice the characters that match in order, by all characters, 0…1."""
    return SequenceMatcher(None, text.strip(), expected.strip(), autojunk=False).ratio()


def is_sound(problem: Problem, text: str) -> bool | None:
    """Whether the whole file has no more syntax faults than as it was written; None: unknown."""
    filled, original = _faults(problem, text), _faults(problem, problem.expected)
    return None if filled is None or original is None else filled <= original


def _faults(problem: Problem, text: str) -> int | None:
    before, after = problem.text[: problem.cursor], problem.text[problem.cursor :]
    facts = facts_for(problem.language)
    parsed = parse(before, text, after, facts) if facts else None
    if parsed is None:
        return None
    return count_faults(parsed, parsed.start_byte, parsed.root.end_byte - parsed.end_byte)


def _settled(text: str) -> str:
    return _BLANKS.sub("", text)
