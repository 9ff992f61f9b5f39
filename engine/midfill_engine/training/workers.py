"""Runs the windows of a step, in processes of one thread each or, on a GPU, in this one.

Owns the processes, the shared parameters and gradients, and the fixed deal of windows, which makes
a step's result independent of timing. One thread a process, because threads that meet at every
small operation wait for whichever core another program is using.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing.connection import Connection
from typing import Protocol

import torch
import torch.multiprocessing as multiprocessing
from torch import Tensor

from midfill_engine.errors import TrainingFailed
from midfill_engine.training import adapter, elementwise
from midfill_engine.training.ahead import WindowsAhead
from midfill_engine.training.base import Base
from midfill_engine.training.batches import Batches, Window
from midfill_engine.training.config import TrainConfig
from midfill_engine.training.division import Division
from midfill_engine.training.metrics import Sums, added, training_sums, validation_sums
from midfill_engine.training.passes import Losses, Soft, canvas_losses


@dataclass(frozen=True, slots=True)
class Job:
    """Windows to run: with gradients, or only scored on held-out packages."""

    indices: tuple[int, ...]
    division: Division
    validation: bool = False
    bare_base: bool = False  # without the adapter, for comparison


@dataclass(frozen=True, slots=True)
class Trainee:
    """All that a pass needs."""

    config: TrainConfig
    base: Base
    shapes: adapter.Shapes
    training: Batches
    validation: Batches
    bare_base: dict[str, Tensor]  # the adapter with which the model is exactly the base

    @classmethod
    def of(
        cls,
        config: TrainConfig,
        base: Base,
        shapes: adapter.Shapes,
        training: Batches,
        validation: Batches,
    ) -> Trainee:
        """With a bare base on the base's device."""
        bare = adapter.fresh(shapes, base.embeddings, seed=0).to(base.embeddings.device)
        return cls(config, base, shapes, training, validation, adapter.views(bare, shapes))

    def train(
        self, windows: Iterator[Window], per_pass: int, parameters: Tensor, gradients: Tensor
    ) -> Sums:
        """Sums over the windows; gradients of the weighted loss sum are added to `gradients`."""
        tensors = adapter.views(parameters, self.shapes)
        leaves = {name: t.detach().requires_grad_() for name, t in tensors.items()}
        for name, grad in adapter.views(gradients, self.shapes).items():
            leaves[name].grad = grad
        share, total = self.config.soft_share, Sums()
        soft = Soft(self.bare_base, share) if share else None
        while some := list(islice(windows, per_pass)):
            losses = self._losses(leaves, some, soft)
            torch.autograd.backward(losses.total)
            total = added(total, training_sums(some, losses, self.config.causal_weight))
        return total

    @torch.no_grad()
    def validate(self, job: Job, parameters: Tensor) -> Sums:
        """Sums over held-out windows, one a pass."""
        tensors = self.bare_base if job.bare_base else adapter.views(parameters, self.shapes)
        total = Sums()
        for index in job.indices:
            window = self.validation.window(index)
            total = added(total, validation_sums(window, self._losses(tensors, [window])))
        return total

    def _losses(
        self, tensors: dict[str, Tensor], windows: list[Window], soft: Soft | None = None
    ) -> Losses:
        after = self.config.suffix_position == "after"
        weight = self.config.causal_weight
        return canvas_losses(self.base, tensors, windows, weight, suffix_after=after, soft=soft)


class Runner(Protocol):
    """What runs jobs."""

    def run(self, job: Job) -> Sums:
        """Sums over a job; raises TrainingFailed if it cannot be done."""

    def take_gradients(self) -> Tensor:
        """The sum of all gradients, which start from zero again."""

    def keep(self, division: Division) -> None:
        """Let go of what a division does not need."""

    def close(self) -> None:
        """End what was started."""


def make_runner(trainee: Trainee, parameters: Tensor, division: Division, most: int) -> Runner:
    """A runner on the division's device, with `most` processes where it has several."""
    if division.device == "cpu":
        return Workers(trainee, parameters, most, compiled=division.compiled)
    return ThisProcess(trainee, parameters, compiled=division.compiled)


class ThisProcess:
    """Runs all in one process, which makes only the windows elsewhere, ahead of their use."""

    def __init__(self, trainee: Trainee, parameters: Tensor, *, compiled: bool) -> None:
        self._trainee, self._parameters = trainee, parameters
        self._gradients = torch.zeros_like(parameters)
        self._ahead = WindowsAhead(trainee.training)
        if compiled:
            elementwise.compile_all()

    def run(self, job: Job) -> Sums:
        """Run the job."""
        if job.validation:
            return self._trainee.validate(job, self._parameters)
        windows = self._ahead.windows(job.indices)
        per_pass = job.division.windows_per_pass
        return self._trainee.train(windows, per_pass, self._parameters, self._gradients)

    def take_gradients(self) -> Tensor:
        """A copy of the sum of all gradients, which start from zero again."""
        total = self._gradients.clone()
        self._gradients.zero_()
        return total

    def keep(self, division: Division) -> None:
        """There is one process."""

    def close(self) -> None:
        """Let the processes that make windows go."""
        self._ahead.close()


class Workers:
    """Processes on a CPU. Close it, or let the parent die: they end with it."""

    def __init__(self, trainee: Trainee, parameters: Tensor, count: int, *, compiled: bool) -> None:
        self._gradients = _shared(torch.zeros(count, len(parameters)))
        parameters = _shared(parameters)
        context = multiprocessing.get_context("fork")
        self._pipes: list[Connection] = []
        self._processes = []
        for i in range(count):
            ours, theirs = context.Pipe()
            serving = _Serving(trainee, parameters, self._gradients[i], compiled)
            process = context.Process(
                target=serving.serve, args=(theirs, [*self._pipes, ours]), daemon=True
            )
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def run(self, job: Job) -> Sums:
        """Deal the job out and add the answers up.

        Raises:
            TrainingFailed: a process is gone.
        """
        count = job.division.workers
        pipes = self._pipes[:count]
        total: Sums = {}
        try:
            for i, pipe in enumerate(pipes):
                pipe.send(replace(job, indices=job.indices[i::count]))
            for pipe in pipes:
                total = added(total, pipe.recv())
        except (EOFError, OSError) as error:
            raise TrainingFailed("a training process has died") from error
        return total

    def take_gradients(self) -> Tensor:
        """The sum over processes, which start from zero again."""
        total: Tensor = self._gradients.sum(0)
        self._gradients.zero_()
        return total

    def keep(self, division: Division) -> None:
        """End the processes that a division does not need."""
        self._end(division.workers)
        self._gradients = self._gradients[: division.workers]

    def close(self) -> None:
        """End the processes and wait for it."""
        self._end(0)

    def _end(self, first: int) -> None:
        for pipe in self._pipes[first:]:
            pipe.close()
        for process in self._processes[first:]:
            process.join()
        del self._pipes[first:], self._processes[first:]


@dataclass(frozen=True, slots=True)
class _Serving:
    """What one process does."""

    trainee: Trainee
    parameters: Tensor
    gradients: Tensor
    compiled: bool

    def serve(self, pipe: Connection, others: list[Connection]) -> None:
        for other in others:  # inherited ends would hide the parent's death
            other.close()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        torch.set_num_threads(1)
        torch.set_flush_denormal(True)
        if self.compiled:
            elementwise.compile_all()
        while True:
            try:
                job = pipe.recv()
            except EOFError:
                os._exit(0)
            pipe.send(self._run(job))

    def _run(self, job: Job) -> Sums:
        if job.validation:
            return self.trainee.validate(job, self.parameters)
        windows = map(self.trainee.training.window, job.indices)
        per_pass = job.division.windows_per_pass
        return self.trainee.train(windows, per_pass, self.parameters, self.gradients)


def _shared(tensor: Tensor) -> Tensor:
    tensor.share_memory_()  # type: ignore[no-untyped-call]
    return tensor
