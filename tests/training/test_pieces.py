"""Pieces: cut, brought over, joined, trained from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from midfill_engine.adapter_file import check_adapter
from midfill_engine.errors import TrainingError
from midfill_engine.model_files import read_config
from midfill_engine.training.config import TrainConfig
from midfill_engine.training.pieces import join_pieces, timed, write_pieces
from midfill_engine.training.run_log import RunLog

ROOT = Path(__file__).parent.parent.parent
PIECE = 100_000  # bytes


@pytest.fixture(scope="module")
def pieces(config: TrainConfig, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("pieces")
    config = replace(config, adapter=tiny_model / "adapter.safetensors", learning_rate=1e-5)
    write_pieces(config, out, PIECE, print)
    return out


def test_pieces_come_together_again(
    config: TrainConfig, pieces: Path, tiny_model: Path, tmp_path: Path
) -> None:
    sizes = [path.stat().st_size for path in sorted(pieces.glob("piece-*"))]
    assert len(sizes) > 2
    assert all(size == PIECE for size in sizes[:-1])
    assert 0 < sizes[-1] <= PIECE
    joined = TrainConfig.load(join_pieces(pieces, tmp_path))
    for ours, theirs in ((Path(joined.model), tiny_model), (joined.corpus, config.corpus)):
        for path in ours.iterdir():
            assert path.read_bytes() == (theirs / path.name).read_bytes()
    assert joined.adapter is not None
    assert joined.adapter.read_bytes() == (tiny_model / "adapter.safetensors").read_bytes()
    assert joined.recipe() == replace(config, learning_rate=1e-5).recipe()


def test_the_same_training_makes_the_same_pieces(
    config: TrainConfig, pieces: Path, tiny_model: Path, tmp_path: Path
) -> None:
    config = replace(config, adapter=tiny_model / "adapter.safetensors", learning_rate=1e-5)
    write_pieces(config, tmp_path, PIECE, print)
    assert (tmp_path / "SHA256SUMS").read_text() == (pieces / "SHA256SUMS").read_text()
    with pytest.raises(TrainingError, match="pieces in it already"):
        write_pieces(config, tmp_path, PIECE, print)


def test_pieces_that_are_missing_or_damaged(pieces: Path, tmp_path: Path) -> None:
    copy = tmp_path / "pieces"
    shutil.copytree(pieces, copy)
    raw = bytearray((copy / "piece-001").read_bytes())
    raw[5] ^= 1
    (copy / "piece-001").write_bytes(raw)
    with pytest.raises(TrainingError, match="piece-001 is damaged"):
        join_pieces(copy, tmp_path)
    (copy / "piece-000").unlink()
    with pytest.raises(TrainingError, match="piece-000 is not there"):
        join_pieces(copy, tmp_path)
    with pytest.raises(TrainingError, match="SHA256SUMS cannot be read"):
        join_pieces(tmp_path, tmp_path)


def test_time_plans_the_decay(config: TrainConfig, tmp_path: Path) -> None:
    assert timed(config, tmp_path, 100).decay_from == 60
    assert timed(replace(config, decay_from=7), tmp_path, 100).decay_from == 7


def test_the_script_for_another_machine(pieces: Path, tiny_model: Path, tmp_path: Path) -> None:
    """`make gpu-train`, on a CPU, for a second, told nothing of what is installed here."""
    out = tmp_path / "out"
    settings = (f"PIECES={pieces}", f"OUT={out}", "TRAIN_SECONDS=1", f"PYTHON={sys.executable}")
    environment = {k: v for k, v in os.environ.items() if k != "MAKEFLAGS"}
    subprocess.run(
        ["make", "-s", "gpu-train", *settings],
        cwd=ROOT, check=True, env=environment | {"MIDFILL_CACHE_DIR": str(tmp_path / "none")},
    )  # fmt: skip
    assert RunLog(out / "log.jsonl").read()[-1]["train_seconds"] >= 1
    for name in ("adapter-latest.safetensors", "adapter-best.safetensors"):
        assert check_adapter(out / name, read_config(tiny_model)).recipe["steps"] > 0
