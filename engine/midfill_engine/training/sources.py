"""Reads source files out of downloaded packages.

Owns languages by file name, and which files are not worth learning from: generated, built,
minified, vendored, data in disguise. Knows nothing of tokens, duplicates or splits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from midfill_engine.training.archives import read_members
from midfill_engine.training.packages import Package

LANGUAGES: Final = (  # a corpus stores the index: append only
    *("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp"),
    *("csharp", "ruby", "php", "bash", "lua"),
)
_SUFFIXES: Final = {
    ".py": "python", ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript",
    ".jsx": "javascript", ".ts": "typescript", ".tsx": "typescript", ".mts": "typescript",
    ".go": "go", ".rs": "rust", ".java": "java", ".c": "c", ".h": "c", ".cc": "cpp",
    ".cpp": "cpp", ".cxx": "cpp", ".hpp": "cpp", ".hh": "cpp", ".cs": "csharp", ".rb": "ruby",
    ".php": "php", ".sh": "bash", ".bash": "bash", ".lua": "lua",
}  # fmt: skip
_SHEBANG: Final = re.compile(r"#!.*?\b(bash|sh|lua|php|python|ruby)[\d.]*\b")
_CPP: Final = re.compile(
    r"\bstd::|^\s*(namespace\s+\w+|template\s*<|class\s+\w+|(public|private|protected):)", re.M
)
_VENDORED: Final = re.compile(
    r"(^|/)(_?vendor(ed)?|(third|3rd)[_-]?party|node_modules|extern(al)?s?|deps|bundled|"
    r"site-packages|testdata|fixtures?)/", re.IGNORECASE)  # fmt: skip
_DATA: Final = re.compile(
    r"(^|/)(lib2to3/tests|turtledemo|pydoc_data|encodings|locales?|migrations)/", re.IGNORECASE
)
_BUILT: Final = re.compile(
    r"(^|/)(dist|build|cjs|esm\d*|fesm\d+|es|umd|amd|min|out|lib\.commonjs|lib\.esm)/"
)
_BUNDLE: Final = re.compile(
    r"(\.min|\.umd|\.bundle|\.iife|_pb2|_pb2_grpc|\.pb|\.d|\.generated|_gen|\.designer|\.g)\.\w+$",
    re.IGNORECASE,
)
_TEST: Final = re.compile(
    r"(^|/)(tests?|testing|__tests__|specs?|benchmarks?|testsuite)/|(^|/)test_|"
    r"[._-](unit)?(test|spec)s?\.|conftest|(?-i:[A-Za-z0-9]Tests?\.(java|cs|php)$)",
    re.IGNORECASE,
)
_FIRST_CODE: Final = re.compile(
    r"^(import|from|package|use|using|def|class|const|var|let|namespace|function|pub|#include)\b",
    re.M,
)
_SAYS_GENERATED: Final = re.compile(  # of what stands before the first line of code
    r"\b(auto-?|automatically )generated|generated (by|from|with|file|code|list)\b|"
    r"\bdo not (edit|modify)|@generated", re.IGNORECASE
)  # fmt: skip
_GENERATED_COMMENT: Final = re.compile(  # a comment that begins so, anywhere
    r"^[ \t]*(#|//|/?\*+|--|;)[ \t]*((this )?(file|code)( is| was)? )?(automatically |auto-?)?"
    r"generated (by|from|with)\b", re.IGNORECASE | re.MULTILINE
)  # fmt: skip
_TRANSPILED: Final = re.compile(
    r"sourceMappingURL|__webpack_require__|__esModule|_interopRequire|__importDefault|tslib_1"
)
_MIN_BYTES, _MAX_BYTES = 300, 160_000


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a package, with `\\n` line ends."""

    path: str
    language: str
    text: str
    is_test: bool


@dataclass(frozen=True, slots=True)
class Dropped:
    """A file of a known language that is not learnt from, and why, in a word."""

    path: str
    reason: str


def read_package(archives: Path, package: Package) -> Iterator[SourceFile]:
    """The useful files of a package, by name.

    Raises:
        TrainingError: one of its archives is broken, or too large.
    """
    return (file for file in examine(archives, package) if isinstance(file, SourceFile))


def examine(archives: Path, package: Package) -> Iterator[SourceFile | Dropped]:
    """The files of a package that are in a known language, by name.

    Files of a size that is of no use are passed over.

    Raises:
        TrainingError: one of its archives is broken, or too large.
    """
    members = sorted(
        member
        for path in sorted(package.paths(archives))
        for member in read_members(path, _may_be_source, _MAX_BYTES)
        if len(member[1]) >= _MIN_BYTES
    )
    has_sources = any("/src/" in f"/{name}" for name, _ in members)
    for name, data in members:
        if has_sources and _BUILT.search(name) and "/src/" not in f"/{name}":
            yield Dropped(name, "built")
        elif (file := _examine(name, data)) is not None:
            yield file


def _may_be_source(name: str) -> bool:
    suffix = PurePosixPath(name).suffix
    return not suffix or suffix in _SUFFIXES


def _examine(name: str, data: bytes) -> SourceFile | Dropped | None:
    try:
        text = data.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        return Dropped(name, "encoding") if PurePosixPath(name).suffix else None
    language = _language(name, text)
    if language is None:
        return None
    if reason := _reason_against(name, text):
        return Dropped(name, reason)
    return SourceFile(name, language, text, bool(_TEST.search(name)))


def _language(name: str, text: str) -> str | None:
    path = PurePosixPath(name)
    if not path.suffix:
        match = _SHEBANG.match(text)
        return match and ("bash" if match[1] == "sh" else match[1])
    if path.suffix == ".h" and _CPP.search(text):
        return "cpp"
    return _SUFFIXES[path.suffix]


def _reason_against(name: str, text: str) -> str | None:
    if _VENDORED.search(name):
        return "vendored"
    if _BUNDLE.search(name) or _is_generated(text):
        return "generated"
    lines = text.split("\n")
    if max(map(len, lines)) > 400 or len(text) / len(lines) > 70:
        return "minified"
    if _DATA.search(name) or "\0" in text or _is_data(text):
        return "data"
    return "short" if len(lines) < 10 else None


def _is_generated(text: str) -> bool:
    code = _FIRST_CODE.search(text)
    head = text[: min(code.start() if code else 2000, 2000)]
    return bool(
        _SAYS_GENERATED.search(head)
        or _GENERATED_COMMENT.search(text[:3000])
        or _TRANSPILED.search(text[:3000])
        or _TRANSPILED.search(text[-300:])
    )


def _is_data(text: str) -> bool:
    """Whether most of it is figures, signs or another script than code is written in."""
    letters, digits = (sum(map(kind, text)) for kind in (str.isalpha, str.isdigit))
    foreign = len(text) - len(text.encode("ascii", "ignore"))
    return foreign > 0.02 * len(text) or digits >= 0.12 * len(text) or letters <= 0.3 * len(text)
