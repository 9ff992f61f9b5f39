"""The client before workers that misbehave: every call ends, with an answer or a typed error.

The worker is a function that is handed each connection past its hello. What becomes of requests
when a real worker dies is tested with real processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from support.jobs import request_for

from midfill_engine import client as client_module
from midfill_engine import errors
from midfill_engine.client import EngineClient
from midfill_engine.endpoint import build, endpoint_for
from midfill_engine.errors import EngineError, ProtocolError, WorkerLost, WorkerUnavailable
from midfill_engine.protocol import (
    PROTOCOL_VERSION,
    Cancel,
    Draft,
    DraftEvent,
    Failure,
    FillRequest,
    FillResult,
    FillStats,
    Hello,
    Message,
    StatusRequest,
    StatusResult,
    Welcome,
    encode,
    read_message,
)

LIMIT_S: Final = 60.0
MODEL: Final = "/nowhere/model"  # no worker for it is ever started
WELCOME: Final = Welcome(PROTOCOL_VERSION, build(), 1, MODEL, 0)
STATS: Final = FillStats(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


class Link:
    """The worker's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def next(self) -> Message:
        message = await self.next_or_end()
        assert message is not None
        return message

    async def next_or_end(self) -> Message | None:
        return await read_message(self._reader)

    async def next_fill(self) -> FillRequest:
        message = await self.next()
        assert isinstance(message, FillRequest)
        return message

    def say(self, *messages: Message) -> None:
        self.say_bytes(b"".join(map(encode, messages)))

    def say_bytes(self, data: bytes) -> None:
        self._writer.write(data)

    def answer(self, request: FillRequest) -> None:
        self.say(FillResult(request.request_id, (), False, STATS))


Behaviour = Callable[[Link], Awaitable[None]]


@pytest.fixture
def clients(private_dirs: Path) -> Callable[..., object]:
    """Makes a client of a worker of the given behaviour."""

    @asynccontextmanager
    async def make(
        behave: Behaviour, welcome: bytes | None = encode(WELCOME)
    ) -> AsyncIterator[EngineClient]:
        tasks: set[asyncio.Task[None]] = set()
        ended: list[BaseException | None] = []

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            try:
                hello = await read_message(reader)
                if hello == Hello(PROTOCOL_VERSION, build()) and welcome is not None:
                    writer.write(welcome)
                    await behave(Link(reader, writer))
            except ConnectionError:
                pass
            except Exception as error:
                ended.append(error)
                raise
            finally:
                writer.close()
                with suppress(ConnectionError):
                    await writer.wait_closed()

        server = await asyncio.start_unix_server(handle, endpoint_for(MODEL, "float32"))
        client = EngineClient(model=MODEL, weights="float32")
        try:
            async with asyncio.timeout(LIMIT_S):
                yield client
        finally:
            await client.close()
            for _ in range(5):  # whatever has knocked is let in
                await asyncio.sleep(0)
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert ended == []

    return make


async def answer_all(link: Link) -> None:
    while (message := await link.next_or_end()) is not None:
        if isinstance(message, FillRequest):
            link.answer(message)


async def sent(client: EngineClient) -> None:
    """The client's only request is on its way."""
    while not client._connection or not client._connection.waiting:  # noqa: ASYNC110 - no event
        await asyncio.sleep(0)


async def stand_still(_link: Link) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    "welcome",
    [
        None,  # it hangs up
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        encode(WELCOME)[:-1],
        encode(Hello(PROTOCOL_VERSION, "")),
        encode(replace(WELCOME, version=PROTOCOL_VERSION + 1)),
        encode(replace(WELCOME, build="another")),
    ],
)
async def test_a_worker_that_does_not_welcome_us(clients, welcome: bytes | None) -> None:
    async def hang_up(_link: Link) -> None:
        return

    async with clients(hang_up, welcome) as client:
        with pytest.raises(WorkerUnavailable):
            await client.fill(request_for())
        with pytest.raises(WorkerUnavailable):
            await client.status()


@pytest.mark.parametrize("other", [{"version": PROTOCOL_VERSION + 1}, {"build": "another"}])
async def test_a_worker_of_another_version_that_serves_others_is_reported(clients, other) -> None:
    welcome = encode(replace(WELCOME, worker_pid=4321, others=2, **other))
    async with clients(stand_still, welcome) as client:
        with pytest.raises(errors.WorkerOutdated, match=r"2 other client.*kill 4321"):
            await client.fill(request_for())


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x01\xc1",
        encode(Cancel(1))[:-1],
    ],
)
async def test_a_worker_that_talks_nonsense_or_hangs_up(clients, said: bytes) -> None:
    spoken = []

    async def behave(link: Link) -> None:
        if spoken:
            return await answer_all(link)
        await link.next()
        await link.next()
        spoken.append(True)
        return link.say_bytes(said)

    async with clients(behave) as client:
        asked = [asyncio.create_task(client.fill(request_for())) for _ in range(2)]
        for answer in asked:
            with pytest.raises(WorkerLost):
                await answer
        assert isinstance(await client.fill(request_for()), FillResult)  # on a new connection


async def test_an_answer_of_the_wrong_kind(clients) -> None:
    async def behave(link: Link) -> None:
        while (message := await link.next_or_end()) is not None:
            assert isinstance(message, FillRequest | StatusRequest)
            if isinstance(message, FillRequest):
                link.say(StatusResult(message.request_id, 1, MODEL, "int8", 1, 1, 1, 1, 1, "cpu"))
            else:
                link.say(FillResult(message.request_id, (), False, STATS))

    async with clients(behave) as client:
        with pytest.raises(ProtocolError, match="StatusResult"):
            await client.fill(request_for())
        with pytest.raises(ProtocolError, match="FillResult"):
            await client.status()


@pytest.mark.parametrize(
    ("kind", "raised"),
    [
        ("ModelMissing", errors.ModelMissing),
        ("RequestRejected", errors.RequestRejected),
        ("RequestCancelled", errors.RequestCancelled),
        ("Unheard", EngineError),
        ("annotations", EngineError),
        ("__doc__", EngineError),
    ],
)
async def test_failures_are_raised_by_their_names(
    clients, kind: str, raised: type[EngineError]
) -> None:
    async def behave(link: Link) -> None:
        link.say(Failure((await link.next_fill()).request_id, kind, "so it is"))
        await link.next_or_end()

    async with clients(behave) as client:
        with pytest.raises(EngineError, match="so it is") as caught:
            await client.fill(request_for())
        assert type(caught.value) is raised


async def test_answers_find_their_requests_and_strays_find_none(clients) -> None:
    async def behave(link: Link) -> None:
        first, second = await link.next_fill(), await link.next_fill()
        link.answer(replace(first, request_id=999))
        link.say(Welcome(1, "", 1, "again", 0), DraftEvent(998, 1, ()))
        for request in (second, second, first, second):
            text = Draft((request.prefix,), (1.0,))
            link.say(DraftEvent(request.request_id, 1, (text,)))
            link.answer(request)
        await link.next_or_end()

    async with clients(behave) as client:
        seen: dict[str, list[str | None]] = {"one": [], "two": []}

        async def fill(name: str) -> FillResult:
            drafts = seen[name]
            return await client.fill(
                request_for(name), on_draft=lambda e: drafts.extend(e.drafts[0].pieces)
            )

        first, second = await asyncio.gather(fill("one"), fill("two"))
        assert first.request_id != second.request_id
        assert seen == {"one": ["one"], "two": ["two"]}


async def test_a_draft_callback_that_raises_ends_its_own_request_only(clients) -> None:
    async def behave(link: Link) -> None:
        first, second = await link.next_fill(), await link.next_fill()
        link.say(DraftEvent(first.request_id, 1, ()))
        assert await link.next() == Cancel(first.request_id)
        link.answer(second)
        await link.next_or_end()

    def fail(_event: DraftEvent) -> None:
        raise ZeroDivisionError("in a callback")

    async with clients(behave) as client:
        first = asyncio.create_task(client.fill(request_for(), on_draft=fail))
        second = asyncio.create_task(client.fill(request_for()))
        with pytest.raises(ZeroDivisionError):
            await first
        assert isinstance(await second, FillResult)


async def test_withdrawing_a_request_tells_the_worker(clients) -> None:
    arrived = asyncio.Event()
    withdrawn: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    async def behave(link: Link) -> None:
        request = await link.next_fill()
        arrived.set()
        withdrawn.set_result(await link.next())
        link.say(Failure(request.request_id, "RequestCancelled", "as you wish"))
        await answer_all(link)

    async with clients(behave) as client:
        asked = asyncio.create_task(client.fill(request_for()))
        await arrived.wait()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert isinstance(await withdrawn, Cancel)
        assert isinstance(await client.fill(request_for()), FillResult)


async def test_a_worker_that_stands_still_is_given_up(
    clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped = asyncio.Event()

    async def behave(link: Link) -> None:
        if dropped.is_set():
            return await answer_all(link)
        with suppress(ConnectionError):
            while await link.next_or_end():
                pass
        return dropped.set()

    async with clients(behave) as client:
        monkeypatch.setattr(client_module, "PATIENCE_S", 0.05)
        patient = asyncio.create_task(client.fill(request_for(deadline_ms=60_000)))
        with pytest.raises(WorkerLost, match="has not answered"):
            await client.fill(request_for(deadline_ms=20))
        with pytest.raises(WorkerLost):
            await patient
        await dropped.wait()
        monkeypatch.setattr(client_module, "PATIENCE_S", LIMIT_S)
        assert isinstance(await client.fill(request_for()), FillResult)


async def test_a_worker_that_stands_still_before_its_welcome(
    clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "PATIENCE_S", 0.05)
    async with clients(stand_still, b"") as client:
        asked = [client.fill(request_for(deadline_ms=-1)) for _ in range(4)] + [client.status()]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(answer) for answer in answers] == [WorkerLost] * 5


async def test_what_a_worker_does_not_read_does_not_pile_up(
    clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "MAX_UNSENT_BYTES", 1_000_000)
    async with clients(stand_still) as client:
        large = asyncio.create_task(client.fill(request_for("x" * 4_000_000)))
        await sent(client)
        with pytest.raises(WorkerLost, match="does not read"):
            await client.fill(request_for())
        with pytest.raises(WorkerLost):
            await large


async def test_halves_of_characters_arrive(clients) -> None:
    arrived: asyncio.Future[FillRequest] = asyncio.get_running_loop().create_future()

    async def behave(link: Link) -> None:
        request = await link.next_fill()
        arrived.set_result(request)
        link.answer(request)
        await link.next_or_end()

    async with clients(behave) as client:
        await client.fill(request_for("a\ud83d", "\ude00b"))
        assert (arrived.result().prefix, arrived.result().suffix) == ("a\ud83d", "\ude00b")


async def test_closing_ends_what_is_in_flight(clients) -> None:
    async with clients(stand_still) as client:
        asked = asyncio.create_task(client.fill(request_for()))
        await sent(client)
        await client.close()
        with pytest.raises(WorkerLost):
            await asked


async def test_a_quality_that_does_not_exist_is_refused_before_it_is_sent(
    private_dirs: Path,
) -> None:
    client = EngineClient(model=MODEL)
    with pytest.raises(errors.RequestRejected, match="'perfect'"):
        await client.fill(replace(request_for(), quality="perfect"))  # type: ignore[arg-type]
    assert not private_dirs.joinpath("run").exists()


@pytest.mark.parametrize("obstacle", ["run", "run/lock"])
async def test_a_runtime_directory_that_cannot_be_used(private_dirs: Path, obstacle: str) -> None:
    if obstacle == "run":
        (private_dirs / "run").write_text("a file")
    else:
        endpoint_for(MODEL, "auto").with_suffix(".lock").mkdir()
    client = EngineClient(model=MODEL)
    with pytest.raises(WorkerUnavailable):
        await client.fill(request_for())
