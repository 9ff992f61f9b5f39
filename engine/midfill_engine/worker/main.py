"""The worker process: listen, say so, load torch, serve, and go when nobody is left.

Owns the order of its start. Listening comes first, so that clients can queue while torch is
imported; stdout is claimed before that, so that no library can write into our one line.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import time
from pathlib import Path
from typing import IO, Final

from midfill_engine.endpoint import answers, claim, listen, remove
from midfill_engine.spawn import READY

_RETRY_S: Final = 0.02


def main() -> None:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(prog="midfill-worker")
    parser.add_argument("--model", required=True)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--endpoint", type=Path, required=True)
    parser.add_argument("--build", required=True)
    options = parser.parse_args()

    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(name)s %(message)s")
    ready = os.dup(1)
    os.dup2(2, 1)
    claimed = _claim(options.endpoint)
    listener = listen(options.endpoint) if claimed else None
    os.write(ready, READY)
    os.close(ready)
    if claimed is None or listener is None:
        return

    from midfill_engine.worker.server import serve

    try:
        asyncio.run(serve(listener, options.model, options.weights, options.build, claimed.close))
    finally:
        claimed.close()  # before `remove` waits for whoever starts our successor
        remove(options.endpoint)


def _claim(endpoint: Path) -> IO[str] | None:
    """Our claim to the endpoint; None once another worker listens there.

    One that is about to go keeps its claim for a moment longer than it listens.
    """
    while (claimed := claim(endpoint)) is None:
        if answers(endpoint):
            return None
        time.sleep(_RETRY_S)
    return claimed
