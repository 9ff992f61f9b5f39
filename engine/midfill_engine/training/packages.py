"""The packages of a corpus: their names, versions and licences, and where each is to lie.

Owns the list's form. `packages.json` is the list that the adapter's corpus is built from. Nothing
is downloaded here: a corpus is built from a directory of archives, got beforehand with the
clients of the registries that have them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from midfill_engine.errors import TrainingError

OUR_LIST: Final = Path(__file__).parent / "packages.json"
_PERMISSIVE: Final = re.compile(
    r"MIT|BSD|Apache|ISC|PSF|Unlicense|public-domain|curl|BSL-1.0|Biopython|Zlib"
)
_COPYLEFT: Final = re.compile(r"GPL|Affero|MPL|EPL|CDDL|EUPL", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A pinned package. `validation` packages are held out, whole."""

    name: str
    version: str
    licence: str
    archive: str  # an archive, or a folder, below the directory of archives
    validation: bool


def read_packages(path: Path, archives: Path) -> list[Package]:
    """The packages of a list, in its order.

    Raises:
        TrainingError: the list is malformed, a licence in it is not known to be permissive, or an
            archive is not there.
    """
    try:
        packages = [Package(**fields) for fields in json.loads(path.read_bytes())]
    except (OSError, ValueError, TypeError) as error:
        raise TrainingError(f"{path} is no list of packages: {error}") from error
    for package in packages:
        licence = package.licence
        if _COPYLEFT.search(licence) or not _PERMISSIVE.search(licence):
            raise TrainingError(f"{path}: {package.name}: {licence!r} is not permissive")
        if not (archives / package.archive).exists():
            raise TrainingError(
                f"{package.name} {package.version}: no {archives / package.archive}"
            )
    return packages
