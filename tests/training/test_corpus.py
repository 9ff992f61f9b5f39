"""Packages to a corpus: what is kept, what is dropped, and that it is the same every time."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.packages import FOLDERS, ROOT, store, store_folders, write_list

from midfill_engine.errors import TrainingError
from midfill_engine.training import corpus as corpus_module
from midfill_engine.training.byte_tokens import ByteTokens
from midfill_engine.training.corpus import Corpus, cut_corpus
from midfill_engine.training.duplicates import Duplicates
from midfill_engine.training.recipe import Recipe, build_corpus
from midfill_engine.training.sources import LANGUAGES
from midfill_lsp.cli import main
from midfill_lsp.cli.exit_codes import ExitCode

FILES = ("tokens.bin", "docs.npy", "manifest.json")


def code(seed: str, functions: int = 20) -> str:
    return "".join(
        f"def {seed}_{i}(value):\n    return {seed}(value, {i})\n\n" for i in range(functions)
    )


def digests(folder: Path) -> dict[str, str]:
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES}


def test_the_same_list_gives_the_same_bytes(recipe: Recipe, corpus: Path, tmp_path: Path) -> None:
    """Whatever the order of the list and of the disk, the threads, the locale and the process."""
    packages = write_list(tmp_path / "list", *reversed(store_folders(tmp_path / "archives")))
    other = Recipe(archives=tmp_path / "archives", packages=packages, model=recipe.model)
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(asdict(other), default=str))
    settings = {
        "RAYON_NUM_THREADS": "1", "LC_ALL": "C", "PYTHONHASHSEED": "7", "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0", "TZ": "Asia/Tokyo",
    }  # fmt: skip
    subprocess.run(
        [sys.executable, "-m", "midfill_lsp", "train", "corpus", str(path), "out"],
        cwd=tmp_path,
        env={**os.environ, **settings},
        check=True,
    )
    assert digests(tmp_path / "out") == digests(corpus)


def test_a_corpus_has_the_files_as_tokens(corpus: Path, tokens: ByteTokens) -> None:
    opened = Corpus.open(corpus)
    assert set(opened.documents["validation"]) == {0, 1}
    text = tokens.decode(opened.document(0))
    assert tokens.encode(text) == opened.document(0).tolist()
    sources = (path.read_bytes() for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    assert text in sources


def test_the_manifest_accounts_for_every_file(corpus: Path, recipe: Recipe) -> None:
    manifest = json.loads((corpus / "manifest.json").read_bytes())
    opened = Corpus.open(corpus)
    assert opened.sha256 == hashlib.sha256((corpus / "tokens.bin").read_bytes()).hexdigest()
    assert manifest["tokens"] == len(opened.tokens) == opened.documents["length"].sum()
    listed = {entry["name"]: entry for entry in json.loads(recipe.packages.read_bytes())}
    for number, entry in enumerate(manifest["packages"]):
        rows = opened.documents[opened.documents["package"] == number]
        assert entry["sha256"] == listed[entry["name"]]["files"]
        assert entry["files"] == len(rows) == sum(entry["languages"].values())
        assert all(rows["validation"] == entry["validation"])
        assert (entry["version"], entry["licence"]) == ("1", "MIT")


def build(
    folder: Path,
    model: Path,
    packages: Mapping[str, Mapping[str, str]],
    *held_out: str,
    **fields: Any,
) -> dict[str, Any]:
    """Build a corpus of packages, given by name as files; its manifest."""
    entries = [
        store(folder, name, files, validation=name in held_out) for name, files in packages.items()
    ]
    recipe = Recipe(
        archives=folder,
        packages=write_list(folder / "list", *entries),
        model=str(model),
        **fields,
    )
    build_corpus(recipe, folder / "out", print)
    manifest: dict[str, Any] = json.loads((folder / "out/manifest.json").read_bytes())
    return manifest


def kept(manifest: dict[str, Any]) -> dict[str, int]:
    return {entry["name"]: entry["files"] for entry in manifest["packages"]}


def test_what_is_dropped_is_counted_by_package_and_reason(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_module, "_MAX_BYTES", 1)
    problems = tmp_path / "problems.jsonl.gz"
    fields = ("prompt", "canonical_solution", "suffix", "entry_point")
    problems.write_bytes(gzip.compress(json.dumps(dict.fromkeys(fields, "")).encode()))
    manifest = build(
        tmp_path,
        tiny_model,
        {
            "p": {
                "a.py": code("a"),
                "b.py": code("b"),
                "c.js": code("c"),
                "vendor/d.py": code("d"),
            },
            "q": {"a.py": code("a"), "b.py": code("b")},
            "r": {"human_eval/a.py": code("x"), "a_pb2.py": code("y")},
        },
        problems=problems,
    )
    assert kept(manifest) == {"p": 2, "q": 1, "r": 0}
    p, q, r = (entry["dropped"] for entry in manifest["packages"])
    assert p == {"budget": 1, "vendored": 1}
    assert r == {"contaminated: name": 1, "generated": 1}
    assert q == {"duplicate": 1}
    assert manifest["dropped"] == {
        reason: sum(entry["dropped"].get(reason, 0) for entry in manifest["packages"])
        for reason in manifest["dropped"]
    }


def test_few_tests_are_kept(tmp_path: Path, tiny_model: Path) -> None:
    names = ["".join(pair) for pair in product("abcdefghijklmn", repeat=2)]
    files = {f"tests/test_{name}.py": code(name) for name in names}
    manifest = build(tmp_path, tiny_model, {"p": files})
    assert 5 < manifest["packages"][0]["files"] < 40
    assert manifest["dropped"] == {"test": len(files) - manifest["packages"][0]["files"]}


def test_a_file_is_in_a_corpus_once(tmp_path: Path, tiny_model: Path) -> None:
    packages = {name: {"a.py": code("a")} for name in "pq"}
    assert kept(build(tmp_path, tiny_model, packages)) == {"p": 1, "q": 0}


def test_of_two_copies_the_held_out_one_is_kept(tmp_path: Path, tiny_model: Path) -> None:
    packages = {name: {"a.py": code("a")} for name in "pq"}
    manifest = build(tmp_path, tiny_model, packages, "q")
    assert kept(manifest) == {"q": 1, "p": 0}
    assert set(Corpus.open(tmp_path / "out").documents["validation"]) == {1}


@pytest.mark.parametrize(
    ("first", "second", "new"),
    [
        (code("a"), code("a"), False),
        (code("a"), code("b"), True),
        (code("a"), code("a").replace("    ", "\t"), False),
        (code("a"), code("a").replace("(value", "( value"), False),
        (code("a"), "# another comment\n".join(code("a").splitlines(True)), False),
        ("# licence\n" * 40 + code("a"), "# licence\n" * 40 + code("b"), True),
        (code("a"), code("a") + code("b"), False),
        (code("a"), code("a") + code("b", 60), True),
        (code("a") + code("b", 60), code("a"), False),
    ],
)
def test_near_copies(first: str, second: str, new: bool) -> None:
    duplicates = Duplicates()
    assert duplicates.is_new(first, validation=False)
    assert duplicates.is_new(second, validation=False) is new


def test_a_held_out_file_within_a_larger_one_is_found() -> None:
    duplicates = Duplicates()
    assert duplicates.is_new(code("a"), validation=True)
    assert not duplicates.is_new(code("b", 60) + code("a") + code("c", 60), validation=False)
    assert duplicates.is_new(code("b", 60) + code("a", 5) + code("c", 60), validation=False)


def test_what_was_dropped_makes_no_duplicates(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_module, "_MAX_BYTES", 1)
    packages = {"p": {"a.py": code("a"), "b.py": code("b")}, "q": {"a.py": code("a")}}
    first = build(tmp_path, tiny_model, packages)
    packages["q"] = {"b.py": code("b")}
    second = build(tmp_path, tiny_model, packages)
    assert sorted((kept(first)["q"], kept(second)["q"])) == [0, 1]


def test_a_package_that_cannot_be_had_ends_the_command(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # without npm
    made = store(tmp_path, "p", {"a.py": code("a")}, registry="npm")
    (tmp_path / "npm/p-1.tar.gz").unlink()
    recipe = {"archives": ".", "packages": "list", "model": str(tiny_model)}
    write_list(tmp_path / "list", made)
    (tmp_path / "recipe.json").write_text(json.dumps(recipe))
    command = ["train", "corpus", str(tmp_path / "recipe.json"), str(tmp_path / "out")]
    assert main(command) == ExitCode.ENGINE
    assert "npm:p 1: npm is needed" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_archive_that_is_no_archive(tmp_path: Path, tiny_model: Path) -> None:
    made = store(tmp_path, "p", {"a.py": code("a")})
    (tmp_path / "pypi/p-1.tar.gz").write_bytes(b"x")
    made["files"]["p-1.tar.gz"] = hashlib.sha256(b"x").hexdigest()
    recipe = Recipe(
        archives=tmp_path, packages=write_list(tmp_path / "list", made), model=str(tiny_model)
    )
    with pytest.raises(TrainingError, match=r"p-1\.tar\.gz cannot be read"):
        build_corpus(recipe, tmp_path / "out", print)
    with pytest.raises(TrainingError, match="no corpus"):
        Corpus.open(tmp_path / "out")


def test_a_corpus_is_cut_by_whole_documents(corpus: Path, tmp_path: Path) -> None:
    whole = Corpus.open(corpus)
    tokens = int(whole.documents["length"][whole.documents["validation"] == 0].sum())
    cuts = []
    for share in (0.3, 0.8):
        cut_corpus(corpus, tmp_path / str(share), int(tokens * share))
        cut = Corpus.open(tmp_path / str(share))
        texts = [cut.document(i).tobytes() for i in range(len(cut.documents))]
        learnt = [t for t, v in zip(texts, cut.documents["validation"], strict=True) if not v]
        assert 0 < sum(map(len, learnt)) <= 2 * tokens * share
        assert cut.documents["validation"].sum() == whole.documents["validation"].sum()
        cuts.append((cut, learnt))
    (small, few), (large, many) = cuts
    assert set(few) < set(many)
    assert small.sha256 != large.sha256
    manifest = json.loads((tmp_path / "0.3" / "manifest.json").read_bytes())
    assert manifest["cut_from"] == whole.sha256
    assert manifest["tokens"] == len(small.tokens) == np.sum(small.documents["length"])


def test_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no corpus"):
        Corpus.open(tmp_path)


def test_languages_keep_their_numbers() -> None:
    assert LANGUAGES[:8] == ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")
    assert LANGUAGES[8:13] == ("csharp", "ruby", "php", "bash", "lua")


@pytest.mark.parametrize("text", ["", "x = 1\n", "  näme = 'é' # ✓\n\tif x:"])
def test_words_of_a_text_are_tokenized_apart(tokens: ByteTokens, text: str) -> None:
    data = text.encode()
    starts = tokens.word_starts(data).tolist()
    assert starts[-1] == len(data)
    parts = [data[a:b] for a, b in pairwise(starts)]
    assert [i for part in parts for i in tokens.encode(part)] == tokens.encode(data)
    assert tokens.decode(np.array(tokens.encode(data), np.int64)) == data
