"""Training itself: its passes against the worker's, its steps, its files, runs of the command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.tiny_model import RANK
from torch import Tensor

from midfill_engine.adapter_file import adapter_shapes, check_adapter
from midfill_engine.errors import TrainingError
from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.slab import Slab
from midfill_engine.model.transformer import Segment
from midfill_engine.model.vocabulary import END_OF_TEXT
from midfill_engine.paths import PROBLEMS
from midfill_engine.training import adapter
from midfill_engine.training.base import Base
from midfill_engine.training.batches import Batches, Canvas, Group, Window, left_to_right
from midfill_engine.training.config import TrainConfig
from midfill_engine.training.functions import head_logits
from midfill_engine.training.optimizer import Optimizer, learning_rate
from midfill_engine.training.passes import Losses, Soft, canvas_losses
from midfill_engine.training.recipe import Recipe
from midfill_lsp.cli import main
from midfill_lsp.cli.exit_codes import ExitCode

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


def gradient_of(base: Base, vector: Tensor, shapes: adapter.Shapes, batch: Window) -> Tensor:
    leaf = vector.clone().requires_grad_()
    torch.autograd.backward(
        canvas_losses(base, adapter.views(leaf, shapes), [batch], CAUSAL_WEIGHT).total
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
        batch = batches.window(index)
        ours = canvas_losses(base, adapter.views(vector, shapes), [batch], CAUSAL_WEIGHT).rows
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
    batch = batches.window(0)
    gradient = gradient_of(base, vector, shapes, batch)
    direction = gradient / gradient.norm()

    def loss(step: float) -> float:
        tensors = adapter.views(vector + step * direction, shapes)
        return float(canvas_losses(base, tensors, [batch], CAUSAL_WEIGHT).total)

    slope = (loss(3e-3) - loss(-3e-3)) / 6e-3
    print(f"slope {slope:.4f}, gradient {gradient.norm():.4f}")
    assert slope == pytest.approx(float(gradient.norm()), rel=0.02)


def test_bfloat16_agrees_with_float32(
    tiny_model: Path, base: Base, vector: Tensor, shapes: adapter.Shapes, batches: Batches
) -> None:
    batch = batches.window(0)
    wide = gradient_of(base, vector, shapes, batch)
    narrow = gradient_of(Base.load(tiny_model, torch.bfloat16), vector, shapes, batch)
    cosine = float(torch.nn.functional.cosine_similarity(wide, narrow, dim=0))
    gap = (wide - narrow).abs()
    print(f"gradient: max {gap.max():.2e} mean {gap.mean():.2e} cosine {cosine:.4f}")
    assert cosine > 0.99


def test_what_the_base_says_is_part_of_the_targets(
    base: Base, vector: Tensor, shapes: adapter.Shapes, batches: Batches
) -> None:
    fresh = adapter.views(adapter.fresh(shapes, base.embeddings, seed=1), shapes)
    window = batches.window(0)

    def losses(share: float) -> Losses:
        soft = Soft(fresh, share) if share else None
        return canvas_losses(base, adapter.views(vector, shapes), [window], 1.0, soft=soft)

    none, half, all_ = losses(0), losses(0.5), losses(1)
    assert torch.equal(none.rows, all_.rows)
    assert abs(float(none.total - all_.total)) > 1
    assert float(half.total) == pytest.approx(float(none.total + all_.total) / 2, rel=1e-4)


def test_a_teacher_reads_the_text_before_a_token(batches: Batches) -> None:
    window = batches.window(0)
    (taught,) = left_to_right([window])
    for group, plain in zip(window.groups, taught.groups, strict=True):
        assert plain.suffix == []
        for canvas, text in zip(group.canvases, plain.canvases, strict=True):
            assert text.causal
            assert text.ids[1:] == canvas.targets[:-1]
            assert (text.ids[0], text.weights) == (canvas.ids[0], canvas.weights)
            if canvas.causal:
                assert text.ids == canvas.ids


def test_windows_of_one_pass_do_not_see_one_another(
    base: Base, vector: Tensor, shapes: adapter.Shapes, batches: Batches
) -> None:
    windows = [batches.window(index) for index in range(3)]

    def run(passes: list[list[Window]]) -> tuple[Tensor, Tensor]:
        leaf = vector.clone().requires_grad_()
        tensors = adapter.views(leaf, shapes)
        losses = [canvas_losses(base, tensors, some, CAUSAL_WEIGHT) for some in passes]
        torch.autograd.backward(torch.stack([one.total for one in losses]).sum())
        assert leaf.grad is not None
        return torch.cat([one.rows for one in losses]), leaf.grad

    (one_rows, one_grad), (rows, grad) = run([[w] for w in windows]), run([windows])
    for name, a, b in (("losses", one_rows, rows), ("gradient", one_grad, grad)):
        gap = (a - b).abs()
        print(f"{name}: max {gap.max():.2e} mean {gap.mean():.2e}")
        assert gap.max() < 1e-3 * a.abs().max()


def test_a_fresh_adapter_is_the_base(base: Base, shapes: adapter.Shapes, batches: Batches) -> None:
    start = adapter.fresh(shapes, base.embeddings, seed=1)
    other = adapter.fresh(shapes, base.embeddings, seed=2)
    batch = batches.window(0)
    one, two = (
        canvas_losses(base, adapter.views(v, shapes), [batch], CAUSAL_WEIGHT).rows
        for v in (start, other)
    )
    assert not torch.equal(start, other)
    assert torch.equal(one, two)


def test_an_adapter_comes_back_from_its_file(
    base: Base, vector: Tensor, shapes: adapter.Shapes, tmp_path: Path
) -> None:
    path = tmp_path / "adapter.safetensors"
    for _ in range(2):  # the second replaces the first
        adapter.write(path, vector, shapes, base.config, {"steps": 3})
    gap = (adapter.read(path, base.config, shapes) - vector).abs()
    print(f"stored: max {gap.max():.2e} mean {gap.mean():.2e}")
    assert gap.max() < 1 / 127 * vector.abs().max()
    assert check_adapter(path, base.config).recipe == {"steps": 3}
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
    config = replace(config, warmup_steps=10, decay_from=100, decay_for=20)
    assert learning_rate(config, step) == pytest.approx(share * config.learning_rate)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read"),
        ("3", "cannot be read"),
        ('{"out": "o"}', "'corpus'"),
        ('{"corpus": "c", "out": "o", "speed": 3}', "'speed'"),
        ('{"corpus": "c", "out": "o", "device": "tpu"}', "auto, cpu, cuda, not 'tpu'"),
        ('{"corpus": "c", "out": "o", "windows": 0}', "windows must be at least 1"),
        ('{"corpus": "c", "out": "o", "canvas_lengths": [999]}', "fit"),
        ('{"corpus": "c", "out": "o", "canvas_lengths": []}', "from 1 on"),
        ('{"corpus": "c", "out": "o", "canvas_lengths": [8, "9"]}', "canvas_lengths cannot be"),
        ('{"corpus": 1, "out": "o"}', "corpus cannot be 1"),
        ('{"corpus": "c", "out": null}', "out cannot be None"),
        ('{"corpus": "c", "out": "o", "model": 3}', "model cannot be 3"),
        ('{"corpus": "c", "out": "o", "rank": "x"}', "rank cannot be 'x'"),
        ('{"corpus": "c", "out": "o", "rank": 1.5}', "rank cannot be 1.5"),
        ('{"corpus": "c", "out": "o", "seed": true}', "seed cannot be True"),
        ('{"corpus": "c", "out": "o", "betas": [0.9]}', "betas cannot be"),
        ("[" * 100_000, "cannot be read"),
    ],
)
def test_settings_that_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(TrainingError, match=message):
        TrainConfig.load(path)


@pytest.mark.parametrize(
    ("command", "text", "message"),
    [
        (["run", "settings.json"], '{"corpus": "c", "out": "o", "speed": 3}', "['speed']"),
        (["run", "settings.json"], '{"corpus": "c", "out": "o", "rank": "x"}', "rank cannot be"),
        (["run", "none.json"], "", "none.json cannot be read"),
        (["pack", "settings.json", "pieces"], '{"corpus": "c", "speed": 3}', "['speed']"),
        (["pack", "settings.json", "pieces"], '{"corpus": 3, "out": "o"}', "corpus cannot be 3"),
        (["pack", "settings.json", "pieces", "--tokens", "9"], '{"corpus": "c", "out": "o"}',
         "c is no corpus"),
        (["corpus", "settings.json", "out"], '{"archives": "a", "speed": 3}', "['speed']"),
        (["corpus", "settings.json", "out"], '{"archives": 3}', "archives cannot be 3"),
        (["corpus", "settings.json", "out"], '{"archives": "a", "packages": "p"}', "no list"),
        (["packed", "pieces", "out", "--seconds", "1"], "", "SHA256SUMS cannot be read"),
        (["report", "run", "out", "--corpus", "c"], "", "log.jsonl is not there"),
    ],
)  # fmt: skip
def test_what_a_command_was_given_and_cannot_use(
    command: list[str],
    text: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("settings.json").write_text(text)
    assert main(["train", *command]) == ExitCode.INPUT
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["settings.json"]


def test_settings_of_every_type(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(
        '{"corpus": "c", "out": "/o", "workers": 2, "compile": false, "adapter": null,'
        ' "learning_rate": 1, "seconds": 60, "canvas_lengths": [8], "betas": [0, 0.5]}'
    )
    config = TrainConfig.load(path)
    assert (config.corpus, config.out) == (tmp_path / "c", Path("/o"))
    assert (config.workers, config.compile, config.adapter) == (2, False, None)
    assert (config.learning_rate, config.seconds) == (1.0, 60.0)
    assert (config.canvas_lengths, config.betas) == ((8,), (0.0, 0.5))


def test_paths_are_taken_from_the_files_folder(tmp_path: Path) -> None:
    path = tmp_path / "recipe.json"
    path.write_text('{"archives": "a", "model": "./m"}')
    recipe = Recipe.load(path)
    assert (recipe.archives, recipe.problems) == (tmp_path / "a", PROBLEMS)
    assert recipe.model == str(tmp_path / "m")
