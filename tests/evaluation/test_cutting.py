"""Where holes are cut, and where nothing is missing."""

from __future__ import annotations

import pytest

from midfill_lsp.evaluation.cutting import draw
from midfill_lsp.evaluation.humaneval import load_problems
from midfill_lsp.evaluation.packages import Source
from midfill_lsp.evaluation.problems import Suite

PYTHON = """\
# café: a comment = nothing(to, complete)
def area(width, height):
    if width < 0 or height < 0:
        raise ValueError("negative: " + str(width))
    size = width * height
    return round(size, 2).real
"""
GO = """\
package shapes

func Area(width int, height int) int {
\tsize := multiply(width, height)
\tif size < 0 {
\t\treport(size, "é")
\t\treturn 0
\t}
\treturn size + width
}
"""
SOURCES = [Source("one", "a.py", "python", PYTHON), Source("two", "b.go", "go", GO)]


def cuts(suite: Suite, kind: str, source: Source) -> set[str]:
    """All holes of a kind, marked in their line: `before⟦hole⟧after`."""
    found = set()
    for problem in draw([source], suite, 500, seed=0):
        assert problem.whole == source.text
        if problem.kind == kind:
            before = problem.text[: problem.cursor].rpartition("\n")[2].lstrip()
            after = problem.text[problem.cursor :].partition("\n")[0]
            found.add(f"{before}⟦{problem.expected}⟧{after}")
    return found


@pytest.mark.parametrize(
    ("kind", "some", "none"),
    [
        ("whole line", "⟦size = width * height⟧", "⟦# café: a comment = nothing(to, complete)⟧"),
        ("rest of line", "size = ⟦width * height⟧",
         'raise ValueError("negative: ⟦" + str(width))⟧'),
        ("inside brackets", "def area(⟦width, height⟧):", "return round(size, ⟦2⟧).real"),
        ("expression", "if ⟦width < 0⟧ or height < 0:", "size = ⟦width * height⟧"),
        ("block", '⟦raise ValueError("negative: " + str(width))⟧', "⟦return round(size, 2).real⟧"),
    ],
)  # fmt: skip
def test_holes_in_python(kind: str, some: str, none: str) -> None:
    found = cuts("held-out", kind, SOURCES[0])
    assert some in found
    assert none not in found


def test_a_block_in_braces_is_cut_without_them() -> None:
    assert cuts("held-out", "block", SOURCES[1]) == {
        '⟦report(size, "é")\n\t\treturn 0⟧',
    } | {cut for cut in cuts("held-out", "block", SOURCES[1]) if cut.startswith("⟦size := ")}


@pytest.mark.parametrize(
    ("kind", "places"),
    [
        ("after a statement", {"size := multiply(width, height)⟦⟧", 'report(size, "é")⟦⟧',
                               "return 0⟦⟧", "return size + width⟦⟧"}),
        ("after a block", {"}⟦⟧"}),
        ("after arguments", {"size := multiply(width, height)⟦⟧", 'report(size, "é")⟦⟧'}),
    ],
)  # fmt: skip
def test_complete_places(kind: str, places: set[str]) -> None:
    assert cuts("complete", kind, SOURCES[1]) == places


def test_the_end_of_a_block_by_indentation() -> None:
    assert "return round(size, 2).real⟦⟧" in cuts("complete", "after a block", SOURCES[0])


def test_a_smaller_evaluation_is_the_beginning_of_a_larger_one() -> None:
    suite: Suite = "held-out"
    many = draw(SOURCES, suite, 30, seed=3)
    assert draw(SOURCES, suite, 12, seed=3) == many[:12]
    assert draw(SOURCES, suite, 30, seed=4) != many
    assert [problem.language for problem in many[:4]] == ["go", "python", "go", "python"]
    assert len({problem.kind for problem in many[:10]}) == 5
    assert len({(p.name, p.kind) for p in many}) == len(many)


def test_nothing_is_cut_from_nothing_and_from_what_does_not_parse() -> None:
    broken = Source("one", "c.py", "python", "def f(:\n    return (1\n")
    assert draw([], "held-out", 10, seed=0) == []
    assert draw([broken], "held-out", 10, seed=0) == []


def test_humaneval_has_its_411_holes() -> None:
    problems = load_problems()
    assert len({problem.name for problem in problems}) == 411
    for problem in problems:
        canvas = problem.canvas()
        assert canvas is not None
        assert canvas.single_line
        assert problem.expected.strip()
        assert "\n" not in problem.expected
