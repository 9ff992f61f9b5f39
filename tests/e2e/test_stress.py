"""Random kills, cancels and disconnects: every request ends, and nothing is left behind.

`pytest tests/e2e/test_stress.py -s --events 1000 --kills 60 --seed 7` runs the whole mix; by
default as many events, but few kills, as starting a worker takes seconds.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final

import psutil
import pytest
from support.homes import Home, Watch
from support.jobs import request_for

from midfill_engine.client import EngineClient
from midfill_engine.errors import EngineError
from midfill_engine.protocol import QUALITIES, FillRequest, FillResult

CLIENTS: Final = 6
DOOMED: Final = 2  # client processes that are killed
MOST_IN_FLIGHT: Final = 48
ANSWER_WITHIN_S: Final = 100.0
GONE_WITHIN_S: Final = 30.0
TEXTS: Final = ("x = f(", "def f(n):\n    return ", "", "for a in b:\n    print(", "a" * 3000)
DOOMED_CLIENT: Final = """
import asyncio, sys
from midfill_engine.client import EngineClient
from midfill_engine.errors import EngineError
from midfill_engine.protocol import FillRequest
request = FillRequest(0, "x = f(", 0, ")", "", "", True, "balanced", 5000, 8, True, False)
async def ask(client):
    while True:
        try:
            await client.fill(request)
        except EngineError:
            pass
async def main():
    client = EngineClient(model=sys.argv[1])
    asking = [asyncio.create_task(ask(client)) for _ in range(4)]
    await asyncio.to_thread(sys.stdin.read)
    await client.close()
asyncio.run(asyncio.wait_for(main(), 600))
"""


@dataclass
class Storm:
    """The clients, what they have asked for, and what has become of it."""

    home: Home
    dice: random.Random
    clients: list[EngineClient] = field(default_factory=list)
    doomed: list[asyncio.subprocess.Process] = field(default_factory=list)
    asked: list[asyncio.Task[FillResult]] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)

    def client(self) -> EngineClient:
        return EngineClient(model=str(self.home.model))

    async def begin(self) -> None:
        self.clients = [self.client() for _ in range(CLIENTS)]
        for _ in range(DOOMED):
            await self.start_doomed()

    async def start_doomed(self) -> None:
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-I", "-c", DOOMED_CLIENT, str(self.home.model))
        self.doomed.append(
            await asyncio.create_subprocess_exec(*command, stdin=pipe, env=self.home.environment)
        )

    async def rage(self, events: list[Callable[[], Awaitable[None]]]) -> None:
        for event in events:
            await event()
            self.done[event.__name__] += 1
            await asyncio.sleep(self.dice.choice((0, 0, 0, 0.001, 0.01)))
            while len(self.asked) > MOST_IN_FLIGHT:
                await self.settle(self.asked.pop(0))

    async def settle(self, task: asyncio.Task[FillResult]) -> None:
        """Take note of how a request has ended. Fails if it does not."""
        done, _ = await asyncio.wait({task}, timeout=ANSWER_WITHIN_S)
        assert done, "a request is not answered"
        if task.cancelled():
            self.outcomes["cancelled"] += 1
        elif error := task.exception():
            assert isinstance(error, EngineError), repr(error)
            self.outcomes[type(error).__name__] += 1
        else:
            self.outcomes["answered"] += 1

    async def calm(self) -> None:
        """All that is left is answered; the worker has nothing to do, and serves us only."""
        for task in self.asked:
            await self.settle(task)
        self.asked.clear()
        for process in self.doomed:
            await process.communicate(b"")
        async with asyncio.timeout(ANSWER_WITHIN_S):
            seen = [await client.status() for client in self.clients]
        assert (seen[-1].active, seen[-1].clients) == (0, CLIENTS)
        assert {status.worker_pid for status in seen} == {self.home.worker().pid}
        # Its own files, its log, the loop's and the listener, and one for each of us.
        assert psutil.Process(seen[-1].worker_pid).num_fds() <= 20 + CLIENTS

    # Events

    async def ask(self) -> None:
        client = self.dice.choice(self.clients)
        self.asked.append(asyncio.create_task(client.fill(self.request())))

    async def cancel(self) -> None:
        if self.asked:
            self.dice.choice(self.asked).cancel()

    async def wait(self) -> None:
        if self.asked:
            await self.settle(self.asked.pop(self.dice.randrange(len(self.asked))))

    async def disconnect(self) -> None:
        """A client says goodbye, with requests in flight, and another comes."""
        at = self.dice.randrange(CLIENTS)
        await self.clients[at].close()
        self.clients[at] = self.client()

    async def hang_up(self) -> None:
        """A client's connection breaks."""
        connection = self.dice.choice(self.clients)._connection
        if connection is not None:
            connection.abort()

    async def kill_worker(self) -> None:
        for worker in self.home.workers():
            os.kill(worker.pid, signal.SIGKILL)

    async def kill_client(self) -> None:
        process = self.doomed.pop(0)
        process.kill()
        await process.wait()
        await self.start_doomed()

    def request(self) -> FillRequest:
        request = request_for(
            self.dice.choice(TEXTS) + "y" * self.dice.randint(0, 3),
            self.dice.choice((")\n", "", "\n    return a\n")),
            quality=self.dice.choice(QUALITIES),
            deadline_ms=self.dice.choice((0, 50, 1000, 60_000)),
            max_tokens=self.dice.choice((1, 4, 24)),
            want_drafts=self.dice.random() < 0.3,
            interactive=self.dice.random() < 0.8,
        )
        return replace(request, heal_left=self.dice.choice(("", "", "pri")))


async def test_nothing_is_lost_and_nothing_is_left(
    home: Home, request: pytest.FixtureRequest
) -> None:
    count, kills = request.config.getoption("--events"), request.config.getoption("--kills")
    dice = random.Random(request.config.getoption("--seed"))
    storm = Storm(home, dice)
    gc.collect()
    files, threads = _open_files(), threading.active_count()

    usual = [storm.ask, storm.ask, storm.ask, storm.cancel, storm.cancel, storm.wait]
    rare = [storm.disconnect, storm.hang_up]
    killing = [dice.choice((storm.kill_worker, storm.kill_client)) for _ in range(kills)]
    events = killing + [dice.choice(usual * 4 + rare) for _ in range(count - kills)]
    dice.shuffle(events)

    await storm.begin()
    await storm.rage(events)
    await storm.calm()
    watch = Watch(worker.pid for worker in home.workers())
    await asyncio.gather(*(client.close() for client in storm.clients))
    await asyncio.to_thread(watch.ended_within, GONE_WITHIN_S)
    await asyncio.get_running_loop().shutdown_default_executor()
    for thread in threading.enumerate():
        if thread.name == "midfill-worker-end":
            thread.join(GONE_WITHIN_S)
    del watch
    gc.collect()
    sys.stdout.write(f"{dict(storm.done)} -> {dict(storm.outcomes)}\n")
    assert home.workers() == []
    assert not list(home.runtime.glob("*.sock"))
    assert _open_files() <= files
    assert threading.active_count() <= threads
    assert storm.outcomes["answered"] > 0


def _open_files() -> int:
    return psutil.Process().num_fds()
