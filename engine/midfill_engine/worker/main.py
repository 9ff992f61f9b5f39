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
from pathlib import Path

from midfill_engine.endpoint import listen, remove
from midfill_engine.spawn import READY


def main() -> None:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(prog="midfill-worker")
    parser.add_argument("--model", required=True)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--endpoint", type=Path, required=True)
    options = parser.parse_args()

    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(name)s %(message)s")
    ready = os.dup(1)
    os.dup2(2, 1)
    listener = listen(options.endpoint)
    os.write(ready, READY)
    os.close(ready)

    from midfill_engine.worker.server import serve

    try:
        asyncio.run(serve(listener, options.model, options.weights))
    finally:
        remove(options.endpoint)
