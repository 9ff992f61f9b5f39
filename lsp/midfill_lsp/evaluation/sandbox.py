"""Whether a program that a model wrote runs to its end, in a process that can do little harm.

Owns the limits on wall-clock time and the walls around the process; what it may do inside them is
`guest`'s concern. On Linux, where the system lets us, the process has a network of its own with
nothing on it, and a process table of its own, all of which ends with it. Elsewhere the audit hook
of `guest` alone refuses sockets and processes.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from midfill_lsp.evaluation import guest

SECONDS: Final = 10.0  # of wall-clock time, beside the guest's of processor time
_PROBE_SECONDS: Final = 10.0
_NAMESPACES: Final = ("--map-root-user", "--net", "--pid", "--fork", "--kill-child")


def runs_through(program: str, *, seconds: float = SECONDS) -> bool:
    """Whether a Python program ends by itself, without an exception, within the limits.

    Blocks for at most `seconds` and the time that it takes to end a process.
    """
    secret = secrets.token_hex(16).encode()
    command = [*walls(), sys.executable, "-I", "-S", str(Path(guest.__file__))]
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryFile() as report:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env={"PATH": os.defpath},
            stdin=subprocess.PIPE,
            stdout=report,  # a file, whose size is limited
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.communicate(secret + b"\n" + program.encode("utf-8", "replace"), seconds)
        except subprocess.TimeoutExpired:
            return False
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        report.seek(0)
        return process.returncode == 0 and report.read(len(secret)) == secret


@cache
def walls() -> tuple[str, ...]:
    """The beginning of a command that runs the rest in namespaces of its own; empty without them.

    Once a process: whether the system permits it does not change meanwhile.
    """
    command = shutil.which("unshare") if sys.platform == "linux" else None
    if command is None:
        return ()
    walled = (command, *_NAMESPACES)
    try:
        subprocess.run([*walled, "true"], capture_output=True, timeout=_PROBE_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    return walled


def in_force() -> str:
    """What keeps a program from the network, in words."""
    hook = "an audit hook that refuses sockets and processes"
    return f"network and process namespaces of its own, and {hook}" if walls() else f"{hook} alone"
