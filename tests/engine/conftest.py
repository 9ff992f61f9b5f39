"""Engine fixtures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support.schedulers import Running, running

from midfill_engine.model.embedded import EmbeddedModel


@pytest.fixture(scope="session")
def tiny(tiny_model: Path) -> EmbeddedModel:
    """The tiny model in float32, the reference form."""
    torch.set_num_threads(1)  # so small a pass costs less than waking another thread
    return EmbeddedModel.load(str(tiny_model), "float32")


@pytest.fixture
def busy(tiny: EmbeddedModel) -> Iterator[Running]:
    """A scheduler that has the tiny model."""
    with running(lambda: tiny) as run:
        yield run
