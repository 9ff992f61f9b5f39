"""Builds, reads and cuts the corpus: one memory-mapped file of tokens and a table of documents.

Owns the split by package, the shares of tests and packages, which documents remain of a corpus
that is cut to a size, the manifest and the files' layout: `TOKENS` (uint16), `TABLE` (`DOCUMENT`),
`MANIFEST`, which is written last.
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

TOKENS, TABLE, MANIFEST = "tokens.bin", "docs.npy", "manifest.json"
FILES: Final = (TOKENS, TABLE, MANIFEST)
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
            documents = np.load(folder / TABLE)
            manifest = json.loads((folder / MANIFEST).read_bytes())
            tokens = np.memmap(folder / TOKENS, dtype=np.uint16, mode="r")
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
    (out / MANIFEST).unlink(missing_ok=True)  # until it is whole again, it is no corpus
    ordered = sorted(packages, key=lambda p: (not p.validation, p.registry, p.name))
    part = out / f"{TOKENS}.part"
    with part.open("wb") as stream:
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
    part.replace(out / TOKENS)
    total: Counter[str] = Counter()
    for entry in entries:
        total.update(entry["dropped"])
    summary = {
        "sha256": digest.hexdigest(),
        "tokens": start,
        "dropped": dict(sorted(total.items())),
        "packages": entries,
    }
    _write_tables(out, np.array(rows, dtype=DOCUMENT), summary)


def cut_corpus(folder: Path, out: Path, tokens: int) -> None:
    """Write what remains of a corpus when its documents to learn from are cut to so many tokens.

    Those with the lowest hash of their content remain, so that a smaller cut is part of a larger
    one. Held-out documents all remain.

    Raises:
        TrainingError: there is no corpus in `folder`.
    """
    corpus = Corpus.open(folder)
    rows = corpus.documents
    learnt = np.flatnonzero(rows["validation"] == 0)
    order = sorted(learnt, key=lambda i: hashlib.sha256(corpus.document(int(i)).tobytes()).digest())
    within = np.cumsum(rows["length"][order], dtype=np.int64) <= tokens
    held_out = np.flatnonzero(rows["validation"])
    kept = np.sort(np.concatenate([np.array(order, dtype=np.int64)[within], held_out]))
    cut = rows[kept].copy()
    cut["start"] = np.cumsum(cut["length"], dtype=np.int64) - cut["length"]
    digest = hashlib.sha256()
    out.mkdir(parents=True, exist_ok=True)
    with (out / TOKENS).open("wb") as stream:
        for index in kept:
            data = corpus.document(int(index)).tobytes()
            digest.update(data)
            stream.write(data)
    manifest = json.loads((folder / MANIFEST).read_bytes())
    manifest |= {
        "sha256": digest.hexdigest(),
        "tokens": int(cut["length"].sum()),
        "cut_from": corpus.sha256,
    }
    _write_tables(out, cut, manifest)


def _write_tables(out: Path, documents: np.ndarray, manifest: dict[str, Any]) -> None:
    np.save(out / TABLE, documents)
    (out / MANIFEST).write_text(json.dumps(manifest, indent=1), "utf-8")


def _entry(package: Package, files: list[SourceFile], dropped: Counter[str]) -> dict[str, Any]:
    languages = Counter(file.language for file in files)
    return {
        "registry": package.registry, "name": package.name, "version": package.version,
        "licence": package.licence, "validation": package.validation, "sha256": package.files,
        "files": len(files), "bytes": sum(len(f.text.encode()) for f in files),
        "languages": dict(sorted(languages.items())), "dropped": dict(sorted(dropped.items())),
    }  # fmt: skip
