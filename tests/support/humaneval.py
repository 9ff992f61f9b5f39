"""HumanEval single-line infilling: the holes, and whether a fill passes.

The data are 64 problems of OpenAI's human-eval-infilling (MIT, copyright OpenAI), for evaluation
only. Model output is run in a process of its own with limits on time, memory and files.
"""

from __future__ import annotations

import gzip
import json
import random
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

_DATA = Path(__file__).parent.parent / "quality" / "humaneval_single_line.jsonl.gz"
_SECONDS = 10
_MEMORY_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Hole:
    """One missing line: `prompt` ends with a line break, `line` has none."""

    task_id: str
    prompt: str
    line: str
    suffix: str
    test: str  # the program's tail

    @property
    def before(self) -> str:
        """The text before the hole, without the line break that belongs into it."""
        return self.prompt.removesuffix("\n")

    @property
    def after(self) -> str:
        """The text after the hole, from the line break on."""
        return "\n" + self.suffix


def load_holes(count: int | None = None) -> list[Hole]:
    """All holes, or a fixed sample of so many, in a fixed order."""
    lines = gzip.decompress(_DATA.read_bytes()).decode().splitlines()
    holes = [_hole(json.loads(line)) for line in lines]
    return holes if count is None else random.Random(0).sample(holes, count)


def passes(hole: Hole, fill: str) -> bool:
    """Whether the program with `fill` as the missing line runs through its tests."""
    program = f"{hole.before}\n{fill}\n{hole.suffix}{hole.test}"
    with tempfile.TemporaryDirectory() as directory:
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-c", program],
                cwd=directory,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                preexec_fn=_limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 0


def _hole(raw: dict[str, str]) -> Hole:
    return Hole(
        task_id=raw["task_id"],
        prompt=raw["prompt"],
        line=raw["canonical_solution"].removesuffix("\n"),
        suffix=raw["suffix"],
        test=f"\n{raw['test']}\ncheck({raw['entry_point']})\n",
    )


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
