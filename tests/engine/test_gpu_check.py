"""The script for a graphics card runs, and would say so if something were wrong."""

from __future__ import annotations

import pytest
import torch
from support import gpu_check

from midfill_engine.model.full_attention import FullAttentionModel


def test_a_dry_run(capsys: pytest.CaptureFixture[str]) -> None:
    torch.set_num_threads(1)
    assert gpu_check.main(["--tiny"]) == 0
    out = capsys.readouterr().out
    assert "FAIL" not in out
    assert out.count("tokens/s") == 6
    assert "0 checks failed" in out


def test_what_is_wrong_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def shifted(self: FullAttentionModel, canvases: object) -> object:
        parts = logits(self, canvases)  # type: ignore[arg-type]
        return [part + len(parts) for part in parts]

    logits = FullAttentionModel.logits
    monkeypatch.setattr(FullAttentionModel, "logits", shifted)
    monkeypatch.setattr(gpu_check, "_time_dream", lambda *_: None)
    assert gpu_check.main(["--tiny"]) == 1
    out = capsys.readouterr().out
    assert "FAIL Dream batched and alone" in out


def test_there_is_nothing_to_check_without_a_device(capsys: pytest.CaptureFixture[str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    assert gpu_check.main([]) == 1
    assert "no CUDA device" in capsys.readouterr().out
