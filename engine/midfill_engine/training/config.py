"""What a training run is told: one frozen value, checked once.

Owns the numbers of the recipe and nothing that acts on them.
"""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_type_hints

from cattrs import Converter

from midfill_engine.errors import TrainingError
from midfill_engine.worker.window import PREFIX_TOKENS, SUFFIX_TOKENS

_CHOICES: Final = {
    "device": ("auto", "cpu", "cuda"),
    "views": ("both", "masked", "causal"),
    "suffix_position": ("before", "after"),
}
_COUNTS: Final = (
    *("workers", "windows_per_pass", "windows", "groups", "starts", "rank"),
    *("warmup_steps", "validate_every"),
)
_NOT_LEARNT_FROM: Final = {
    *("corpus", "out", "adapter", "model", "device", "workers", "windows_per_pass", "compile"),
    *("validate_every", "checkpoint_seconds", "validation_windows", "steps", "seconds"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """One run. Lengths are in tokens; a *group* is the holes of a window that share their end."""

    corpus: Path  # folder written by `midfill train corpus`
    out: Path  # checkpoints, adapters, log
    adapter: Path | None = None  # where a fresh run starts from; without one, from the base
    model: str = "embedded"  # a name or a directory

    seed: int = 1
    device: str = "auto"  # "cpu", "cuda", or "auto": CUDA where there is any
    workers: int | None = None  # processes of one thread each, on a CPU; none: what is fastest
    windows_per_pass: int | None = None  # none: what is fastest and has room
    compile: bool | None = None  # the elementwise functions; none: where there is a compiler
    windows: int = 4  # a step
    groups: int = 16  # hole ends a window
    starts: int = 3  # hole starts an end

    window_tokens: int = PREFIX_TOKENS + 80  # a prefix, and room for the last holes
    suffix_tokens: int = SUFFIX_TOKENS
    canvas_lengths: tuple[int, ...] = (8, 12, 16, 24, 32, 48)
    causal_share: float = 0.6  # of holes that are also seen by the causal view
    causal_weight: float = 0.5  # of a causal token against a masked one
    empty_weight: float = 0.1  # of an *empty* after the first

    rank: int = 32
    learning_rate: float = 3e-4
    warmup_steps: int = 100
    decay_from: float | None = None  # where a linear decay to a tenth begins: a step, or, if
    decay_for: float = 1000  # `seconds` is set, a second; and how many it takes
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.0
    clip_norm: float = 1.0
    average: float = 0.998  # of the weights that are kept

    validate_every: int = 50  # steps
    checkpoint_seconds: float = 180  # from one checkpoint to the next, at most a step more
    validation_windows: int = 16
    steps: int = 1_000_000
    seconds: float | None = None  # from the first step on; whichever of the two is over first

    # For comparisons: the worker is made for adapters trained with the defaults.
    views: str = "both"  # "masked": no causal canvases; "causal": no masked ones
    suffix_position: str = "before"  # "after": behind the canvas, where text has it
    corrupted_share: float = 0.0  # of a masked canvas's visible tokens: shown as another of the
    # window's tokens, with the true one to be learnt
    soft_share: float = 0.0  # of a token's target: the base's probabilities, left to right

    def __post_init__(self) -> None:
        if min(self.canvas_lengths, default=0) < 1:
            raise TrainingError(f"canvas_lengths must be numbers from 1 on: {self.canvas_lengths}")
        if max(self.canvas_lengths) + 1 > self.window_tokens:
            raise TrainingError("a canvas does not fit the window")
        for name in ("soft_share", "corrupted_share"):
            if not 0 <= (value := getattr(self, name)) <= 1:
                raise TrainingError(f"{name} must be from 0 to 1, not {value!r}")
        for name, known in _CHOICES.items():
            if (value := getattr(self, name)) not in known:
                raise TrainingError(f"{name} must be one of {', '.join(known)}, not {value!r}")
        for name in _COUNTS:
            if (value := getattr(self, name)) is not None and value < 1:
                raise TrainingError(f"{name} must be at least 1, not {value!r}")

    def recipe(self) -> dict[str, Any]:
        """The settings that bear on what is learnt, as JSON has them."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if name not in _NOT_LEARNT_FROM}

    @classmethod
    def load(cls, path: Path) -> TrainConfig:
        """Read a JSON object of field values; relative paths are taken from its folder.

        Raises:
            TrainingError: it cannot be read, has settings that are none, or they do not fit.
        """
        return cls(**read_settings(path, cls, paths=("corpus", "out", "adapter")))


def read_settings(path: Path, cls: type[Any], paths: tuple[str, ...]) -> dict[str, Any]:
    """The fields of `cls` that a JSON file gives, those named in `paths` as paths.

    Raises:
        TrainingError: it is no JSON object, or what it gives are not the fields of `cls`, or not
            of their types.
    """
    try:
        raw = dict(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise TrainingError(f"{path} cannot be read: {error}") from error
    fields = {field.name: field for field in dataclasses.fields(cls)}
    if unknown := raw.keys() - fields.keys():
        raise TrainingError(f"{path}: unknown settings {sorted(unknown)}")
    needed = {name for name, field in fields.items() if field.default is dataclasses.MISSING}
    if missing := needed - raw.keys():
        raise TrainingError(f"{path}: settings {sorted(missing)} are missing")
    hints = get_type_hints(cls)
    values = {name: _setting(path, name, value, hints[name]) for name, value in raw.items()}
    folder = path.absolute().parent  # what is run for us need not run here
    for name in paths:
        if values.get(name) is not None:
            values[name] = folder / values[name]
    if os.sep in values.get("model", ""):
        values["model"] = str(folder / values["model"])
    return values


def _setting(path: Path, name: str, value: object, wanted: Any) -> Any:
    try:
        return _CONVERTER.structure(value, wanted)
    except Exception as error:
        raise TrainingError(f"{path}: {name} cannot be {value!r}") from error


def _exactly(value: object, wanted: type[Any]) -> Any:
    """A value that JSON gives as what is wanted: nothing is rounded, nor read out of a string."""
    accepted = {float: (int, float), Path: (str,)}.get(wanted, (wanted,))
    if not isinstance(value, accepted) or (isinstance(value, bool) and wanted is not bool):
        raise TypeError(f"{value!r} is no {wanted.__name__}")
    return wanted(value)


_CONVERTER: Final = Converter(detailed_validation=False)
for _kind in (bool, int, float, str, Path):
    _CONVERTER.register_structure_hook(_kind, _exactly)
