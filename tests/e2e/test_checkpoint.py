"""A checkpoint directory, served by a real worker."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.homes import Home, new_home
from support.tiny_checkpoints import write_dream

from midfill_engine.client import EngineClient
from midfill_engine.errors import ModelUnsupported


@pytest.fixture
def dreamon_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A home with a checkpoint whose own code must not run."""
    with new_home(write_dream(tmp_path / "on", expand=True)) as home:
        for name, value in home.directories.items():
            monkeypatch.setenv(name, value)
        yield home


def midfill(home: Home, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "midfill_lsp", *arguments],
        env=home.environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_checkpoint_is_checked_and_served(dreamon_home: Home, tmp_path: Path) -> None:
    """`model check` has a worker fill a hole; so has `fill`."""
    checked = midfill(dreamon_home, "model", "check", str(dreamon_home.model))
    assert checked.returncode == 0, checked.stderr
    assert "float32 on cpu" in checked.stdout
    file = tmp_path / "a.py"
    file.write_text("total = 0\nprint(total)\n")
    arguments = [str(file), "--range", "2:7-2:12", "--json", "--model", str(dreamon_home.model)]
    filled = midfill(dreamon_home, "fill", *arguments)
    assert filled.returncode in (0, 1), filled.stderr
    if filled.returncode == 1:  # what random weights write may be no code
        assert "refused" in filled.stderr
    else:
        assert json.loads(filled.stdout)


async def test_a_checkpoint_that_cannot_be_run_says_why(dreamon_home: Home) -> None:
    config = dreamon_home.model / "config.json"
    config.write_text(config.read_text().replace('"Dream"', '"sdar"'))
    client = EngineClient(model=str(dreamon_home.model))
    try:
        with pytest.raises(ModelUnsupported, match="block-causal"):
            await client.status()
    finally:
        await client.close()
