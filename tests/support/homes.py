"""Directories that keep a test's workers to itself, and what can be seen of its processes."""

from __future__ import annotations

import os
import select
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

MIDFILL = (sys.executable, "-I", "-m", "midfill_lsp", "serve")


@dataclass(frozen=True, slots=True)
class Home:
    """A runtime and a cache directory, on a path short enough for a socket, and a model."""

    root: Path
    model: Path

    @property
    def runtime(self) -> Path:
        return self.root / "run"

    @property
    def directories(self) -> dict[str, str]:
        """The variables that lead our processes here."""
        return {
            "MIDFILL_RUNTIME_DIR": str(self.runtime),
            "MIDFILL_CACHE_DIR": str(self.root / "cache"),
        }

    @property
    def environment(self) -> dict[str, str]:
        """A whole environment for a process."""
        return dict(os.environ) | self.directories

    def workers(self) -> list[psutil.Process]:
        """The workers that live here. None of a worker that has ended counts."""
        return [process for process in psutil.process_iter() if self._is_mine(process)]

    def worker(self) -> psutil.Process:
        """The only worker."""
        (worker,) = self.workers()
        return worker

    def _is_mine(self, process: psutil.Process) -> bool:
        try:
            line = process.cmdline()
        except psutil.Error:
            return False
        return "--endpoint" in line and any(part.startswith(str(self.runtime)) for part in line)


@contextmanager
def new_home(model: Path) -> Iterator[Home]:
    """A home that is cleared at the end, of its workers too."""
    home = Home(Path(tempfile.mkdtemp(prefix="mf-")), model)
    try:
        yield home
    finally:
        for worker in home.workers():
            worker.kill()
        shutil.rmtree(home.root, ignore_errors=True)


def stop(process: psutil.Process) -> None:
    """Have a process stand still, and return once it does."""
    process.suspend()
    while process.status() != psutil.STATUS_STOPPED:
        pass  # the signal is on its way


@contextmanager
def stopped(process: psutil.Process) -> Iterator[None]:
    """Have a process stand still for a while."""
    stop(process)
    try:
        yield
    finally:
        process.resume()


class Watch:
    """Sees processes end, whoever their parent is, and whether or not it has taken note."""

    def __init__(self, pids: Iterable[int]) -> None:
        """Made while the processes live."""
        self._handles = {os.pidfd_open(pid) for pid in pids}

    def ended_within(self, seconds: float) -> float:
        """How long it took until all had ended. Fails if it is longer than `seconds`."""
        started = time.monotonic()
        poll = select.poll()
        for handle in self._handles:
            poll.register(handle, select.POLLIN)
        while self._handles:
            left = started + seconds - time.monotonic()
            ready = poll.poll(max(left, 0) * 1000)
            assert ready, f"{len(self._handles)} processes live on after {seconds} s"
            for handle, _ in ready:
                poll.unregister(handle)
                os.close(handle)
                self._handles.remove(handle)
        return time.monotonic() - started
