"""Builds and reads the corpus: one memory-mapped file of tokens and a table of documents.

Owns the split by package, the shares of tests and packages, the manifest and the files' layout:
`tokens.bin` (uint16), `docs.npy` (`DOCUMENT`), `manifest.json`, which is written last.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from midfill_engine.errors import TrainingError
from midfill_engine.model.vocabulary import Vocabulary
from midfill_engine.training.contamination import Contamination
from midfill_engine.training.duplicates import Duplicates, stable_hash
from midfill_engine.training.packages import Package
from midfill_engine.training.sources import LANGUAGES, Dropped, SourceFile, examine

DOCUMENT: Final = np.dtype(
    [
        ("start", "<i8"),
        ("length", "<i4"),
        ("language", "u1"),
        ("validation", "u1"),
        ("package", "<u2"),
    ]
)
_TEST_SHARE: Final = 0.1
_MAX_BYTES: Final = 2_500_000  # of a package, in one language


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
    duplicates: Duplicates = field(default_factory=Duplicates)

    def keep(
        self, package: Package, files: Iterable[SourceFile | Dropped]
    ) -> tuple[list[SourceFile], Counter[str]]:
        """What is kept of a package's files, and how many are dropped for which reason."""
        spent: Counter[str] = Counter()
        dropped: Counter[str] = Counter()
        kept = []
        for file in sorted(files, key=lambda f: stable_hash(f.path)):  # a fixed shuffle
            reason = (
                file.reason if isinstance(file, Dropped) else self._against(file, package, spent)
            )
            if reason is not None:
                dropped[reason] += 1
            elif isinstance(file, SourceFile):
                spent[file.language] += len(file.text)
                kept.append(file)
        return kept, dropped

    def _against(self, file: SourceFile, package: Package, spent: Counter[str]) -> str | None:
        if file.is_test and stable_hash(file.path) % 1000 >= 1000 * _TEST_SHARE:
            return "test"
        if spent[file.language] >= _MAX_BYTES:
            return "budget"
        if found := self.contamination.found_in(file.text, file.path):
            return f"contaminated: {found}"
        if not self.duplicates.is_new(file.text, package.validation):
            return "duplicate"
        return None


def build(
    packages: Sequence[Package],
    archives: Path,
    vocabulary: Vocabulary,
    contamination: Contamination,
    out: Path,
    say: Callable[[str], None],
) -> None:
    """Write a corpus. The same packages give the same bytes, whatever their order.

    Raises:
        TrainingError: an archive is broken, or too large.
    """
    builder = _Builder(contamination)
    rows: list[tuple[int, int, int, int, int]] = []
    entries: list[dict[str, Any]] = []
    start, digest = 0, hashlib.sha256()
    out.mkdir(parents=True, exist_ok=True)
    (out / "manifest.json").unlink(missing_ok=True)  # until it is whole again, it is no corpus
    ordered = sorted(packages, key=lambda p: (not p.validation, p.registry, p.name))
    with (out / "tokens.bin.part").open("wb") as stream:
        for number, package in enumerate(ordered):
            files, dropped = builder.keep(package, examine(archives, package))
            texts = [file.text for file in files]
            for file, ids in zip(files, vocabulary.encode_batch(texts), strict=True):
                data = np.array(ids, dtype="<u2").tobytes()
                digest.update(data)
                stream.write(data)
                rows.append(
                    (start, len(ids), LANGUAGES.index(file.language), package.validation, number)
                )
                start += len(ids)
            entries.append(_entry(package, files, dropped))
            progress = f"[{number + 1}/{len(ordered)}] {package}"
            say(f"{progress}: {len(files)} files, {start} tokens so far")
    (out / "tokens.bin.part").replace(out / "tokens.bin")
    np.save(out / "docs.npy", np.array(rows, dtype=DOCUMENT))
    total: Counter[str] = Counter()
    for entry in entries:
        total.update(entry["dropped"])
    summary = {
        "sha256": digest.hexdigest(),
        "tokens": start,
        "dropped": dict(sorted(total.items())),
        "packages": entries,
    }
    (out / "manifest.json").write_text(json.dumps(summary, indent=1), "utf-8")


def _entry(package: Package, files: list[SourceFile], dropped: Counter[str]) -> dict[str, Any]:
    languages = Counter(file.language for file in files)
    return {
        "registry": package.registry, "name": package.name, "version": package.version,
        "licence": package.licence, "validation": package.validation, "sha256": package.files,
        "files": len(files), "bytes": sum(len(f.text.encode()) for f in files),
        "languages": dict(sorted(languages.items())), "dropped": dict(sorted(dropped.items())),
    }  # fmt: skip
