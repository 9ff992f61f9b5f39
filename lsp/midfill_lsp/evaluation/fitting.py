"""Fits a calibration and a gate to outcomes in held-out packages. HumanEval is never fitted to.

Owns the fit: logistic regression with a small ridge, by Newton's method, over the evidence that an
engine has when a fill is done. Half of the files are fitted to; the other half says how good it is.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from midfill_engine.calibration import EVIDENCE, Calibration
from midfill_lsp.evaluation.outcomes import Outcome
from midfill_lsp.evaluation.reliability import expected_calibration_error, reliability
from midfill_lsp.evaluation.statistics import Estimate, share
from midfill_lsp.evaluation.tables import Table, share_text

SILENCE: Final = 0.92  # where nothing is missing, on the files fitted to
_RIDGE: Final = 1.0  # on standardized evidence; as if one more fill spoke against each weight
_ITERATIONS: Final = 50


@dataclass(frozen=True, slots=True)
class Check:
    """What a calibration comes to on files that it was not fitted to."""

    error: float | None
    silence: Estimate | None  # where nothing is missing
    shown: Estimate | None  # where something is
    exact_of_shown: Estimate | None


def fit(outcomes: Sequence[Outcome]) -> Calibration | None:
    """The calibration of the outcomes' first halves; None where there is nothing to tell apart.

    The gate is the lowest that keeps silent at `SILENCE` of the places where nothing is missing.
    """
    mine = [one for one in outcomes if _fitted_to(one)]
    offered = [one for one in mine if one.offered]
    if len({one.exact for one in offered}) < 2:
        return None
    evidence = np.array([one.attempts[0].evidence for one in offered])
    weights, bias = _logistic(evidence, np.array([one.exact for one in offered], float))
    calibration = Calibration(tuple(map(float, weights)), bias, 0.0)
    complete = [one for one in mine if one.suite == "complete"]
    loud = sorted((_confidence(calibration, o) for o in complete if o.offered), reverse=True)
    allowed = math.floor((1 - SILENCE) * len(complete))
    gate = math.nextafter(loud[allowed], 1.0) if len(loud) > allowed else 0.0
    return Calibration(calibration.weights, bias, gate)


def check(outcomes: Sequence[Outcome], calibration: Calibration) -> Check:
    """How a calibration does on the other half."""
    others = [one for one in outcomes if not _fitted_to(one)]
    offered = [one for one in others if one.offered and one.suite != "humaneval"]
    confidences = [_confidence(calibration, one) for one in offered]
    bins = reliability(confidences, [one.exact for one in offered])
    shown = {one.name for one, c in zip(offered, confidences, strict=True) if c >= calibration.gate}
    complete = [one for one in others if one.suite == "complete"]
    holes = [one for one in others if one.suite == "held-out"]
    return Check(
        expected_calibration_error(bins),
        share([one.name not in shown for one in complete]),
        share([one.name in shown for one in holes]),
        share([one.exact for one in holes if one.name in shown]),
    )


def fitted_table(found: Mapping[str, tuple[Calibration, Check]]) -> Table:
    """What was fitted, and what it comes to."""
    weights = tuple(
        (name, *(f"{calibration.weights[i]:+.3f}" for calibration, _ in found.values()))
        for i, name in enumerate(EVIDENCE)
    )
    return Table(
        "calibration, and on the files not fitted to",
        ("", *found),
        (
            *weights,
            ("bias", *(f"{calibration.bias:+.3f}" for calibration, _ in found.values())),
            ("gate", *(f"{calibration.gate:.3f}" for calibration, _ in found.values())),
            ("calibration error", *(f"{c.error or 0:.3f}" for _, c in found.values())),
            (
                "silent where nothing is missing",
                *(share_text(c.silence) for _, c in found.values()),
            ),
            ("shown in holes", *(share_text(c.shown) for _, c in found.values())),
            ("exact, of these", *(share_text(c.exact_of_shown) for _, c in found.values())),
        ),
    )


def _fitted_to(outcome: Outcome) -> bool:
    """Half of the files, the same ones each time."""
    file = outcome.name.rpartition(":")[0]
    return outcome.suite != "humaneval" and hashlib.sha256(file.encode()).digest()[0] < 128


def _confidence(calibration: Calibration, outcome: Outcome) -> float:
    return calibration.confidence(outcome.attempts[0].evidence)


def _logistic(
    evidence: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]",
    right: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]",
) -> tuple[list[float], float]:
    """Weights and bias: [n, evidence] and [n] of 0 and 1."""
    middle, spread = evidence.mean(axis=0), evidence.std(axis=0)
    spread = np.where(spread > 1e-9, spread, 1.0)
    x = np.column_stack(((evidence - middle) / spread, np.ones(len(evidence))))
    ridge = np.diag([_RIDGE] * (x.shape[1] - 1) + [1e-6])
    w = np.zeros(x.shape[1])
    for _ in range(_ITERATIONS):
        p = 1 / (1 + np.exp(-np.clip(x @ w, -30, 30)))
        gradient = x.T @ (p - right) + ridge @ w
        w = w - np.linalg.solve((x.T * (p * (1 - p))) @ x + ridge, gradient)
    weights = w[:-1] / spread
    return [float(value) for value in weights], float(w[-1] - weights @ middle)
