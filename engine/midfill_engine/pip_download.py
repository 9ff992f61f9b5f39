"""Downloading one wheel with the user's own pip.

Owns the call of pip for a model, and the reading of what pip says. pip, because it already knows
the user's index, mirror, proxy and certificates. Knows nothing of what is in the wheel.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from midfill_engine.errors import FetchError
from midfill_engine.progress import Progress

_POLL_S: Final = 0.1
_NO_PIP: Final = "No module named pip"
_UNREACHABLE: Final = "the package index cannot be reached"
_FULL_DISK: Final = ("No space left on device", "Disk quota exceeded")
_UNTRUSTED: Final = re.compile(r"^Could not fetch URL .*confirming the ssl certificate", re.M)
_OFFLINE: Final = re.compile(r"^Could not fetch URL .*: (connection error|timed out)", re.M)
_EXCEPTION: Final = re.compile(r"^[\w.]+(?:Error|Exception|Timeout): .*", re.M)
_ERROR: Final = re.compile(r"^ERROR: (?!Exception:)(.*)", re.M)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One exact release."""

    package: str
    version: str
    wheel_bytes: int  # for the progress bar only

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


def download_wheel(requirement: Requirement, stage: Path, progress: Progress) -> Path:
    """Download the wheel into `stage` and return its path.

    Raises:
        FetchError: there is no pip, no network, no such wheel, or no room for it.
    """
    target, scratch = stage / "wheel", stage / "pip"
    target.mkdir()
    scratch.mkdir()
    log = stage / "pip.log"
    with log.open("wb") as output:
        # pip downloads to its temporary directory first; having it in ours shows how far it is.
        process = subprocess.Popen(
            _command(requirement, target),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(scratch)},
        )
        try:
            _watch(process, scratch, requirement, progress)
        finally:
            process.kill()  # a no-op unless we were interrupted
            process.wait()
    wheels = list(target.glob("*.whl"))
    if process.returncode or len(wheels) != 1:
        reason = failure(log.read_text("utf-8", "replace"))
        if reason == _UNREACHABLE:
            reason += " (without a network, use --wheel FILE)"
        raise FetchError(f"cannot download {requirement}: {reason}")
    return wheels[0]


def _command(requirement: Requirement, target: Path) -> list[str]:
    # -I keeps modules in the working directory from standing in for pip. It leaves PIP_* alone.
    # -vv, because without it pip does not always say that it could not reach the index.
    return [
        *(sys.executable, "-I", "-m", "pip", "download"),
        *("--no-deps", "--no-input", "--disable-pip-version-check", "--only-binary=:all:"),
        *("-vv", "--progress-bar=off", f"--dest={target}"),
        f"{requirement.package}=={requirement.version}",
    ]


def _watch(
    process: subprocess.Popen[bytes], scratch: Path, requirement: Requirement, progress: Progress
) -> None:
    what = f"downloading {requirement}"
    while True:
        progress(min(_size(scratch), requirement.wheel_bytes), requirement.wheel_bytes, what)
        try:
            process.wait(_POLL_S)
        except subprocess.TimeoutExpired:
            continue
        break


def _size(directory: Path) -> int:
    """Bytes of the wheels below a directory whose files come and go."""
    total = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += (Path(parent) / name).stat().st_size if name.endswith(".whl") else 0
    return total


def failure(output: str) -> str:
    """Why pip failed, in one line, from all that it said when called with `-vv`."""
    if _NO_PIP in output:
        return f"{sys.executable} has no pip"
    if any(mark in output for mark in _FULL_DISK):
        return "no space left on the disk"
    if _UNTRUSTED.search(output):
        return "the certificate of the package index is not trusted"
    if _OFFLINE.search(output):
        return _UNREACHABLE
    said = _ERROR.findall(output) or _EXCEPTION.findall(output) or ["pip gave no reason"]
    return str(said[-1])
