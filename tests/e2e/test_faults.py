"""Models that are not usable, and workspaces that are in the way."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from support.editor import editor
from support.homes import MIDFILL, Home

SCRIPT = (str(Path(sys.executable).parent / "midfill"), "serve", "--stdio")
OURS_AND_OTHERS = ("engine", "infill", "lsp", "midfill_engine", "midfill_lsp", "torch.py")
ALSO = ("msgpack.py", "numpy.py", "tokenizers.py", "asyncio.py", "sitecustomize.py")


async def test_a_model_that_was_never_fetched(home: Home) -> None:
    async with editor(home, model="embedded") as ed:
        buffer = ed.open("print(a)\n")
        assert await ed.complete(6) == []
        assert await ed.complete(6) == []
        (shown,) = ed.messages
        assert "midfill model fetch embedded" in shown
        result = await ed.fill(6, 7)
        assert result["applied"] is False
        ed.configure(model=str(home.model))
        assert await ed.fill(6, 7) == {"applied": True}
        assert buffer.text != "print(a)\n"


async def test_a_model_in_a_directory_that_is_not_there(home: Home, tmp_path: Path) -> None:
    missing = str(tmp_path / "nothing")
    async with editor(home, model=missing) as ed:
        ed.open("print()\n")
        assert await ed.complete(6) == []
        (shown,) = ed.messages
        assert missing in shown


async def test_a_model_cut_short(home: Home, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(home.model, model)
    async with editor(home, model=str(model)) as ed:
        ed.open("print()\n")
        for name in ("adapter.safetensors", "base.safetensors"):
            whole = (model / name).read_bytes()
            (model / name).write_bytes(whole[: len(whole) // 2])
            assert await ed.complete(6) == []
            assert str(model / name) in ed.messages[-1]
            assert "ModelCorrupt" in ed.logged[-1]
            (model / name).write_bytes(whole)
        assert len(ed.messages) == 2
        assert await ed.complete(6)


@pytest.mark.parametrize("command", [MIDFILL, SCRIPT])
async def test_a_workspace_with_modules_of_our_names(
    home: Home, tmp_path: Path, command: tuple[str, ...]
) -> None:
    for name in (*OURS_AND_OTHERS, *ALSO):
        path = tmp_path / name if name.endswith(".py") else tmp_path / name / "__init__.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"raise ImportError('{name} of the workspace is not for midfill')\n")
    # A server that runs with -I pays no heed to the variable, but hands it on to its worker.
    isolated = command is MIDFILL
    environment = home.environment | ({"PYTHONPATH": str(tmp_path)} if isolated else {})
    async with editor(home, command=command, environment=environment, cwd=tmp_path) as ed:
        ed.open("print()\n")
        assert await ed.complete(6)
        assert ed.messages == []
        if isolated:
            assert home.worker().environ()["PYTHONPATH"] == str(tmp_path)
