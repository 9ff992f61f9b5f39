"""The packages of a corpus: their registries, versions, licences and hashes.

Owns the list's form and what makes a list acceptable. `packages.json` is the list that the
adapter's corpus is built from. Nothing is downloaded here, and nothing of a package is read.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from midfill_engine.errors import TrainingError

OUR_LIST: Final = Path(__file__).parent / "packages.json"
_PERMISSIVE: Final = re.compile(
    r"\b(MIT|BSD|Apache|ISC|PSF|Unlicense|public-domain|curl|BSL-1\.0|Biopython|Zlib)\b"
)
_COPYLEFT: Final = re.compile(r"GPL|Affero|MPL|EPL|CDDL|EUPL", re.IGNORECASE)
_NAME: Final = re.compile(r"(@[a-z0-9][\w.-]*/)?[A-Za-z0-9][\w.+-]*", re.ASCII)
_VERSION: Final = re.compile(r"[A-Za-z0-9][\w.+:~-]*", re.ASCII)
_FILE: Final = re.compile(r"[A-Za-z0-9][\w.+~%-]*\.(whl|zip|tgz|deb|tar\.(gz|xz|bz2))", re.ASCII)
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class Registry(StrEnum):
    """Where a package comes from. The value is also the folder that its archives lie in."""

    PYPI = "pypi"  # wheels and source distributions
    NPM = "npm"
    DEB_SRC = "deb-src"  # the upstream archives of a Debian source package
    DEB = "deb"  # a binary package of Debian


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A pinned package. `validation` packages are held out, whole.

    The version is that of the archives: of a Debian source package the upstream version, since
    Debian's own revisions share their archives.
    """

    registry: Registry
    name: str
    version: str
    licence: str
    files: dict[str, str]  # sha256 in hexadecimal, by the archive's name
    validation: bool

    def __str__(self) -> str:
        return f"{self.registry}:{self.name} {self.version}"

    def paths(self, archives: Path) -> dict[Path, str]:
        """The sha256 of each of its archives, by where it lies below the folder `archives`."""
        return {archives / self.registry / name: digest for name, digest in self.files.items()}


def read_packages(path: Path = OUR_LIST) -> list[Package]:
    """The packages of a list, in its order.

    Raises:
        TrainingError: the list is malformed, names something twice, or has a licence that is not
            known to be permissive.
    """
    try:
        packages = [_package(entry) for entry in json.loads(path.read_bytes())]
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise TrainingError(f"{path} is no list of packages: {error!r}") from error
    for package in packages:
        if fault := _fault(package):
            raise TrainingError(f"{path}: {package}: {fault}")
    names = Counter((package.registry, package.name) for package in packages)
    files = Counter((package.registry, name) for package in packages for name in package.files)
    for registry, name in [
        key for counted in (names, files) for key in counted if counted[key] > 1
    ]:
        raise TrainingError(f"{path}: {registry}:{name} is listed twice")
    return packages


def _package(entry: dict[str, Any]) -> Package:
    return Package(**{**entry, "registry": Registry(entry["registry"])})


def _fault(package: Package) -> str | None:
    """What is wrong with an entry. Names reach command lines and paths, so they are plain."""
    texts = (package.name, package.version, package.licence, *package.files.values())
    if not all(isinstance(text, str) for text in texts):
        return "its name, version, licence and hashes must be strings"
    if type(package.validation) is not bool:
        return "its validation is neither true nor false"
    if not _NAME.fullmatch(package.name) or not _VERSION.fullmatch(package.version):
        return "no name or version that a registry can have"
    if not package.files or not all(map(_FILE.fullmatch, package.files)):
        return f"{list(package.files)} are no names of archives"
    if not all(map(_SHA256.fullmatch, package.files.values())):
        return "not every archive has a sha256"
    if _COPYLEFT.search(package.licence) or not _PERMISSIVE.search(package.licence):
        return f"{package.licence!r} is not permissive"
    return None
