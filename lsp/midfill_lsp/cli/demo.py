"""`midfill demo`: holes cut into a file are filled by a real server, for somebody to watch.

Owns the subcommand's arguments and the order of the performance. What it looks like is
`screen`'s concern, how holes are cut `replay.cutting`'s.
"""

import argparse
import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from midfill_lsp.cli.arguments import add_model, place_range
from midfill_lsp.cli.exit_codes import EPILOG, ExitCode

if TYPE_CHECKING:
    from midfill_lsp.cli.screen import Screen
    from midfill_lsp.cli.source import Source
    from midfill_lsp.replay.cutting import Cut
    from midfill_lsp.replay.editor import Editor

_DEADLINE_MS: Final = 15_000  # whoever watches has time
_DESCRIPTION: Final = """\
Cut holes into a file, start the real server as an editor would, have it fill them, and show the
drafts as they sharpen. The file itself is not touched. With --range, what is selected is replaced
by `...`, and the server is asked to fill that.
"""


def add(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Add the subcommand."""
    sub = subparsers.add_parser(
        "demo",
        help="watch holes being filled",
        description=_DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    sub.add_argument("--file", metavar="FILE", help="default: a Python file of midfill's own")
    sub.add_argument(
        "--range",
        type=place_range,
        action="append",
        metavar="L:C-L:C",
        help="a hole, as for `midfill fill`; may be given again; goes with --file",
    )
    add_model(sub)
    sub.set_defaults(run=run, usage_error=sub.error)


def run(arguments: argparse.Namespace) -> int:
    """Perform. The exit code says whether any hole was filled."""
    if (arguments.file is None) is not (arguments.range is None):
        arguments.usage_error("--file and --range go together")
    source, cuts = _cuts(arguments)
    filled = asyncio.run(_perform(arguments.model, source, cuts))
    return ExitCode.DONE if filled else ExitCode.NO_FILL


def _cuts(arguments: argparse.Namespace) -> "tuple[Source, list[Cut]]":
    """The file, and the holes to fill in it."""
    from midfill_lsp.cli.places import offset_of
    from midfill_lsp.cli.source import read_source
    from midfill_lsp.replay.cutting import cut_range, cut_samples
    from midfill_lsp.samples import HOLES, SAMPLE

    if arguments.file is None:
        source = read_source(str(SAMPLE))
        return source, cut_samples(source.text, HOLES)
    source = read_source(arguments.file)
    ranges = [[offset_of(place, source) for place in places] for places in arguments.range]
    return source, [cut_range(source.text, start, end) for start, end in ranges]


async def _perform(model: str, source: "Source", cuts: "list[Cut]") -> int:
    """Fill one hole after the other. Returns how many were filled."""
    from midfill_lsp.cli.loading import loaded_worker
    from midfill_lsp.cli.screen import screen_for
    from midfill_lsp.cli.source import language_id_of, uri_of
    from midfill_lsp.replay.editor import editing

    language = language_id_of(source)
    options = {"model": model, "invokedDeadlineMs": _DEADLINE_MS, "drafts": True, "stats": True}
    screen = screen_for(source, language)
    screen.opening(len(cuts))
    async with (
        loaded_worker(model),
        editing(uri_of(source), language, options) as editor,
    ):
        filled = 0
        for number, cut in enumerate(cuts, 1):
            screen.hole(number, len(cuts), cut)
            filled += await _fill(editor, screen, cut)
    screen.closing(filled, len(cuts))
    return filled


async def _fill(editor: "Editor", screen: "Screen", cut: "Cut") -> bool:
    """Fill one hole in the editor's document and show how. Whether it was filled."""
    stats: dict[str, Any] = {}
    editor.on_stats = stats.update
    editor.show(cut.text)
    with screen.watching() as watch:
        editor.on_draft = watch
        asked = time.monotonic()
        refusal = await (_complete if cut.at_cursor else _fill_selection)(editor, cut)
        seconds = time.monotonic() - asked
    if refusal is not None:
        screen.refused(stats.get("reason") or refusal, seconds)
        return False
    screen.filled(cut, editor.text, stats, seconds)
    return True


async def _complete(editor: "Editor", cut: "Cut") -> str | None:
    """Ask for ghost text at the cursor and accept the first item. None, or why there is none."""
    _, answer = editor.complete(cut.start, automatic=False)
    items = editor.items(await answer)
    if not items:
        return "the server offers nothing here"
    editor.replace(items[0].start, items[0].end, items[0].text)
    return None


async def _fill_selection(editor: "Editor", cut: "Cut") -> str | None:
    """Have the server fill the selection and apply it. None, or why it did not."""
    return await editor.fill(cut.start, cut.end)
