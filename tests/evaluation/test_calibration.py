"""Fitting a calibration, its file, and its use."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest

from midfill_engine.calibration import (
    DEFAULT_GATE,
    EVIDENCE,
    Calibration,
    calibration_path,
    confidence_by,
    gate_of,
    load_calibrations,
    save_calibrations,
)
from midfill_engine.errors import ModelCorrupt
from midfill_lsp.evaluation.fitting import check, fit
from midfill_lsp.evaluation.outcomes import Attempt, Outcome

SOME = Calibration((1.0,) * len(EVIDENCE), 0.5, 0.4)


def outcomes(count: int) -> list[Outcome]:
    """Fills whose true probability is the logistic function of their evidence; never at complete
    places, where the evidence is weaker."""
    dice = random.Random(5)
    made = []
    for number in range(count):
        complete = number % 4 == 0
        evidence = [dice.gauss(-2 if complete else 0, 1) for _ in EVIDENCE]
        p = 1 / (1 + math.exp(-(2 * evidence[0] + evidence[3] - 1)))
        exact = not complete and dice.random() < p
        attempt = Attempt("x", 0.5, exact, None, tuple(evidence))
        suite = "complete" if complete else "held-out"
        made.append(
            Outcome("fast", f"p/{number}.py:0-1", suite, "line", "python", "p", "x", (attempt,),
                    True, None, 1.0, True, 0, None)
        )  # fmt: skip
    return made


def test_a_fit_is_calibrated_and_silent_on_files_it_has_not_seen() -> None:
    made = outcomes(3000)
    calibration = fit(made)
    assert calibration is not None
    found = check(made, calibration)
    assert found.error is not None
    assert found.error < 0.05
    assert found.silence is not None
    assert found.silence.value > 0.88
    assert found.shown is not None
    assert found.exact_of_shown is not None
    assert found.exact_of_shown.value > sum(one.exact for one in made) / len(made)
    assert fit(made) == calibration


def test_nothing_is_fitted_to_fills_that_are_all_alike() -> None:
    assert fit([]) is None
    assert fit([one for one in outcomes(100) if not one.exact]) is None


def test_uncalibrated_it_is_the_mean_probability() -> None:
    evidence = (math.log(0.7), *[0.0] * (len(EVIDENCE) - 1))
    assert confidence_by(None, evidence) == pytest.approx(0.7)
    assert gate_of(None) == DEFAULT_GATE
    assert gate_of(SOME) == 0.4
    assert confidence_by(SOME, [1e9] * len(EVIDENCE)) <= 1
    assert confidence_by(SOME, [-1e9] * len(EVIDENCE)) >= 0


def test_the_file_is_of_one_adapter(tmp_path: Path) -> None:
    adapter = tmp_path / "adapter.safetensors"
    adapter.write_bytes(b"one")
    assert load_calibrations(adapter) == {}
    save_calibrations(adapter, {"fast": SOME})
    save_calibrations(adapter, {"best": SOME})
    assert load_calibrations(adapter) == {"fast": SOME, "best": SOME}
    adapter.write_bytes(b"other")
    assert load_calibrations(adapter) == {}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"weights": [1], "bias": 0, "gate": 0},
        {"weights": ["a"] * len(EVIDENCE), "bias": 0, "gate": 0},
        {"weights": [0] * len(EVIDENCE), "bias": 10**400, "gate": 0},
        {"weights": [0] * len(EVIDENCE), "bias": True, "gate": 0},
        {"weights": [0] * len(EVIDENCE), "bias": 0, "gate": 30},
    ],
)
def test_a_malformed_file_is_named(tmp_path: Path, fields: dict[str, object]) -> None:
    adapter = tmp_path / "adapter.safetensors"
    adapter.write_bytes(b"one")
    path = save_calibrations(adapter, {"fast": SOME})
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "qualities": {"fast": fields}}))
    with pytest.raises(ModelCorrupt, match=calibration_path(adapter).name):
        load_calibrations(adapter)
