"""Estimates with 95 % confidence intervals, and how two systems compare on the same problems.

Owns the methods. Every resampling has a seed of its own, so the same outcomes give the same
numbers. Pure.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

_Z: Final = 1.959963984540054  # the normal distribution's 97.5 % point
_RESAMPLES: Final = 4000
_SEED: Final = 20_000

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value of `n` observations and its 95 % interval."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """The paired difference of two shares, and how likely chance alone makes one as large."""

    difference: Estimate  # first minus second
    gained: int  # only the first is right
    lost: int  # only the second is right
    p: float  # McNemar's exact test, two-sided


def share(hits: Sequence[bool]) -> Estimate | None:
    """A share with Wilson's score interval; None of nothing.

    Source: Wilson 1927, "Probable Inference, the Law of Succession, and Statistical Inference".
    """
    n = len(hits)
    if not n:
        return None
    p = sum(hits) / n
    middle = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2))
    return Estimate(p, max(middle - half, 0.0), min(middle + half, 1.0), n)


def mean(values: Sequence[float]) -> Estimate | None:
    """A mean with a percentile bootstrap interval (Efron 1979); None of nothing."""
    return _bootstrap(values, lambda sample: sample.mean(axis=-1))


def median(values: Sequence[float]) -> Estimate | None:
    """A median, likewise."""
    return _bootstrap(values, lambda sample: np.median(sample, axis=-1))


def ratio(parts: Sequence[float], wholes: Sequence[float]) -> Estimate | None:
    """The sum of the parts by the sum of the wholes, resampling pairs; None without a whole."""
    pairs = np.array([parts, wholes], float)
    if not pairs[1].sum():
        return None
    sums = pairs[:, _resampled(len(parts))].sum(axis=-1)
    low, high = np.percentile(sums[0] / np.maximum(sums[1], 1e-12), (2.5, 97.5))
    return Estimate(float(pairs[0].sum() / pairs[1].sum()), float(low), float(high), len(parts))


def compare(first: Sequence[bool], second: Sequence[bool]) -> Comparison | None:
    """Two systems' hits on the same problems, in the same order; None of nothing.

    Source: McNemar 1947, "Note on the Sampling Error of the Difference Between Correlated
    Proportions"; the exact, binomial form. The interval is a paired bootstrap's.
    """
    gained = sum(a and not b for a, b in zip(first, second, strict=True))
    lost = sum(b and not a for a, b in zip(first, second, strict=True))
    difference = mean([float(a) - float(b) for a, b in zip(first, second, strict=True)])
    if difference is None:
        return None
    return Comparison(difference, gained, lost, mcnemar(gained, lost))


def mcnemar(gained: int, lost: int) -> float:
    """The two-sided probability of a split at least as uneven, if either way is as likely."""
    n, fewer = gained + lost, min(gained, lost)
    tail = sum(math.comb(n, k) for k in range(fewer + 1)) / 2**n
    return float(min(2 * tail, 1.0))


def _bootstrap(values: Sequence[float], statistic: Callable[[Floats], Floats]) -> Estimate | None:
    if not values:
        return None
    data = np.array(values, float)
    low, high = np.percentile(statistic(data[_resampled(len(data))]), (2.5, 97.5))
    return Estimate(float(statistic(data)), float(low), float(high), len(data))


def _resampled(n: int) -> NDArray[np.int64]:
    """Indices of resamples: [resamples, n]."""
    return np.random.default_rng(_SEED).integers(0, n, (_RESAMPLES, n))
