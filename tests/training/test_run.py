"""Runs as a whole: what they keep, that they go on where they were ended, how they divide."""

from __future__ import annotations

import dataclasses
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support import mortal_runs
from support.mortal_runs import Silent
from torch import Tensor

from midfill_engine.adapter_file import adapter_shapes, load_adapter
from midfill_engine.errors import TrainingError
from midfill_engine.model_files import read_config
from midfill_engine.training import adapter, checkpoint, train
from midfill_engine.training.base import Base
from midfill_engine.training.batches import Batches
from midfill_engine.training.byte_tokens import ByteTokens
from midfill_engine.training.checkpoint import Progress, RunState
from midfill_engine.training.config import TrainConfig
from midfill_engine.training.corpus import Corpus
from midfill_engine.training.division import Division, first_division, measured
from midfill_engine.training.optimizer import Optimizer
from midfill_engine.training.run_log import RunLog
from midfill_engine.training.workers import Job, Runner, ThisProcess, Trainee, Workers

ALONE = Division("cpu", 1, 1, False)
TIMES = ("time", "train_seconds", "tokens_per_second")


def written(config: TrainConfig) -> Path:
    """The settings as a file."""
    config.out.mkdir(exist_ok=True)
    path = config.out / "config.json"
    values = {k: v for k, v in dataclasses.asdict(config).items() if v is not None}
    path.write_text(json.dumps(values, default=str))
    return path


def command(config: TrainConfig) -> list[str]:
    """`midfill train run` with these settings, for a process of its own."""
    return [sys.executable, "-m", "midfill_lsp", "train", "run", str(written(config))]


def curve(config: TrainConfig) -> list[dict[str, Any]]:
    """The log without what depends on the clock."""
    entries = RunLog(config.out / "log.jsonl").read()
    return [{k: v for k, v in entry.items() if k not in TIMES} for entry in entries]


def kept(config: TrainConfig) -> RunState:
    shapes = adapter_shapes(read_config(Path(config.model)), config.rank)
    count = sum(torch.Size(shape).numel() for shape in shapes.values())
    corpus = Corpus.open(config.corpus).sha256
    return checkpoint.load(config.out / "checkpoint.pt", count, corpus, "cpu")


@pytest.fixture
def trainee(config: TrainConfig, tokens: ByteTokens, tiny_model: Path) -> Trainee:
    base, corpus = Base.load(tiny_model, torch.bfloat16), Corpus.open(config.corpus)
    shapes = adapter_shapes(base.config, config.rank)
    training = Batches(corpus, tokens, config)
    validation = Batches(corpus, tokens, config, validation=True)
    return Trainee.of(config, base, shapes, training, validation)


@pytest.fixture
def start(trainee: Trainee, tiny_model: Path) -> Tensor:
    return adapter.read(tiny_model / "adapter.safetensors", trainee.base.config, trainee.shapes)


@pytest.mark.parametrize(("workers", "checkpoint_seconds"), [(1, 0.0), (2, 1e6)])
def test_killed_ten_times_a_run_is_the_one_that_was_not(
    config: TrainConfig, tiny_model: Path, tmp_path: Path, workers: int, checkpoint_seconds: float
) -> None:
    """Checkpoints after every step, and with every second one only."""
    config = replace(
        config,
        adapter=tiny_model / "adapter.safetensors",
        workers=workers,
        groups=2,
        starts=1,
        steps=8,
        validate_every=2,
        checkpoint_seconds=checkpoint_seconds,
    )
    whole, parts = (replace(config, out=tmp_path / name) for name in ("whole", "parts"))
    for run, kills in ((whole, 0), (parts, 10)):
        program = [sys.executable, mortal_runs.__file__, str(written(run)), str(kills), "1"]
        done = subprocess.run(program, capture_output=True, text=True, check=True)
        assert done.stdout.split() == [str(kills)], "a life was not cut short"
    assert [(entry["kind"], entry["step"]) for entry in curve(parts)] == [
        ("base", 0), ("start", 0), ("step", 2), ("step", 4), ("step", 6), ("step", 8),
    ]  # fmt: skip
    assert curve(parts) == curve(whole)
    for name in ("adapter-latest.safetensors", "adapter-best.safetensors"):
        assert (parts.out / name).read_bytes() == (whole.out / name).read_bytes()
    assert not list(parts.out.glob("*.part"))


def test_a_run_that_is_asked_to_end_goes_on_exactly_there(
    config: TrainConfig, tiny_model: Path, tmp_path: Path
) -> None:
    start = tiny_model / "adapter.safetensors"
    config = replace(config, adapter=start, workers=2, validate_every=1)
    whole, parts = (replace(config, out=tmp_path / name) for name in ("whole", "parts"))
    with subprocess.Popen(command(parts), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        entries = (json.loads(line) for line in process.stdout if line.startswith("{"))
        assert [next(entries)["kind"] for _ in range(3)] == ["base", "start", "step"]
        process.terminate()
        process.communicate()
    assert process.returncode == 0
    steps = kept(parts).optimizer.step + 1
    for run in (parts, whole):
        subprocess.run(command(replace(run, steps=steps)), check=True, stdout=subprocess.DEVNULL)
    one, two = kept(whole), kept(parts)
    assert one.optimizer.step == two.optimizer.step == steps
    assert torch.equal(one.optimizer.parameters, two.optimizer.parameters)
    assert curve(parts) == curve(whole)


def test_a_run_ends_when_its_time_is_over(
    config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock that is a second further whenever it is looked at."""
    ticks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: float(next(ticks)), time=time.time)
    monkeypatch.setattr(train, "time", clock)
    config = replace(config, out=tmp_path, seconds=40, decay_from=0, decay_for=1, warmup_steps=1)
    with one_thread():
        train.train(config, Silent())
    last = RunLog(tmp_path / "log.jsonl").read()[-1]
    assert last["kind"] == "step"
    assert 2 <= last["step"] < 40
    assert 40 <= last["train_seconds"] < 60
    assert last["lr"] == pytest.approx(0.1 * config.learning_rate)


def test_an_adapter_says_how_it_came_about(
    config: TrainConfig, tiny_model: Path, tmp_path: Path
) -> None:
    start = tiny_model / "adapter.safetensors"
    with one_thread():
        train.train(replace(config, out=tmp_path, adapter=start, steps=1), Silent())
    base = read_config(tiny_model)
    recipe = load_adapter(tmp_path / "adapter-latest.safetensors", base)[0].recipe
    assert recipe["steps"] == 1
    assert recipe["hole_tokens"] > 0
    assert recipe["started_from"] == load_adapter(start, base)[0].sha256
    assert recipe["corpus_sha256"] == Corpus.open(config.corpus).sha256
    assert recipe["settings"]["learning_rate"] == config.learning_rate
    assert "out" not in recipe["settings"]


@contextmanager
def one_thread() -> Iterator[None]:
    """A run sets this process's threads."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.set_flush_denormal(False)


def step_of(runner: Runner, division: Division) -> tuple[Tensor, dict[str, tuple[float, float]]]:
    sums = runner.run(Job((0, 1, 2, 3), division))
    gradient = runner.take_gradients()
    assert not runner.take_gradients().any()
    runner.close()
    return gradient, sums


@pytest.mark.parametrize(
    "division", [ALONE, replace(ALONE, windows_per_pass=3), replace(ALONE, workers=2)]
)
def test_a_step_does_not_depend_on_its_division(
    trainee: Trainee, start: Tensor, division: Division
) -> None:
    """What runs on a GPU, one process with windows made ahead, runs here on the CPU."""
    want, want_sums = step_of(Workers(trainee, start.clone(), 1, compiled=False), ALONE)
    if division.workers == 1:
        runner: Runner = ThisProcess(trainee, start.clone(), compiled=False)
    else:
        runner = Workers(trainee, start.clone(), 2, compiled=False)
    got, sums = step_of(runner, division)
    gap = (got - want).abs()
    print(f"gradient: max {gap.max():.2e} mean {gap.mean():.2e} of {want.abs().max():.2e}")
    assert gap.max() < 0.01 * want.abs().max()  # the canvases are bfloat16
    for name, (total, _) in want_sums.items():
        assert sums[name][0] == pytest.approx(total, rel=1e-3)
    if division == ALONE:
        assert torch.equal(got, want)


def test_the_fastest_division_is_taken(
    config: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(4), raising=False)
    config = replace(config, workers=None, windows_per_pass=None, windows=8)
    seconds = {(1, 1): 4.0, (2, 1): 2.0, (4, 1): 3.0, (2, 2): 1.8, (2, 4): 1.79}
    tried: list[tuple[int, int]] = []
    said: list[str] = []

    def trial(way: Division) -> float:
        tried.append((way.workers, way.windows_per_pass))
        return seconds[tried[-1]]

    chosen = measured(config, first_division(config), trial, said.append)
    assert (chosen.workers, chosen.windows_per_pass) == (2, 2)
    assert tried == [(4, 1), *seconds]  # the first is a warm-up
    assert said[1] == "cpu, 2 processes, 1 window a pass, plain: 2000 ms a window"


class Lines(Silent):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)


def test_a_run_measures_once(config: TrainConfig, tmp_path: Path) -> None:
    config = replace(config, out=tmp_path, workers=None, windows_per_pass=None)
    first, second = Lines(), Lines()
    with one_thread():
        for steps, lines in ((1, first), (2, second)):
            train.train(replace(config, steps=steps), lines)
    division = kept(config).division
    assert any("1 process, 1 window a pass, plain: " in line for line in first.said)
    assert f"running on {division}" in first.said
    assert second.said[0] == f"running on {division}"
    assert kept(config).optimizer.step == 2


def test_nothing_is_measured_where_all_is_said(config: TrainConfig) -> None:
    first = first_division(replace(config, workers=2, windows_per_pass=2))

    def trial(_: Division) -> float:
        raise AssertionError

    assert measured(replace(config, workers=2), first, trial, print) == first
    assert first == Division("cpu", 2, 2, False)


def test_a_device_that_is_not_there(config: TrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(TrainingError, match="'device' is 'cuda'"):
        first_division(replace(config, device="cuda"))
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert not first_division(replace(config, compile=None)).compiled
    with pytest.raises(TrainingError, match="no compiler"):
        first_division(replace(config, compile=True))


def test_a_checkpoint_comes_back(config: TrainConfig, tmp_path: Path) -> None:
    optimizer = Optimizer.fresh(torch.randn(9))
    optimizer.update(torch.randn(9), config)
    progress = Progress(7, 5, 1.5, 0.25, "abc", {"masked": (0.1, 3.0)})
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(path, RunState(optimizer, progress, ALONE, "c"))
    found = checkpoint.load(path, 9, "c", "cpu")
    assert (found.progress, found.division, found.optimizer.step) == (progress, ALONE, 1)
    for name in ("parameters", "first", "second", "average"):
        assert torch.equal(getattr(found.optimizer, name), getattr(optimizer, name))
    for arguments, message in (((8, "c"), "9 parameters, not 8"), ((9, "d"), "corpus c, not d")):
        with pytest.raises(TrainingError, match=message):
            checkpoint.load(path, *arguments, "cpu")
    for damaged in (path.read_bytes()[:-50], b""):
        path.write_bytes(damaged)
        with pytest.raises(TrainingError, match="no checkpoint"):
            checkpoint.load(path, 9, "c", "cpu")


def test_a_log_takes_back_what_was_not_kept(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "log.jsonl")
    log.rewind(None)  # nothing there yet
    for step in (0, 3, 6):
        log.add({"kind": "step", "step": step})
    with log.path.open("a") as stream:
        stream.write('{"kind": "st')
    log.rewind(3)
    assert [entry["step"] for entry in log.read()] == [0, 3]
    with pytest.raises(TrainingError, match="whose checkpoint is not there"):
        log.rewind(None)
    assert [entry["step"] for entry in log.read()] == [0, 3]
    log.rewind(0)
    log.rewind(None)
    with pytest.raises(TrainingError, match="is empty"):
        log.read()
