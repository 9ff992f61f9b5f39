"""`midfill fill`: fills one hole in a file.

Owns the subcommand's arguments, and the way from a file to a fill. How the result is shown is
`showing`'s concern.
"""

import argparse
import sys
from typing import TYPE_CHECKING, Any, Final

from midfill_lsp.cli.arguments import QUALITIES, add_model, one_place, place_range, positive
from midfill_lsp.cli.exit_codes import EPILOG, ExitCode

if TYPE_CHECKING:
    from midfill_engine.protocol import FillRequest, FillResult
    from midfill_infill import Hole
    from midfill_lsp.cli.source import Source

_DEADLINE_MS: Final = 10_000
_MAX_TOKENS: Final = 192
_DESCRIPTION: Final = """\
Fill one hole in FILE with the model, and print the whole file as it is then.

Lines and columns count from 1, columns in Unicode code points: column 1 is before the first
character of a line, and one more than the line's length is its end. A line ends at LF, CRLF or a
lone CR. A byte order mark counts for nothing, and is kept.
"""


def add(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Add the subcommand."""
    sub = subparsers.add_parser(
        "fill",
        help="fill one hole in a file",
        description=_DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    sub.add_argument("file", metavar="FILE", help="the file; - reads stdin")
    place = sub.add_mutually_exclusive_group(required=True)
    place.add_argument("--at", type=one_place, metavar="LINE:COL", help="fill at a cursor")
    place.add_argument("--range", type=place_range, metavar="L:C-L:C", help="fill a selection")
    show = sub.add_mutually_exclusive_group()
    show.add_argument("--diff", action="store_true", help="print a unified diff instead")
    show.add_argument("--write", action="store_true", help="change FILE instead; not with -")
    show.add_argument("--json", action="store_true", help="print all there is to know as JSON")
    sub.add_argument("--quality", choices=QUALITIES, default="balanced", help="default: balanced")
    sub.add_argument(
        "--strategy",
        metavar="NAME",
        help="by which rule a step decides masks: see docs/strategies.md; default: the quality's",
    )
    sub.add_argument(
        "--deadline-ms",
        type=positive("milliseconds", most_digits=8),
        default=_DEADLINE_MS,
        metavar="N",
        help=f"then take the best draft so far; default: {_DEADLINE_MS}",
    )
    add_model(sub)
    sub.add_argument(
        "--language", metavar="ID", help="an LSP language id; default: by the file's name"
    )
    sub.set_defaults(run=run, usage_error=sub.error)


def run(arguments: argparse.Namespace) -> int:
    """Fill, and show the result."""
    import asyncio

    from midfill_engine.errors import RequestRejected
    from midfill_infill import build_canvas
    from midfill_lsp.cli.showing import show
    from midfill_lsp.cli.source import STDIN, read_source
    from midfill_lsp.filling import judged, request_for
    from midfill_lsp.settings import Effort

    if arguments.write and arguments.file == STDIN:
        arguments.usage_error("--write needs a file to write to, and - is stdin")
    source = read_source(arguments.file)
    language = _language(arguments.language, source)
    hole = _hole(arguments, source, language)
    if hole is None:
        return _no_fill(source, "there is nothing to fill there")
    canvas = build_canvas(source.text, hole, language)
    effort = Effort(arguments.quality, arguments.deadline_ms, _MAX_TOKENS)
    request = request_for(canvas, effort, want_drafts=False, strategy=arguments.strategy)
    try:
        result = asyncio.run(_ask(arguments.model, request))
    except RequestRejected as error:
        if str(error).startswith("there is no strategy"):
            arguments.usage_error(f"argument --strategy: {error}")
        raise
    judgement = judged(result, source.text, canvas)
    if not judgement.candidates:
        return _no_fill(source, judgement.reason)
    show(arguments, source, canvas, judgement.candidates, result)
    return ExitCode.DONE


async def _ask(model: str, request: "FillRequest") -> "FillResult":
    from midfill_engine.client import EngineClient
    from midfill_engine.errors import ModelError
    from midfill_lsp.remedies import advice

    client = EngineClient(model=model)
    try:
        return await client.fill(request)
    except ModelError as error:
        raise type(error)(advice(error, model)) from error
    finally:
        await client.close()


def _hole(arguments: argparse.Namespace, source: "Source", language: str | None) -> "Hole | None":
    from midfill_infill import hole_at, hole_for_range
    from midfill_lsp.cli.places import offset_of

    if arguments.at is not None:
        return hole_at(source.text, offset_of(arguments.at, source), language)
    start, end = (offset_of(place, source) for place in arguments.range)
    return hole_for_range(source.text, start, end, language)


def _language(language_id: str | None, source: "Source") -> str | None:
    """Our key of the language. Says so where there is none."""
    from midfill_infill import language_for

    found = language_for(language_id, None if language_id else source.name)
    if found is None:
        what = f"the language {language_id!r}" if language_id else source.shown_name
        sys.stderr.write(
            f"midfill: note: no grammar is known for {what}; going by lines and brackets\n"
        )
    return found


def _no_fill(source: "Source", reason: str) -> int:
    sys.stderr.write(f"midfill: {source.shown_name}: no fill: {reason}\n")
    return ExitCode.NO_FILL
