"""Asks registries for packages, through their own clients.

Owns the command lines of pip, npm and apt and the reading of what they say. Their clients,
because those know the user's indexes, mirrors, proxies and certificates; no registry is named
here. Nothing of a package is run, with one exception: pip asks a source distribution for its
metadata, for which it runs that package's build, once it has the sha256 that we expect.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from midfill_engine.errors import TrainingError
from midfill_engine.pip_download import failure
from midfill_engine.training.packages import Package, Registry

Download = Callable[[Package, Path], None]
"""Puts the archives of a package into an empty folder. Raises TrainingError."""

_TIMEOUT_S: Final = 900
_OTHER_HASH: Final = "DO NOT MATCH THE HASHES"
_SAID: Final = re.compile(
    r"^(?:E: |npm (?:error|ERR!) )(?!(?:code|syscall|path|dest|errno) |A complete log)(.+)", re.M
)
_APT_SAID: Final = re.compile(r"^[EW]: (.+)", re.MULTILINE)
_DEBIAN: Final = re.compile("debian", re.IGNORECASE)
_TYPES: Final = re.compile(r"^Types:.*", re.MULTILINE)
_ONE_LINE: Final = re.compile(r"^deb(?:-src)?(?=\s)(.*debian.*)$", re.MULTILINE | re.IGNORECASE)


def _open_pip(packages: Sequence[Package], scratch: Path) -> Download:
    def download(package: Package, folder: Path) -> None:
        # The hash makes pip choose the one file that is wanted, whatever Python runs it, and
        # check it before it looks inside.
        ((name, digest),) = package.files.items()
        requirements = scratch / f"{package.name}.txt"
        requirements.write_text(f"{package.name}=={package.version} --hash=sha256:{digest}\n")
        command = [
            *(sys.executable, "-I", "-m", "pip", "download", "-vv", "--progress-bar=off"),
            *("--no-deps", "--no-input", "--disable-pip-version-check", "--require-hashes"),
            *(f"--dest={folder}", f"--requirement={requirements}", *_tags(name)),
        ]
        done = _run(command, scratch)
        if _OTHER_HASH in done.stdout:
            raise TrainingError(f"{name} does not have the sha256 {digest}")
        if done.returncode:
            raise TrainingError(failure(done.stdout))

    return download


def _tags(name: str) -> list[str]:
    """What makes pip take a wheel that is for another Python or machine than this one."""
    if not name.endswith(".whl"):
        return ["--no-binary=:all:"]
    pythons, abis, platforms = (tag.split(".") for tag in name.removesuffix(".whl").split("-")[-3:])
    python = max(pythons)  # py3 of py2.py3
    return [
        *("--only-binary=:all:", "--ignore-requires-python", f"--implementation={python[:2]}"),
        f"--python-version={python[2:]}",
        *(f"--abi={abi}" for abi in abis),
        *(f"--platform={platform}" for platform in platforms),
    ]


def _open_npm(packages: Sequence[Package], scratch: Path) -> Download:
    _need("npm", packages)

    def download(package: Package, folder: Path) -> None:
        command = [
            *("npm", "pack", f"{package.name}@{package.version}", "--ignore-scripts"),
            f"--pack-destination={folder}",
        ]
        _run_or_raise(command, scratch)

    return download


def _open_apt(packages: Sequence[Package], scratch: Path) -> Download:
    """apt, with lists of its own, so that it needs no rights and changes nothing of the system."""
    _need("apt-get", packages)
    registry = packages[0].registry
    source = registry is Registry.DEB_SRC
    options = _apt_options(registry, scratch)
    update = _run(["apt-get", *options, "-qq", "update"], scratch)  # what it lacks is missed below
    show = ("showsrc", "--only-source") if source else ("show", "--all-versions")
    names = [package.name for package in packages]
    known = _stanzas(_run(["apt-cache", *options, *show, *names], scratch).stdout)
    if not known:
        said = _APT_SAID.search(update.stdout)
        why = f" (apt-get update: {said[1]})" if said else ""
        raise TrainingError(f"apt knows none of them{why}; does it reach an archive of Debian?")

    def download(package: Package, folder: Path) -> None:
        versions = [fields for fields in known if fields["Package"] == package.name]
        right = [
            v["Version"] for v in versions if all(d in v["all"] for d in package.files.values())
        ]
        if not right:
            there = ", ".join(fields["Version"] for fields in versions) or "none at all"
            raise TrainingError(f"apt knows no version with these archives (it knows {there})")
        verb = ("source", "--download-only", "--tar-only", "--only-source")
        for last, version in enumerate(reversed(right), 1 - len(right)):
            command = ["apt-get", *options, "-qq", *(verb if source else ("download",))]
            try:
                _run_or_raise([*command, f"{package.name}={version}"], folder)
            except TrainingError:
                if last == 0:
                    raise
            else:
                return

    return download


def _apt_options(registry: Registry, scratch: Path) -> list[str]:
    parts, lists = scratch / "sources", scratch / "lists"
    for folder in (parts, lists / "partial", scratch / "cache"):
        folder.mkdir(parents=True)
    for path in _apt_sources(scratch):
        try:
            text = path.read_text("utf-8", "replace")
        except OSError:
            continue
        if path.suffix == ".sources":
            stanzas = [s for s in re.split(r"\n\s*\n", text) if _DEBIAN.search(s)]
            text = "\n\n".join(_TYPES.sub(f"Types: {registry}", s) for s in stanzas)
        else:
            lines = {match[1] for match in _ONE_LINE.finditer(text)}
            text = "".join(f"{registry}{line}\n" for line in sorted(lines))
        (parts / path.name).write_text(text)
    settings = {
        "Dir::Etc::SourceList": os.devnull,
        "Dir::Etc::SourceParts": parts,
        "Dir::State::Lists": lists,
        "Dir::Cache": scratch / "cache",
        "APT::Sandbox::User": "root",  # no user of its own could read these folders
        "APT::Architecture": "amd64",  # the one of our hashes
        "Acquire::Languages": "none",
    }
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def _apt_sources(scratch: Path) -> list[Path]:
    """The files in which this machine's own archives are named."""
    command = ["apt-config", "shell", "A", "Dir::Etc::sourcelist/f", "B", "Dir::Etc::sourceparts/d"]
    listed, parts = re.findall(r"='(.*)'", _run_or_raise(command, scratch))
    found = (path for path in Path(parts).glob("*") if path.suffix in (".list", ".sources"))
    return [Path(listed), *sorted(found)]


def _stanzas(text: str) -> list[dict[str, str]]:
    """Package and Version of each stanza that apt-cache shows, and `all` of it."""
    found = []
    for stanza in text.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version): (\S+)", stanza, re.M))
        if len(fields) == 2:
            found.append(fields | {"all": stanza})
    return found


def _need(client: str, packages: Sequence[Package]) -> None:
    if shutil.which(client) is None:
        raise TrainingError(f"{client} is needed to download it, and is not installed")


def _run_or_raise(command: list[str], folder: Path) -> str:
    done = _run(command, folder)
    if done.returncode:
        said = _SAID.findall(done.stdout) or [f"{command[0]} failed and gave no reason"]
        raise TrainingError(f"{command[0]}: {said[0]}")
    return done.stdout


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a client in a folder of ours, where nothing lies that could configure it."""
    try:
        return subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, "LC_ALL": "C.UTF-8", "TMPDIR": str(folder)},
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TrainingError(f"{command[0]} was not done after {_TIMEOUT_S} s") from None


OPENERS: Final[dict[Registry, Callable[[Sequence[Package], Path], Download]]] = {
    Registry.PYPI: _open_pip,
    Registry.NPM: _open_npm,
    Registry.DEB_SRC: _open_apt,
    Registry.DEB: _open_apt,
}
"""How to get at each registry: given the packages wanted of it and a folder for its own use."""
