"""`midfill eval` whole, with a tiny model: what it prints and writes, twice the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.wordy_model import write_wordy_model

from midfill_engine.errors import TrainingError
from midfill_lsp.cli import main
from midfill_lsp.cli.exit_codes import ExitCode
from midfill_lsp.evaluation import page, running
from midfill_lsp.evaluation.packages import Source
from midfill_lsp.evaluation.running import Size, choose

SOURCE = Source("one", "a.py", "python", "def f(a, b):\n    c = g(a, b)\n    return c + a\n" * 5)
TIMES = {"queue_ms", "encode_ms", "denoise_ms", "score_ms", "total_ms"}


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """One held-out file, and no need of a network."""
    monkeypatch.setattr(running, "held_out_sources", lambda archives, say: [SOURCE])


def results(directory: Path) -> list[dict[str, Any]]:
    """All outcomes, without times and what was reused: the worker may have seen the text before."""
    found = [json.loads(line) for line in (directory / "results.jsonl").read_text().splitlines()]
    for outcome in found:
        for name in (*TIMES, "reused_tokens", "passes"):
            (outcome["stats"] or {}).pop(name, None)
    return found


@pytest.mark.usefixtures("private_dirs", "sources")
def test_two_runs_give_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_wordy_model(tmp_path / "model")
    command = ["eval", "--holes", "4", "--model", str(model), "--quality", "fast"]
    written = [tmp_path / "first", tmp_path / "second"]
    for out in written:
        assert main([*command, "--out", str(out), "--page", str(out)]) == ExitCode.DONE
    first, second = (results(out) for out in written)
    assert first == second
    assert [one["system"] for one in first] == ["base"] * 5 + ["fast"] * 5
    assert [one["suite"] for one in first[:5]] == ["humaneval"] * 2 + ["held-out"] * 2 + [
        "complete"
    ]
    assert any(one["attempts"] for one in first[5:])
    text = (written[0] / "quality.md").read_text("utf-8")
    assert "| exact |" in text
    assert "`midfill eval --holes 4 --quality fast --seed 0" in text
    shown = capsys.readouterr()
    assert "silent while typing" in shown.out
    assert "left out: java" in shown.err
    if page.can_draw():
        assert "![How often the best fill is right](quality/right.png)" in text
        assert (written[0] / "quality" / "right.png").read_bytes().startswith(b"\x89PNG")


def test_without_packages_humaneval_remains(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def unreachable(archives: Path, say: object) -> list[Source]:
        raise TrainingError("one 1.0: no network")

    monkeypatch.setattr(running, "held_out_sources", unreachable)
    chosen = choose(Size.of(10), 0, tmp_path, lambda line: None)
    assert [problem.suite for problem in chosen.problems] == ["humaneval"] * 5
    (reason,) = chosen.left_out
    assert "one 1.0: no network" in reason


@pytest.mark.usefixtures("sources")
def test_a_smaller_choice_is_part_of_a_larger_one(tmp_path: Path) -> None:
    small, large = (choose(Size.of(n), 7, tmp_path, lambda line: None) for n in (4, 16))
    assert set(small.problems) <= set(large.problems)
    assert len(large.problems) == 20


@pytest.mark.parametrize("also", [[], ["--fit-calibration"]])
@pytest.mark.usefixtures("private_dirs")
def test_without_a_model_nothing_is_downloaded(
    also: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def sources(archives: Path, say: object) -> list[Source]:
        pytest.fail("packages are asked for")

    monkeypatch.setattr(running, "held_out_sources", sources)
    assert main(["eval", "--model", "nope", *also]) == ExitCode.MODEL
    assert "the model asked for is 'nope'" in capsys.readouterr().err


def test_a_quality_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["eval", "--quality", "balanced,worst"])
    assert "'worst'" in capsys.readouterr().err


@pytest.mark.usefixtures("private_dirs", "sources")
def test_a_fit_needs_fills_that_are_right_and_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_wordy_model(tmp_path / "model")
    command = ["eval", "--fit-calibration", "--holes", "2", "--model", str(model)]
    assert main([*command, "--quality", "fast"]) == ExitCode.INPUT
    assert "fast: too few holes" in capsys.readouterr().err
    assert not list(model.glob("*.calibration.json"))


@pytest.mark.parametrize("option", ["--out", "--page"])
def test_a_fit_has_nothing_to_write(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["eval", "--fit-calibration", option, str(tmp_path / "out")])
    assert ended.value.code == ExitCode.USAGE
    assert "--fit-calibration" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
