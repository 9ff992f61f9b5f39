"""Archives are read within bounds, and give the files that people wrote."""

from __future__ import annotations

import gzip
import io
import lzma
import re
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from support.packages import tarball

from midfill_engine.errors import TrainingError
from midfill_engine.training import archives
from midfill_engine.training.archives import read_members
from midfill_engine.training.holes import choose_holes
from midfill_engine.training.packages import Package, Registry
from midfill_engine.training.sources import (
    LANGUAGES,
    Dropped,
    SourceFile,
    examine,
    read_package,
)

CODE = "".join(f"def name_{chr(97 + i)}(value):\n    return other(value)\n\n" for i in range(20))
MEMBERS = {"a.py": CODE, "d/b.c": CODE, "e.txt": CODE}
MIB = 1 << 20


def deb(data: bytes, packed: str) -> bytes:
    """An ar archive, as deb(5) has it."""
    members = {"debian-binary": b"2.0\n", "control.tar.xz": b"odd", f"data.tar.{packed}": data}
    found = b"!<arch>\n"
    for name, content in members.items():
        found += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode()
        found += content + b"\n" * (len(content) % 2)
    return found


def zipped(files: dict[str, str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def members(path: Path, data: bytes) -> list[tuple[str, bytes]]:
    path.write_bytes(data)
    return list(read_members(path, lambda name: not name.endswith(".txt"), MIB))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("p.whl", zipped(MEMBERS)),
        ("p.zip", zipped(MEMBERS)),
        ("p.tgz", tarball(MEMBERS)),
        ("p.tar.gz", tarball(MEMBERS)),
        ("p.tar.xz", tarball(MEMBERS, "xz")),
        ("p.tar.bz2", tarball(MEMBERS, "bz2")),
        ("p.deb", deb(tarball(MEMBERS, "xz"), "xz")),
        ("p.deb", deb(tarball(MEMBERS), "gz")),
    ],
)
def test_every_kind_of_archive_gives_the_same(name: str, data: bytes, tmp_path: Path) -> None:
    assert members(tmp_path / name, data) == [("a.py", CODE.encode()), ("d/b.c", CODE.encode())]


def lying_zip() -> bytes:
    """A zip whose member says that it is smaller than it is."""
    data = bytearray(zipped({"a.py": "x" * MIB}))
    for at in (22, data.index(b"PK\x01\x02") + 24):
        data[at : at + 4] = (100).to_bytes(4, "little")
    return bytes(data)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("p.whl", b"no zip"),
        ("p.whl", lying_zip()),
        ("p.tgz", b"no gzip"),
        ("p.tgz", tarball(MEMBERS)[:-40]),
        ("p.tar.xz", tarball(MEMBERS, "xz")[:-90]),
        ("p.tar.gz", gzip.compress(b"no tar" * 200)),
        ("p.tar.zst", b"?"),
        ("p.deb", b"no deb"),
        ("p.deb", deb(b"", "zst")),
        ("p.deb", b"!<arch>\n" + f"{'x':<48}{-60:<10}`\n".encode()),
    ],
)
def test_an_archive_that_is_broken(name: str, data: bytes, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="cannot be read"):
        members(tmp_path / name, data)


def test_an_archive_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"p\.tgz cannot be read"):
        list(read_members(tmp_path / "p.tgz", bool, MIB))


def claiming(size: int) -> bytes:
    """A tarball of a member that is said to be of `size` bytes."""
    info = tarfile.TarInfo("a.py")
    info.size = size
    return gzip.compress(info.tobuf(tarfile.GNU_FORMAT))


def long_header() -> bytes:
    """A tarball with a name of 32 MiB."""
    info = tarfile.TarInfo("name")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 32 * MIB
    return gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + b"x" * 32 * MIB)


@pytest.mark.parametrize(
    ("data", "message"),
    [(claiming(1 << 40), "unpacked"), (long_header(), "header"), (claiming(3 << 30), "unpacked")],
)
def test_a_tarball_made_to_fill_the_memory(data: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=f"too large.*{message}"):
        members(tmp_path / "p.tgz", data)


def test_bounds_on_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = {"_MAX_ARCHIVE_BYTES": 10, "_MAX_MEMBERS": 2, "_MAX_UNPACKED_BYTES": 1000}
    for name, bound in bounds.items():
        for file, data in (("p.whl", zipped(MEMBERS)), ("p.tgz", tarball(MEMBERS))):
            with monkeypatch.context() as patch:
                patch.setattr(archives, name, bound)
                with pytest.raises(TrainingError, match="too large"):
                    members(tmp_path / file, data)


def test_an_xz_stream_that_asks_for_much_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "_XZ_MEMORY_BYTES", MIB)
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9}]  # needs 64 MiB
    with pytest.raises(TrainingError, match=r"cannot be read.*limit"):
        members(tmp_path / "p.tar.xz", lzma.compress(b"x" * 999, filters=filters))


def test_large_files_links_and_devices_are_passed_over(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, kind in (("link.py", tarfile.SYMTYPE), ("device.py", tarfile.CHRTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/hostname"
            archive.addfile(info)
        for name, size in (("large.py", MIB + 1), ("a.py", MIB)):
            info = tarfile.TarInfo(name)
            info.size = size
            archive.addfile(info, io.BytesIO(bytes(size)))
    assert [name for name, _ in members(tmp_path / "p.tgz", stream.getvalue())] == ["a.py"]


def stored(folder: Path, files: Mapping[str, str | bytes]) -> Package:
    """A package of these files, among the archives of `folder`."""
    package = Package(
        registry=Registry.NPM, name="p", version="1", licence="MIT",
        files={"p-1.tgz": ""}, validation=False,
    )  # fmt: skip
    (folder / "npm").mkdir(exist_ok=True)
    (folder / "npm/p-1.tgz").write_bytes(tarball(files))
    return package


def examined(folder: Path, files: dict[str, str]) -> dict[str, str]:
    """The language of each file that is kept, the reason against each that is dropped."""
    package = stored(folder, files)
    found = list(examine(folder, package))
    assert [file.path for file in found] == sorted(file.path for file in found)
    kept = [file for file in found if isinstance(file, SourceFile)]
    assert list(read_package(folder, package)) == kept
    return {
        file.path: f"-{file.reason}" if isinstance(file, Dropped) else file.language
        for file in found
    }


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.py", CODE, "python"),
        ("a.py", "\ufeff" + CODE.replace("\n", "\r\n"), "python"),
        ("a.tsx", CODE, "typescript"),
        ("a.h", CODE, "c"),
        ("a.h", CODE + "namespace x {\n}\n", "cpp"),
        ("a.h", CODE + "  std::string s;\n", "cpp"),
        ("bin/a", "#!/bin/sh\n" + CODE, "bash"),
        ("bin/a", "#!/usr/bin/env python3\n" + CODE, "python"),
        ("README", CODE, None),
        ("a.txt", CODE, None),
        ("a.py", "x = 1\n", None),
        ("a.py", "# " + "x" * 160_000 + "\n" + CODE, None),
        ("a/vendor/b.py", CODE, "-vendored"),
        ("node_modules/b.js", CODE, "-vendored"),
        ("third_party/b.cc", CODE, "-vendored"),
        ("deps/lua/b.c", CODE, "-vendored"),
        ("vendors.py", CODE, "python"),
        ("a.min.js", CODE, "-generated"),
        ("a_pb2.py", CODE, "-generated"),
        ("a.py", "# Generated by a program\n" + CODE, "-generated"),
        ("a.go", "// Code generated by x. DO NOT EDIT.\npackage a\n" + CODE, "-generated"),
        ("a.py", '"""Wrapper\n\nGenerated with:\nx.py\n"""\nimport a\n' + CODE, "-generated"),
        ("a.js", CODE + "//# sourceMappingURL=a.js.map\n", "-generated"),
        ("a.js", 'Object.defineProperty(exports, "__esModule")\n' + CODE, "-generated"),
        ("a.py", "import a\n\n# what is generated by `a`\n" + CODE, "python"),
        ("a.py", 'def f():\n    """Hashes generated by f."""\n' + CODE, "python"),
        ("a.js", CODE + "x" * 401, "-minified"),
        ("a.js", (";".join(["f(x)"] * 20) + "\n") * 20, "-minified"),
        ("a.py", "x = [\n" + "    1, 2, 3,\n" * 60 + "]\n", "-data"),
        ("a.py", "x = [\n" + "    'ζζζζ',\n" * 60 + "]\n", "-data"),
        ("app/migrations/a.py", CODE, "-data"),
        ("a.py", "x = 'some text'\n" * 8 + "# " + "x" * 200, "-short"),
    ],
)
def test_what_is_kept(name: str, text: str, expected: str | None, tmp_path: Path) -> None:
    assert examined(tmp_path, {name: text}).get(name) == expected


def test_what_is_not_unicode_is_dropped(tmp_path: Path) -> None:
    package = stored(tmp_path, {"a.py": CODE.encode() + b"# \xe4\n"})
    assert list(examine(tmp_path, package)) == [Dropped("a.py", "encoding")]


def test_what_was_built_from_sources_is_dropped_beside_them(tmp_path: Path) -> None:
    built = {"p/dist/a.js": CODE}
    assert examined(tmp_path, built) == {"p/dist/a.js": "javascript"}
    assert examined(tmp_path, built | {"p/src/a.ts": CODE, "p/src/dist/b.ts": CODE}) == {
        "p/dist/a.js": "-built",
        "p/src/a.ts": "typescript",
        "p/src/dist/b.ts": "typescript",
    }


@pytest.mark.parametrize(
    ("name", "is_test"),
    [
        ("a.py", False), ("tests/a.py", True), ("test_a.py", True), ("a_test.go", True),
        ("a.spec.ts", True), ("a_spec.rb", True), ("x/ATest.java", True), ("Latest.java", False),
        ("Tests/A.php", True), ("a_unittest.cc", True), ("contest.py", False),
    ],
)  # fmt: skip
def test_which_files_are_tests(name: str, is_test: bool, tmp_path: Path) -> None:
    (file,) = read_package(tmp_path, stored(tmp_path, {name: CODE}))
    assert file.is_test is is_test


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_holes(language: str) -> None:
    """Without a grammar there are none for expressions; the trainer does not stumble."""
    text = CODE.encode()
    words = np.array([m.start() for m in re.finditer(rb"\w+|\s|\S", text)])
    rng = np.random.default_rng(1)
    groups = choose_holes(text, words, language, len(text), 20, 3, rng)
    assert {group.kind for group in groups} >= {"line", "block"}
    assert all(group.starts for group in groups)
