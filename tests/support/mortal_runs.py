"""Runs a training as a process that is killed again and again, then lets it end.

Started on its own, as `python mortal_runs.py CONFIG KILLS SEED`, so that the forks it makes are of
a process with one thread. Prints how many lives were cut short.

A life ends, by SIGKILL to itself, after a random number of function calls within the training code
or, every third life, when half of a checkpoint has been written.
"""

from __future__ import annotations

import io
import os
import random
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from midfill_engine.training import checkpoint
from midfill_engine.training.config import TrainConfig
from midfill_engine.training.train import Status, train


class Silent:
    def say(self, line: str) -> None:
        pass

    def show(self, status: Status) -> None:
        pass


def die_after(calls: int) -> None:
    """Kill this process at the so-manieth call of a function of the training code."""
    left, owner = calls, os.getpid()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal left
        if event == "call" and "midfill_engine/training" in frame.f_code.co_filename:
            left -= 1
            if left == 0 and os.getpid() == owner:
                os.kill(owner, signal.SIGKILL)

    sys.setprofile(profile)


def die_in_checkpoint(number: int) -> None:
    """Kill this process when half of its so-manieth checkpoint is on the disk."""
    whole, left = torch.save, number

    def save(state: object, stream: Any) -> None:
        nonlocal left
        left -= 1
        if left:
            whole(state, stream)
            return
        memory = io.BytesIO()
        whole(state, memory)
        stream.write(memory.getvalue()[: memory.tell() // 2])
        stream.flush()
        os.kill(os.getpid(), signal.SIGKILL)

    checkpoint.torch.save = save  # type: ignore[assignment]


def live(config: TrainConfig, number: int, chance: random.Random) -> bool:
    """One life; whether it was cut short."""
    child = os.fork()
    if child == 0:
        if number % 3 == 2:
            die_in_checkpoint(chance.randint(1, 2))
        else:
            die_after(chance.randint(1, 200))
        train(config, Silent())
        os._exit(0)
    for _ in range(2):
        chance.random()  # the child has drawn from its copy
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def main(path: str, kills: str, seed: str) -> None:
    torch.set_num_threads(1)
    config, chance = TrainConfig.load(Path(path)), random.Random(int(seed))
    print(sum(live(config, number, chance) for number in range(int(kills))))
    train(config, Silent())


if __name__ == "__main__":
    main(*sys.argv[1:])
