"""Which predictions of a step are kept, by each of the strategies."""

from __future__ import annotations

from math import log
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from midfill_engine.worker.strategies import DEFAULT, STRATEGIES, Moves, Step
from midfill_engine.worker.strategies.verification import verified

VOCABULARY = 8
TOKENS = st.lists(st.integers(0, 3), max_size=12)


def step(
    confidences: list[float],
    *,
    tokens: list[int] | None = None,
    standing: list[int | None] | None = None,
    number: int = 0,
    rows: list[list[float]] | None = None,
    history: list[list[list[float]]] | None = None,
) -> Step:
    """A step in which each position predicts a token with a probability.

    The rest of the probability is spread evenly, or `rows` are the whole distributions. `standing`
    is what stands there; None is a mask.
    """
    tokens = tokens or [0] * len(confidences)
    standing = standing or [None] * len(confidences)
    if rows is None:
        rows = [
            [c if t == token else (1 - c) / (VOCABULARY - 1) for t in range(VOCABULARY)]
            for token, c in zip(tokens, confidences, strict=True)
        ]
    return Step(
        tokens=tokens,
        confidences=confidences,
        logits=torch.tensor(rows).log(),
        masked=[s is None for s in standing],
        standing=[0 if s is None else s for s in standing],
        number=number,
        history=[[torch.tensor(p).log() for p in h] for h in history] if history else (),
    )


def check(name: str, level: float, given_: Step, commits: set[int], remasks: set[int]) -> None:
    moves = STRATEGIES[name].decide(given_, level)
    assert (set(moves.commits), set(moves.remasks)) == (commits, remasks)


@pytest.mark.parametrize(
    ("name", "level", "confidences", "commits"),
    [
        (DEFAULT, 0.9, [0.1], {0}),
        (DEFAULT, 0.9, [0.1, 0.2], {0}),
        (DEFAULT, 0.9, [0.1, 0.89, 0.95], {0, 2}),
        (DEFAULT, 0.0, [0.0, 0.0], {0, 1}),
        (DEFAULT, 1.0, [1.0, 0.999], {0}),
        (DEFAULT, 0.5, [float("nan"), float("nan")], {0}),
        ("threshold", 0.9, [0.1, 0.2], {1}),
        ("threshold", 0.9, [0.95, 0.2, 0.9], {0, 2}),
        ("threshold", 0.9, [0.5, 0.5], {0}),
        # (n + 1)·(1 - c): 2·0.1 = 0.2, 3·0.2 = 0.6, 4·0.4 = 1.6
        ("factor", 1.0, [0.6, 0.9, 0.8], {1, 2}),
        ("factor", 0.5, [0.6, 0.9, 0.8], {1}),
        ("factor", 2.0, [0.6, 0.9, 0.8], {0, 1, 2}),
        ("factor", 0.1, [0.6, 0.9, 0.8], {1}),
        ("schedule", 1, [0.6, 0.9, 0.8], {1}),
        ("schedule", 2, [0.6, 0.9, 0.8], {1, 2}),
        ("schedule", 9, [0.6, 0.9, 0.8], {0, 1, 2}),
        ("entropy", 1, [0.6, 0.9, 0.8], {1}),
        ("margin", 2, [0.6, 0.9, 0.8], {1, 2}),
        ("left-to-right", 1, [0.1, 0.9, 0.8], {0}),
        ("left-to-right", 2, [0.1, 0.9, 0.8], {0, 1}),
    ],
)
def test_what_is_committed(
    name: str, level: float, confidences: list[float], commits: set[int]
) -> None:
    check(name, level, step(confidences), commits, set())


def test_margin_and_entropy_part_where_probability_does_not() -> None:
    rows = [
        [0.5, 0.45, 0.05, 0, 0, 0, 0, 0],  # margin 0.05, entropy 0.86
        [0.5, 0.1, 0.1, 0.1, 0.1, 0.1, 0, 0],  # margin 0.4, entropy 1.50
    ]
    both = step([0.5, 0.5], rows=rows)
    check("margin", 1, both, {1}, set())
    check("entropy", 1, both, {0}, set())
    check("schedule", 1, both, {0}, set())
    assert both.margins == pytest.approx([0.05, 0.4])
    assert both.entropies == pytest.approx(
        [-sum(p * log(p) for p in row if p) for row in rows], abs=1e-6
    )


def test_the_entropies_beside_the_largest_are_bounded() -> None:
    rows = [[0.9, 0.1, 0, 0], [0.99, 0.01, 0, 0], [0.5, 0.5, 0, 0]]  # 0.325, 0.056, 0.693 nats
    three = step([0.9, 0.99, 0.5], rows=rows)
    check("entropy-bound", 0.0, three, {1}, set())
    check("entropy-bound", 0.06, three, {0, 1}, set())  # 0.056 beside 0.325
    check("entropy-bound", 0.37, three, {0, 1}, set())  # 0.381 beside 0.693
    check("entropy-bound", 0.39, three, {0, 1, 2}, set())


def test_what_still_changes_is_not_committed_however_sure() -> None:
    sure, other = [0.97, 0.03], [0.8, 0.2]
    rows = [sure, sure, sure, [0.98, 0.02]]
    history = [[sure, sure], [sure, other], [sure], []]
    moves = step([0.97, 0.97, 0.97, 0.98], rows=rows, history=history)
    check("kl-stability", 0.9, moves, {0}, set())
    check("kl-stability", 0.99, moves, {3}, set())  # nothing is ready: the surest
    check("kl-stability", 0.9, step([0.97, 0.98], rows=[sure, [0.98, 0.02]]), {1}, set())


def test_a_path_is_planned_anew() -> None:
    """Step number 1 keeps two positions; of what stands only its present probability counts."""
    rows = [[0.1, 0.9], [0.3, 0.7], [0.2, 0.8]]
    now = step([0.9, 0.7, 0.8], tokens=[1, 1, 1], standing=[0, None, None], number=1, rows=rows)
    check("path-planning", 1.0, now, {1, 2}, {0})
    check("path-planning", 9.0, now, {2}, set())  # 9 · 0.1 is over 0.8
    kept = step([0.9, 0.7, 0.8], tokens=[1, 1, 1], standing=[1, None, None], number=1, rows=rows)
    check("path-planning", 1.0, kept, {2}, set())
    check("path-planning", 0.5, kept, {1, 2}, {0})


def test_a_token_that_is_outvoted_is_replaced() -> None:
    now = step([0.95, 0.85, 0.95, 0.3], tokens=[1, 1, 1, 2], standing=[0, 0, 1, None])
    check("token-editing", 0.9, now, {0, 3}, set())
    full = step([0.85, 0.95], tokens=[1, 0], standing=[0, 0])
    check("token-editing", 0.9, full, set(), set())


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_step_always_gets_on(name: str) -> None:
    strategy, random = STRATEGIES[name], Random(1)
    for _ in range(60):
        size = random.randint(1, 12)
        held: list[int | None] = [None, 0, 1] if strategy.revises else [None]
        standing = random.choices(held, k=size)
        level = random.choice([strategy.level, 0.0, 0.5, 1.0, 3.0])
        confidences = [random.choice([0.2, 0.5, 0.9, 0.95, random.random()]) for _ in range(size)]
        number = random.randint(0, size)
        given_ = step(confidences, standing=standing, number=number)
        moves = strategy.decide(given_, level)
        assert isinstance(moves, Moves)
        places = (*moves.commits, *moves.remasks)
        assert len(set(places)) == len(places)
        assert all(0 <= i < size for i in places)
        assert not any(given_.masked[i] for i in moves.remasks)
        assert not given_.masks or any(given_.masked[i] for i in moves.commits)
        assert strategy.revises or not moves.remasks
        assert number < size - 1 or not moves.remasks  # then a revised canvas comes to an end


@pytest.mark.parametrize(
    ("predicted", "proposed", "count"),
    [
        ([5], [], 1),
        ([5, 6], [5], 2),
        ([5, 6], [4], 1),
        ([5, 6, 7], [5, 6], 3),
        ([5, 6, 7], [5, 9], 2),
        ([5, 6, 7], [9, 6], 1),  # what follows a wrong proposal was predicted after it
    ],
)
def test_proposals_hold_up_to_the_first_that_does_not(
    predicted: list[int], proposed: list[int], count: int
) -> None:
    assert verified(predicted, proposed) == count


@given(TOKENS, st.data())
def test_as_many_as_one_at_a_time_would_have_given(
    proposed: list[int], data: st.DataObject
) -> None:
    """Each prediction that is kept was made after nothing but kept predictions."""
    size = len(proposed) + 1
    predicted = data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    count = verified(predicted, proposed)
    assert 1 <= count <= size
    assert predicted[: count - 1] == proposed[: count - 1]
    assert count == size or predicted[count - 1] != proposed[count - 1]
