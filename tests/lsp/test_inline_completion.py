"""`textDocument/inlineCompletion`, on texts with the cursor marked by `¦`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from midfill_engine.errors import ModelMissing, WorkerLost
from midfill_lsp.positions import Encoding, line_starts, position_at

if TYPE_CHECKING:
    from conftest import Editor, ScriptedEngine


class Held:
    """An engine's script that waits to be let go."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self.engine = engine
        self.go = asyncio.Event()

    async def __call__(self, request: Any) -> Any:
        await self.go.wait()
        return self.engine.healed(request)


class Stubborn(Held):
    """One that is in no hurry to be cancelled."""

    async def __call__(self, request: Any) -> Any:
        try:
            return await super().__call__(request)
        except asyncio.CancelledError:
            await self.go.wait()
            raise


async def check(
    editor: Editor, marked: str, *texts: str, encoding: Encoding = Encoding.Utf16, kind: int = 1
) -> None:
    """At the cursor these texts are shown, each as an insertion there."""
    offset, text = marked.index("¦"), marked.replace("¦", "")
    editor.open(text)
    at = position_at(text, line_starts(text), offset, encoding)
    items = await editor.complete(at.line, at.character, kind=kind).items()
    here = {"line": at.line, "character": at.character}
    assert [item["insertText"] for item in items] == list(texts)
    assert all(item["range"] == {"start": here, "end": here} for item in items)


@pytest.mark.parametrize("encoding", list(Encoding))
async def test_an_item_is_an_insertion_at_the_caret(editor: Editor, encoding: Encoding) -> None:
    await editor.initialize({"general": {"positionEncodings": [encoding.value]}})
    await check(editor, "x = ¦\n", "42", encoding=encoding)
    await check(editor, "s = '漢😀'; x = ¦\ny = 1\n", "42", encoding=encoding)
    await check(editor, "a = 1\r\nx = ¦\r\n", "42", encoding=encoding)
    await check(editor, "print(¦)\n", "42", encoding=encoding)


async def test_what_was_asked_for_has_several_items_and_each_once(
    ready: Editor, engine: ScriptedEngine
) -> None:
    engine.texts = ["1", "2", "1"]
    await check(ready, "x = ¦\n", "1", "2", kind=1)
    await check(ready, "x = ¦\n", "1", kind=2)


async def test_quality_and_deadline_go_by_what_was_asked_for(
    editor: Editor, engine: ScriptedEngine
) -> None:
    options = {"quality": {"automatic": "balanced", "invoked": "best"}, "automaticDeadlineMs": 123}
    await editor.initialize(options=options | {"invokedDeadlineMs": 4567, "maxTokens": 9})
    editor.open("x = \n")
    await editor.complete(0, 4, kind=2).items()
    await editor.complete(0, 4, kind=1).items()
    asked = [(r.quality, r.deadline_ms, r.max_tokens) for r in engine.requests]
    assert asked == [("balanced", 123, 9), ("best", 4567, 9)]
    assert all(request.interactive for request in engine.requests)


async def test_nothing_is_an_empty_list(ready: Editor, engine: ScriptedEngine) -> None:
    assert await ready.complete(0, 0, uri="file:///not-open.py").result() == {"items": []}
    ready.open("x = \n")
    engine.texts = []
    assert await ready.complete(0, 4).result() == {"items": []}
    engine.texts = [""]
    assert await ready.complete(0, 4).result() == {"items": []}


async def test_automatic_fills_the_model_is_unsure_of_are_not_shown(
    editor: Editor, engine: ScriptedEngine
) -> None:
    await editor.initialize(options={"minConfidence": 0.6})
    engine.confidence = 0.59
    await check(editor, "x = ¦\n", kind=2)
    await check(editor, "x = ¦\n", "42", kind=1)
    engine.confidence = 0.6
    await check(editor, "x = ¦\n", "42", kind=2)


async def test_a_newer_request_takes_an_older_ones_place(
    ready: Editor, engine: ScriptedEngine
) -> None:
    held = Stubborn(engine)
    engine.script = held
    ready.open("x = \n")
    older = ready.complete(0, 4)
    await engine.started.get()
    newer = ready.complete(0, 4)
    assert await older.result() == {"items": []}
    assert not newer.answer.done()
    held.go.set()
    assert await newer.texts() == ["42"]
    assert engine.withdrawn == engine.requests[:1]


async def test_of_many_requests_only_the_newest_is_worked_on(
    ready: Editor, engine: ScriptedEngine
) -> None:
    ready.open("x = \n")
    sent = [ready.complete(0, 4) for _ in range(20)]
    assert [await one.texts() for one in sent[:-1]] == [[]] * 19
    assert await sent[-1].texts() == ["42"]
    assert len(engine.requests) == 1


async def test_documents_do_not_disturb_each_other(ready: Editor, engine: ScriptedEngine) -> None:
    engine.script = held = Held(engine)
    uris = ["file:///a.py", "file:///b.py"]
    sent = []
    for uri in uris:
        ready.open("x = \n", uri=uri)
        sent.append(ready.complete(0, 4, uri=uri))
        await engine.started.get()
    held.go.set()
    assert [await one.texts() for one in sent] == [["42"], ["42"]]


async def test_an_edit_lets_go_of_what_was_asked_before(
    ready: Editor, engine: ScriptedEngine
) -> None:
    engine.script = Stubborn(engine)
    ready.open("x = \n")
    sent = ready.complete(0, 4)
    await engine.started.get()
    ready.change(2, {"text": "x = 1\n"})
    assert await sent.items() == []
    engine.script.go.set()
    await ready.settled()
    assert len(engine.withdrawn) == 1


async def test_closing_lets_go_and_forgets(ready: Editor, engine: ScriptedEngine) -> None:
    engine.script = Held(engine)
    ready.open("x = \n")
    sent = ready.complete(0, 4)
    await engine.started.get()
    ready.notify("textDocument/didClose", {"textDocument": {"uri": "file:///project/example.py"}})
    assert await sent.items() == []
    assert len(ready.server.documents) == 0


async def test_cancelling_an_older_request_leaves_the_newer_alone(
    ready: Editor, engine: ScriptedEngine
) -> None:
    engine.script = held = Held(engine)
    ready.open("x = \n")
    older, newer = ready.complete(0, 4), ready.complete(0, 4)
    assert await older.items() == []
    ready.cancel(older.id)
    held.go.set()
    assert await newer.texts() == ["42"]


async def test_engine_failures_are_logged_and_not_shown(
    ready: Editor, engine: ScriptedEngine
) -> None:
    async def lost(request: Any) -> Any:
        raise WorkerLost("the worker went away")

    engine.script = lost
    ready.open("x = \n")
    assert await ready.complete(0, 4).items() == []
    assert "WorkerLost: the worker went away" in (await ready.said("window/logMessage"))["message"]
    assert ready.silent_about("window/showMessage")
    engine.script = None
    assert await ready.complete(0, 4).texts() == ["42"]


async def test_a_missing_model_is_said_once(ready: Editor, engine: ScriptedEngine) -> None:
    async def missing(request: Any) -> Any:
        raise ModelMissing("there is no model in /cache")

    engine.script = missing
    ready.open("x = \n")
    for _ in range(3):
        assert await ready.complete(0, 4).items() == []
    message = (await ready.said("window/showMessage"))["message"]
    assert "run `midfill model fetch embedded`" in message
    assert ready.silent_about("window/showMessage")


async def test_faults_of_ours_are_logged_and_answered(
    ready: Editor, engine: ScriptedEngine, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(request: Any) -> Any:
        raise ZeroDivisionError

    engine.script = broken
    ready.open("x = \n")
    assert await ready.complete(0, 4).result() == {"items": []}
    assert "ZeroDivisionError" in caplog.text


async def test_an_item_goes_on_from_what_is_selected_in_the_menu(
    ready: Editor, engine: ScriptedEngine
) -> None:
    engine.texts = ["join(x)", "split()"]
    ready.open("y = s.\n")
    span = {"start": {"line": 0, "character": 6}, "end": {"line": 0, "character": 6}}
    selected = {"range": span, "text": "split"}
    sent = ready.complete(0, 6, kind=1, selectedCompletionInfo=selected)
    assert await sent.texts() == ["split()"]


async def test_drafts_are_sent_to_clients_that_want_to_watch(
    editor: Editor, engine: ScriptedEngine, draft_event: Any
) -> None:
    await editor.initialize(options={"drafts": True})
    engine.drafts = (draft_event(1), draft_event(2))
    editor.open("x = \n", version=7)
    sent = editor.complete(0, 4)
    await sent.items()
    notes = [await editor.said("midfill/draft") for _ in engine.drafts]
    assert [note["step"] for note in notes] == [1, 2]
    assert {note["requestId"] for note in notes} == {sent.id}
    assert {(note["uri"], note["version"]) for note in notes} == {("file:///project/example.py", 7)}
    assert engine.requests[0].want_drafts


async def test_drafts_are_not_asked_for_otherwise(ready: Editor, engine: ScriptedEngine) -> None:
    ready.open("x = \n")
    await ready.complete(0, 4).items()
    assert not engine.requests[0].want_drafts


@pytest.mark.parametrize(
    ("text", "line", "character"),
    [
        ("", 0, 0),
        ("", 5, 5),
        ("x = 1", 0, 10_000),
        ("x = 1\n", 99, 0),
        ("\0" * 1000, 0, 500),
        ("x = '" + "a" * 200_000 + "'\n", 0, 150_000),
        ("漢" * 200_000, 0, 150_000),
        ("\ud800\n", 0, 1),
        ("\ufeffx = \n", 0, 0),
    ],
    ids=["empty", "empty-past", "column-past", "line-past", "nul", "long", "wide", "lone", "bom"],
)
async def test_bad_texts_and_places_get_a_list(
    ready: Editor, text: str, line: int, character: int
) -> None:
    ready.open(text)
    answer = await ready.complete(line, character).result()
    assert isinstance(answer["items"], list)
    ready.open("x = \n")
    assert await ready.complete(0, 4).texts() == ["42"]


async def test_an_unknown_language_is_filled_too(ready: Editor) -> None:
    ready.open("x = \n", uri="untitled:Untitled-1", language="klingon")
    assert await ready.complete(0, 4, uri="untitled:Untitled-1").texts() == ["42"]


async def test_a_file_that_is_too_large_is_left_alone_and_said_once(
    editor: Editor, engine: ScriptedEngine
) -> None:
    await editor.initialize(options={"maxFileBytes": 100})
    uri = "file:///project/large.py"
    for _ in range(2):
        editor.open("x" * 101, uri=uri)
        assert await editor.complete(0, 4, uri=uri).result() == {"items": []}
    message = (await editor.said("window/showMessage"))["message"]
    assert "inactive in large.py: it is too large" in message
    assert editor.silent_about("window/showMessage")
    assert engine.requests == []


async def test_a_file_of_50_mb_is_left_alone(ready: Editor) -> None:
    ready.open("x = 1\n" * 8_400_000)
    assert await ready.complete(0, 4).items() == []
    assert "too large" in (await ready.said("window/showMessage"))["message"]


async def test_a_file_that_grows_too_large_is_said_to_be(editor: Editor) -> None:
    await editor.initialize(options={"maxFileBytes": 100})
    editor.open("x = ")
    at = {"line": 0, "character": 4}
    editor.change(2, {"range": {"start": at, "end": at}, "text": "1" * 100})
    assert await editor.complete(0, 4).items() == []
    assert "too large" in (await editor.said("window/showMessage"))["message"]
