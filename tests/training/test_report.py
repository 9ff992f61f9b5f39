"""What goes with an adapter that is kept."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
from support.mortal_runs import Silent

from midfill_engine.adapter_file import read_info
from midfill_engine.errors import TrainingError
from midfill_engine.training.config import TrainConfig
from midfill_engine.training.corpus import Corpus
from midfill_engine.training.report import write_report
from midfill_engine.training.run_log import RunLog
from midfill_engine.training.train import train


@pytest.fixture(scope="module")
def run(config: TrainConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run")
    train(replace(config, out=out, steps=2, validate_every=1), Silent())
    return out


def test_a_report_says_what_the_log_and_the_adapter_say(
    config: TrainConfig, run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "first"
    write_report(run, config.corpus, out)
    text = (out / "README.md").read_text()
    assert text.startswith("# first\n")
    assert read_info(run / "adapter-best.safetensors").sha256 in text
    for entry in RunLog(run / "log.jsonl").read():
        kind = "" if entry["kind"] == "step" else entry["kind"]
        start = f"| {kind} | {entry['step']} | {entry['hole_tokens']:,} |"
        (row,) = [line for line in text.splitlines() if line.startswith(start)]
        assert f"| {entry['masked']:.3f} | {entry['left_edge']:.3f} |" in row
    assert "| `learning_rate` | `0.0003` |" in text
    manifest = (config.corpus / "manifest.json").read_bytes()
    for package in json.loads(manifest)["packages"]:
        held_out = "held out" if package["validation"] else ""
        cells = (package["name"], package["version"], package["licence"], package["files"])
        assert f"| {' | '.join(map(str, cells))} | {held_out} |" in text
    assert (out / "manifest.json").read_bytes() == manifest
    words = set(ElementTree.parse(out / "curve.svg").getroot().itertext())
    assert {"hole tokens learnt from, thousands", "cross-entropy, nats"} <= words
    last = RunLog(run / "log.jsonl").read()[-1]
    assert f"now: {last['masked']:.3f}" in words
    once = (out / "curve.svg").read_bytes()
    write_report(run, config.corpus, out)
    assert (out / "curve.svg").read_bytes() == once


def test_what_there_is_no_report_of(config: TrainConfig, run: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"log.jsonl is not there"):
        write_report(tmp_path, config.corpus, tmp_path / "out")
    log = RunLog(tmp_path / "log.jsonl")
    log.add({"kind": "base", "step": 0})
    with pytest.raises(TrainingError, match="no validation after the start"):
        write_report(tmp_path, config.corpus, tmp_path / "out")
    log.add({"kind": "step", "step": 1, "corpus": "other"})
    sha256 = Corpus.open(config.corpus).sha256[:12]
    with pytest.raises(TrainingError, match=f"is {sha256}; the run's is other"):
        write_report(tmp_path, config.corpus, tmp_path / "out")
    assert not (tmp_path / "out").exists()
