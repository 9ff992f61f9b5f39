"""Where a worker listens: a Unix socket in the runtime directory, one for each kind of worker.

Owns the socket's name, its locks and the directory's safety. Knows nothing of what is said.

There are two locks. Who starts a worker holds the one of `starting` until the worker listens. The
worker holds the other, its `claim`, for as long as it may listen: whatever becomes of those who
start workers, there are never two at one socket.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Final

from midfill_engine.errors import WorkerUnavailable
from midfill_engine.paths import model_dir, runtime_dir

_MAX_SOCKET_PATH_BYTES: Final = 103  # the smallest limit among the systems we run on
_BACKLOG: Final = 64
_HERE: Final = Path(__file__).parent


def endpoint_for(model: str, weights: str) -> Path:
    """The socket of the worker that serves this model, for this user and installation of ours.

    Raises:
        WorkerUnavailable: the runtime directory cannot be used; the message says why.
    """
    directory = runtime_dir()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if directory.stat().st_uid != os.getuid():
            raise WorkerUnavailable(f"the runtime directory {directory} belongs to another user")
    except OSError as error:
        raise WorkerUnavailable(f"the runtime directory cannot be used: {error}") from error
    parts = (str(_HERE), str(model_dir(model).absolute()), weights)
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
    endpoint = directory / f"worker-{key}.sock"
    if len(os.fsencode(endpoint)) > _MAX_SOCKET_PATH_BYTES:
        raise WorkerUnavailable(
            f"the runtime directory's path is too long for a socket: {directory}; "
            "set MIDFILL_RUNTIME_DIR to a shorter one"
        )
    return endpoint


@contextmanager
def starting(endpoint: Path) -> Iterator[None]:
    """Hold the right to start a worker at `endpoint`; waits while another process does."""
    with endpoint.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def claim(endpoint: Path) -> IO[str] | None:
    """The right to be the worker at `endpoint`, until the file is closed; None: another has it."""
    lock = endpoint.with_suffix(".claim").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def answers(endpoint: Path) -> bool:
    """Whether a process listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(endpoint))
        except OSError:
            return False
        return True


def remove(endpoint: Path) -> None:
    """Take a socket away that nobody listens at any more."""
    with starting(endpoint):
        if not answers(endpoint):
            endpoint.unlink(missing_ok=True)


def listen(endpoint: Path) -> socket.socket:
    """A listening socket at `endpoint`, in place of a dead worker's. Call with a `claim`."""
    endpoint.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(str(endpoint))
    endpoint.chmod(0o600)
    server.listen(_BACKLOG)
    return server


@cache
def build() -> str:
    """Tells code apart: a worker of other code must not answer for ours.

    Once a process: code that has been loaded stays as it is, whatever becomes of its files.
    """
    return str(max(path.stat().st_mtime_ns for path in _HERE.rglob("*.py")))
