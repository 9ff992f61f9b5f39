"""Hours of typing in short: nothing grows but the text, and no key takes longer than the first.

`pytest tests/e2e/test_soak.py -s --keys 2000` presses more of them.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from dataclasses import dataclass

import psutil
import pytest
from support.homes import Home

from midfill_lsp.replay.editor import Editor, editing

LINES = ("def deposit(self, amount):\n", "    self.balance += amount\n", "\n", "x = f(a, b)\n")
SERVER_GROWS_BY = 6e6  # bytes, from a third of the way on
WORKER_GROWS_BY = 32e6
SLOWER_BY = 3.0  # the machine may have other things to do


@dataclass(frozen=True)
class Size:
    """What a process holds."""

    rss: int
    files: int
    threads: int

    @classmethod
    def of(cls, process: psutil.Process) -> Size:
        return cls(process.memory_info().rss, process.num_fds(), process.num_threads())


def options(home: Home) -> dict[str, object]:
    return {"model": str(home.model), "maxTokens": 4, "automaticDeadlineMs": 60_000}


async def press(editor: Editor, dice: random.Random, caret: int) -> int:
    """One key, and what an editor asks after it. Where the caret is then."""
    kind = dice.random()
    if kind < 0.1 and caret:
        editor.replace(caret - 1, caret, "")
        caret -= 1
    elif kind < 0.13:
        at = dice.randint(0, caret)
        editor.replace(at, at, "y")
        caret += 1
    elif kind < 0.16:
        caret = dice.randint(0, len(editor.text))
    else:
        key = dice.choice("abc(=, \n")
        editor.replace(caret, caret, key)
        caret += 1
    _, answer = editor.complete(caret, automatic=True)
    if dice.random() < 0.9:
        await answer  # else it is superseded by the next one
    return caret


async def test_keys_leave_nothing_behind(led_home: Home, request: pytest.FixtureRequest) -> None:
    keys, dice = request.config.getoption("--keys"), random.Random(1)
    worker = led_home.worker()
    async with editing("file:///soak.py", "python", options(led_home)) as editor:
        server = psutil.Process(editor.server.pid)
        editor.show("".join(dice.choices(LINES, k=300)))
        caret = len(editor.text)
        thirds: list[tuple[float, Size, Size]] = []
        for _ in range(3):
            took = []
            for _ in range(keys // 3):
                started = time.perf_counter()
                caret = await press(editor, dice, caret)
                took.append(time.perf_counter() - started)
            thirds.append((statistics.median(took), Size.of(server), Size.of(worker)))
    for took_s, its_server, its_worker in thirds:
        sys.stdout.write(f"{1000 * took_s:.1f} ms a key; {its_server}; {its_worker}\n")
    first, *_, last = thirds
    assert last[1].rss - first[1].rss < SERVER_GROWS_BY
    assert last[2].rss - first[2].rss < WORKER_GROWS_BY
    for before, after in zip(first[1:], last[1:], strict=True):
        assert after.files <= before.files + 1
        assert after.threads <= before.threads + 1
    assert last[0] < SLOWER_BY * first[0]
