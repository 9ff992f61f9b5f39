"""`midfill eval`: how good fills are, as numbers that anyone can get again.

Owns the subcommand's arguments and what is printed. What is measured is `evaluation`'s concern.
"""

import argparse
import asyncio
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from midfill_lsp.cli.arguments import QUALITIES, add_model, positive
from midfill_lsp.cli.exit_codes import EPILOG, ExitCode

if TYPE_CHECKING:
    from midfill_engine.protocol import Quality
    from midfill_lsp.evaluation.page import About
    from midfill_lsp.evaluation.problems import Problem
    from midfill_lsp.evaluation.tables import Table

_HOLES: Final = 200
_WIDTH: Final = 200  # where there is no terminal
_DESCRIPTION: Final = """\
Have holes filled whose content is known, and count what comes back: missing lines of HumanEval,
whose programs are run; holes in packages that the model was not trained on, in every language;
and places where nothing is missing. The base model left to right, blind to what follows the hole,
fills the same holes for comparison. Nothing depends on the machine's speed: two runs differ in
times only.

Programs that the model wrote are run, with no network and with limits on what they may do.
"""


def add(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Add the subcommand."""
    sub = subparsers.add_parser(
        "eval",
        help="measure how good fills are",
        description=_DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    number = sub.add_mutually_exclusive_group()
    number.add_argument(
        "--holes",
        type=positive("holes", most_digits=5),
        default=_HOLES,
        metavar="N",
        help="half of them HumanEval's, half in held-out packages; a quarter as many places with "
        f"nothing missing come on top; default: {_HOLES}",
    )
    number.add_argument("--all", action="store_true", help="all of HumanEval, and as many others")
    sub.add_argument(
        "--quality",
        type=_qualities,
        default=("balanced",),
        metavar="Q,Q",
        help=f"of {', '.join(QUALITIES)}; default: balanced",
    )
    sub.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="which holes are taken; default: 0",
    )
    sub.add_argument(
        "--fit-calibration",
        action="store_true",
        help="instead of measuring, fit what confidences mean and the gate, on held-out packages "
        "alone, and write them beside the adapter",
    )
    sub.add_argument("--out", type=Path, metavar="DIR", help="write all outcomes, tables and plots")
    sub.add_argument(
        "--page", type=Path, metavar="DIR", help="write quality.md, which shows them, and its plots"
    )
    sub.add_argument(
        "--archives",
        type=Path,
        metavar="DIR",
        help="the held-out packages; what is missing is downloaded; default: in the user's cache",
    )
    add_model(sub)
    sub.set_defaults(run=run, usage_error=sub.error)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the tables, and write what is to be written."""
    from midfill_engine.paths import packages_dir
    from midfill_lsp.cli.progress_bar import progress_bar
    from midfill_lsp.evaluation import page, running
    from midfill_lsp.evaluation.tables import tables

    if arguments.fit_calibration and (arguments.out or arguments.page):
        arguments.usage_error("--fit-calibration measures nothing that --out or --page could write")
    _check_model(arguments.model)  # before packages are downloaded for it
    size = running.ALL if arguments.all else running.Size.of(arguments.holes)
    archives = arguments.archives or packages_dir()
    chosen = running.choose(size, arguments.seed, archives, _say)
    for reason in chosen.left_out:
        _say(f"left out: {reason}")
    if arguments.fit_calibration:
        return _fit(arguments, [p for p in chosen.problems if p.suite != "humaneval"])
    with progress_bar() as progress:
        evaluation = asyncio.run(
            running.run(chosen.problems, arguments.quality, arguments.model, progress)
        )
    _show(tables(evaluation.outcomes))
    about = _about(arguments, chosen.left_out)
    written = []
    if arguments.out is not None:
        written += page.write_results(evaluation, about, arguments.out)
    if arguments.page is not None:
        written += page.write_page(evaluation, about, arguments.page)
    for path in written:
        _say(f"written: {path}")
    if written and not page.can_draw():
        _say("left out: the plots, which need matplotlib (pip install 'midfill[plots]')")
    return ExitCode.DONE


def _check_model(model: str) -> None:
    """Raise `ModelError` where a model's configuration or its adapter cannot be used."""
    from midfill_engine.adapter_file import check_adapter
    from midfill_engine.errors import ModelError
    from midfill_engine.model_files import read_config
    from midfill_engine.paths import adapter_path, model_dir
    from midfill_lsp.remedies import advice

    try:
        check_adapter(adapter_path(model), read_config(model_dir(model)))
    except ModelError as error:
        raise type(error)(advice(error, model)) from error


def _fit(arguments: argparse.Namespace, problems: "list[Problem]") -> int:
    """Fit a calibration for each quality, show what it comes to, and write it."""
    from midfill_engine.calibration import save_calibrations
    from midfill_engine.paths import adapter_path
    from midfill_lsp.cli.progress_bar import progress_bar
    from midfill_lsp.errors import InputError, OutputError
    from midfill_lsp.evaluation import fitting, running

    with progress_bar() as progress:
        evaluation = asyncio.run(
            running.run(problems, arguments.quality, arguments.model, progress, beside_base=False)
        )
    found = {}
    for quality, outcomes in evaluation.outcomes.items():
        calibration = fitting.fit(outcomes)
        if calibration is None:
            raise InputError(f"{quality}: too few holes to fit a calibration to")
        found[quality] = (calibration, fitting.check(outcomes, calibration))
    _show([fitting.fitted_table(found)])
    adapter = adapter_path(arguments.model)
    try:
        path = save_calibrations(adapter, {name: fitted for name, (fitted, _) in found.items()})
    except OSError as error:
        raise OutputError(f"{adapter.parent}: cannot be written: {error.strerror}") from error
    _say(f"written: {path}")
    return ExitCode.DONE


def _qualities(text: str) -> "tuple[Quality, ...]":
    names = tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in QUALITIES:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(QUALITIES)}")
    return names  # type: ignore[return-value]


def _about(arguments: argparse.Namespace, left_out: tuple[str, ...]) -> "About":
    from midfill_engine.adapter_file import read_info
    from midfill_engine.paths import adapter_path
    from midfill_lsp.evaluation.page import About
    from midfill_lsp.evaluation.sandbox import in_force
    from midfill_lsp.version import VERSION

    size = "--all" if arguments.all else f"--holes {arguments.holes}"
    quality = ",".join(arguments.quality)
    command = f"midfill eval {size} --quality {quality} --seed {arguments.seed}"
    if arguments.model != "embedded":
        command += f" --model {shlex.quote(arguments.model)}"
    adapter = read_info(adapter_path(arguments.model)).sha256[:12]
    cores = f"{os.cpu_count()} cores"
    return About(command, VERSION, arguments.model, adapter, cores, in_force(), left_out)


def _show(found: "Sequence[Table]") -> None:
    from rich.console import Console
    from rich.table import Table as Shown

    console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH)
    for table in found:
        shown = Shown(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        shown.add_column(table.title, no_wrap=True)
        for column in table.columns[1:]:
            shown.add_column(column, justify="right", no_wrap=True)
        for row in table.rows:
            shown.add_row(f"  {row[0]}", *row[1:])
        console.print(shown)
        console.print()


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
