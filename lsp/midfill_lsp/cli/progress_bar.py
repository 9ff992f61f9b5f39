"""A progress bar on stderr for long work in a terminal; lines where there is no terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from midfill_engine.progress import Progress


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Something to report progress to. One bar for each piece of work, in its own units."""
    if not sys.stderr.isatty():
        yield _Lines().show
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, TaskID] = {}

        def show(done: int, total: int, what: str) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what)
            bars.update(tasks[what], completed=done, total=total or None)

        yield show


class _Lines:
    """Names each piece of work once."""

    def __init__(self) -> None:
        self._named = ""

    def show(self, done: int, total: int, what: str) -> None:
        if what != self._named:
            self._named = what
            sys.stderr.write(f"{what}\n")
