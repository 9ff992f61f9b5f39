"""What has to hold on a CUDA device, and how fast it is: `make gpu-check`.

Compares kernels with one another and models on the device with the same on the CPU, then times a
random model of Dream's shape. Needs no network and no checkpoint. With `--tiny` everything is small
and runs on the CPU where there is no device; that is how the tests keep this file working.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from midfill_engine.checkpoint import Checkpoint, read_checkpoint
from midfill_engine.errors import ModelError
from midfill_engine.model import attention as kernels
from midfill_engine.model.attention import Block
from midfill_engine.model.checkpoint_vocabulary import load_vocabulary
from midfill_engine.model.dual_cache import DualCache, RefreshPolicy
from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.full_attention import (
    ATTENTION,
    Canvas,
    FullAttentionModel,
    backbone_config,
    register_attention,
)
from midfill_engine.model.vocabulary import MASK
from midfill_engine.model_files import check_model
from midfill_engine.paths import model_dir
from support.jobs import request_for
from support.schedulers import running
from support.tiny_checkpoints import write_dream, write_llada
from support.tiny_model import write_tiny_model

PREFIX_TOKENS, SUFFIX_TOKENS, HOLE_TOKENS = 400, 72, 32
DREAM_7B = {
    "vocab_size": 152064,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "max_position_embeddings": 131072,
}
TINY = DREAM_7B | {
    "vocab_size": 600,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
TEXTS = [("def f(n):\n    return", "\n\n\ndef g(n):\n"), ("x = ", ""), ("", "\n    return a\n")]


class Report:
    """What was found; a line each, printed at once."""

    def __init__(self) -> None:
        self.failed = 0

    def difference(self, name: str, ours: Tensor, theirs: Tensor, bound: float) -> None:
        seen = ours.isfinite().cpu() & theirs.isfinite().cpu()
        found = (ours.float().cpu() - theirs.float().cpu())[seen].abs()
        good = bool(found.numel()) and float(found.max()) <= bound
        self.failed += not good
        print(
            f"{'ok  ' if good else 'FAIL'} {name}: max {found.max():.2e}, mean {found.mean():.2e},"
            f" bound {bound:.0e}",
            flush=True,
        )

    def same(self, name: str, ours: object, theirs: object) -> None:
        good = ours == theirs
        self.failed += not good
        print(f"{'ok  ' if good else 'FAIL'} {name}{'' if good else f': {ours} {theirs}'}")

    def note(self, text: str) -> None:
        print(f"     {text}", flush=True)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="gpu-check")
    parser.add_argument("--tiny", action="store_true")
    tiny = parser.parse_args(argv).tiny
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not tiny:
        print("there is no CUDA device here; --tiny tries the script without one")
        return 1
    if device == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = False
        print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    report = Report()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as place, torch.inference_mode():
        _check_kernels(report, device)
        _check_embedded(report, device, Path(place), tiny)
        _check_family(report, device, Path(place))
        _time_dream(report, device, Path(place), TINY if tiny else DREAM_7B)
    print(f"{report.failed} checks failed; {time.monotonic() - started:.0f} s")
    return int(report.failed > 0)


def _check_kernels(report: Report, device: str) -> None:
    """xformers against SDPA."""
    if not kernels.xformers_works():
        report.note("xformers has no kernel here: SDPA is used")
        return
    for dtype, bound in ((torch.bfloat16, 2e-2), (torch.float16, 4e-3)):
        generator = torch.Generator(device).manual_seed(1)

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator, device=device).to(dtype)  # noqa: B023

        sizes = [(33, 505), (505, 505), (9, 480), (1, 1), (64, 700)]
        blocks = [Block(rows, normal(4, keys, 128), normal(4, keys, 128)) for rows, keys in sizes]
        queries = normal(sum(rows for rows, _ in sizes), 28, 128)
        packed = kernels.packed_attention(queries, blocks)
        one_by_one = torch.cat(
            [
                kernels.block_attention(part, block)
                for part, block in zip(
                    queries.split([rows for rows, _ in sizes]), blocks, strict=True
                )
            ]
        )
        report.difference(f"xformers and SDPA, {dtype}", packed, one_by_one, bound)
        for name, run in (
            ("xformers", lambda: kernels.packed_attention(queries, blocks)),  # noqa: B023
            (
                "SDPA",
                lambda: [
                    kernels.block_attention(queries[: block.rows], block)  # noqa: B023
                    for block in blocks  # noqa: B023
                ],
            ),
        ):
            report.note(f"{name}, {len(blocks)} blocks: {1000 * _seconds(run, 20, device):.2f} ms")


def _check_embedded(report: Report, device: str, place: Path, tiny: bool) -> None:
    """The embedded model, or a tiny one in its format, on the device and on the CPU."""
    model = str(write_tiny_model(place / "embedded"))
    if not tiny:
        try:
            check_model(model_dir("embedded"))
            model = "embedded"
        except ModelError as error:
            report.note(f"a tiny model stands for the embedded one: {error}")
    here = EmbeddedModel.load(model, "float32", device)
    there = EmbeddedModel.load(model, "float32", "cpu")
    fast = EmbeddedModel.load(model, "bfloat16", device)
    requests = [
        replace(request_for(*texts, quality="balanced"), request_id=i)
        for i, texts in enumerate(TEXTS, 1)
    ]
    _compare_fills(report, "the embedded model", here, there, requests)
    with running(lambda: fast) as run:
        results = [one.result() for one in run.ask(*requests)]
        report.same("bfloat16 comes to an end", all(r.stats.steps for r in results), True)
        started = time.monotonic()
        for request in requests:
            run.fill(request)
        seconds = (time.monotonic() - started) / len(requests)
        report.note(f"a balanced fill: {1000 * seconds:.0f} ms")


def _check_family(report: Report, device: str, place: Path) -> None:
    """Tiny checkpoints on the device and on the CPU."""
    for name, write in (("Dream", write_dream), ("LLaDA", write_llada)):
        directory = write(place / name)
        there = FullAttentionModel.load(directory, "float32", "cpu")
        here = FullAttentionModel.load(directory, "float32", device)
        fast = FullAttentionModel.load(directory, "bfloat16", device)

        def canvases(model: FullAttentionModel, cached: RefreshPolicy | None) -> list[Canvas]:
            return [
                Canvas(
                    model.open(*(model.vocabulary.encode(text) for text in texts)),
                    [MASK] * (5 + 4 * i),
                    range(5 + 4 * i),
                    cached and DualCache(cached),
                )
                for i, texts in enumerate(TEXTS)
            ]

        want = torch.cat(there.logits(canvases(there, None)))
        together = torch.cat(here.logits(canvases(here, None)))
        alone = torch.cat([here.logits([c])[0] for c in canvases(here, None)])
        report.difference(f"{name} on {device} and on the CPU", together, want, 1e-3)
        report.difference(f"{name} batched and alone", together, alone, 1e-3)
        fresh = canvases(here, RefreshPolicy(every=1, block=8))
        for _ in range(2):
            report.difference(
                f"{name} refreshed in every step", torch.cat(here.logits(fresh)), together, 1e-6
            )
        kept = canvases(here, RefreshPolicy(every=8, block=64))
        here.logits(kept)
        report.difference(f"{name} from the cache", torch.cat(here.logits(kept)), together, 1e-3)
        report.difference(
            f"{name} in bfloat16", torch.cat(fast.logits(canvases(fast, None))), want, 1.0
        )
        requests = [
            replace(request_for(*texts, quality="fast"), request_id=i)
            for i, texts in enumerate(TEXTS, 1)
        ]
        _compare_fills(report, name, here, there, requests)


def _compare_fills(report: Report, name: str, here: Any, there: Any, requests: list[Any]) -> None:
    """Through the scheduler, all at once here and one by one there."""
    with running(lambda: here) as run:
        ours = [[f.text for f in one.result().fills] for one in run.ask(*requests)]
    with running(lambda: there) as run:
        theirs = [[f.text for f in run.fill(request).fills] for request in requests]
    report.same(f"{name}: fills as on the CPU", list(map(sorted, ours)), list(map(sorted, theirs)))


def _time_dream(report: Report, device: str, place: Path, shape: dict[str, Any]) -> None:
    """Steps of a random model, one token decided in each hole and step."""
    model = _random_dream(device, place, shape)
    report.note(
        f"a model of {model.checkpoint.parameters / 1e9:.2f} billion parameters, holes of"
        f" {HOLE_TOKENS} tokens in {PREFIX_TOKENS} + {SUFFIX_TOKENS}, one token per step and hole"
    )
    token = model.vocabulary.encode("return")[0]
    frame = model.open([token] * PREFIX_TOKENS, [token] * SUFFIX_TOKENS)
    for batch in (1, 8, 32):
        for name, policy in (("exact", None), ("dual cache", RefreshPolicy(every=8, block=8))):
            caches = [policy and DualCache(policy) for _ in range(batch)]
            step = _step(model, frame, token, caches)
            for number in range(2):
                step(number)
            _synchronize(device)
            started = time.monotonic()
            steps = 8 if policy is None else 16
            for number in range(steps):
                step(number)
            _synchronize(device)
            seconds = (time.monotonic() - started) / steps
            report.note(
                f"batch {batch:2}, {name:10}: {1000 * seconds:7.1f} ms per step,"
                f" {batch / seconds:7.0f} tokens/s"
            )


def _step(
    model: FullAttentionModel, frame: Any, token: int, caches: list[DualCache | None]
) -> Callable[[int], None]:
    """A step over as many canvases as there are caches, the n-th with n tokens decided."""

    def run(number: int) -> None:
        ids = [token] * number + [MASK] * (HOLE_TOKENS - number)
        wanted = range(number, HOLE_TOKENS)
        parts = model.logits([Canvas(frame, ids, wanted, cache) for cache in caches])
        for part in parts:
            part.max(1)

    return run


def _random_dream(device: str, place: Path, shape: dict[str, Any]) -> FullAttentionModel:
    """Weights made on the device itself, in bfloat16; a tiny model's tokenizer."""
    from transformers import Qwen2ForCausalLM

    made = read_checkpoint(write_dream(place / "shape"))
    checkpoint = Checkpoint(
        made.directory, made.family, shape, made.special, parameters=0, stored_bytes=0
    )
    register_attention()
    config = backbone_config(checkpoint)
    config._attn_implementation = ATTENTION
    kept = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            backbone = Qwen2ForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(kept)
    count = sum(parameter.numel() for parameter in backbone.parameters())
    checkpoint = replace(checkpoint, parameters=count)
    vocabulary = load_vocabulary(checkpoint, device)
    return FullAttentionModel(checkpoint, backbone, vocabulary, "bfloat16")


def _seconds(run: Callable[[], object], times: int, device: str) -> float:
    """Of one call, after a first that does not count."""
    run()
    _synchronize(device)
    started = time.monotonic()
    for _ in range(times):
        run()
    _synchronize(device)
    return (time.monotonic() - started) / times


def _synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    sys.exit(main())
