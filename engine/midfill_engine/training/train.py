"""The training loop: from a checkpoint or an adapter, until told to stop.

Owns the order of things: step, validate, keep, log. SIGTERM and SIGINT end it after the step in
progress, with a checkpoint; a run started again with the same settings goes on exactly there.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import torch

from midfill_engine.adapter_file import adapter_shapes, check_adapter
from midfill_engine.model_files import read_config
from midfill_engine.paths import model_dir
from midfill_engine.training import adapter, checkpoint
from midfill_engine.training.base import Base
from midfill_engine.training.batches import Batches
from midfill_engine.training.byte_tokens import ByteTokens
from midfill_engine.training.checkpoint import Progress, RunState
from midfill_engine.training.config import TrainConfig
from midfill_engine.training.corpus import Corpus
from midfill_engine.training.division import Division, first_division, measured, most_workers
from midfill_engine.training.metrics import added, means
from midfill_engine.training.optimizer import Optimizer, learning_rate
from midfill_engine.training.run_log import RunLog
from midfill_engine.training.workers import Job, Trainee, make_runner

# Validation stays the same whatever a run's settings are, so that curves can be compared.
_VALIDATION: Final[dict[str, Any]] = {
    "seed": 1, "groups": 12, "starts": 3, "causal_share": 1.0, "window_tokens": 480,
    "suffix_tokens": 72, "empty_weight": 0.1, "canvas_lengths": (8, 12, 16, 24, 32, 48),
    "views": "both", "corrupted_share": 0.0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Status:
    """How a run stands after a step. Losses are averages since the last validation."""

    step: int
    done: float  # 0 to 1, of steps or of seconds
    losses: dict[str, float]  # masked, causal, and left_edge, where there were any
    gradient_norm: float
    tokens_per_second: float
    step_seconds: float
    steps_to_validation: int

    def __str__(self) -> str:
        losses = "  ".join(f"{name.replace('_', ' ')} {v:.3f}" for name, v in self.losses.items())
        return (
            f"step {self.step}  {losses}  norm {self.gradient_norm:.2f}  "
            f"{self.step_seconds:.1f} s/step  {self.tokens_per_second:.0f} tokens/s"
        )


class Watcher(Protocol):
    """Whoever follows a run."""

    def say(self, line: str) -> None:
        """A line that is to stay."""

    def show(self, status: Status) -> None:
        """How it stands, after every step."""


class Run:
    """A training run in progress."""

    def __init__(self, config: TrainConfig, watcher: Watcher) -> None:
        self.config, self._watcher = config, watcher
        config.out.mkdir(parents=True, exist_ok=True)
        first, directory = first_division(config), model_dir(config.model)
        tokens, corpus = ByteTokens.load(directory), Corpus.open(config.corpus)
        self._log = RunLog(config.out / "log.jsonl")
        self._shapes = adapter_shapes(read_config(directory), config.rank)
        base = Base.load(directory, torch.bfloat16, first.device)
        held_out = replace(config, **_VALIDATION)
        training = Batches(corpus, tokens, config)
        validation = Batches(corpus, tokens, held_out, validation=True)
        trainee = Trainee.of(config, base, self._shapes, training, validation)
        self.model = base.config
        state, resumed = self._state(base, first, corpus.sha256)
        self._log.rewind(state.optimizer.step if resumed else None)
        resumed = resumed and state.division.device == first.device
        first = _kept(config, state.division) if resumed else first
        most = first.workers if resumed else most_workers(config, first)
        self.state, self.optimizer, self.progress = state, state.optimizer, state.progress
        self._runner = make_runner(trainee, self.optimizer.parameters, first, most)
        self._division = first if resumed else measured(config, first, self._trial, watcher.say)
        self.state.division = self._division
        self._runner.keep(self._division)
        watcher.say(f"running on {self._division}")
        self._stopping = False
        self._began = self._saved = time.monotonic()
        self._seconds_before = self.progress.seconds

    def _state(self, base: Base, division: Division, corpus: str) -> tuple[RunState, bool]:
        """The state to go on from, and whether it is a checkpoint's."""
        path, device = self.config.out / "checkpoint.pt", division.device
        count = sum(torch.Size(shape).numel() for shape in self._shapes.values())
        if path.exists():
            return checkpoint.load(path, count, corpus, device), True
        start, progress = self.config.adapter, Progress()
        if start is None:
            vector = adapter.fresh(self._shapes, base.embeddings, self.config.seed)
        else:
            vector = adapter.read(start, base.config, self._shapes)
            progress.start = check_adapter(start, base.config).sha256
        return RunState(Optimizer.fresh(vector.to(device)), progress, division, corpus), False

    def _trial(self, division: Division) -> float:
        """Seconds a window, over one step's windows, which are not learnt from."""
        began = time.monotonic()
        self._runner.run(Job(tuple(range(self.config.windows)), division))
        float(self._runner.take_gradients().sum())  # waits for a GPU
        return (time.monotonic() - began) / self.config.windows

    def loop(self) -> None:
        """Train until `steps` or `seconds` are over, or until a signal."""
        with _handled(self._stop):
            try:
                self._loop()
            finally:
                self._runner.close()

    def _loop(self) -> None:
        if self.optimizer.step == 0 and not (self.config.out / "checkpoint.pt").exists():
            self._add("base", self._score(bare_base=True))
            self._add("start", self._score())
            self._began = time.monotonic()
            self._save()
        started, since = self.optimizer.step, time.monotonic()
        tokens = self.progress.hole_tokens
        over = self._done() >= 1
        while not (over or self._stopping):
            self._step()
            over = self._done() >= 1
            step, seconds = self.optimizer.step, time.monotonic() - since
            rate = (self.progress.hole_tokens - tokens) / seconds
            self._watcher.show(self._status(rate, seconds / (step - started)))
            if step % self.config.validate_every == 0 or over:
                self._validate(rate)
                started, since = step, time.monotonic()
                tokens = self.progress.hole_tokens
            elif time.monotonic() - self._saved >= self.config.checkpoint_seconds:
                self._save()
        if self.progress.recent:  # else saved with the last validation
            self._save()

    def _done(self) -> float:
        """The share of the run that is over."""
        shares = [self.optimizer.step / self.config.steps]
        if self.config.seconds is not None:
            shares.append(self._elapsed() / self.config.seconds)
        return max(shares)

    def _elapsed(self) -> float:
        return self._seconds_before + time.monotonic() - self._began

    def _step(self) -> None:
        first, progress = self.progress.next_window, self.progress
        indices = tuple(range(first, first + self.config.windows))
        sums = self._runner.run(Job(indices, self._division))
        gradient = self._runner.take_gradients().div_(sums["weight"][0])
        norm = self.optimizer.update(gradient, self.config, self._elapsed())
        progress.next_window += self.config.windows
        progress.hole_tokens += int(sums["hole_tokens"][0])
        progress.recent = added(progress.recent, sums | {"gradient_norm": (norm, 1.0)})

    def _validate(self, rate: float) -> None:
        scores = self._score(average=True)
        value = scores["masked"] + scores["causal"]
        recent = means(self.progress.recent)
        shown = ("masked", "causal", "left_edge", "gradient_norm")
        train = {f"train_{name}": recent[name] for name in shown if name in recent}
        self._add("step", {**scores, **train, "tokens_per_second": round(rate, 1)})
        if self.progress.best is None or value < self.progress.best:
            self.progress.best = value
            self._write("adapter-best.safetensors")
        self.progress.recent = {}
        self._save()

    def _score(self, *, bare_base: bool = False, average: bool = False) -> dict[str, float]:
        """Losses on held-out packages, of the averaged weights where asked for."""
        live = self.optimizer.parameters.clone()
        if average:
            self.optimizer.parameters.copy_(self.optimizer.average)
        indices = tuple(range(self.config.validation_windows))
        job = Job(indices, self._division, validation=True, bare_base=bare_base)
        sums = self._runner.run(job)
        self.optimizer.parameters.copy_(live)
        return means(sums)

    def _status(self, rate: float, step_seconds: float) -> Status:
        recent, step = means(self.progress.recent), self.optimizer.step
        names = ("masked", "causal", "left_edge")
        return Status(
            step=step,
            done=self._done(),
            losses={name: recent[name] for name in names if name in recent},
            gradient_norm=recent["gradient_norm"],
            tokens_per_second=rate,
            step_seconds=step_seconds,
            steps_to_validation=-step % self.config.validate_every,
        )

    def _add(self, kind: str, values: dict[str, Any]) -> None:
        step = self.optimizer.step
        entry = {
            "kind": kind,
            "step": step,
            "time": round(time.time()),
            "hole_tokens": self.progress.hole_tokens,
            "corpus": self.state.corpus[:12],
            "train_seconds": round(self._elapsed()),
            "lr": learning_rate(self.config, max(step, 1), self._elapsed()),
        }
        self._watcher.say(self._log.add(entry | values))

    def _write(self, name: str) -> None:
        """Store the averaged weights, and how they came about."""
        recipe = {
            "started_from": self.progress.start,
            "corpus_sha256": self.state.corpus,
            "steps": self.optimizer.step,
            "hole_tokens": self.progress.hole_tokens,
            "settings": self.config.recipe(),
        }
        path = self.config.out / name
        adapter.write(path, self.optimizer.average, self._shapes, self.model, recipe)

    def _save(self) -> None:
        self.progress.seconds = self._elapsed()
        self._write("adapter-latest.safetensors")
        checkpoint.save(self.config.out / "checkpoint.pt", self.state)
        self._saved = time.monotonic()

    def _stop(self, *_: object) -> None:
        self._stopping = True


def _kept(config: TrainConfig, kept: Division) -> Division:
    """A checkpoint's division, but for what the settings say themselves."""
    return replace(
        kept,
        workers=config.workers or kept.workers,
        windows_per_pass=config.windows_per_pass or kept.windows_per_pass,
        compiled=kept.compiled if config.compile is None else config.compile,
    )


@contextmanager
def _handled(handler: Callable[..., None]) -> Iterator[None]:
    """While this lasts, signals that ask for an end go to `handler`."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, handler) for number in numbers]
    try:
        yield
    finally:
        for number, old in zip(numbers, before, strict=True):
            signal.signal(number, old)


def train(config: TrainConfig, watcher: Watcher) -> None:
    """Run a training until it is done or told to stop.

    Sets torch's threads for this process. To be called from its main thread.

    Raises:
        ModelError: the model or the adapter to start from cannot be used.
        TrainingError: there is no corpus, no such device, or what lies in `out` is no run that can
            be gone on with.
        TrainingFailed: a process of the run has died.
    """
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    Run(config, watcher).loop()
