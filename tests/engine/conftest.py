"""Engine fixtures."""

from __future__ import annotations

from pathlib import Path

import pytest
from midfill_engine.model.embedded import EmbeddedModel


@pytest.fixture(scope="session")
def tiny(tiny_model: Path) -> EmbeddedModel:
    """The tiny model in float32, the reference form."""
    return EmbeddedModel.load(str(tiny_model), "float32")
