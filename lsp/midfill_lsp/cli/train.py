"""`midfill train`: builds a corpus, and trains an adapter of the embedded model on it."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from midfill_lsp.cli.arguments import positive
from midfill_lsp.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from midfill_engine.training.train import Status, Watcher

_LINE_EVERY: Final = 10  # steps, without a terminal


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
    pack = actions.add_parser(
        "pack",
        help="cut all that a training needs into pieces, for another machine",
        description="Cut model, corpus and settings of a training into numbered files, for a "
        "machine that gets them over a narrow way. `midfill train packed` trains from them.",
        allow_abbrev=False,
    )
    pack.add_argument("config", type=Path, metavar="CONFIG")
    pack.add_argument("out", type=Path, metavar="OUT", help="the folder to write the pieces to")
    pack.add_argument(
        "--tokens",
        type=positive("tokens", most_digits=12),
        metavar="N",
        help="cut the corpus to so many tokens to learn from",
    )
    pack.add_argument(
        "--piece-mib",
        type=positive("MiB", most_digits=4),
        default=40,
        metavar="N",
        help="the size of a piece (default %(default)s)",
    )
    pack.set_defaults(run=run_pack)
    packed = actions.add_parser(
        "packed",
        help="train from pieces, for so many seconds",
        description="Join the pieces that `midfill train pack` made, and train from them.",
        allow_abbrev=False,
    )
    packed.add_argument("pieces", type=Path, metavar="PIECES")
    packed.add_argument("out", type=Path, metavar="OUT", help="where adapters and the log go")
    packed.add_argument(
        "--seconds",
        type=positive("seconds", most_digits=7),
        required=True,
        metavar="N",
        help="how long to train, once all is loaded and measured",
    )
    packed.set_defaults(run=run_packed)
    report = actions.add_parser(
        "report",
        help="what goes with an adapter that is kept: its curve and what it was made from",
        description="Write REPORT/README.md, REPORT/curve.svg and REPORT/manifest.json from the "
        "folder of a run.",
        allow_abbrev=False,
    )
    report.add_argument("run_folder", type=Path, metavar="RUN")
    report.add_argument("out", type=Path, metavar="REPORT")
    report.add_argument(
        "--corpus", type=Path, required=True, metavar="FOLDER", help="what it was trained on"
    )
    report.set_defaults(run=run_report)


def run_corpus(arguments: argparse.Namespace) -> int:
    """Build a corpus."""
    from midfill_engine.training.recipe import Recipe, build_corpus

    build_corpus(Recipe.load(arguments.recipe), arguments.out, _say)
    return ExitCode.DONE


def run_training(arguments: argparse.Namespace) -> int:
    """Train."""
    from midfill_engine.training.config import TrainConfig
    from midfill_engine.training.train import train

    config = TrainConfig.load(arguments.config)
    with _watching() as watcher:
        train(config, watcher)
    return ExitCode.DONE


def run_pack(arguments: argparse.Namespace) -> int:
    """Cut into pieces."""
    from dataclasses import replace
    from tempfile import TemporaryDirectory

    from midfill_engine.training.config import TrainConfig
    from midfill_engine.training.corpus import cut_corpus
    from midfill_engine.training.pieces import write_pieces

    config = TrainConfig.load(arguments.config)
    with TemporaryDirectory() as folder:
        if arguments.tokens is not None:
            cut_corpus(config.corpus, Path(folder), arguments.tokens)
            config = replace(config, corpus=Path(folder))
        write_pieces(config, arguments.out, arguments.piece_mib << 20, _say)
    return ExitCode.DONE


def run_packed(arguments: argparse.Namespace) -> int:
    """Train from pieces."""
    from tempfile import TemporaryDirectory

    from midfill_engine.training.config import TrainConfig
    from midfill_engine.training.pieces import join_pieces, timed
    from midfill_engine.training.train import train

    with TemporaryDirectory() as folder, _watching() as watcher:
        config = TrainConfig.load(join_pieces(arguments.pieces, Path(folder)))
        train(timed(config, arguments.out.absolute(), arguments.seconds), watcher)
    return ExitCode.DONE


def run_report(arguments: argparse.Namespace) -> int:
    """Write a report."""
    from midfill_engine.training.report import write_report

    write_report(arguments.run_folder, arguments.corpus, arguments.out)
    return ExitCode.DONE


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


@contextmanager
def _watching() -> "Iterator[Watcher]":
    """Who follows a run on stdout: a bar in a terminal, plain lines where there is none."""
    if not sys.stdout.isatty():
        yield _Lines()
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), TaskProgressColumn())
    with Progress(*columns) as bars:
        yield _Bar(bars, bars.add_task("starting", total=1.0))


class _Lines:
    def say(self, line: str) -> None:
        _say(line)

    def show(self, status: "Status") -> None:
        if status.step % _LINE_EVERY == 0:
            _say(str(status))


class _Bar:
    def __init__(self, bars: "Progress", task: "TaskID") -> None:
        self._bars, self._task = bars, task

    def say(self, line: str) -> None:
        self._bars.console.print(line, markup=False, highlight=False)

    def show(self, status: "Status") -> None:
        seconds = status.step_seconds * status.steps_to_validation
        text = f"{status}  validation in {seconds / 60:.0f} min"
        self._bars.update(self._task, completed=status.done, description=text)
