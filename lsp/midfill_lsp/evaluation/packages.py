"""The source files of packages that were held out of training.

Owns the way to them, and is the only place outside training that knows of its list of packages;
the list and the readers of archives import no torch.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from midfill_infill import language_for

# What no C header has.
_CPP: Final = re.compile(r"^\s*(?:template|namespace|class|using)\b|\bstd::", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Source:
    """A file of a package, with "\\n" line ends."""

    package: str
    path: str
    language: str  # our key
    text: str


def held_out_sources(archives: Path, say: Callable[[str], None]) -> Iterator[Source]:
    """The files of all held-out packages, without their tests, in a fixed order.

    What `archives` does not have is downloaded into it.

    Raises:
        EngineError: a package could not be got.
    """
    from midfill_engine.training.packages import OUR_LIST, read_packages
    from midfill_engine.training.sources import read_package

    packages = [p for p in read_packages(OUR_LIST, archives) if p.validation]
    for package in packages:
        for file in read_package(archives / package.archive):
            language = language_for(None, file.path)
            if language == "c" and _CPP.search(file.text):
                language = "cpp"
            if language is not None and not file.is_test:
                yield Source(package.name, file.path, language, file.text)
