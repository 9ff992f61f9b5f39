"""How long a canvas becomes."""

from __future__ import annotations

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midfill_engine.worker.length import (
    LengthBias,
    calibrated_length,
    expanded_and_deleted,
    grown,
)

EXPAND, DELETE, MASK = 90, 91, 92
FLAT = LengthBias(0, 0, 0, 0, 1)


@given(st.integers(1, 50), st.integers(1, 50), st.integers(0, 100))
def test_growth_is_by_a_block_and_within_the_limit(length: int, block: int, limit: int) -> None:
    now = grown(length, block, limit)
    assert length <= now <= length + block
    assert now <= max(limit, length)
    assert now in (length + block, limit, length)


@pytest.mark.parametrize(
    ("ids", "positions"),
    [
        ([], []),
        ([1, 2, 3], [0, 1, 2]),
        ([1, EXPAND, 3], [0, 1, 1, 2]),
        ([EXPAND, EXPAND], [0, 0, 1, 1]),
        ([1, DELETE, 3], [0, 2]),
        ([1, MASK, DELETE, MASK, 5, MASK], [0, 1, 4]),  # masks behind the first one go too
        ([DELETE, EXPAND, MASK], [1, 1]),
        ([DELETE, DELETE], []),
    ],
)
def test_a_canvas_is_expanded_and_cut(ids: list[int], positions: list[int]) -> None:
    assert expanded_and_deleted(ids, EXPAND, DELETE, MASK) == positions


def test_the_bias_is_a_double_exponential() -> None:
    bias = LengthBias(1.0, 1.77, 0.56, 0.06, 0.24)
    assert bias.at(8) == pytest.approx(exp(-1.77 * 8) + 0.56 * exp(-0.06 * 8) + 0.24)


class Hill:
    """A confidence with a peak, and what was asked of it."""

    def __init__(self, **heights: float) -> None:
        self.heights = {int(k[1:]): v for k, v in heights.items()}
        self.asked: list[int] = []

    def __call__(self, length: int) -> float:
        self.asked.append(length)
        return self.heights.get(length, 0.0)


@pytest.mark.parametrize(
    ("heights", "best"),
    [
        ({"_8": 0.5, "_10": 0.9}, 10),
        ({"_8": 0.5, "_5": 0.9}, 5),
        ({"_8": 0.5, "_12": 0.9}, 12),
        ({"_8": 0.5, "_13": 0.9}, 8),  # out of sight: four lengths in a row are no better
        ({"_8": 0.5, "_12": 0.6, "_16": 0.7}, 16),
        ({"_8": 0.5}, 8),
        ({"_1": 0.9, "_4": 0.4}, 1),
    ],
)
def test_the_surest_length_in_sight_is_found(heights: dict[str, float], best: int) -> None:
    hill = Hill(**heights)
    assert calibrated_length(hill, FLAT) == best
    assert len(set(hill.asked)) == len(hill.asked)
    assert all(1 <= length <= 64 for length in hill.asked)


def test_what_length_alone_explains_does_not_count() -> None:
    """Short canvases are surer of themselves whatever the hole; the bias takes that back."""
    bias = LengthBias(0, 0, 1.0, 0.2, 0.1)

    def confidence(length: int) -> float:
        return bias.at(length) * (1.2 if length == 10 else 1.0)

    assert calibrated_length(confidence, bias) == 10
    assert calibrated_length(confidence, FLAT) < 8


def test_probes_stay_within_bounds() -> None:
    assert calibrated_length(float, FLAT, start=8, longest=20) == 20
    assert calibrated_length(lambda length: 1 / length, FLAT, start=8, longest=20) == 1
