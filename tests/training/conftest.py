"""Fixtures of training: a corpus of this repository's own files, in the tiny model's tokens."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from midfill_engine.training.batches import Batches
from midfill_engine.training.byte_tokens import ByteTokens
from midfill_engine.training.config import TrainConfig
from midfill_engine.training.corpus import Corpus
from midfill_engine.training.recipe import Recipe, build_corpus

ROOT = Path(__file__).parent.parent.parent
FOLDERS = {"engine/midfill_engine/worker": False, "infill/midfill_infill": True}


def package(archive: str, validation: bool) -> dict[str, object]:
    return {
        "name": archive,
        "version": "1",
        "licence": "Apache-2.0",
        "archive": archive,
        "validation": validation,
    }


@pytest.fixture(scope="session")
def recipe(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """Two folders of this repository as packages; one is held out."""
    path = tmp_path_factory.mktemp("recipe") / "packages.json"
    path.write_text(json.dumps([package(*item) for item in FOLDERS.items()]))
    return Recipe(archives=ROOT, packages=path, model=str(tiny_model))


@pytest.fixture(scope="session")
def corpus(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the corpus."""
    out = tmp_path_factory.mktemp("corpus")
    build_corpus(recipe, out, print)
    return out


@pytest.fixture(scope="session")
def config(corpus: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainConfig:
    """Steps that take a moment only."""
    torch.set_num_threads(1)  # so small a pass costs less than waking another thread
    return TrainConfig(
        corpus=corpus,
        out=tmp_path_factory.mktemp("out"),
        model=str(tiny_model),
        groups=4,
        starts=2,
        window_tokens=160,
        rank=4,
        windows=2,
        workers=1,
        windows_per_pass=1,
        compile=False,
        validation_windows=1,
    )


@pytest.fixture(scope="session")
def tokens(tiny_model: Path) -> ByteTokens:
    return ByteTokens.load(tiny_model)


@pytest.fixture(scope="session")
def batches(config: TrainConfig, tokens: ByteTokens) -> Batches:
    return Batches(Corpus.open(config.corpus), tokens, replace(config, groups=8))
