"""Fixtures every suite may use: a tiny model, and directories that keep workers of tests apart."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.tiny_model import write_tiny_model

from midfill_engine.paths import model_dir


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a model with random weights."""
    return write_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def private_dirs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime and a cache directory of the test's own, on a path short enough for a socket."""
    root = Path(tempfile.mkdtemp(prefix="mf-"))
    monkeypatch.setenv("MIDFILL_RUNTIME_DIR", str(root / "run"))
    monkeypatch.setenv("MIDFILL_CACHE_DIR", str(root / "cache"))
    yield root
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="session")
def embedded_dir() -> Path:
    """Where the embedded model lies. A test that asks for it is skipped where there is none."""
    directory = model_dir("embedded")
    if not directory.is_dir():
        pytest.skip("the embedded model has not been fetched: midfill model fetch embedded")
    return directory
