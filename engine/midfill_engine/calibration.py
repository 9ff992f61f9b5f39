"""From what is known of a fill when it is done to the probability that it is what was wanted.

Owns the evidence's names, the logistic function over it, and the file beside an adapter that has
its parameters. `midfill eval --fit-calibration` writes the file; without one, or with another
adapter's, the confidence is the geometric mean of the tokens' probabilities.

Source: Platt 1999, "Probabilistic Outputs for Support Vector Machines", with more than one input.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from midfill_engine.digest import file_sha256
from midfill_engine.errors import ModelCorrupt

EVIDENCE: Final = (
    "log_probability",  # mean of the tokens', in nats
    "least_log_probability",  # of any token
    "agreement",  # share of the drafts that came to this text
    "emptiness",  # share of the drafts that say that nothing is missing
    "margin",  # score above that of the best other fill, in nats, bounded; 0 without another
    "score_per_token",  # in nats; 0 where nothing was scored
    "scored",  # 1 if there was another fill to choose from, else 0
    "log_length",  # of the fill's tokens and its end
)
_NAME: Final = "adapter_sha256"
DEFAULT_GATE: Final = 0.3
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Parameters for one quality. Fills of less confidence than the gate are not shown unasked."""

    weights: tuple[float, ...]  # one for each piece of evidence
    bias: float
    gate: float  # 0…1

    def confidence(self, evidence: Sequence[float]) -> float:
        """0…1, by the logistic function."""
        pairs = zip(self.weights, evidence, strict=True)
        logit = self.bias + sum(weight * value for weight, value in pairs)
        return 1 / (1 + math.exp(-max(min(logit, 50.0), -50.0)))


def confidence_by(calibration: Calibration | None, evidence: Sequence[float]) -> float:
    """A fill's confidence, 0…1; uncalibrated, its tokens' geometric mean probability."""
    return math.exp(evidence[0]) if calibration is None else calibration.confidence(evidence)


def gate_of(calibration: Calibration | None) -> float:
    """The least confidence with which a fill should be shown unasked."""
    return DEFAULT_GATE if calibration is None else calibration.gate


def calibration_path(adapter: Path) -> Path:
    """Where an adapter's calibration lies."""
    return adapter.with_suffix(".calibration.json")


def load_calibrations(adapter: Path) -> dict[str, Calibration]:
    """An adapter's calibrations by quality; none where there is no file, or one of another adapter.

    Raises:
        ModelCorrupt: the file is malformed.
    """
    path = calibration_path(adapter)
    if not path.exists():
        return {}
    try:
        raw = json.loads(path.read_bytes())
        if raw[_NAME] != file_sha256(adapter) or raw["evidence"] != list(EVIDENCE):
            _LOG.warning("%s was made for another adapter and is not used", path)
            return {}
        found = {name: _calibration(fields) for name, fields in raw["qualities"].items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise ModelCorrupt(f"{path} cannot be used: {error!r}") from error
    return found


def save_calibrations(adapter: Path, calibrations: Mapping[str, Calibration]) -> Path:
    """Write an adapter's calibrations; those of qualities that are not given are kept.

    Raises:
        OSError: it cannot be written.
        ModelCorrupt: there is a malformed one.
    """
    merged = {**load_calibrations(adapter), **calibrations}
    path = calibration_path(adapter)
    content = {
        _NAME: file_sha256(adapter),
        "evidence": EVIDENCE,
        "qualities": {name: asdict(merged[name]) for name in sorted(merged)},
    }
    part = path.with_suffix(".part")  # whoever loads the model meanwhile finds all or nothing new
    part.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    part.replace(path)
    return path


def _calibration(fields: Mapping[str, object]) -> Calibration:
    weights, bias, gate = fields["weights"], fields["bias"], fields["gate"]
    if not isinstance(weights, list) or len(weights) != len(EVIDENCE):
        raise ValueError(f"weights = {weights!r}")
    numbers = [*weights, bias, gate]
    if not all(isinstance(n, int | float) and math.isfinite(n) for n in numbers):
        raise ValueError(f"not all numbers: {numbers}")
    if not 0 <= float(str(gate)) <= 1:
        raise ValueError(f"gate = {gate!r}")
    return Calibration(tuple(map(float, weights)), float(str(bias)), float(str(gate)))
