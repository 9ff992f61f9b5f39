"""Runs a program that nobody has read. The process that `sandbox` starts; imports none of ours.

Owns what the program is denied: memory, processor time, files, processes, signals and the network.
Reads a line with a secret and then the program from stdin; writes the secret to stdout once the
program has run to its end, so that one which leaves early has not.

This keeps mistakes from doing harm. It is no prison for code that means to break out.
"""

import os
import resource
import sys
from typing import Any, Final

SECONDS: Final = 10  # of processor time
MEMORY_BYTES: Final = 1 << 30
FILE_BYTES: Final = 1 << 20

# Audit events, by their names or by what these begin with.
_DENIED: Final = (
    *("socket.", "ctypes.", "subprocess.", "shutil.", "signal.", "fcntl.", "pty.", "urllib."),
    *("os.exec", "os.fork", "os.spawn", "os.posix_spawn", "os.system", "os.startfile"),
    *("os.kill", "os.chmod", "os.chown", "os.link", "os.symlink", "os.mkdir", "os.rename"),
    *("os.remove", "os.rmdir", "os.truncate", "os.utime", "os.chdir", "os.fchdir", "os.putenv"),
    *("os.setxattr", "os.lockf", "resource.setrlimit", "resource.prlimit", "sys.addaudithook"),
)
_DENIED_IMPORTS: Final = frozenset({"_posixsubprocess", "_ctypes", "_socket", "_multiprocessing"})
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _deny(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook (PEP 578): it cannot be taken off again."""
    if event.startswith(_DENIED):
        raise PermissionError(f"{event} is denied")
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING:
        raise PermissionError("writing is denied")
    if event == "import" and arguments[0] in _DENIED_IMPORTS:
        raise PermissionError(f"importing {arguments[0]} is denied")


def _main() -> None:
    secret, program = sys.stdin.buffer.readline(), sys.stdin.buffer.read()
    report = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    code = compile(program, "program.py", "exec")
    sys.addaudithook(_deny)
    exec(code, {"__name__": "__main__"})
    os.write(report, secret)


if __name__ == "__main__":
    _main()
