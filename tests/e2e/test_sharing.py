"""One worker for everybody: who starts it, who keeps it, what becomes of what nobody waits for."""

from __future__ import annotations

import asyncio
import socket
import sys

import psutil
import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from support.editor import LIMIT_S, editor
from support.homes import Home, Watch, stopped
from support.jobs import request_for

from midfill_engine.client import EngineClient
from midfill_engine.endpoint import endpoint_for
from midfill_engine.errors import RequestRejected
from midfill_engine.protocol import FillResult
from midfill_engine.worker.server import MAX_PENDING

GONE_WITHIN_S = 10.0


async def test_two_editors_at_once_start_one_worker_and_the_last_ends_it(home: Home) -> None:
    async with editor(home) as one:
        async with editor(home) as other:
            one.open("print()\n")
            other.open("show()\n")
            first, second = await asyncio.gather(one.complete(6), other.complete(5))
            assert first
            assert second
            worker = home.worker()
        assert await one.complete(6)
        assert home.worker() == worker
        watch = Watch([worker.pid])
    took = await asyncio.to_thread(watch.ended_within, GONE_WITHIN_S)
    sys.stdout.write(f"the worker was gone {took:.2f} s after its last client\n")
    assert not list(home.runtime.glob("*.sock"))


async def test_clients_at_the_same_time_start_one_worker(home: Home) -> None:
    started: list[str] = []
    clients = [EngineClient(model=str(home.model), on_log=started.append) for _ in range(4)]
    async with asyncio.timeout(LIMIT_S):
        seen = await asyncio.gather(*(client.status() for client in clients))
    assert len({status.worker_pid for status in seen}) == 1
    assert started == ["starting a worker"]
    await asyncio.gather(*(client.close() for client in clients))


async def test_a_dead_workers_socket_is_replaced(home: Home) -> None:
    endpoint = endpoint_for(str(home.model), "auto")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(endpoint))
        dead.listen()
    assert endpoint.is_socket()
    async with editor(home) as ed:
        ed.open("print()\n")
        assert await ed.complete(6)
        assert not ed.messages
    assert home.worker().is_running()


async def test_withdrawn_requests_make_room_for_others(led_home: Home) -> None:
    client = EngineClient(model=str(led_home.model))
    async with asyncio.timeout(LIMIT_S):
        worker = psutil.Process((await client.status()).worker_pid)
        with stopped(worker):
            asked = await _ask(client, MAX_PENDING)
            (one_more,) = await _ask(client, 1)
        with pytest.raises(RequestRejected, match="too many"):
            await one_more
        assert all(result.fills for result in await asyncio.gather(*asked))

        with stopped(worker):
            withdrawn = await _ask(client, MAX_PENDING)
            for task in withdrawn:
                task.cancel()
            outcomes = await asyncio.gather(*withdrawn, return_exceptions=True)
            (one_more,) = await _ask(client, 1)
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
        assert (await one_more).fills
        assert (await client.status()).active == 0
        await client.close()


async def _ask(client: EngineClient, times: int) -> list[asyncio.Task[FillResult]]:
    """So many requests, all of them sent."""
    request = request_for("x = f(", ")\n", max_tokens=4)
    tasks = [asyncio.create_task(client.fill(request)) for _ in range(times)]
    await asyncio.sleep(0)
    return tasks


async def test_a_request_the_editor_cancels_is_answered_at_once(led_home: Home) -> None:
    async with editor(led_home) as ed:
        ed.open("print()\n")
        assert await ed.complete(6)
        method, msg_id = types.TEXT_DOCUMENT_INLINE_COMPLETION, "to be cancelled"
        with stopped(led_home.worker()):
            sent = ed.client.protocol.send_request(method, ed.completion_params(6), msg_id=msg_id)
            await ed.settled()
            ed.client.cancel_request(types.CancelParams(msg_id))
            with pytest.raises(JsonRpcException) as raised:
                async with asyncio.timeout(LIMIT_S):
                    await asyncio.wrap_future(sent)
        assert raised.value.code == types.LSPErrorCodes.RequestCancelled
        assert await ed.complete(6)
    client = EngineClient(model=str(led_home.model))
    async with asyncio.timeout(LIMIT_S):
        assert (await client.status()).active == 0
        await client.close()
