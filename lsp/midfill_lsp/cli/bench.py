"""`midfill bench`: types a part of a file into a real server and counts what it does.

Owns the subcommand's arguments and how the figures are shown; what they mean is `replay.tally`'s
concern, when a request is sent `replay.typist`'s.
"""

import argparse
import asyncio
import json
import sys
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from midfill_lsp.cli.arguments import add_model, positive
from midfill_lsp.cli.exit_codes import EPILOG, ExitCode

if TYPE_CHECKING:
    from midfill_engine.protocol import StatusResult
    from midfill_lsp.cli.source import Source
    from midfill_lsp.replay.crowd import Load
    from midfill_lsp.replay.editor import Editor
    from midfill_lsp.replay.tally import Figures, Split, Spread

_PACES: Final = ("human", "full")
_CHARACTERS: Final = 150
_SEED: Final = 1
_SECONDS: Final = 10
_NOTHING: Final = "-"
_DESCRIPTION: Final = """\
Take a part of FILE out and type it anew with a real server at the other end, as in an editor: at a
person's pace (some five keys a second, in bursts; a request whenever 75 ms pass without one), and
as fast as answers come. Print how long answers took, and what the model did for them.

With --clients, have so many clients at once ask the worker instead, each at a place of its own, and
print what each of them gets, and whether it is what a client alone is answered.
"""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was counted."""

    file: str
    weights: str  # how the worker holds them
    threads: int  # the worker's
    paces: "dict[str, Figures]"
    server_rss_bytes: int
    worker_rss_bytes: int
    worker_cache_bytes: int  # of these, keys and values of contexts


@dataclass(frozen=True, slots=True)
class CrowdReport:
    """What was counted with several clients at once."""

    file: str
    weights: str
    threads: int
    loads: "list[Load]"
    worker_rss_bytes: int
    worker_cache_bytes: int


def add(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Add the subcommand."""
    sub = subparsers.add_parser(
        "bench",
        help="measure the server while a file is typed",
        description=_DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    sub.add_argument("--file", metavar="FILE", help="default: a Python file of midfill's own")
    sub.add_argument("--pace", choices=[*_PACES, "both"], default="both", help="default: both")
    sub.add_argument(
        "--characters",
        type=positive("characters", most_digits=6),
        default=_CHARACTERS,
        metavar="N",
        help=f"how many are typed at each pace; default: {_CHARACTERS}",
    )
    sub.add_argument(
        "--clients",
        type=_counts,
        metavar="N,N,…",
        help="so many clients at once, one number after the other, instead of typing",
    )
    sub.add_argument(
        "--seconds",
        type=positive("seconds", most_digits=4),
        default=_SECONDS,
        metavar="N",
        help=f"how long each number of clients asks; default: {_SECONDS}",
    )
    add_model(sub)
    sub.add_argument("--json", action="store_true", help="print the figures as JSON")
    sub.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, and print the figures."""
    from midfill_lsp.cli.source import read_source
    from midfill_lsp.samples import SAMPLE

    source = read_source(str(SAMPLE) if arguments.file is None else arguments.file)
    crowded = arguments.clients is not None
    report = asyncio.run((_crowded if crowded else _measured)(arguments, source))
    if arguments.json:
        sys.stdout.write(json.dumps(asdict(report), indent=2) + "\n")
    elif isinstance(report, CrowdReport):
        _show_crowd(report)
    else:
        _show(report)
    return ExitCode.DONE


async def _measured(arguments: argparse.Namespace, source: "Source") -> "Report | CrowdReport":
    import psutil

    from midfill_lsp.cli.loading import loaded_worker
    from midfill_lsp.cli.source import language_id_of, uri_of
    from midfill_lsp.replay.editor import editing

    paces = _PACES if arguments.pace == "both" else (arguments.pace,)
    options = {"model": arguments.model, "stats": True}
    async with (
        loaded_worker(arguments.model) as worker,
        editing(uri_of(source), language_id_of(source), options) as editor,
    ):
        figures = {
            pace: await _typed(editor, source.text, arguments.characters, pace) for pace in paces
        }
        server_rss = psutil.Process(editor.server.pid).memory_info().rss
        return _report(source, figures, server_rss, await worker.status())


async def _crowded(arguments: argparse.Namespace, source: "Source") -> "Report | CrowdReport":
    from midfill_engine.client import EngineClient
    from midfill_infill import language_for
    from midfill_lsp.cli.loading import loaded_worker
    from midfill_lsp.replay.crowd import Crowd, requests_in

    most = max(arguments.clients)
    asked = requests_in(source.text, language_for(None, source.name), most)
    async with loaded_worker(arguments.model) as worker, AsyncExitStack() as stack:
        clients = [EngineClient(model=arguments.model) for _ in range(most)]
        for client in clients:
            stack.push_async_callback(client.close)
            await client.status()
        crowd = Crowd(clients, asked)
        sys.stderr.write(f"asking alone at {len(asked)} places\n")
        await crowd.ask_alone()
        loads = []
        for count in arguments.clients:
            sys.stderr.write(f"{count} clients at once\n")
            loads.append(await crowd.load(count, arguments.seconds))
        status = await worker.status()
    return CrowdReport(
        file=source.name,
        weights=status.weights,
        threads=status.threads,
        loads=loads,
        worker_rss_bytes=status.rss_bytes,
        worker_cache_bytes=status.cache_bytes,
    )


def _counts(text: str) -> list[int]:
    parse = positive("clients", most_digits=2)
    return [parse(part) for part in text.split(",")]


async def _typed(editor: "Editor", text: str, characters: int, pace: str) -> "Figures":
    from midfill_lsp.replay.keystrokes import human_pauses, passage
    from midfill_lsp.replay.tally import tally
    from midfill_lsp.replay.typist import Typist

    part = passage(text, characters)
    sys.stderr.write(f"typing {len(part.strokes)} keys at {pace} pace\n")
    typist = Typist(editor, part)
    await typist.warm_up()
    if pace == "human":
        return tally(await typist.at_human_pace(human_pauses(part.strokes, _SEED)))
    return tally(await typist.at_full_pace())


def _report(
    source: "Source", figures: "dict[str, Figures]", server_rss: int, status: "StatusResult"
) -> Report:
    return Report(
        file=source.name,
        weights=status.weights,
        threads=status.threads,
        paces=figures,
        server_rss_bytes=server_rss,
        worker_rss_bytes=status.rss_bytes,
        worker_cache_bytes=status.cache_bytes,
    )


def _show(report: Report) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("")
    for pace in report.paces:
        table.add_column(f"{pace} pace", justify="right")
    for label, *values in zip(_LABELS, *map(_column, report.paces.values()), strict=True):
        table.add_row(Text(label, style="dim" if label.startswith(" ") else ""), *values)
    console = Console(highlight=False)
    console.print(table)
    rss = (report.server_rss_bytes, report.worker_rss_bytes, report.worker_cache_bytes)
    server, worker, cache = (f"{size / 1e6:.0f} MB" for size in rss)
    console.print(f"\nmemory: server {server}, worker {worker}, of which cached contexts {cache}")
    console.print(f"worker: {report.weights} weights, {report.threads} threads")


def _show_crowd(report: CrowdReport) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for heading in _CROWD_HEADINGS:
        table.add_column(heading, justify="right")
    for load in report.loads:
        table.add_row(
            str(load.clients),
            f"{load.fills_per_second:.2f}",
            f"{load.steps_per_second:.1f}",
            *_times(load.to_answer, "p50_ms", "p95_ms"),
            _percent(load.slowest_share),
            _percent(load.reused_share),
            f"{load.different} of {load.fills}",
        )
    console = Console(highlight=False)
    console.print(table)
    worker, cache = (
        f"{s / 1e6:.0f} MB" for s in (report.worker_rss_bytes, report.worker_cache_bytes)
    )
    console.print("\nleast: fills of the client that got fewest, of a fair share")
    console.print("unlike alone: answers that differ from those to one client")
    console.print(f"memory: worker {worker}, of which cached contexts {cache}")
    console.print(f"worker: {report.weights} weights, {report.threads} threads")


_CROWD_HEADINGS: Final = (
    "clients",
    "fills/s",
    "steps/s",
    "answer p50",
    "p95",
    "least",
    "reused",
    "unlike alone",
)
_STAGES: Final = (
    ("editor", "  from and to the editor"),
    ("canvas", "  finding the hole"),
    ("protocol", "  from and to the worker"),
    ("queue", "  waiting to be taken in"),
    ("encode", "  encoding the context"),
    ("steps", "  denoising"),
    ("score", "  choosing a draft"),
    ("others", "  other clients' passes"),
    ("filters", "  filters"),
)
_LABELS: Final = (
    "keys pressed",
    "  a second",
    "requests",
    "  superseded by the next key",
    "  without a hole to fill",
    "  typed through",
    "  answered by the model",
    "request to answer, p50",
    "  p95",
    "  max",
    "of the model alone, p50",
    "  p95",
    "of which in the worker, p50",
    "  p95",
    "where its time goes, mean",
    *(label for _, label in _STAGES),
    "fills with an item",
    "cut short by the deadline",
    "denoising steps per fill",
    "tokens per step",
    "context tokens reused",
    "superseded to let go, p95",
)


def _column(figures: "Figures") -> list[str]:
    """One pace's figures, in the order of `_LABELS`."""
    return [
        str(figures.keystrokes),
        f"{figures.keystrokes / figures.seconds:.1f}",
        str(figures.requests),
        str(figures.superseded),
        str(figures.without_hole),
        str(figures.typed_through),
        str(figures.filled),
        *_times(figures.request_to_answer, "p50_ms", "p95_ms", "max_ms"),
        *_times(figures.model_to_answer, "p50_ms", "p95_ms"),
        *_times(figures.in_worker, "p50_ms", "p95_ms"),
        *_shares(figures.split),
        _percent(figures.offered / figures.filled if figures.filled else None),
        _percent(figures.at_deadline / figures.filled if figures.filled else None),
        _decimal(figures.steps_per_fill),
        _decimal(figures.tokens_per_step),
        _percent(figures.reused_share),
        *_times(figures.letting_go, "p95_ms"),
    ]


def _shares(split: "Split | None") -> list[str]:
    """The whole, and of each stage its time and share."""
    if split is None:
        return [_NOTHING] * (1 + len(_STAGES))
    times = [getattr(split, name) for name, _ in _STAGES]
    whole = sum(times)
    return [f"{whole:.0f} ms", *(f"{ms:.1f} ms {100 * ms / whole:3.0f} %" for ms in times)]


def _times(spread: "Spread | None", *names: str) -> list[str]:
    return [_NOTHING if spread is None else f"{getattr(spread, name):.0f} ms" for name in names]


def _percent(share: float | None) -> str:
    return _NOTHING if share is None else f"{100 * share:.0f} %"


def _decimal(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.1f}"
