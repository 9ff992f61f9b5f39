"""The `midfill` command. One file for each subcommand.

Owns the way from the command line to a subcommand and from its errors to an exit code. A
subcommand's module has `add(subparsers)`, which names the function to run, and imports nothing
heavy before that function runs: `serve` must answer quickly, and must claim stdout first.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from midfill_engine.errors import EngineError
from midfill_lsp.cli import bench, demo, fill, model, serve, train
from midfill_lsp.cli import eval as evaluate
from midfill_lsp.cli.exit_codes import EPILOG, ExitCode, code_for
from midfill_lsp.errors import LspError
from midfill_lsp.version import VERSION

SUBCOMMANDS = (serve, fill, model, demo, bench, train, evaluate)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(ExitCode.USAGE, f"{self.prog}: {message} (see `{self.prog} --help`)\n")


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    made = _Parser(
        prog="midfill",
        description="Fills holes in code with a masked-diffusion language model.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--version", action="version", version=f"midfill {VERSION}")
    subparsers = made.add_subparsers(metavar="COMMAND", required=True)
    for subcommand in SUBCOMMANDS:
        subcommand.add(subparsers)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line. Returns the exit code; what is wrong is one line on stderr."""
    arguments = parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except (LspError, EngineError) as error:
        sys.stderr.write(f"midfill: {error}\n")
        return code_for(error)
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OUTPUT
    except OSError as error:
        if error.filename is None:
            raise
        sys.stderr.write(f"midfill: {error.filename} cannot be used: {error.strerror}\n")
        return ExitCode.OUTPUT
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
