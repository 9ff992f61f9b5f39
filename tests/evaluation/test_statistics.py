"""Intervals and tests against known values, and the calibration error by hand."""

from __future__ import annotations

import pytest

from midfill_lsp.evaluation.reliability import expected_calibration_error, reliability
from midfill_lsp.evaluation.statistics import compare, mcnemar, mean, median, ratio, share


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    # Newcombe 1998, "Two-sided confidence intervals", table I, method 3.
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson(hits: int, n: int, low: float, high: float) -> None:
    estimate = share([True] * hits + [False] * (n - hits))
    assert estimate is not None
    assert (estimate.value, estimate.n) == (hits / n, n)
    assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize(
    ("gained", "lost", "p"), [(0, 0, 1.0), (5, 5, 1.0), (6, 0, 0.03125), (8, 2, 0.109375)]
)
def test_mcnemar(gained: int, lost: int, p: float) -> None:
    assert mcnemar(gained, lost) == mcnemar(lost, gained) == pytest.approx(p)


def test_a_mean_has_about_the_normal_interval() -> None:
    values = [float(i % 10) for i in range(400)]  # standard deviation 2.872
    estimate = mean(values)
    assert estimate is not None
    assert estimate.value == pytest.approx(4.5)
    assert estimate.low == pytest.approx(4.5 - 1.96 * 2.872 / 20, abs=0.03)
    assert estimate.high == pytest.approx(4.5 + 1.96 * 2.872 / 20, abs=0.03)
    assert mean(values) == estimate  # the seed is fixed


def test_estimates_of_one_value_and_of_none() -> None:
    assert (share([]), mean([]), median([]), ratio([], []), ratio([1], [0])) == (None,) * 5
    one = median([3.0])
    assert one is not None
    assert (one.value, one.low, one.high) == (3.0, 3.0, 3.0)


def test_a_ratio_is_of_sums() -> None:
    estimate = ratio([1, 9], [1, 3])
    assert estimate is not None
    assert estimate.value == 2.5
    assert (estimate.low, estimate.high) == (1.0, 3.0)


def test_a_comparison_is_paired() -> None:
    first, second = [True] * 6 + [False] * 4, [False] * 6 + [False] * 4
    found = compare(first, second)
    assert found is not None
    assert (found.gained, found.lost, found.p) == (6, 0, 0.03125)
    assert found.difference.value == pytest.approx(0.6)
    assert found.difference.low < 0.6 < found.difference.high
    assert compare([], []) is None


def test_the_calibration_error_by_hand() -> None:
    bins = reliability([0.05, 0.95, 0.95, 1.0], [False, True, True, False])
    assert [(part.low, part.right.n) for part in bins] == [(0.0, 1), (0.9, 3)]
    assert bins[1].confidence == pytest.approx(2.9 / 3)
    want = (1 * 0.05 + 3 * abs(2.9 / 3 - 2 / 3)) / 4
    assert expected_calibration_error(bins) == pytest.approx(want)
    assert expected_calibration_error([]) is None
