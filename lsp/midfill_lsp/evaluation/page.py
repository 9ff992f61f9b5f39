"""An evaluation as files: every outcome, the tables, the plots, and a page that has them all.

Owns what is written where. A page says how to make it again.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from midfill_lsp.errors import OutputError
from midfill_lsp.evaluation.running import Evaluation
from midfill_lsp.evaluation.tables import markdown, tables

PAGE: Final = "quality.md"
_PLOTS: Final = "quality"  # the folder beside the page
_TITLE: Final = "# Quality\n\n"
_INTRODUCTION: Final = """\
Written by `midfill eval --page`; not by hand. Shares and means have their 95 % intervals in
brackets: Wilson's for shares, a bootstrap's otherwise. Every hole goes the way that it goes in an
editor: document and cursor, canvas, worker, filters, edit. There is no deadline, so a run can be
repeated to the digit wherever the weights are held in the same form; only times differ.

- **base**: the same base model without the adapter, left to right and blind to the suffix, on the
  same canvas and through the same filters. It has no gate.
- **exact**: the document is as it was written, but for blanks that end a line. **pass@1**: the
  program runs through its tests. Both of the best fill, as for somebody who asks for one; no fill
  counts as wrong. **any fill**: the most that a perfect ranking of the same fills would reach.
- **shown while typing**: a fill came through the filters, and its confidence through the gate.
- **nothing missing**: the cursor is where the code is complete, and the right answer is none.
- **parses**: the file has no more syntax faults with the fill than as it was written.
- **length error**: characters of the fill less those that were taken out.
- **steps**: passes of the denoiser, or of the base; **tokens**: of the best fill.

"""


@dataclass(frozen=True, slots=True)
class About:
    """How an evaluation was made."""

    command: str
    version: str
    model: str
    adapter: str  # the beginning of its sha256, as `midfill model check` has it
    machine: str
    sandbox: str
    left_out: Sequence[str]


def document(evaluation: Evaluation, about: About, plots: Sequence[tuple[str, str]] = ()) -> str:
    """The whole page in Markdown. `plots` are titles and paths relative to it."""
    parts = [_TITLE, _INTRODUCTION, _about(evaluation, about)]
    parts += [f"![{title}]({path})\n\n" for title, path in plots]
    parts += [f"## {table.title}\n\n{markdown(table)}\n" for table in tables(evaluation.outcomes)]
    return "".join(parts).rstrip("\n") + "\n"


def write_results(evaluation: Evaluation, about: About, directory: Path) -> list[Path]:
    """Write `results.jsonl`, `table.md` and the plots. Returns what was written.

    Raises:
        OutputError: it cannot be written.
    """
    lines = [
        json.dumps(asdict(outcome)) + "\n"
        for outcomes in evaluation.outcomes.values()
        for outcome in outcomes
    ]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        results, table = directory / "results.jsonl", directory / "table.md"
        results.write_text("".join(lines), "utf-8")
        table.write_text(document(evaluation, about), "utf-8")
        return [results, table, *_drawn(evaluation, directory)]
    except OSError as error:
        raise _unwritable(directory, error) from error


def write_page(evaluation: Evaluation, about: About, directory: Path) -> list[Path]:
    """Write the page and, in a folder beside it, the plots. Returns what was written.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        folder = directory / _PLOTS
        folder.mkdir(parents=True, exist_ok=True)
        drawn = _drawn(evaluation, folder)
        plots = [(_title(path.name), f"{_PLOTS}/{path.name}") for path in drawn]
        page = directory / PAGE
        page.write_text(document(evaluation, about, plots), "utf-8")
        return [page, *drawn]
    except OSError as error:
        raise _unwritable(directory, error) from error


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def _drawn(evaluation: Evaluation, directory: Path) -> list[Path]:
    if not can_draw():
        return []
    from midfill_lsp.evaluation.plots import draw_plots

    return draw_plots(evaluation.outcomes, directory)


def _title(name: str) -> str:
    from midfill_lsp.evaluation.plots import TITLES

    return TITLES[name]


def _unwritable(directory: Path, error: OSError) -> OutputError:
    return OutputError(f"{directory}: cannot be written: {error.strerror}")


def _about(evaluation: Evaluation, about: About) -> str:
    suites = [outcome.suite for outcome in next(iter(evaluation.outcomes.values()))]
    counts = ", ".join(f"{suites.count(suite)} {suite}" for suite in dict.fromkeys(suites))
    lines = [
        f"command: `{about.command}`",
        f"version: midfill {about.version}; model {about.model}, adapter {about.adapter}",
        f"machine: {about.machine}; weights held as {evaluation.weights}",
        f"problems: {counts}",
        f"programs are run with {about.sandbox}",
        *(f"left out: {what}" for what in about.left_out),
    ]
    return "".join(f"- {line}\n" for line in lines) + "\n"
