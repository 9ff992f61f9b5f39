"""Starting a worker process.

Owns its command line and environment, and the wait until it listens. The worker outlives us: it
is shared, and goes when its last client has gone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import BinaryIO, Final

from midfill_engine.endpoint import build
from midfill_engine.errors import WorkerUnavailable
from midfill_engine.paths import cache_dir, log_dir

READY: Final = b"ready\n"
_LOG_BYTES: Final = 1024 * 1024  # a log longer than this is begun anew
_ENVIRONMENT: Final = {
    # Keep freed activations in the process: mapping them anew for each pass cost a third of it.
    "MALLOC_MMAP_THRESHOLD_": "268435456",
    "MALLOC_TRIM_THRESHOLD_": "536870912",
    "MALLOC_TOP_PAD_": "16777216",
    # How long a thread that waits for another spins before it sleeps. Unset, a pass takes ten
    # times as long beside other busy processes; at 0, twice as long on an idle machine.
    "GOMP_SPINCOUNT": "10000",
}


def spawn_worker(model: str, weights: str, endpoint: Path) -> None:
    """Start a worker and return once one listens at `endpoint`, it or one that was faster.

    Raises:
        WorkerUnavailable: it did not come up; the message ends with its last words.
    """
    command = isolated_command(
        "midfill_engine.worker.main",
        *("--model", model, "--weights", weights, "--endpoint", str(endpoint)),
        *("--build", build()),
    )
    log = _open_log()
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log or subprocess.DEVNULL,
            env=isolated_environment(),
            cwd=endpoint.parent,
            start_new_session=True,
        )
    except OSError as error:
        raise WorkerUnavailable(f"the worker could not be started: {error}") from error
    finally:
        if log:
            log.close()
    _await_ready(process)


def isolated_command(module: str, *arguments: str) -> list[str]:
    """A command line that runs `main()` of a module of ours, and imports nothing of a workspace.

    `-I` keeps the workspace and PYTHONPATH out. It also hides a user's own site-packages, where we
    may be installed, so the way to ourselves and to what lies beside us is put last.
    """
    code = (
        "import sys; sys.path.extend(sys.argv.pop(1).split(chr(0x1f))); "
        f"from {module} import main; main()"
    )
    beside = [p for p in sys.path if p.endswith("site-packages") and Path(p).is_dir()]
    root = str(Path(__file__).parent.parent)
    return [sys.executable, "-I", "-c", code, "\x1f".join([root, *beside]), *arguments]


def isolated_environment() -> dict[str, str]:
    """The environment of a process that runs a model."""
    return {**os.environ, **_ENVIRONMENT, "MIDFILL_CACHE_DIR": str(cache_dir())}


def _await_ready(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    with process.stdout:
        said = process.stdout.readline()
    if said != READY:
        code = process.wait()
        raise WorkerUnavailable(f"the worker ended with code {code} at its start; see {log_path()}")
    # A worker outlives its starter on purpose. But if it goes first, somebody has to take note.
    threading.Thread(target=process.wait, name="midfill-worker-end", daemon=True).start()


def log_path() -> Path:
    """Where workers write what goes wrong."""
    return log_dir() / "worker.log"


def _open_log() -> BinaryIO | None:
    """The log for appending, or None where it cannot be written."""
    path = log_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _LOG_BYTES:
            path.unlink()
        return path.open("ab")
    except OSError:
        return None
