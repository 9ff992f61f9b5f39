"""HumanEval single-line infilling: 411 problems, each a function with one line missing.

Owns the data file, which is 64 problems of human-eval-infilling (MIT; its notice lies beside it)
and for evaluation only.

Source: Bavarian et al. 2022, "Efficient Training of Language Models to Fill in the Middle",
section 4.1, on the problems of Chen et al. 2021, "Evaluating Large Language Models Trained on
Code".
"""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Final

from midfill_lsp.evaluation.problems import Problem

DATA: Final = Path(__file__).parent / "humaneval_single_line.jsonl.gz"


@cache
def load_problems() -> tuple[Problem, ...]:
    """All problems, in the order of the file. The cursor is on the empty line left behind."""
    lines = gzip.decompress(DATA.read_bytes()).decode().splitlines()
    return tuple(_problem(json.loads(line)) for line in lines)


def _problem(raw: dict[str, str]) -> Problem:
    return Problem(
        name=raw["task_id"],
        suite="humaneval",
        kind="line",
        language="python",
        package="human-eval-infilling",
        text=raw["prompt"] + "\n" + raw["suffix"],
        cursor=len(raw["prompt"]),
        expected=raw["canonical_solution"].removesuffix("\n"),
        test=f"\n{raw['test']}\ncheck({raw['entry_point']})\n",
    )
