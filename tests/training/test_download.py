"""Packages are downloaded once, by the registries' own clients, and only the right ones."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from support.packages import entry, tarball, write_list

from midfill_engine.errors import TrainingError, TrainingFailed
from midfill_engine.training.download import fetch_packages
from midfill_engine.training.packages import Package, Registry, read_packages

ARCHIVE = tarball({"a.py": "x = 1\n"})

# `npm pack NAME@VERSION`, from the folder $SHELF.
NPM = """#!/bin/sh
echo "$2" >> "$SHELF/asked"
for word; do case "$word" in --pack-destination=*) to="${word#*=}";; esac; done
file="$SHELF/$(echo "${2#@}" | tr '/@' '--').tgz"
if [ -f "$file" ]; then cp "$file" "$to"; else
  echo "npm error code ETARGET"; echo "npm error notarget No matching version found for $2."; exit 1
fi
"""
# apt: knows what stands in $SHELF/index, has what lies in $SHELF, shows the sources it was given,
# says at an update what stands in $SHELF/said.
APT = """#!/bin/sh
for word; do
  last="$word"
  case "$word" in *SourceParts=*) sources="${word#*=}";; esac
done
case "$(basename "$0") $*" in
  apt-config*) echo "A='$SHELF/sources.list'"; echo "B='$SHELF/sources.list.d'";;
  apt-cache*) cat "$SHELF/index";;
  *update) cp -r "${sources#*=}" "$SHELF/seen"; cat "$SHELF/said" 2>/dev/null;;
  *) cp "$SHELF/${last%%=*}_"* . 2>/dev/null || { echo "E: Failed to fetch $last"; exit 100; };;
esac
"""


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of archives, which clients on the `PATH` offer; pip is the real one."""
    folder, clients = tmp_path / "shelf", tmp_path / "clients"
    (folder / "sources.list.d").mkdir(parents=True)
    clients.mkdir()
    for name in ("npm", "apt-get", "apt-cache", "apt-config"):
        (clients / name).write_text(NPM if name == "npm" else APT)
        (clients / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{clients}:/usr/bin:/bin")
    monkeypatch.setenv("SHELF", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return folder


def package(registry: str, name: str, file: str, data: bytes = ARCHIVE, **fields: Any) -> Package:
    digest = hashlib.sha256(data).hexdigest()
    made = {"version": "1", "licence": "MIT", "files": {file: digest}, "validation": False}
    return Package(registry=Registry(registry), name=name, **(made | fields))


def npm(name: str, data: bytes = ARCHIVE) -> Package:
    return package("npm", name, f"{name}-1.tgz", data)


def fetch(packages: list[Package], archives: Path) -> list[str]:
    lines: list[str] = []
    fetch_packages(packages, archives, lines.append)
    return lines


def test_only_what_is_missing_is_downloaded(shelf: Path, tmp_path: Path) -> None:
    archives = tmp_path / "archives"
    for name in "abc":
        (shelf / f"{name}-1.tgz").write_bytes(ARCHIVE)
    assert fetch([npm("a")], archives) == ["[1/1] npm:a 1"]
    (archives / "npm/b-1.tgz").write_bytes(ARCHIVE[:-9])  # torn
    assert sorted(line[-7:] for line in fetch([npm(n) for n in "abc"], archives)) == [
        "npm:b 1",
        "npm:c 1",
    ]
    assert fetch([npm(name) for name in "abc"], archives) == []
    assert sorted((shelf / "asked").read_text().split()) == ["a@1", "b@1", "c@1"]
    assert all((archives / f"npm/{name}-1.tgz").read_bytes() == ARCHIVE for name in "abc")


def test_failures_are_named_and_keep_nothing_else_from_being_had(
    shelf: Path, tmp_path: Path
) -> None:
    archives = tmp_path / "archives"
    (shelf / "right-1.tgz").write_bytes(ARCHIVE)
    (shelf / "wrong-1.tgz").write_bytes(b"something else")
    with pytest.raises(TrainingFailed) as caught:
        fetch([npm("gone"), npm("right"), npm("wrong")], archives)
    assert "2 of 3 packages" in str(caught.value)
    assert "npm:gone 1: npm: notarget No matching version found for gone@1" in str(caught.value)
    assert "npm:wrong 1: wrong-1.tgz has the sha256" in str(caught.value)
    assert [path.name for path in (archives / "npm").iterdir()] == ["right-1.tgz"]
    assert not (archives / ".partial").exists()


def test_what_a_killed_download_left_does_not_count(shelf: Path, tmp_path: Path) -> None:
    archives = tmp_path / "archives"
    (archives / ".partial/x").mkdir(parents=True)
    (archives / ".partial/x/a-1.tgz").write_bytes(ARCHIVE)
    with pytest.raises(TrainingError, match="npm:a 1"):
        fetch([npm("a")], archives)
    assert not (archives / ".partial").exists()


@pytest.mark.parametrize(
    ("registry", "client", "file"),
    [("npm", "npm", "p-1.tgz"), ("deb-src", "apt-get", "p_1.orig.tar.gz"),
     ("deb", "apt-get", "p_1_all.deb")],
)  # fmt: skip
def test_a_client_that_is_not_installed(
    registry: str, client: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TrainingError, match=f"{registry}:p 1: {client} is needed"):
        fetch([package(registry, "p", file)], tmp_path)


def wheel(shelf: Path, name: str) -> bytes:
    with zipfile.ZipFile(shelf / name, "w") as archive:
        archive.writestr("p/a.py", "x = 1\n")
        archive.writestr("p-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: p\nVersion: 1\n")
        archive.writestr("p-1.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        archive.writestr("p-1.dist-info/RECORD", "")
    return (shelf / name).read_bytes()


def test_the_wheel_of_the_hash_is_taken_whatever_python_it_is_for(
    shelf: Path, tmp_path: Path
) -> None:
    wheel(shelf, "p-1-py3-none-any.whl")
    name = "p-1-cp37-cp37m-manylinux1_sparc.whl"
    fetch([package("pypi", "p", name, wheel(shelf, name))], tmp_path)
    assert (tmp_path / "pypi" / name).is_file()


def test_a_wheel_with_another_hash(shelf: Path, tmp_path: Path) -> None:
    name = "p-1-py3-none-any.whl"
    wheel(shelf, name)
    with pytest.raises(TrainingError, match=f"pypi:p 1: {name} does not have the sha256"):
        fetch([package("pypi", "p", name)], tmp_path)


def stanza(name: str, version: str, file: str, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    return f"Package: {name}\nVersion: {version}\nChecksums-Sha256:\n {digest} 9 {file}\n\n"


@pytest.mark.parametrize(
    ("registry", "file"), [("deb-src", "p_1.orig.tar.gz"), ("deb", "p_1_all.deb")]
)
def test_apt_finds_the_version_that_has_the_archive(
    registry: str, file: str, shelf: Path, tmp_path: Path
) -> None:
    (shelf / "index").write_text(
        stanza("p", "2-1", "p_2.orig.tar.gz", b"new") + stanza("p", "1-7", file, ARCHIVE)
    )
    (shelf / "sources.list").write_text("deb [x=y] uri://debian stable main\ndeb uri://other x\n")
    (shelf / "sources.list.d/a.sources").write_text(
        "Types: deb\nURIs: uri://some/debian-security\n\nTypes: deb\nURIs: uri://another\n"
    )
    (shelf / file).write_bytes(ARCHIVE)
    fetch([package(registry, "p", file)], tmp_path / "archives")
    assert (tmp_path / "archives" / registry / file).read_bytes() == ARCHIVE
    assert (
        shelf / "seen/sources.list"
    ).read_text() == f"{registry} [x=y] uri://debian stable main\n"
    assert (shelf / "seen/a.sources").read_text() == (
        f"Types: {registry}\nURIs: uri://some/debian-security"
    )


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", ""),
        ("Reading package lists...\n", ""),
        ("Err:1 x\nW: Failed to fetch\nE: Some failed\n", " (apt-get update: Failed to fetch)"),
        ("E: No sources could be read.\n", " (apt-get update: No sources could be read.)"),
    ],
)
def test_an_apt_that_knows_nothing(said: str, why: str, shelf: Path, tmp_path: Path) -> None:
    (shelf / "index").touch()
    (shelf / "said").write_text(said)
    with pytest.raises(TrainingError) as caught:
        fetch([package("deb-src", "p", "p_1.orig.tar.gz")], tmp_path)
    assert f"apt knows none of them{why}; does it reach an archive" in str(caught.value)


def test_a_version_that_apt_no_longer_has(shelf: Path, tmp_path: Path) -> None:
    (shelf / "index").write_text(stanza("p", "2-1", "p_2.orig.tar.gz", b"new"))
    with pytest.raises(TrainingError, match=r"deb-src:p 1: apt knows no version .* knows 2-1"):
        fetch([package("deb-src", "p", "p_1.orig.tar.gz")], tmp_path)


def test_an_archive_that_only_the_index_has(shelf: Path, tmp_path: Path) -> None:
    (shelf / "index").write_text(stanza("p", "1-7", "p_1.orig.tar.gz", ARCHIVE))
    with pytest.raises(TrainingError, match="deb-src:p 1: apt-get: Failed to fetch p=1-7"):
        fetch([package("deb-src", "p", "p_1.orig.tar.gz")], tmp_path)


def test_our_list_is_pinned_permissive_and_split() -> None:
    packages = read_packages()
    assert {package.registry for package in packages} == set(Registry)
    assert 0 < sum(package.validation for package in packages) < len(packages) / 10


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"licence": "GPL-3.0"}, "not permissive"),
        ({"licence": "MIT AND LGPL-2.1"}, "not permissive"),
        ({"licence": "LIMITED"}, "not permissive"),
        ({"size": 3}, "no list of packages"),
        ({"registry": "elsewhere"}, "no list of packages"),
        ({"files": {}}, "no names of archives"),
        ({"files": {"../a.tar.gz": "0" * 64}}, "no names of archives"),
        ({"files": {"a.tar.gz": "0" * 63}}, "sha256"),
        ({"name": "--index-url=x"}, "no name"),
        ({"version": "1 --pre"}, "no name or version"),
        ({"validation": 1}, "validation"),
        ({"name": 3}, "strings"),
    ],
)
def test_a_list_that_is_refused(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        read_packages(write_list(tmp_path / "list", entry("p", ARCHIVE, **fields)))


@pytest.mark.parametrize("text", ["", "{}x", '["p"]', '[{"name": "p"}]', "3", "[3]"])
def test_a_file_that_is_no_list(tmp_path: Path, text: str) -> None:
    (tmp_path / "list").write_text(text)
    with pytest.raises(TrainingError, match="no list of packages"):
        read_packages(tmp_path / "list")


def test_a_package_that_is_listed_twice(tmp_path: Path) -> None:
    listed = entry("p", ARCHIVE)
    other = entry("q", ARCHIVE, files=listed["files"])
    for entries in ([listed, listed], [listed, other]):
        with pytest.raises(TrainingError, match="twice"):
            read_packages(write_list(tmp_path / "list", *entries))


def test_reading_packages_needs_no_torch() -> None:
    modules = ("packages", "download", "sources", "contamination")
    names = ", ".join(f"midfill_engine.training.{name}" for name in modules)
    program = f"import sys, {names}; print({{'torch', 'numpy'}} & sys.modules.keys())"
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
