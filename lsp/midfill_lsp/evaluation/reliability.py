"""Whether a confidence means what it says: how often fills of about the same confidence are right.

Owns the bins and the expected calibration error. Pure.

Source: Guo et al. 2017, "On Calibration of Modern Neural Networks", section 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from midfill_lsp.evaluation.statistics import Estimate, share

BINS: Final = 10  # of equal width


@dataclass(frozen=True, slots=True)
class Bin:
    """Fills whose confidence is in `[low, high)`; in the last bin, `high` too."""

    low: float
    high: float
    confidence: float  # their mean
    right: Estimate  # the share that is right


def reliability(confidences: Sequence[float], right: Sequence[bool]) -> list[Bin]:
    """The bins that have fills in them, ascending."""
    bins = []
    for number in range(BINS):
        inside = [i for i, c in enumerate(confidences) if min(int(c * BINS), BINS - 1) == number]
        hits = share([right[i] for i in inside])
        if hits is not None:
            average = sum(confidences[i] for i in inside) / len(inside)
            bins.append(Bin(number / BINS, (number + 1) / BINS, average, hits))
    return bins


def expected_calibration_error(bins: Sequence[Bin]) -> float | None:
    """The mean distance of confidence and share of right ones, weighted by fills; None of none."""
    fills = sum(part.right.n for part in bins)
    if not fills:
        return None
    return sum(part.right.n * abs(part.confidence - part.right.value) for part in bins) / fills
