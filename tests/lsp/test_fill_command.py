"""The code action on a selection, and the command behind it. Selections lie between two `¦`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from midfill_engine.errors import ModelMissing, WorkerUnavailable
from midfill_lsp.positions import Encoding, line_starts, position_at

if TYPE_CHECKING:
    from conftest import Editor, ScriptedEngine

URI = "file:///project/example.py"
WITH_PROGRESS = {
    "window": {"workDoneProgress": True},
    "workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True}},
}


def selected(editor: Editor, marked: str, encoding: Encoding = Encoding.Utf16) -> dict[str, Any]:
    """Open the text, and give the range between the marks."""
    before, between, after = marked.split("¦")
    text = before + between + after
    editor.open(text)
    starts = line_starts(text)
    first = position_at(text, starts, len(before), encoding)
    last = position_at(text, starts, len(before + between), encoding)
    return {
        "start": {"line": first.line, "character": first.character},
        "end": {"line": last.line, "character": last.character},
    }


async def actions(editor: Editor, where: dict[str, Any], **context: Any) -> list[dict[str, Any]]:
    params = {
        "textDocument": {"uri": URI},
        "range": where,
        "context": {"diagnostics": []} | context,
    }
    offered: list[dict[str, Any]] = await editor.ask("textDocument/codeAction", params)
    return offered


async def test_a_selection_has_an_action_bound_to_its_version(ready: Editor) -> None:
    where = selected(ready, "x = ¦1¦\n")
    (action,) = await actions(ready, where)
    assert action["kind"] == "refactor.rewrite"
    assert action["command"]["command"] == "midfill.fill"
    assert action["command"]["arguments"] == [{"uri": URI, "version": 1, "range": where}]


async def test_no_selection_has_none(ready: Editor) -> None:
    assert await actions(ready, selected(ready, "x = ¦¦1\n")) == []
    assert (
        await actions(
            ready, {"start": {"line": 0, "character": 50}, "end": {"line": 0, "character": 60}}
        )
        == []
    )


@pytest.mark.parametrize(
    ("only", "count"),
    [
        ([], 1),
        (["refactor"], 1),
        (["refactor.rewrite"], 1),
        (["quickfix", "refactor.rewrite"], 1),
        (["quickfix"], 0),
        (["refactor.extract"], 0),
        (["ref"], 0),
        (["refactor.rewrite.other"], 0),
    ],
)
async def test_the_kind_that_was_asked_for_counts(
    ready: Editor, only: list[str], count: int
) -> None:
    assert len(await actions(ready, selected(ready, "x = ¦1¦\n"), only=only)) == count


async def test_a_client_without_code_actions_gets_a_command(editor: Editor) -> None:
    await editor.initialize()
    (command,) = await actions(editor, selected(editor, "x = ¦1¦\n"))
    assert command["command"] == "midfill.fill"


@pytest.mark.parametrize("encoding", list(Encoding))
async def test_the_command_applies_a_versioned_edit(editor: Editor, encoding: Encoding) -> None:
    await editor.initialize(WITH_PROGRESS | {"general": {"positionEncodings": [encoding.value]}})
    where = selected(editor, "s = '漢😀'; x = ¦1 + 1¦\n", encoding)
    argument = {"uri": URI, "version": 1, "range": where}
    params = {"command": "midfill.fill", "arguments": [argument]}
    assert await editor.ask("workspace/executeCommand", params) == {"applied": True}
    (change,) = (await editor.said("workspace/applyEdit"))["edit"]["documentChanges"]
    assert change["textDocument"] == {"uri": URI, "version": 1}
    assert change["edits"] == [{"range": where, "newText": "42"}]


async def test_a_client_without_versions_gets_a_plain_edit(editor: Editor) -> None:
    await editor.initialize({"workspace": {"applyEdit": True}})
    where = selected(editor, "x = ¦1¦\n")
    await editor.fill((0, 4), (0, 5)).result()
    edit = (await editor.said("workspace/applyEdit"))["edit"]
    assert edit == {"changes": {URI: [{"range": where, "newText": "42"}]}}


async def check_not_filled(editor: Editor, reason: str, **more: Any) -> None:
    """The command says why it did nothing, to the caller and to the user."""
    answer = await editor.fill((0, 4), (0, 5), **more).result()
    assert answer["applied"] is False
    assert reason in answer["reason"]
    assert reason in (await editor.said("window/showMessage"))["message"]


async def test_a_version_that_has_passed(ready: Editor) -> None:
    ready.open("x = 1\n", version=2)
    await check_not_filled(ready, "has changed")
    assert ready.silent_about("workspace/applyEdit")


async def test_any_version_will_do_for_one_that_names_none(ready: Editor) -> None:
    ready.open("x = 1\n", version=2)
    assert await ready.fill((0, 4), (0, 5), argument={"version": None}).result() == {
        "applied": True
    }


async def test_an_edit_while_the_engine_works(ready: Editor, engine: ScriptedEngine) -> None:
    async def never(request: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    engine.script = never
    ready.open("x = 1\n")
    sent = ready.fill((0, 4), (0, 5))
    await engine.started.get()
    ready.change(2, {"text": "x = 12\n"})
    assert "has changed" in (await sent.result())["reason"]
    assert ready.silent_about("workspace/applyEdit")


async def test_what_cannot_be_filled(ready: Editor, engine: ScriptedEngine) -> None:
    await check_not_filled(ready, "not open")
    ready.open("x = 1\n")
    engine.texts = []
    await check_not_filled(ready, "no result in time")
    engine.texts = ["1"]
    await check_not_filled(ready, "refused (unchanged)")


async def test_an_editor_that_does_not_apply_the_edit(ready: Editor) -> None:
    ready.open("x = 1\n")
    ready.answers["workspace/applyEdit"] = {"applied": False, "failureReason": "read-only"}
    await check_not_filled(ready, "read-only")
    ready.answers["workspace/applyEdit"] = {"code": -32603, "message": "cannot"}
    await check_not_filled(ready, "cannot")


async def test_an_editor_that_cannot_apply_edits(editor: Editor) -> None:
    await editor.initialize()
    editor.open("x = 1\n")
    await check_not_filled(editor, "cannot apply edits")


async def test_engine_failures_are_shown_as_the_user_has_asked(
    ready: Editor, engine: ScriptedEngine
) -> None:
    async def unavailable(request: Any) -> Any:
        raise WorkerUnavailable("no worker")

    async def missing(request: Any) -> Any:
        raise ModelMissing("no model")

    ready.open("x = 1\n")
    engine.script = unavailable
    await check_not_filled(ready, "no worker")
    engine.script = missing
    await check_not_filled(ready, "no model")


@pytest.mark.parametrize(
    "params",
    [
        {"command": "midfill.other"},
        {"command": "midfill.fill"},
        {"command": "midfill.fill", "arguments": []},
        {"command": "midfill.fill", "arguments": [None]},
        {"command": "midfill.fill", "arguments": [{"uri": URI}]},
        {"command": "midfill.fill", "arguments": [{"uri": URI, "range": {}}]},
        {"command": "midfill.fill", "arguments": [{"uri": 1, "range": None}]},
    ],
)
async def test_arguments_that_do_not_fit(ready: Editor, params: dict[str, Any]) -> None:
    assert (await ready.error("workspace/executeCommand", params))["code"] == -32602


async def test_progress_is_shown_where_the_client_can(
    editor: Editor, engine: ScriptedEngine, draft_event: Any
) -> None:
    go = asyncio.Event()

    async def held(request: Any) -> Any:
        await go.wait()
        return engine.healed(request)

    engine.script = held
    await editor.initialize(WITH_PROGRESS)
    editor.open("x = 1\n")
    sent = editor.fill((0, 4), (0, 5))
    token = (await editor.said("window/workDoneProgress/create"))["token"]
    begun = await editor.said("$/progress")
    assert begun["token"] == token
    assert (begun["value"]["kind"], begun["value"]["cancellable"]) == ("begin", True)
    go.set()
    assert await sent.result() == {"applied": True}
    assert (await editor.said("$/progress"))["value"]["kind"] == "end"


async def test_progress_goes_by_the_clients_own_token(
    ready: Editor, engine: ScriptedEngine, draft_event: Any
) -> None:
    engine.drafts = (draft_event(1),)
    ready.open("x = 1\n")
    await ready.fill((0, 4), (0, 5), workDoneToken="mine").result()
    said = [await ready.said("$/progress") for _ in range(3)]
    assert {one["token"] for one in said} == {"mine"}
    assert [one["value"]["kind"] for one in said] == ["begin", "report", "end"]
    assert said[1]["value"]["message"] == "step 1"


async def test_progress_is_not_shown_where_the_client_cannot(ready: Editor) -> None:
    ready.open("x = 1\n")
    await ready.fill((0, 4), (0, 5)).result()
    assert ready.silent_about("window/workDoneProgress/create")
    assert ready.silent_about("$/progress")


async def test_a_client_that_never_consents_to_progress_does_not_hold_the_fill_up(
    editor: Editor,
) -> None:
    await editor.initialize(WITH_PROGRESS)
    editor.unanswered.add("window/workDoneProgress/create")
    editor.open("x = 1\n")
    assert await editor.fill((0, 4), (0, 5)).result() == {"applied": True}
    assert editor.silent_about("$/progress")
    assert editor.server.protocol._request_futures == {}


async def test_a_client_that_refuses_progress(editor: Editor) -> None:
    await editor.initialize(WITH_PROGRESS)
    editor.answers["window/workDoneProgress/create"] = {"code": -32601, "message": "no such"}
    editor.open("x = 1\n")
    assert await editor.fill((0, 4), (0, 5)).result() == {"applied": True}
    assert editor.silent_about("$/progress")


async def test_pressing_cancel_gives_up(ready: Editor, engine: ScriptedEngine) -> None:
    async def never(request: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    engine.script = never
    ready.open("x = 1\n")
    sent = ready.fill((0, 4), (0, 5), workDoneToken="mine")
    await engine.started.get()
    ready.notify("window/workDoneProgress/cancel", {"token": "another"})
    ready.notify("window/workDoneProgress/cancel", {"token": "mine"})
    assert "given up" in (await sent.result())["reason"]
    await ready.settled()
    assert len(engine.withdrawn) == 1


async def test_a_completion_does_not_take_a_commands_place(
    ready: Editor, engine: ScriptedEngine
) -> None:
    go = asyncio.Event()

    async def held(request: Any) -> Any:
        await go.wait()
        return engine.healed(request)

    engine.script = held
    ready.open("x = 1\ny = \n")
    command, completion = ready.fill((0, 4), (0, 5)), ready.complete(1, 4)
    for _ in range(2):
        await engine.started.get()
    go.set()
    assert await command.result() == {"applied": True}
    assert await completion.texts() == ["42"]
