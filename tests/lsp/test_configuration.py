"""Settings: initial, pushed and pulled; what is wrong with them is said once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conftest import Editor, ScriptedEngine

PULLING = {"workspace": {"configuration": True}}


def push(editor: Editor, settings: Any) -> None:
    editor.notify("workspace/didChangeConfiguration", {"settings": settings})


async def test_initial_settings(editor: Editor) -> None:
    await editor.initialize(options={"quality": "best"})
    assert editor.server.settings.automatic_quality == "best"


async def test_pushed_settings_under_our_name_or_bare(ready: Editor) -> None:
    push(ready, {"midfill": {"maxTokens": 5}})
    await ready.settled()
    assert ready.server.settings.max_tokens == 5
    push(ready, {"maxTokens": 6})
    await ready.settled()
    assert ready.server.settings.max_tokens == 6


async def test_settings_of_other_servers_are_not_ours(ready: Editor) -> None:
    push(ready, {"pylsp": {"plugins": {}}, "gopls": {}})
    push(ready, {})
    await ready.settled()
    assert ready.silent_about("window/showMessage")
    push(ready, {"quality": {"invoked": "best"}})
    await ready.settled()
    assert ready.server.settings.invoked_quality == "best"


async def test_pushed_settings_lie_over_the_initial_ones(editor: Editor) -> None:
    await editor.initialize(options={"maxTokens": 5, "drafts": True})
    push(editor, {"midfill": {"maxTokens": 7}})
    await editor.settled()
    assert (editor.server.settings.max_tokens, editor.server.settings.drafts) == (7, True)
    push(editor, {"midfill": {}})
    await editor.settled()
    assert editor.server.settings.max_tokens == 5


async def test_settings_are_pulled_where_the_client_has_that(editor: Editor) -> None:
    editor.answers["workspace/configuration"] = [{"maxTokens": 9}]
    await editor.initialize(PULLING)
    assert (await editor.said("workspace/configuration"))["items"] == [{"section": "midfill"}]
    await editor.settled()
    assert editor.server.settings.max_tokens == 9
    editor.answers["workspace/configuration"] = [{"maxTokens": 8}]
    push(editor, None)
    await editor.said("workspace/configuration")
    await editor.settled()
    assert editor.server.settings.max_tokens == 8


async def test_a_client_that_does_not_tell_its_settings(editor: Editor) -> None:
    editor.answers["workspace/configuration"] = {"code": -32603, "message": "not now"}
    await editor.initialize(PULLING, options={"maxTokens": 3})
    await editor.said("workspace/configuration")
    assert "not now" in (await editor.said("window/logMessage"))["message"]
    assert editor.server.settings.max_tokens == 3


async def test_a_client_that_never_answers_does_not_matter(editor: Editor) -> None:
    editor.unanswered.add("workspace/configuration")
    await editor.initialize(PULLING)
    editor.open("x = \n")
    assert await editor.complete(0, 4).texts() == ["42"]


async def test_changes_are_registered_for(editor: Editor) -> None:
    dynamic = {"workspace": {"didChangeConfiguration": {"dynamicRegistration": True}}}
    await editor.initialize(dynamic)
    (registration,) = (await editor.said("client/registerCapability"))["registrations"]
    assert registration["method"] == "workspace/didChangeConfiguration"
    assert registration["registerOptions"] == {"section": "midfill"}


async def test_what_is_wrong_is_said_once_and_the_server_runs(editor: Editor) -> None:
    wrong = {"qualty": "best", "maxTokens": "many", "drafts": True}
    await editor.initialize(options=wrong)
    push(editor, {"midfill": wrong})
    await editor.settled()
    message = (await editor.said("window/showMessage"))["message"]
    assert "`qualty`" in message
    assert "`maxTokens`" in message
    assert "\n" not in message
    assert editor.silent_about("window/showMessage")
    assert editor.server.settings.drafts is True
    editor.open("x = \n")
    assert await editor.complete(0, 4).texts() == ["42"]


async def test_another_model_is_another_engine(editor: Editor, engine: ScriptedEngine) -> None:
    await editor.initialize(options={"model": "/models/a"})
    editor.open("x = \n")
    await editor.complete(0, 4).items()
    push(editor, {"midfill": {"model": "/models/b"}})
    await editor.complete(0, 4).items()
    push(editor, {"midfill": {"model": "/models/b", "maxTokens": 4}})
    await editor.complete(0, 4).items()
    assert engine.models == ["/models/a", "/models/b"]
    assert engine.closed == 1
