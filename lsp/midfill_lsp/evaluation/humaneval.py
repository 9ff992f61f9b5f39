"""HumanEval single-line infilling: 411 problems, each a function with one line missing.

Owns how the data file is read: 64 problems of human-eval-infilling (MIT; the notice lies beside
it), for evaluation only.

Source: Bavarian et al. 2022, "Efficient Training of Language Models to Fill in the Middle",
section 4.1, on the problems of Chen et al. 2021, "Evaluating Large Language Models Trained on
Code".
"""

import gzip
import json
from functools import cache

from midfill_engine.paths import PROBLEMS
from midfill_lsp.evaluation.problems import Problem


@cache
def load_problems() -> tuple[Problem, ...]:
    """All problems, in the order of the file. The cursor is on the empty line left behind."""
    lines = gzip.decompress(PROBLEMS.read_bytes()).decode().splitlines()
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
