"""Runs micro-batches in processes of one thread each.

Owns the processes, the shared parameters and gradients, and the fixed deal of micro-batches, which
makes a step's result independent of timing. One thread a process, because threads that meet at
every small operation wait for whichever core another program is using.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

import torch
import torch.multiprocessing as multiprocessing
from torch import Tensor

from midfill_engine.errors import TrainingError
from midfill_engine.training import adapter, elementwise
from midfill_engine.training.base import Base
from midfill_engine.training.batches import Batches
from midfill_engine.training.config import TrainConfig
from midfill_engine.training.metrics import Sums, added, training_sums, validation_sums
from midfill_engine.training.passes import canvas_losses


@dataclass(frozen=True, slots=True)
class Job:
    """Micro-batches to run: with gradients, or only scored on held-out packages."""

    indices: tuple[int, ...]
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

    def run(self, job: Job, parameters: Tensor, gradients: Tensor) -> Sums:
        """Sums over the job; gradients of the weighted loss sum are added to `gradients`."""
        if job.bare_base:
            parameters = adapter.fresh(
                self.shapes, self.base.embeddings, torch.Generator().manual_seed(0)
            )
        tensors = adapter.views(parameters, self.shapes)
        total: Sums = {}
        for index in job.indices:
            if job.validation:
                batch = self.validation.micro_batch(index)
                with torch.no_grad():
                    losses = canvas_losses(self.base, tensors, batch, self.config.causal_weight)
                found = validation_sums(batch, losses)
            else:
                found = self._train(index, tensors, gradients)
            total = added(total, found)
        return total

    def _train(self, index: int, tensors: dict[str, Tensor], gradients: Tensor) -> Sums:
        leaves = {name: t.detach().requires_grad_() for name, t in tensors.items()}
        for name, grad in adapter.views(gradients, self.shapes).items():
            leaves[name].grad = grad
        batch = self.training.micro_batch(index)
        losses = canvas_losses(self.base, leaves, batch, self.config.causal_weight)
        torch.autograd.backward(losses.total)
        return training_sums(losses, self.config.causal_weight)


class Workers:
    """The processes of a run. Close it, or let the parent die: they end with it."""

    def __init__(self, trainee: Trainee, parameters: Tensor) -> None:
        count = trainee.config.workers
        self._parameters = _shared(parameters)
        self._gradients = _shared(torch.zeros(count, len(parameters)))
        context = multiprocessing.get_context("fork")
        self._pipes: list[Connection] = []
        self._processes = []
        for i in range(count):
            ours, theirs = context.Pipe()
            arguments = (
                trainee,
                self._parameters,
                self._gradients[i],
                theirs,
                [*self._pipes, ours],
            )
            process = context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def run(self, job: Job) -> Sums:
        """Deal the job out and add the answers up.

        Raises:
            TrainingError: a process is gone.
        """
        count = len(self._pipes)
        total: Sums = {}
        try:
            for i, pipe in enumerate(self._pipes):
                pipe.send(replace(job, indices=job.indices[i::count]))
            for pipe in self._pipes:
                total = added(total, pipe.recv())
        except (EOFError, OSError) as error:
            raise TrainingError("a training process has died") from error
        return total

    def take_gradients(self) -> Tensor:
        """The sum over processes, which start from zero again."""
        total: Tensor = self._gradients.sum(0)
        self._gradients.zero_()
        return total

    def close(self) -> None:
        """End the processes and wait for it."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join()


def _shared(tensor: Tensor) -> Tensor:
    tensor.share_memory_()  # type: ignore[no-untyped-call]
    return tensor


def _serve(
    trainee: Trainee,
    parameters: Tensor,
    gradients: Tensor,
    pipe: Connection,
    others: list[Connection],
) -> None:
    for other in others:  # inherited ends would hide the parent's death
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    if trainee.config.compile:
        elementwise.compile_all()
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            os._exit(0)
        pipe.send(trainee.run(job, parameters, gradients))
