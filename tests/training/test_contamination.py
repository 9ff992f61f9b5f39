"""Evaluation problems stay out of a corpus, in whatever guise; ordinary code does not."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from midfill_engine.errors import TrainingError
from midfill_engine.paths import PROBLEMS
from midfill_engine.training.contamination import Contamination

DOCSTRING = """Give each letter of the word the place of the letter that stands `by` places
    behind it, and begin again with the first letter where the word ends.
    >>> rotate_letters('abcd', 1)
    'bcda'
"""
BODY = """    letters = []
    for place in range(len(word)):
        behind = (place + by) % len(word)
        if word[behind].isspace():
            letters.append('_')
        else:
            letters.append(word[behind])
    return ''.join(letters)
"""
PROBLEM = {
    "prompt": f'def rotate_letters(word: str, by: int) -> str:\n    """{DOCSTRING}    """\n',
    "canonical_solution": BODY,
    "suffix": "",
    "entry_point": "rotate_letters",
    "test": "def check(candidate):\n    assert candidate('abcdefgh', 3) == 'defghabc'\n"
    "    assert candidate('x y z', 2) == 'y_z_x'\n    assert candidate('', 5) == ''\n",
}
COMMON = ("eat", "add", "fib", "tri", "bf")
OURS = "class Turntable:\n    def turn(self, angle):\n        self.angle += angle\n"


@pytest.fixture(scope="module")
def problem() -> Contamination:
    return Contamination([PROBLEM])


@pytest.fixture(scope="module")
def humaneval() -> Contamination:
    return Contamination.load()


def renamed(text: str) -> str:
    names = ["rotate_letters", "letters", "place", "behind", "word", "by"]
    for number, name in enumerate(names):
        text = re.sub(rf"\b{name}\b", f"v{number}", text)
    return text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PROBLEM["prompt"] + BODY, "wording"),
        ("/*\n * " + DOCSTRING.replace("\n", "\n * ").replace(",", ";") + "*/\n", "wording"),
        ("// " + "\n// ".join(DOCSTRING.split()), "wording"),
        ("def rotate_letters(w):\n    # the place of the letter that stands\n", "wording"),
        ("def f(word, by):\n" + renamed(BODY), "code"),
        ("def f(a, b):\n  # other\n" + renamed(BODY).replace("    ", "  "), "code"),
        ("def f(a):\n" + renamed(BODY).replace("(v1)", '(\n  v1\n)  # "x"'), "code"),
        (renamed(PROBLEM["test"].replace("candidate", "f").replace("def check", "def g")), "code"),
        (OURS, None),
        ("def rotate_letters(a):\n    return a\n", None),
        ("def f():\n    # the place of the letter that stands\n", None),
        ("for place in range(len(word)):\n    print((place + by) % len(word))\n", None),
    ],
)
def test_a_problem_that_we_have(text: str, expected: str | None, problem: Contamination) -> None:
    assert problem.found_in("import os\n\n" + text + "\n" + OURS) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# from HumanEval\n", "name"),
        ("load('human-eval-infilling')\n", "name"),
        ("path = 'openai_humaneval/test'\n", "name"),
        ("data = load('mbpp')\n", "name"),
        ("from evalplus.data import x\n", "name"),
        ("# code_contests\n", "name"),
        ("METADATA = {\n    'author': 'jt',\n    'dataset': 'test'\n}\n", "harness"),
        ('METADATA={"author":"x","dataset":"y"}', "harness"),
        ("def check(candidate):\n    pass\n", "harness"),
        ("    assert candidate([1, 2]) == 3\n", "harness"),
        ("# Write a function to find the\n# longest chain.\n", "harness"),
        ('"""Write a python function that reverses\na list."""\n', "harness"),
        ("Your code should pass these tests:\n", "harness"),
        ("{'challenge_test_list': []}\n", "harness"),
        ("-----Input-----\nThe first line\n", "harness"),
        ("def skjkasdkd(lst):\n    '''\n    >>> skjkasdkd([3])\n    '''\n", "signature"),
        ("def test():\n    assert int_to_mini_roman(19) == 'xix'\n", "signature"),
        (
            "".join(f"def {n}(a): ...\nassert {n}(1) == 2\n" for n in COMMON),
            "signature",
        ),
        ("def median(a): ...\nassert median([1]) == 1\n", None),
        ("def skjkasdkd(a):\n    return a\n", None),
        ("subjects in a human evaluation\n", None),
        ("x.check(candidate)\n", None),
        ("this writes a function to the file\n", None),
        ("METADATA = {'author': 'x', 'licence': 'y'}\n", None),
        ("    Notes\n    -----\n\n    Examples\n    --------\n", None),
    ],
)  # fmt: skip
def test_what_gives_any_problem_away(
    text: str, expected: str | None, humaneval: Contamination
) -> None:
    assert humaneval.found_in("x = 1\n" + text) == expected


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("p/human_eval/a.py", True), ("p/HumanEval/a.py", True), ("p/mbpp.py", True),
        ("p/evalplus/a.py", True), ("p/codecontests/a.py", True), ("data/apps/train/a.py", True),
        ("apps/0042/solution.py", True), ("ds1000/a.py", True),
        ("django/apps/config.py", False), ("p/evaluate.py", False), ("human/evaluator.py", False),
    ],
)  # fmt: skip
def test_files_named_after_a_benchmark(path: str, found: bool, humaneval: Contamination) -> None:
    assert (humaneval.found_in(OURS, path) == "name") is found


def test_all_of_our_problems_are_found(humaneval: Contamination) -> None:
    lines = gzip.decompress(PROBLEMS.read_bytes()).splitlines()
    problems = [json.loads(line) for line in lines]
    assert len({problem["entry_point"] for problem in problems}) == 64
    for problem in problems:
        text = problem["prompt"] + problem["canonical_solution"] + problem["suffix"]
        assert humaneval.found_in(text), problem["task_id"]
        assert humaneval.found_in(problem["test"]), problem["task_id"]


@pytest.mark.parametrize("data", [b"", b"[", gzip.compress(b"{}\n"), gzip.compress(b"x\n")])
def test_a_corpus_is_not_built_without_problems(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "problems.jsonl.gz"
    with pytest.raises(TrainingError, match="no file of problems"):
        Contamination.load(path)
    path.write_bytes(data)
    if data:
        with pytest.raises(TrainingError, match="no file of problems"):
            Contamination.load(path)
