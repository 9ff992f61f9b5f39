"""Waiting for the worker to have its model, which is what a first fill would wait for."""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from midfill_engine.client import EngineClient
from midfill_engine.errors import ModelError
from midfill_lsp.remedies import advice


@asynccontextmanager
async def loaded_worker(model: str) -> AsyncIterator[EngineClient]:
    """A client of the worker, which has loaded the model.

    The worker is the one that a server with this model shares; it stays while this lasts.

    Raises:
        EngineError: there is no such worker; a `ModelError` says what to do about it.
    """
    client = EngineClient(model=model)
    try:
        with _waiting():
            await client.status()
        yield client
    except ModelError as error:
        raise type(error)(advice(error, model)) from error
    finally:
        await client.close()


@contextmanager
def _waiting() -> Iterator[None]:
    """A spinner on stderr in a terminal, else a line."""
    if not sys.stderr.isatty() or os.environ.get("NO_COLOR"):
        sys.stderr.write("loading the model\n")
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status("loading the model"):
        yield
