"""The training loop: from a checkpoint or an adapter, until told to stop.

Owns the order of things: step, validate, keep, log. SIGTERM and SIGINT end it after the step in
progress, with a checkpoint; a run started again with the same settings goes on exactly there.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch

from midfill_engine.model_files import adapter_shapes
from midfill_engine.paths import model_dir
from midfill_engine.training import adapter, checkpoint
from midfill_engine.training.base import Base
from midfill_engine.training.batches import Batches
from midfill_engine.training.byte_tokens import ByteTokens
from midfill_engine.training.checkpoint import Progress
from midfill_engine.training.config import TrainConfig
from midfill_engine.training.corpus import Corpus
from midfill_engine.training.metrics import Sums, added, means
from midfill_engine.training.optimizer import Optimizer, learning_rate
from midfill_engine.training.workers import Job, Trainee, Workers

# Validation stays the same whatever a run's settings are, so that curves can be compared.
_VALIDATION: Final[dict[str, Any]] = {
    "seed": 1, "groups": 12, "starts": 3, "causal_share": 1.0, "window_tokens": 480,
    "suffix_tokens": 72, "empty_weight": 0.1, "canvas_lengths": (8, 12, 16, 24, 32, 48),
}  # fmt: skip


class Run:
    """A training run in progress."""

    def __init__(self, config: TrainConfig, say: Callable[[str], None]) -> None:
        self.config, self._say = config, say
        config.out.mkdir(parents=True, exist_ok=True)
        directory = model_dir(config.model)
        base = Base.load(directory, torch.bfloat16)
        tokens, corpus = ByteTokens.load(directory), Corpus.open(config.corpus)
        self.corpus_sha256 = corpus.sha256
        self.shapes = adapter_shapes(base.config, config.rank)
        held_out = replace(config, **_VALIDATION)
        training = Batches(corpus, tokens, config)
        validation = Batches(corpus, tokens, held_out, validation=True)
        self.trainee = Trainee(config, base, self.shapes, training, validation)
        self.optimizer, self.progress = self._start()
        self.workers = Workers(self.trainee, self.optimizer.parameters)
        self.stopping = False

    def _start(self) -> tuple[Optimizer, Progress]:
        if self._path("checkpoint.pt").exists():
            return checkpoint.load(self._path("checkpoint.pt"))
        if self.config.adapter is not None:
            start = adapter.read(self.config.adapter, self.trainee.base.config, self.shapes)
            return Optimizer.fresh(start), Progress()
        generator = torch.Generator().manual_seed(self.config.seed)
        start = adapter.fresh(self.shapes, self.trainee.base.embeddings, generator)
        return Optimizer.fresh(start), Progress()

    def loop(self) -> None:
        """Train until `steps`, or until a signal."""
        with _handled(self._stop):
            self._loop()
        self._save()
        self.workers.close()

    def _loop(self) -> None:
        if self.optimizer.step == 0:
            self._log("base", self._score(bare_base=True))
            self._log("start", self._score())
        recent: Sums = {}
        started, busy = self.optimizer.step, time.monotonic()
        while self.optimizer.step < self.config.steps and not self.stopping:
            recent = added(recent, self._step())
            step = self.optimizer.step
            if step % 10 == 0:
                self._show(recent, (time.monotonic() - busy) / (step - started))
            if step % self.config.validate_every == 0:
                seconds = time.monotonic() - busy
                self._validate(recent, seconds)
                recent, started, busy = {}, step, time.monotonic()
            elif step % self.config.checkpoint_every == 0:
                self._save()

    def _step(self) -> Sums:
        began = time.monotonic()
        first = self.progress.next_batch
        sums = self.workers.run(Job(tuple(range(first, first + self.config.micro_batches))))
        gradient = self.workers.take_gradients().div_(sums["weight"][0])
        norm = self.optimizer.update(gradient, self.config)
        self.progress.next_batch += self.config.micro_batches
        self.progress.hole_tokens += int(sums["hole_tokens"][0])
        self.progress.seconds += time.monotonic() - began
        return sums | {"gradient_norm": (norm, 1.0)}

    def _validate(self, recent: Sums, seconds: float) -> None:
        scores = self._score(average=True)
        value = scores["masked"] + scores["causal"]
        train = {
            f"train_{k}": v
            for k, v in means(recent).items()
            if k in ("masked", "causal", "gradient_norm")
        }
        rate = recent["hole_tokens"][0] / seconds
        self._write("adapter-latest.safetensors")
        if self.progress.best is None or value < self.progress.best:
            self.progress.best = value
            self._write("adapter-best.safetensors")
        self._save()
        self._log("step", {**scores, **train, "tokens_per_second": round(rate, 1)})

    def _score(self, *, bare_base: bool = False, average: bool = False) -> dict[str, float]:
        """Losses on held-out packages, of the averaged weights where asked for."""
        live = self.optimizer.parameters.clone()
        if average:
            self.optimizer.parameters.copy_(self.optimizer.average)
        indices = tuple(range(self.config.validation_windows))
        sums = self.workers.run(Job(indices, validation=True, bare_base=bare_base))
        self.optimizer.parameters.copy_(live)
        return means(sums)

    def _show(self, recent: Sums, seconds: float) -> None:
        m = means(recent)
        steps = recent["gradient_norm"][1]
        line = (
            f"step {self.optimizer.step}  masked {m['masked']:.3f}  causal {m['causal']:.3f}  "
            f"norm {m['gradient_norm']:.2f}  {seconds:.1f} s/step  "
            f"{recent['hole_tokens'][0] / steps / seconds:.0f} tokens/s"
        )
        self._say(line)

    def _log(self, kind: str, values: dict[str, Any]) -> None:
        step = self.optimizer.step
        head = {
            "kind": kind,
            "step": step,
            "time": round(time.time()),
            "hole_tokens": self.progress.hole_tokens,
            "corpus": self.corpus_sha256[:12],
        }
        rate = learning_rate(max(step, 1), self.config)
        line = json.dumps(
            {**head, "train_seconds": round(self.progress.seconds), "lr": rate, **values}
        )
        with self._path("log.jsonl").open("a") as stream:
            stream.write(line + "\n")
        self._say(line)

    def _write(self, name: str) -> None:
        adapter.write(self._path(name), self.optimizer.average, self.shapes)

    def _save(self) -> None:
        checkpoint.save(self._path("checkpoint.pt"), self.optimizer, self.progress)

    def _path(self, name: str) -> Path:
        return self.config.out / name

    def _stop(self, *_: object) -> None:
        self.stopping = True


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


def train(config: TrainConfig, say: Callable[[str], None]) -> None:
    """Run a training until it is done or told to stop; `say` gets a line now and then.

    Sets torch's threads for this process. To be called from its main thread.

    Raises:
        ModelError: the model or the adapter to start from cannot be used.
        TrainingError: there is no corpus, or a process of the run has died.
    """
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    Run(config, say).loop()
