"""Processes that are killed: what the others make of it, and how soon."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest
from support.editor import Editor, editor, usual_options
from support.homes import MIDFILL, Home, Watch, stop, stopped

DOOMED = Path(__file__).parent / "doomed_editor.py"
GONE_WITHIN_S = 5.0
T = TypeVar("T")


async def test_a_worker_killed_in_mid_request(home: Home) -> None:
    async with editor(home) as ed:
        buffer = ed.open("print(a)\n")
        assert await ed.complete(6)
        first = home.worker()
        assert await _killed_during(ed, first, ed.complete(6)) == []
        assert ed.messages == []
        assert any("WorkerLost" in line for line in ed.logged)
        assert await ed.complete(6)

        second = home.worker()
        assert second.pid != first.pid
        result = await _killed_during(ed, second, ed.fill(6, 7))
        assert result["applied"] is False
        assert ed.messages == [f"midfill: {result['reason']}"]
        assert buffer.text == "print(a)\n"
        assert await ed.fill(6, 7) == {"applied": True}
        assert buffer.text != "print(a)\n"

        children = psutil.Process(ed.pid).children()
        assert all(child.status() != psutil.STATUS_ZOMBIE for child in children)


async def _killed_during(ed: Editor, worker: psutil.Process, asking: Coroutine[Any, Any, T]) -> T:
    """What is answered if the worker is killed when it has the request and has not begun."""
    stop(worker)
    asked = asyncio.create_task(asking)
    await asyncio.sleep(0)
    await ed.settled()
    assert not asked.done()
    worker.kill()
    return await asked


@pytest.mark.parametrize("leaves_a_child", [False, True])
def test_an_editor_killed_takes_server_and_worker_along(home: Home, leaves_a_child: bool) -> None:
    settings: dict[str, Any] = {"command": MIDFILL, "options": usual_options(home)}
    with subprocess.Popen(
        [sys.executable, "-I", str(DOOMED)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=home.environment,
        text=True,
    ) as doomed:
        assert doomed.stdin is not None
        assert doomed.stdout is not None
        doomed.stdin.write(json.dumps(settings | {"leaves_a_child": leaves_a_child}) + "\n")
        doomed.stdin.flush()
        said = json.loads(doomed.stdout.readline())
        assert said["items"]
        watch = Watch([said["server"], home.worker().pid])
        doomed.kill()
        took = watch.ended_within(GONE_WITHIN_S)
    sys.stdout.write(f"server and worker were gone {took:.2f} s after their editor\n")
    assert not list(home.runtime.glob("*.sock"))


async def test_a_worker_that_stands_still_does_not_keep_older_requests(shared_home: Home) -> None:
    async with editor(shared_home) as ed:
        ed.open("print()\n")
        assert await ed.complete(6)
        with stopped(shared_home.worker()):
            older = asyncio.create_task(ed.complete(6))
            await asyncio.sleep(0)
            newer = asyncio.create_task(ed.complete(6))
            assert await older == []
            assert not newer.done()
        assert await newer
