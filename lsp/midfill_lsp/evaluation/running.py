"""An evaluation from its choice of problems to the outcomes.

Owns which problems are chosen and in which order systems are asked. The base comes first and is
gone when the worker starts: neither takes time from the other.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from midfill_engine.errors import EngineError
from midfill_engine.progress import Progress
from midfill_engine.protocol import Quality
from midfill_lsp.evaluation.cutting import draw
from midfill_lsp.evaluation.humaneval import load_problems
from midfill_lsp.evaluation.outcomes import Outcome, outcome_of
from midfill_lsp.evaluation.packages import Source, held_out_sources
from midfill_lsp.evaluation.problems import Problem
from midfill_lsp.evaluation.systems import System, the_base, the_worker

LANGUAGES: Final = ("c", "cpp", "go", "java", "javascript", "python", "rust", "typescript")


@dataclass(frozen=True, slots=True)
class Size:
    """How many problems of each suite."""

    humaneval: int
    held_out: int
    complete: int

    @classmethod
    def of(cls, holes: int) -> "Size":
        """So many holes, half of them HumanEval's, and a quarter as many complete places."""
        return cls(holes - holes // 2, holes // 2, -(-holes // 4))


ALL: Final = Size(humaneval=len(load_problems()), held_out=400, complete=200)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The problems of an evaluation, and why some suites or languages are not among them."""

    problems: tuple[Problem, ...]
    left_out: tuple[str, ...]


def choose(size: Size, seed: int, archives: Path, say: Callable[[str], None]) -> Chosen:
    """Choose problems; the same for the same size, seed and packages.

    Where the held-out packages cannot be had, HumanEval's are all.
    """
    known = load_problems()
    problems = random.Random(seed).sample(known, len(known))[: size.humaneval]
    try:
        sources: Sequence[Source] = list(held_out_sources(archives, say))
    except EngineError as error:
        reason = f"holes in held-out packages, and places with nothing missing: {error}"
        return Chosen(tuple(problems), (reason,))
    problems += draw(sources, "held-out", size.held_out, seed)
    problems += draw(sources, "complete", size.complete, seed)
    missing = [name for name in LANGUAGES if not any(s.language == name for s in sources)]
    left_out = [f"{name}: no held-out package has files in it" for name in missing]
    return Chosen(tuple(problems), tuple(left_out))


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The outcomes of all problems, in their order, by system: the base first."""

    outcomes: dict[str, list[Outcome]]
    weights: str  # how the worker holds them, on which results depend


async def run(
    problems: Sequence[Problem],
    qualities: Sequence[Quality],
    model: str,
    progress: Progress,
    *,
    beside_base: bool = True,
) -> Evaluation:
    """Have the base and then a worker fill all holes; without `beside_base`, the worker alone.

    Raises:
        EngineError: there is no model, or a process failed.
    """
    outcomes: dict[str, list[Outcome]] = {}
    if beside_base:
        async with the_base(model) as base:
            outcomes[base.name] = await _asked(problems, base, progress)
    async with the_worker(model) as worker:
        for quality in qualities:
            outcomes[quality] = await _asked(problems, worker.at(quality), progress)
        return Evaluation(outcomes, worker.weights)


async def _asked(problems: Sequence[Problem], system: System, progress: Progress) -> list[Outcome]:
    outcomes = []
    for number, problem in enumerate(problems):
        progress(number, len(problems), system.name)
        outcomes.append(await outcome_of(problem, system))
    progress(len(problems), len(problems), system.name)
    return outcomes
