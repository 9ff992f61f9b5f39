"""What `make strategies` writes, on a model that knows nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from quality import compare_strategies

from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.worker.strategies import STRATEGIES


def test_every_variant_has_a_row(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = EmbeddedModel.load(str(tiny_model), "float32")
    monkeypatch.setattr(EmbeddedModel, "load", lambda *_: model)
    monkeypatch.setattr(compare_strategies, "runs_through", lambda program: "def " in program)
    compare_strategies.main(["--holes", "1", "--print"])
    table = capsys.readouterr().out
    assert all(f"| `{name}` | " in table for name in STRATEGIES)
    assert all(
        f"| preset `{quality}` | 0 % | 100 % | 100 % | " in table for quality in ("fast", "best")
    )
