"""`midfill serve`: the language server on stdin and stdout."""

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from midfill_lsp.server import Engine


def add(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Add the subcommand."""
    sub = subparsers.add_parser(
        "serve",
        help="run the language server on stdin and stdout",
        description="Run the language server on stdin and stdout, as an editor starts it.",
        allow_abbrev=False,
    )
    # Editors and their client libraries pass it by habit; there is no other way to serve.
    sub.add_argument("--stdio", action="store_true", help="accepted, and what happens anyway")
    sub.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until the editor is done."""
    from midfill_lsp.stdio import claim

    pipes = claim()  # before anything is imported that might print
    import gc

    gc.disable()  # a tenth of the start would go into collecting among the protocol's classes
    import asyncio
    import logging

    from midfill_lsp.serving import serve_pipes

    gc.freeze()
    gc.enable()
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(levelname)s: %(message)s")
    return asyncio.run(serve_pipes(pipes, _connect))


def _connect(model: str) -> "Engine":
    from midfill_engine.client import EngineClient  # not needed before the first fill

    return EngineClient(model=model)
