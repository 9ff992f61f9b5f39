"""The source files of packages that were held out of training.

Owns the way to them, and is the only place outside training that knows of its list of packages;
the list and the readers of archives import no torch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from midfill_infill import language_for


@dataclass(frozen=True, slots=True)
class Source:
    """A file of a package, with "\\n" line ends."""

    package: str
    path: str
    language: str  # our key
    text: str


def held_out_sources(archives: Path, say: Callable[[str], None]) -> Iterator[Source]:
    """Files of the held-out packages, in languages that we parse, without tests; in a fixed order.

    What `archives` does not have is downloaded into it.

    Raises:
        EngineError: a package could not be got.
    """
    from midfill_engine.training.download import fetch_packages
    from midfill_engine.training.packages import read_packages
    from midfill_engine.training.sources import read_package

    packages = [package for package in read_packages() if package.validation]
    fetch_packages(packages, archives, say)
    for package in packages:
        for file in read_package(archives, package):
            if not file.is_test and language_for(None, file.path) is not None:
                yield Source(str(package), file.path, file.language, file.text)
