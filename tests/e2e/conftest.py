"""Homes with a model that writes words: one that a test has to itself, one that many share."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.homes import Home, new_home
from support.wordy_model import write_wordy_model

from midfill_engine.endpoint import endpoint_for, starting
from midfill_engine.spawn import spawn_worker


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--events", type=int, default=1000, help="how many events of the stress test")
    parser.addoption("--kills", type=int, default=4, help="how many of them kill a process")
    parser.addoption("--keys", type=int, default=120, help="how many keys the soak test presses")
    parser.addoption("--seed", type=int, default=1, help="what the events are drawn with")


@pytest.fixture(scope="session")
def wordy_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a model that always writes a word."""
    return write_wordy_model(tmp_path_factory.mktemp("wordy"))


def _lead(patch: pytest.MonkeyPatch, home: Home) -> None:
    """Lead this process, and those it starts, to a home."""
    for name, value in home.directories.items():
        patch.setenv(name, value)


@pytest.fixture
def home(wordy_model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A home of the test's own, for this process too. No worker yet."""
    with new_home(wordy_model) as made:
        _lead(monkeypatch, made)
        yield made


@pytest.fixture(scope="session")
def shared_home(wordy_model: Path) -> Iterator[Home]:
    """A home whose worker runs already, and goes on for as long as the tests do."""
    with new_home(wordy_model) as made:
        with pytest.MonkeyPatch.context() as patch:
            _lead(patch, made)
            endpoint = endpoint_for(str(made.model), "auto")
            with starting(endpoint):
                spawn_worker(str(made.model), "auto", endpoint)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(endpoint))
            yield made


@pytest.fixture
def led_home(shared_home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """The shared home, for this process too."""
    _lead(monkeypatch, shared_home)
    return shared_home
