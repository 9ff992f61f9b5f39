"""What `midfill demo` looks like: live in a terminal, a line for each step elsewhere.

Owns every colour and every word of it. Knows nothing of servers.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from midfill_lsp.cli.places import place_at
from midfill_lsp.cli.showing import unified_diff
from midfill_lsp.cli.source import Source
from midfill_lsp.positions import line_starts
from midfill_lsp.replay.cutting import MASK, Cut
from midfill_lsp.version import VERSION

Draft = dict[str, Any]  # as in a `midfill/draft` notification
Watch = Callable[[Any], None]

_MASK_OF_TOKEN: Final = 2 * MASK
_LINE_BREAK: Final = "⏎ "
_CONTEXT_LINES: Final = 3
_SURE, _LIKELY = 0.9, 0.6
_THEME: Final = "ansi_dark"  # the terminal's own colours


class Screen:
    """Shows the performance on one console."""

    def __init__(self, source: Source, language: str, console: Console, *, live: bool) -> None:
        self._source = source
        self._language = language
        self._console = console
        self._live = live
        self._drafts: Sequence[Draft] = ()  # after the last step

    def opening(self, holes: int) -> None:
        """Say what is going to happen."""
        name = Path(self._source.shown_name).name
        plural = "" if holes == 1 else "s"
        self._console.print(
            Text.assemble(
                ("midfill ", "bold"), VERSION, f"  fills {holes} hole{plural} in ", (name, "bold")
            )
        )
        legend = [
            Text(f"{_MASK_OF_TOKEN} masked token", style="dim"),
            Text(f"sure ({_SURE} or more)", style=_style(_SURE)),
            Text(f"likely ({_LIKELY} or more)", style=_style(_LIKELY)),
            Text("unsure", style=_style(0)),
        ]
        if self._live:
            self._console.print(Text("   ").join(legend))

    def hole(self, number: int, total: int, cut: Cut) -> None:
        """Show a hole where it was cut."""
        line = place_at(cut.start, cut.text).line
        self._console.print()
        heading = Text.assemble((f"{number}/{total} {cut.what}", "bold"), f", line {line}")
        self._console.print(Rule(heading, align="left", characters="─", style="dim"))
        self._console.print(self._excerpt(cut), no_wrap=True, overflow="ellipsis")

    @contextmanager
    def watching(self) -> Iterator[Watch]:
        """Something to hand the server's drafts to while it works."""
        if not self._live:
            self._drafts = ()
            yield self._line
            return
        waiting = Text("  asking", style="dim")
        with Live(waiting, console=self._console, auto_refresh=False) as live:
            yield lambda params: live.update(_drafts(params), refresh=True)

    def filled(self, cut: Cut, text: str, stats: dict[str, Any], seconds: float) -> None:
        """Show what became of the document, and what it took."""
        name = Path(self._source.shown_name).name
        diff = "".join(unified_diff(Source(name, cut.text, False), text))
        self._console.print()
        self._console.print(
            Syntax(diff.rstrip("\n"), "diff", theme=_THEME, background_color="default")
        )
        self._console.print()
        per_step = stats["tokens"] / stats["steps"] if stats["steps"] else 0
        facts = [
            f"confidence {stats['confidence']:.2f}",
            f"{stats['steps']} steps",
            f"{per_step:.1f} tokens per step",
            f"{seconds:.2f} s",
        ]
        late = ", cut short by the deadline" if stats["atDeadline"] else ""
        self._console.print(Text(" · ".join(facts) + late, style="bold"))
        parts = [
            f"{part} {stats[f'{part}Ms'] / 1000:.2f} s" for part in ("encode", "denoise", "score")
        ]
        self._console.print(Text("of which " + ", ".join(parts), style="dim"))
        self._console.print(_verdict(cut, text))

    def refused(self, reason: str, seconds: float) -> None:
        """Say that there is nothing to show, and why."""
        self._console.print(
            Text(f"nothing offered after {seconds:.2f} s: {reason}", style="yellow")
        )

    def closing(self, filled: int, total: int) -> None:
        """Say how it ended."""
        self._console.print()
        self._console.print(Text(f"{filled} of {total} filled", style="bold"))

    def _excerpt(self, cut: Cut) -> RenderableType:
        """The lines around the hole, with masks for what was cut out."""
        text = cut.masked_text
        starts = line_starts(text)
        first = len(line_starts(text[: cut.start])) - 1
        last = len(line_starts(text[: cut.start + len(cut.masked)])) - 1
        shown = range(max(first - _CONTEXT_LINES, 0), min(last + _CONTEXT_LINES + 1, len(starts)))
        ends = [*starts[1:], len(text)]
        lines = [text[starts[i] : ends[i]].rstrip("\r\n") for i in shown]
        return _code(lines, shown.start + 1, self._language)

    def _line(self, params: Any) -> None:
        """One step on one line: of the drafts that it has changed, the one that is furthest."""
        before, self._drafts = self._drafts, params["drafts"]
        changed = [draft for draft in self._drafts if draft not in before]
        if not changed:
            return
        done = sum(None not in draft["pieces"] for draft in self._drafts)
        line = Text(f"  step {params['step']:2}  {done}/{len(self._drafts)} drafts done  ")
        line.append_text(_drawn(max(changed, key=_share_done)))
        self._console.print(line, overflow="ellipsis", no_wrap=True)


def screen_for(source: Source, language: str) -> Screen:
    """A screen on stdout: live where that is a terminal that takes colours."""
    console = Console(highlight=False)
    live = console.is_terminal and not console.is_dumb_terminal and not os.environ.get("NO_COLOR")
    return Screen(source, language, console, live=live)


def _code(lines: Sequence[str], first_number: int, language: str) -> RenderableType:
    highlighter = Syntax("", language, theme=_THEME, background_color="default")
    width = len(str(first_number + len(lines) - 1))
    numbered = [
        Text.assemble((f"  {number:{width}} │ ", "dim"), _highlighted(line, highlighter))
        for number, line in enumerate(lines, first_number)
    ]
    return Text("\n").join(numbered)


def _highlighted(line: str, highlighter: Syntax) -> Text:
    """Code in colours, the masks in one of their own: to a highlighter they are errors."""
    whole = Text()
    for index, part in enumerate(line.split(MASK)):
        if index:
            whole.append(MASK, style="bold magenta")
        if part:
            text = highlighter.highlight(part)
            text.right_crop(len(text) - len(part))  # it ends the line
            whole.append_text(text)
    return whole


def _drafts(params: Any) -> RenderableType:
    """All drafts after one step."""
    table = Table.grid(padding=(0, 1))
    table.add_column(width=9, style="dim", no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    for letter, draft in zip("ABCDEFGHIJ", params["drafts"], strict=False):
        done = "  done" if None not in draft["pieces"] else ""
        table.add_row(f"  {letter}{done}", _drawn(draft))
    return Group(Text(f"  step {params['step']}", style="dim"), table)


def _drawn(draft: Draft) -> Text:
    """A draft on one line: each piece in the colour of its confidence, masks where it has none."""
    whole = Text()
    for piece, confidence in zip(draft["pieces"], draft["confidences"], strict=True):
        if piece is None:
            whole.append(_MASK_OF_TOKEN, style="dim")
            continue
        if not whole:
            piece = piece.lstrip()
        whole.append(
            _on_one_line(piece, after_break=whole.plain.endswith(_LINE_BREAK)),
            style=_style(confidence),
        )
    return whole


def _on_one_line(piece: str, *, after_break: bool) -> str:
    first, *others = piece.split("\n")
    shown = first.lstrip() if after_break else first
    return shown + "".join(_LINE_BREAK + other.lstrip() for other in others)


def _share_done(draft: Draft) -> float:
    pieces = draft["pieces"]
    return sum(piece is not None for piece in pieces) / max(len(pieces), 1)


def _style(confidence: float) -> str:
    if confidence >= _SURE:
        return "green"
    return "yellow" if confidence >= _LIKELY else "red"


def _verdict(cut: Cut, text: str) -> Text:
    if text == cut.text[: cut.start] + cut.removed + cut.text[cut.end :]:
        return Text("exactly what was cut out", style="green")
    removed = " ".join(cut.removed.split())
    return Text(f"cut out was: {removed}", style="dim")
