"""Which predictions of a step are kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midfill_engine.worker.strategy import left_edge_and_threshold, verified

PROBABILITIES = st.lists(st.floats(0, 1), min_size=1, max_size=40)
TOKENS = st.lists(st.integers(0, 3), max_size=12)


@pytest.mark.parametrize(
    ("confidences", "threshold", "kept"),
    [
        ([0.1], 0.9, [True]),
        ([0.1, 0.2], 0.9, [True, False]),
        ([0.1, 0.9], 0.9, [True, True]),
        ([0.1, 0.89, 0.95], 0.9, [True, False, True]),
        ([0.0, 0.0], 0.0, [True, True]),
        ([1.0, 0.999], 1.0, [True, False]),
        ([float("nan"), float("nan")], 0.5, [True, False]),
    ],
)
def test_the_leftmost_and_what_is_sure(
    confidences: list[float], threshold: float, kept: list[bool]
) -> None:
    assert left_edge_and_threshold(confidences, threshold) == kept


@given(PROBABILITIES, st.floats(0, 1))
def test_a_step_always_gets_on(confidences: list[float], threshold: float) -> None:
    kept = left_edge_and_threshold(confidences, threshold)
    assert len(kept) == len(confidences)
    assert kept[0]
    assert all(k == (c >= threshold) for k, c in zip(kept[1:], confidences[1:], strict=True))


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
