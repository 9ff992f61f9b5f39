"""Where a worker listens: a Unix socket in the runtime directory, one for each kind of worker.

Owns the socket's name, its lock and the directory's safety. Knows nothing of what is said.
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
from typing import Final

from midfill_engine.errors import WorkerUnavailable
from midfill_engine.paths import model_dir, runtime_dir
from midfill_engine.protocol import PROTOCOL_VERSION

_MAX_SOCKET_PATH_BYTES: Final = 103  # the smallest limit among the systems we run on
_BACKLOG: Final = 64


def endpoint_for(model: str, weights: str) -> Path:
    """The socket of the worker that serves this model, for this user and version of ours.

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
    parts = (str(PROTOCOL_VERSION), _package_stamp(), str(model_dir(model).absolute()), weights)
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
    """A listening socket at `endpoint`, in place of a dead worker's. Call while `starting`."""
    endpoint.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(str(endpoint))
    endpoint.chmod(0o600)
    server.listen(_BACKLOG)
    return server


@cache
def _package_stamp() -> str:
    """Tells installations apart: a worker of other code must not answer for ours.

    Once a process: code that has been loaded stays as it is, whatever becomes of its files.
    """
    here = Path(__file__).parent
    return f"{here}:{max(p.stat().st_mtime_ns for p in here.rglob('*.py'))}"
