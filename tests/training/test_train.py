"""Training itself: its passes against the worker's, its steps, its files, runs of the command."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.tiny_model import RANK
from torch import Tensor

from midfill_engine.errors import TrainingError
from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.slab import Slab
from midfill_engine.model.transformer import Segment
from midfill_engine.model.vocabulary import END_OF_TEXT
from midfill_engine.model_files import adapter_shapes
from midfill_engine.training import adapter, checkpoint
from midfill_engine.training.base import Base
from midfill_engine.training.batches import Batches, Canvas, Group, MicroBatch
from midfill_engine.training.checkpoint import Progress
from midfill_engine.training.config import TrainConfig
from midfill_engine.training.contamination import PROBLEMS
from midfill_engine.training.functions import head_logits
from midfill_engine.training.optimizer import Optimizer, learning_rate
from midfill_engine.training.passes import canvas_losses
from midfill_engine.training.recipe import Recipe

CAUSAL_WEIGHT = 0.5


@pytest.fixture(scope="module")
def base(tiny_model: Path) -> Base:
    return Base.load(tiny_model, torch.float32)


@pytest.fixture(scope="module")
def shapes(base: Base) -> adapter.Shapes:
    return adapter_shapes(base.config, RANK)


@pytest.fixture(scope="module")
def vector(tiny_model: Path, base: Base, shapes: adapter.Shapes) -> Tensor:
    return adapter.read(tiny_model / "adapter.safetensors", base.config, shapes)


def gradient_of(base: Base, vector: Tensor, shapes: adapter.Shapes, batch: MicroBatch) -> Tensor:
    leaf = vector.clone().requires_grad_()
    torch.autograd.backward(
        canvas_losses(base, adapter.views(leaf, shapes), batch, CAUSAL_WEIGHT).total
    )
    assert leaf.grad is not None
    return leaf.grad


def worker_losses(model: EmbeddedModel, prefix: list[int], group: Group, canvas: Canvas) -> Tensor:
    """Cross-entropies of a canvas's weighted rows, by the worker's own model, one by one."""
    suffix, n, rows = [END_OF_TEXT, *group.suffix], canvas.context, len(canvas.ids)
    slab = Slab.empty(model.config, len(suffix) + n + rows)

    def causal(size: int) -> Tensor:
        return torch.ones(size, size, dtype=torch.bool).tril_()

    segment = Segment(slab, len(suffix), 0, 0, causal(len(suffix)))
    model.run_base(suffix, torch.arange(-len(suffix), 0), [segment])
    segment = Segment(slab, n, len(suffix), len(suffix), causal(n))
    model.run_base(prefix[:n], torch.arange(n), [segment])
    visible = torch.ones(rows, len(suffix) - 1 + n + rows, dtype=torch.bool)
    if canvas.causal:
        visible[:, -rows:] = causal(rows)
    segment = Segment(slab, rows, 1, len(suffix) + n, visible)
    hidden = model.run_denoiser(canvas.ids, torch.arange(n, n + rows), [segment])
    head = model.base.head.rows(torch.arange(model.config.vocab_size))
    logits = head_logits(hidden, model.adapter_io[2], head)
    losses = torch.nn.functional.cross_entropy(
        logits, torch.tensor(canvas.targets), reduction="none"
    )
    return losses[torch.tensor(canvas.weights) > 0]


@torch.inference_mode()
def test_losses_are_those_of_the_workers_model(
    tiny_model: Path, base: Base, vector: Tensor, shapes: adapter.Shapes, batches: Batches
) -> None:
    model = EmbeddedModel.load(str(tiny_model), "float32")
    for index in range(3):
        batch = batches.micro_batch(index)
        ours = canvas_losses(base, adapter.views(vector, shapes), batch, CAUSAL_WEIGHT).rows
        prefix = batch.prefix.tolist()
        theirs = torch.cat(
            [worker_losses(model, prefix, g, c) for g in batch.groups for c in g.canvases]
        )
        gap = (ours - theirs).abs()
        print(f"losses: max {gap.max():.2e} mean {gap.mean():.2e}")
        assert gap.max() < 1e-3


def test_the_gradient_is_the_slope(
    base: Base, vector: Tensor, shapes: adapter.Shapes, batches: Batches
) -> None:
    batch = batches.micro_batch(0)
    gradient = gradient_of(base, vector, shapes, batch)
    direction = gradient / gradient.norm()

    def loss(step: float) -> float:
        tensors = adapter.views(vector + step * direction, shapes)
        return float(canvas_losses(base, tensors, batch, CAUSAL_WEIGHT).total)

    slope = (loss(3e-3) - loss(-3e-3)) / 6e-3
    print(f"slope {slope:.4f}, gradient {gradient.norm():.4f}")
    assert slope == pytest.approx(float(gradient.norm()), rel=0.02)


def test_bfloat16_agrees_with_float32(
    tiny_model: Path, base: Base, vector: Tensor, shapes: adapter.Shapes, batches: Batches
) -> None:
    batch = batches.micro_batch(0)
    wide = gradient_of(base, vector, shapes, batch)
    narrow = gradient_of(Base.load(tiny_model, torch.bfloat16), vector, shapes, batch)
    cosine = float(torch.nn.functional.cosine_similarity(wide, narrow, dim=0))
    gap = (wide - narrow).abs()
    print(f"gradient: max {gap.max():.2e} mean {gap.mean():.2e} cosine {cosine:.4f}")
    assert cosine > 0.99


def test_a_fresh_adapter_is_the_base(base: Base, shapes: adapter.Shapes, batches: Batches) -> None:
    start = adapter.fresh(shapes, base.embeddings, torch.Generator().manual_seed(1))
    other = adapter.fresh(shapes, base.embeddings, torch.Generator().manual_seed(2))
    batch = batches.micro_batch(0)
    one, two = (
        canvas_losses(base, adapter.views(v, shapes), batch, CAUSAL_WEIGHT).rows
        for v in (start, other)
    )
    assert not torch.equal(start, other)
    assert torch.equal(one, two)


def test_an_adapter_comes_back_from_its_file(
    base: Base, vector: Tensor, shapes: adapter.Shapes, tmp_path: Path
) -> None:
    path = tmp_path / "adapter.safetensors"
    for _ in range(2):  # the second replaces the first
        adapter.write(path, vector, shapes)
    assert torch.equal(adapter.read(path, base.config, shapes), vector.bfloat16().float())
    assert list(tmp_path.iterdir()) == [path]


def test_steps_are_those_of_adamw(config: TrainConfig) -> None:
    torch.manual_seed(0)
    config = replace(config, weight_decay=0.1, clip_norm=1e9, warmup_steps=1)
    leaf = torch.randn(50, requires_grad=True)
    ours = Optimizer.fresh(leaf.detach().clone())
    theirs = torch.optim.AdamW(
        [leaf], config.learning_rate, config.betas, weight_decay=config.weight_decay
    )
    for _ in range(5):
        leaf.grad = torch.randn(50)
        norm = ours.update(leaf.grad.clone(), config)
        assert norm == pytest.approx(float(leaf.grad.norm()))
        theirs.step()
    assert torch.allclose(ours.parameters, leaf.detach(), atol=1e-6)
    assert not torch.equal(ours.average, ours.parameters)


def test_a_large_gradient_is_clipped(config: TrainConfig) -> None:
    one, two = Optimizer.fresh(torch.zeros(4)), Optimizer.fresh(torch.zeros(4))
    assert one.update(torch.full((4,), 50.0), config) == pytest.approx(100)
    two.update(torch.full((4,), 0.5), config)
    assert torch.allclose(one.first, two.first)


@pytest.mark.parametrize(
    ("step", "share"), [(1, 0.1), (10, 1), (100, 1), (110, 0.55), (120, 0.1), (900, 0.1)]
)
def test_the_rate_warms_up_and_falls(config: TrainConfig, step: int, share: float) -> None:
    config = replace(config, warmup_steps=10, decay_from=100, decay_steps=20)
    assert learning_rate(step, config) == pytest.approx(share * config.learning_rate)


def test_a_checkpoint_comes_back(config: TrainConfig, tmp_path: Path) -> None:
    optimizer, progress = Optimizer.fresh(torch.randn(9)), Progress(7, 5, 1.5, 0.25)
    optimizer.update(torch.randn(9), config)
    checkpoint.save(tmp_path / "checkpoint.pt", optimizer, progress)
    loaded, loaded_progress = checkpoint.load(tmp_path / "checkpoint.pt")
    assert loaded_progress == progress
    assert loaded.step == 1
    for name in ("parameters", "first", "second", "average"):
        assert torch.equal(getattr(loaded, name), getattr(optimizer, name))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read"),
        ("3", "cannot be read"),
        ('{"out": "o"}', "'corpus'"),
        ('{"corpus": "c", "out": "o", "speed": 3}', "'speed'"),
        ('{"corpus": "c", "out": "o", "micro_batches": 3}', "multiple"),
        ('{"corpus": "c", "out": "o", "canvas_lengths": [999]}', "fit"),
    ],
)
def test_settings_that_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(TrainingError, match=message):
        TrainConfig.load(path)


def test_paths_are_taken_from_the_files_folder(tmp_path: Path) -> None:
    path = tmp_path / "recipe.json"
    path.write_text('{"archives": "a", "model": "./m"}')
    recipe = Recipe.load(path)
    assert (recipe.archives, recipe.problems) == (tmp_path / "a", PROBLEMS)
    assert recipe.model == str(tmp_path / "m")


def command(config: TrainConfig) -> list[str]:
    """`midfill train run` with these settings, for a process of its own."""
    path = config.out / "config.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(dataclasses.asdict(config), default=str))
    return [sys.executable, "-m", "midfill_lsp", "train", "run", str(path)]


def test_a_run_that_was_ended_goes_on_exactly_there(
    config: TrainConfig, base: Base, shapes: adapter.Shapes, tiny_model: Path, tmp_path: Path
) -> None:
    start = tiny_model / "adapter.safetensors"
    config = replace(config, adapter=start, workers=2, validate_every=1)
    whole, parts = (replace(config, out=tmp_path / name) for name in ("whole", "parts"))
    with subprocess.Popen(command(parts), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        kinds = (json.loads(line)["kind"] for line in process.stdout)
        assert [next(kinds) for _ in range(3)] == ["base", "start", "step"]
        process.terminate()
        process.communicate()
    assert process.returncode == 0
    ended_at = checkpoint.load(parts.out / "checkpoint.pt")[0].step
    for run in (parts, whole):
        subprocess.run(command(replace(run, steps=ended_at + 1)), check=True)
    one, two = (checkpoint.load(run.out / "checkpoint.pt")[0] for run in (whole, parts))
    assert one.step == two.step == ended_at + 1
    assert torch.equal(one.parameters, two.parameters)
    written = adapter.read(parts.out / "adapter-latest.safetensors", base.config, shapes)
    assert torch.equal(written, two.average.bfloat16().float())
    log = [json.loads(line) for line in (parts.out / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in log] == [0, 0, *range(1, ended_at + 2)]
