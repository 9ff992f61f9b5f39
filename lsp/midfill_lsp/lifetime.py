"""Sees to it that the server ends with its editor.

Owns the thread that watches the editor's process, and the last resort. The end of stdin is the
first sign of the editor's end; but a child of the editor may hold that pipe open for hours.
"""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Final

_POLL_S: Final = 1.0
GRACE_S: Final = 2.0


def watch(pid: int, on_gone: Callable[[], None]) -> bool:
    """Call `on_gone` in the running loop once the process has ended, and leave soon after.

    False if there is no such process to be seen, as is the case when the editor runs in another
    container: there is nothing to watch then.
    """
    import psutil  # not needed before `initialize` is answered

    try:
        process = psutil.Process(pid)
    except psutil.Error:
        return False
    loop = asyncio.get_running_loop()

    def poll() -> None:
        try:
            while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                time.sleep(_POLL_S)
        except psutil.Error:
            pass  # it went between the two questions
        leave_within(GRACE_S, 1)  # whatever keeps the loop from ending
        with contextlib.suppress(RuntimeError):  # the loop has ended already
            loop.call_soon_threadsafe(on_gone)

    _in_background(poll)
    return True


def leave_within(seconds: float, code: int) -> None:
    """End the process with this code by then, if it has not ended of itself.

    Python waits for its threads at the end, and one may be waiting for a worker to start.
    """

    def leave() -> None:
        time.sleep(seconds)
        os._exit(code)

    _in_background(leave)


def _in_background(run: Callable[[], None]) -> None:
    threading.Thread(target=run, name="midfill-lifetime", daemon=True).start()
