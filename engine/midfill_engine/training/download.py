"""Downloads the archives of packages, and checks them.

Owns what counts as there: a file of the right name and sha256. Downloads go to a folder of their
own, and a file gets its name only when its hash is right, so one that was interrupted counts for
nothing and the next call goes on from there. Knows nothing of how a registry is asked.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from midfill_engine.digest import file_sha256
from midfill_engine.errors import TrainingError, TrainingFailed
from midfill_engine.training.packages import Package
from midfill_engine.training.registries import OPENERS, Download

_AT_ONCE: Final = 4  # clients at work; they wait for the network most of the time
_PARTIAL: Final = ".partial"
_LOCK: Final = ".lock"


def fetch_packages(packages: Sequence[Package], archives: Path, say: Callable[[str], None]) -> None:
    """Download what is missing of `packages` into `archives`, and verify all of it.

    A package that cannot be had does not keep the others from being downloaded. `say` is called
    with a line for each package that was missing.

    Raises:
        TrainingFailed: some packages could not be had, or not as they are listed; it names each.
    """
    archives.mkdir(parents=True, exist_ok=True)
    with _alone_in(archives) as partial:
        missing = [package for package in packages if not _is_there(package, archives)]
        round_ = _Round(archives, partial, len(missing), say)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            try:
                _fetch(missing, round_, pool)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    if round_.failures:
        raise TrainingFailed(
            f"{len(round_.failures)} of {len(packages)} packages cannot be had: "
            + "; ".join(round_.failures)
        )


@dataclass(slots=True)
class _Round:
    """One call's downloads."""

    archives: Path
    partial: Path
    total: int
    say: Callable[[str], None]
    done: int = 0
    failures: list[str] = field(default_factory=list)

    def tell(self, package: Package, failure: str | None) -> None:
        self.done += 1
        if failure:
            self.failures.append(f"{package}: {failure}")
        self.say(f"[{self.done}/{self.total}] {package}" + (f": {failure}" if failure else ""))


def _fetch(missing: list[Package], round_: _Round, pool: ThreadPoolExecutor) -> None:
    running: dict[Future[None], Package] = {}
    by_registry = sorted(missing, key=lambda package: (package.registry, package.name))
    for registry, group in groupby(by_registry, key=lambda package: package.registry):
        wanted = list(group)
        scratch = Path(mkdtemp(dir=round_.partial))
        try:
            download = OPENERS[registry](wanted, scratch)
        except TrainingError as error:
            for package in wanted:
                round_.tell(package, str(error))
            continue
        for package in wanted:
            running[pool.submit(_fetch_one, package, download, round_)] = package
    for future in as_completed(running):
        fault = future.exception()
        if fault is not None and not isinstance(fault, (TrainingError, OSError)):
            raise fault
        round_.tell(running[future], str(fault) if fault else None)


def _fetch_one(package: Package, download: Download, round_: _Round) -> None:
    folder = Path(mkdtemp(dir=round_.partial))
    download(package, folder)
    for path, digest in package.paths(round_.archives).items():
        found = folder / path.name
        if not found.is_file():
            offered = ", ".join(sorted(file.name for file in folder.iterdir())) or "nothing"
            raise TrainingError(f"the registry has no {path.name}, but {offered}")
        if (actual := file_sha256(found)) != digest:
            raise TrainingError(f"{path.name} has the sha256 {actual}, not {digest}")
    for path in package.paths(round_.archives):
        path.parent.mkdir(exist_ok=True)
        (folder / path.name).replace(path)
    shutil.rmtree(folder)


def _is_there(package: Package, archives: Path) -> bool:
    return all(
        path.is_file() and file_sha256(path) == digest
        for path, digest in package.paths(archives).items()
    )


@contextlib.contextmanager
def _alone_in(archives: Path) -> Iterator[Path]:
    """An empty folder for downloads, while no other process downloads to `archives`."""
    with (archives / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        partial = archives / _PARTIAL
        shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
        partial.mkdir()
        try:
            yield partial
        finally:
            shutil.rmtree(partial, ignore_errors=True)
