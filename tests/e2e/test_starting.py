"""Who starts a worker, and what becomes of one of another build."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from support.editor import LIMIT_S
from support.homes import Home, Watch
from support.jobs import request_for

from midfill_engine import client as client_module
from midfill_engine import spawn as spawn_module
from midfill_engine.client import EngineClient
from midfill_engine.endpoint import endpoint_for
from midfill_engine.errors import WorkerOutdated
from midfill_engine.spawn import spawn_worker

GONE_WITHIN_S = 10.0
PROCESSES, CLIENTS = 5, 4  # of each
STARTER = """
import asyncio, sys
from midfill_engine.client import EngineClient
async def main():
    clients = [EngineClient(model=sys.argv[1]) for _ in range(int(sys.argv[2]))]
    seen = await asyncio.gather(*(client.status() for client in clients))
    print(*(status.worker_pid for status in seen), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await asyncio.gather(*(client.close() for client in clients))
asyncio.run(main())
"""


async def test_twenty_clients_of_several_processes_start_one_worker(home: Home) -> None:
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-I", "-c", STARTER, str(home.model), str(CLIENTS))
    starters = [
        await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, env=home.environment
        )
        for _ in range(PROCESSES)
    ]
    async with asyncio.timeout(LIMIT_S):
        said = [await one.stdout.readline() for one in starters if one.stdout]
        worker = home.worker()
        assert b"".join(said).split() == [str(worker.pid).encode()] * (PROCESSES * CLIENTS)
        watch = Watch([worker.pid])
        await asyncio.gather(*(one.communicate(b"") for one in starters))
    await asyncio.to_thread(watch.ended_within, GONE_WITHIN_S)


async def test_workers_started_without_the_lock_are_one_in_the_end(home: Home) -> None:
    """A starter may be killed between starting a worker and its listening."""
    endpoint = endpoint_for(str(home.model), "auto")
    with ThreadPoolExecutor(4) as starters:
        for _ in range(4):
            starters.submit(spawn_worker, str(home.model), "auto", endpoint)
    client = EngineClient(model=str(home.model))
    async with asyncio.timeout(LIMIT_S):
        pid = (await client.status()).worker_pid
        losers = [worker.pid for worker in home.workers() if worker.pid != pid]
        await asyncio.to_thread(Watch(losers).ended_within, GONE_WITHIN_S)
        assert (await client.fill(request_for("x = f(", ")\n"))).fills
        await client.close()


@pytest.fixture
def older(home: Home, monkeypatch: pytest.MonkeyPatch) -> psutil.Process:
    """A worker that a midfill of another build has started."""
    with monkeypatch.context() as patch:
        patch.setattr(spawn_module, "build", lambda: "older")
        spawn_worker(str(home.model), "auto", endpoint_for(str(home.model), "auto"))
    return home.worker()


async def test_a_worker_of_another_build_that_nobody_uses_is_replaced(
    home: Home, older: psutil.Process
) -> None:
    watch = Watch([older.pid])
    client = EngineClient(model=str(home.model))
    async with asyncio.timeout(LIMIT_S):
        assert (await client.fill(request_for("x = f(", ")\n"))).fills
        await asyncio.to_thread(watch.ended_within, GONE_WITHIN_S)
        assert home.worker().pid == (await client.status()).worker_pid != older.pid
        await client.close()


async def test_a_worker_of_another_build_that_others_use_is_reported_and_left_alone(
    home: Home, older: psutil.Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, newcomer = (EngineClient(model=str(home.model)) for _ in range(2))
    request = request_for("x = f(", ")\n")
    async with asyncio.timeout(LIMIT_S):
        with monkeypatch.context() as patch:
            patch.setattr(client_module, "build", lambda: "older")
            assert (await user.status()).worker_pid == older.pid
        with pytest.raises(WorkerOutdated, match=f"1 other client.*kill {older.pid}"):
            await newcomer.fill(request)
        assert (await user.fill(request)).fills
        await user.close()
        assert (await newcomer.fill(request)).fills  # now that nobody uses it
        assert home.worker().pid != older.pid
        await newcomer.close()
