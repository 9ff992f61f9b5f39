"""Who fills the holes: a worker at some quality, or the base left to right.

Owns how each is started and asked. Both take the engine's requests and give its results; both
have all the time they want, so that what they answer does not depend on the machine's speed.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from midfill_engine.client import EngineClient
from midfill_engine.errors import WorkerLost
from midfill_engine.model_files import check_model
from midfill_engine.paths import absolute_model, model_dir
from midfill_engine.protocol import FillRequest, FillResult, Quality, encode, read_message
from midfill_engine.spawn import isolated_command, isolated_environment
from midfill_lsp.cli.loading import loaded_worker
from midfill_lsp.settings import DEFAULTS, Effort

BASE: Final = "base"
DEADLINE_MS: Final = 600_000  # never reached
_LEFT_TO_RIGHT: Final = "midfill_engine.worker.left_to_right"


@dataclass(frozen=True, slots=True)
class System:
    """Something that fills holes."""

    name: str  # `BASE`, or a quality
    effort: Effort
    fill: Callable[[FillRequest], Awaitable[FillResult]]


@asynccontextmanager
async def the_base(model: str) -> AsyncIterator[System]:
    """The base, left to right and blind to the suffix, in a process of its own. It has no gate.

    Raises:
        ModelMissing, ModelCorrupt, ModelUnsupported: there is no model.
        WorkerLost: the process ended.
    """
    check_model(model_dir(model))
    process = await asyncio.create_subprocess_exec(
        *isolated_command(_LEFT_TO_RIGHT, "--model", absolute_model(model)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=isolated_environment(),
    )
    to_base, from_base = process.stdin, process.stdout
    assert to_base is not None
    assert from_base is not None

    async def fill(request: FillRequest) -> FillResult:
        to_base.write(encode(request))
        answer = await read_message(from_base)
        if not isinstance(answer, FillResult):
            raise WorkerLost("the process that runs the base ended")
        return answer

    try:
        yield System(BASE, _effort("best"), fill)
    finally:
        to_base.close()
        await process.wait()


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker that has its model."""

    client: EngineClient
    weights: str

    def at(self, quality: Quality) -> System:
        """The worker at one quality."""
        return System(quality, _effort(quality), self.client.fill)


@asynccontextmanager
async def the_worker(model: str) -> AsyncIterator[Worker]:
    """The worker that editors with this model share.

    Raises:
        EngineError: as `loaded_worker`.
    """
    async with loaded_worker(model) as client:
        yield Worker(client, (await client.status()).weights)


def _effort(quality: Quality) -> Effort:
    return replace(DEFAULTS.invoked, quality=quality, deadline_ms=DEADLINE_MS)
