"""Fixtures of training: a corpus of this repository's own files, in the tiny model's tokens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.packages import store_folders, write_list

from midfill_engine.training.batches import Batches
from midfill_engine.training.byte_tokens import ByteTokens
from midfill_engine.training.config import TrainConfig
from midfill_engine.training.corpus import Corpus
from midfill_engine.training.recipe import Recipe, build_corpus


@pytest.fixture(scope="session")
def recipe(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    folder = tmp_path_factory.mktemp("recipe")
    packages = write_list(folder / "packages.json", *store_folders(folder / "archives"))
    return Recipe(archives=folder / "archives", packages=packages, model=str(tiny_model))


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
