"""`midfill train`: builds a corpus, and trains an adapter of the embedded model on it."""

import argparse
import sys
from pathlib import Path
from typing import Any

from midfill_lsp.cli.exit_codes import ExitCode


def add(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Add the subcommand."""
    sub = subparsers.add_parser(
        "train",
        help="train an adapter",
        description="Train an adapter of the embedded model.",
        allow_abbrev=False,
    )
    actions = sub.add_subparsers(metavar="ACTION", required=True)
    corpus = actions.add_parser(
        "corpus",
        help="download packages, and build a corpus from them",
        description="Download pinned packages with pip, npm and apt, and build a corpus from "
        "them. RECIPE is a JSON object: its 'archives' is the directory to download to. What is "
        "there already is not downloaded again.",
        allow_abbrev=False,
    )
    corpus.add_argument("recipe", type=Path, metavar="RECIPE")
    corpus.add_argument("out", type=Path, metavar="OUT", help="the folder to write it to")
    corpus.set_defaults(run=run_corpus)
    run = actions.add_parser(
        "run",
        help="train, or go on training",
        description="Train until interrupted, then go on from there when run again. "
        "CONFIG is a JSON object: its 'corpus' and 'out' are folders.",
        allow_abbrev=False,
    )
    run.add_argument("config", type=Path, metavar="CONFIG")
    run.set_defaults(run=run_training)


def run_corpus(arguments: argparse.Namespace) -> int:
    """Build a corpus."""
    from midfill_engine.training.recipe import Recipe, build_corpus

    build_corpus(Recipe.load(arguments.recipe), arguments.out, _say)
    return ExitCode.DONE


def run_training(arguments: argparse.Namespace) -> int:
    """Train."""
    from midfill_engine.training.config import TrainConfig
    from midfill_engine.training.train import train

    train(TrainConfig.load(arguments.config), _say)
    return ExitCode.DONE


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
