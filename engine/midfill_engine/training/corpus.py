"""Builds and reads the corpus: one memory-mapped file of tokens and a table of documents.

Owns the split by package, near-duplicates, shares of tests and packages, the manifest and the
files' layout: `tokens.bin` (uint16), `docs.npy` (`DOCUMENT`), `manifest.json`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from midfill_engine.errors import TrainingError
from midfill_engine.model.vocabulary import Vocabulary
from midfill_engine.training.contamination import Contamination
from midfill_engine.training.packages import Package
from midfill_engine.training.sources import LANGUAGES, SourceFile, read_package

DOCUMENT: Final = np.dtype(
    [
        ("start", "<i8"),
        ("length", "<i4"),
        ("language", "u1"),
        ("validation", "u1"),
        ("package", "<u2"),
    ]
)
_SHINGLE_LINES: Final = 4
_TEST_SHARE: Final = 0.1
_MAX_PACKAGE_BYTES: Final = 2_500_000


@dataclass(frozen=True, slots=True)
class Corpus:
    """A corpus opened for reading."""

    tokens: np.ndarray  # uint16, all documents one after another
    documents: np.ndarray  # DOCUMENT
    sha256: str  # of the tokens

    @classmethod
    def open(cls, folder: Path) -> Corpus:
        """Map a corpus.

        Raises:
            TrainingError: there is none in `folder`.
        """
        try:
            documents = np.load(folder / "docs.npy")
            manifest = json.loads((folder / "manifest.json").read_bytes())
            tokens = np.memmap(folder / "tokens.bin", dtype=np.uint16, mode="r")
        except (OSError, ValueError) as error:
            raise TrainingError(f"{folder} is no corpus: {error}") from error
        return cls(tokens, documents, manifest["sha256"])

    def document(self, index: int) -> np.ndarray:
        row = self.documents[index]
        return self.tokens[row["start"] : row["start"] + row["length"]]


@dataclass(slots=True)
class _Builder:
    contamination: Contamination
    seen: set[int] = field(default_factory=set)
    dropped: dict[str, int] = field(default_factory=dict)

    def keep(self, files: Iterable[SourceFile]) -> Iterator[SourceFile]:
        budget = _MAX_PACKAGE_BYTES
        for file in sorted(files, key=lambda f: _hash(f.path)):  # a fixed shuffle
            reason = self._reason_against(file)
            if reason is None and budget > 0:
                budget -= len(file.text)
                yield file
            else:
                self.dropped[reason or "budget"] = self.dropped.get(reason or "budget", 0) + 1

    def _reason_against(self, file: SourceFile) -> str | None:
        if file.is_test and _hash(file.path) % 1000 >= 1000 * _TEST_SHARE:
            return "test"
        if self.contamination.found_in(file.text):
            return "contaminated"
        shingles = _shingles(file.text)
        if len(shingles & self.seen) > 0.4 * len(shingles):
            return "duplicate"
        self.seen |= shingles
        return None


def build(
    packages: list[Package],
    archives: Path,
    vocabulary: Vocabulary,
    contamination: Contamination,
    out: Path,
    say: Callable[[str], None],
) -> None:
    """Write a corpus. The same packages give the same bytes."""
    builder = _Builder(contamination)
    rows: list[tuple[int, int, int, int, int]] = []
    manifest: list[dict[str, Any]] = []
    start, digest = 0, hashlib.sha256()
    out.mkdir(parents=True, exist_ok=True)
    with (out / "tokens.bin.part").open("wb") as stream:
        for number, package in enumerate(packages):
            files = list(builder.keep(read_package(archives / package.archive)))
            texts = [file.text for file in files]
            for file, ids in zip(files, vocabulary.encode_batch(texts), strict=True):
                data = np.array(ids, dtype=np.uint16).tobytes()
                digest.update(data)
                stream.write(data)
                rows.append(
                    (start, len(ids), LANGUAGES.index(file.language), package.validation, number)
                )
                start += len(ids)
            manifest.append(_entry(package, files))
            say(f"{package.name}: {len(files)} files, {start} tokens so far")
    (out / "tokens.bin.part").replace(out / "tokens.bin")
    np.save(out / "docs.npy", np.array(rows, dtype=DOCUMENT))
    summary = {
        "sha256": digest.hexdigest(),
        "tokens": start,
        "dropped": builder.dropped,
        "packages": manifest,
    }
    (out / "manifest.json").write_text(json.dumps(summary, indent=1))


def _entry(package: Package, files: list[SourceFile]) -> dict[str, Any]:
    return {
        "name": package.name, "version": package.version, "licence": package.licence,
        "validation": package.validation, "files": len(files),
        "bytes": sum(len(f.text.encode()) for f in files),
    }  # fmt: skip


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _shingles(text: str) -> set[int]:
    lines = [line.strip() for line in text.split("\n")]
    lines = [line for line in lines if len(line) > 3]
    stop = max(1, len(lines) - _SHINGLE_LINES + 1)
    return {_hash("\n".join(lines[i : i + _SHINGLE_LINES])) for i in range(stop)}
