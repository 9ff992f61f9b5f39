"""Reads source files out of downloaded packages.

Owns archive formats, languages by file name, and which files are not worth learning from:
generated, minified, vendored, data in disguise. Knows nothing of tokens or splits.
"""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LANGUAGES: Final = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")
_SUFFIXES: Final = {
    ".py": "python", ".js": "javascript", ".mjs": "javascript", ".jsx": "javascript",
    ".ts": "typescript", ".tsx": "typescript", ".mts": "typescript", ".go": "go", ".rs": "rust",
    ".java": "java", ".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp",
    ".hpp": "cpp", ".hh": "cpp",
}  # fmt: skip
_VENDORED: Final = re.compile(
    r"(^|/)(_?vendor(ed)?|third[_-]?party|node_modules|extern(al)?s?|bundled|site-packages|"
    r"lib2to3/tests|idlelib|turtledemo|pydoc_data|encodings|locale|locales|migrations|"
    r"umd|amd|min|esm5|fesm\d+|testdata|fixtures?)/", re.IGNORECASE)  # fmt: skip
_BUNDLE: Final = re.compile(
    r"(\.min|\.umd|\.bundle|\.iife|_pb2|_pb2_grpc|\.pb|\.d|\.generated|_gen)\.\w+$"
)
_TEST: Final = re.compile(
    r"(^|/)(tests?|testing|__tests__|spec|benchmarks?)/|(^|/)test_|_test\.|\.(test|spec)\.|conftest"
)
_GENERATED: Final = re.compile(
    r"(auto-?)?generated (by|from|file|code)|do not (edit|modify)|@generated|sourceMappingURL|"
    r"__webpack_require__|__esModule|_interopRequire|__importDefault|tslib_1",
    re.IGNORECASE,
)  # fmt: skip
_MIN_BYTES, _MAX_BYTES = 300, 160_000


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a package, with `\\n` line ends."""

    path: str
    language: str
    text: str
    is_test: bool


def read_package(path: Path) -> Iterator[SourceFile]:
    """The useful files of an archive or a folder, by name."""
    members = sorted(_members(path), key=lambda member: member[0])
    for name, data in members:
        if file := _source_file(name, data):
            yield file


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    if path.is_dir():
        for file in path.rglob("*"):
            if _language(file.name) and file.is_file():
                yield str(file.relative_to(path)), file.read_bytes()
    elif path.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if _language(info.filename) and info.file_size <= _MAX_BYTES:
                    yield info.filename, archive.read(info)
    else:
        with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as archive:
            for member in archive:
                if member.isfile() and _language(member.name) and member.size <= _MAX_BYTES:
                    stream = archive.extractfile(member)
                    if stream is not None:
                        yield member.name, stream.read()


def _language(name: str) -> str | None:
    return _SUFFIXES.get(Path(name).suffix)


def _source_file(name: str, data: bytes) -> SourceFile | None:
    language = _language(name)
    if language is None or not _MIN_BYTES <= len(data) <= _MAX_BYTES:
        return None
    if _VENDORED.search(name) or _BUNDLE.search(name):
        return None
    try:
        text = data.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        return None
    if not _is_prose_of_code(text):
        return None
    return SourceFile(name, language, text, bool(_TEST.search(name)))


def _is_prose_of_code(text: str) -> bool:
    """Whether a person wrote this, in lines one can read."""
    if "\0" in text or _GENERATED.search(text[:3000]) or _GENERATED.search(text[-300:]):
        return False
    lines = text.split("\n")
    longest = max(map(len, lines))
    if longest > 400 or len(text) / len(lines) > 70 or len(lines) < 10:
        return False
    if sum(not c.isascii() for c in text) > 0.02 * len(text):
        return False
    digits = sum(c.isdigit() for c in text)
    letters = sum(c.isalpha() for c in text)
    return digits < 0.12 * len(text) and letters > 0.3 * len(text)
