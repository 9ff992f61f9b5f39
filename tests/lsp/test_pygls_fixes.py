"""What pygls does otherwise, each with the upstream issue where there is one (pygls#N)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.protocol import default_converter

from midfill_lsp.framing import framed

if TYPE_CHECKING:
    from conftest import Editor, ScriptedEngine

INVALID_REQUEST, INVALID_PARAMS, PARSE_ERROR = -32600, -32602, -32700
NOT_INITIALIZED, CANCELLED = -32002, -32800


async def never(request: Any) -> Any:
    await asyncio.get_running_loop().create_future()


async def test_inline_completion_is_announced(editor: Editor) -> None:
    answer = await editor.initialize()
    assert answer["capabilities"]["inlineCompletionProvider"] == {}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_the_encoding_is_declared(editor: Editor, encoding: str) -> None:
    answer = await editor.initialize({"general": {"positionEncodings": [encoding, "utf-16"]}})
    assert answer["capabilities"]["positionEncoding"] == encoding


async def test_the_encoding_is_declared_to_a_client_that_says_nothing_of_it(
    editor: Editor,
) -> None:
    answer = await editor.initialize()
    assert answer["capabilities"]["positionEncoding"] == "utf-16"


async def test_parameters_that_do_not_decode_are_answered(ready: Editor) -> None:
    ready.open("x = ")
    error = await ready.post("textDocument/inlineCompletion", {"position": "here"}).answer
    assert error["error"]["code"] == INVALID_PARAMS
    assert "context" in error["error"]["message"]
    for params in (None, [], 3, {}):
        assert await ready.post("textDocument/inlineCompletion", params).code() == INVALID_PARAMS
    assert ready.silent_about("window/showMessage")


async def test_a_change_that_does_not_decode_makes_the_document_unknown(ready: Editor) -> None:
    ready.open("x = ")
    ready.notify("textDocument/didChange", {"textDocument": {"uri": "file:///project/example.py"}})
    assert await ready.complete(0, 4).items() == []
    assert ready.silent_about("window/showMessage")


async def test_an_answer_that_does_not_decode_fails_its_request(ready: Editor) -> None:
    ready.answers["workspace/applyEdit"] = {"failureReason": "?"}
    ready.open("x = 1\n")
    answer = await ready.fill((0, 4), (0, 5)).result()
    assert answer["applied"] is False
    assert "no use" in answer["reason"]


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b"[" * 100_000, b""])
async def test_what_is_no_json_is_answered(ready: Editor, body: bytes) -> None:
    answer = ready.expect(None)
    ready.send_bytes(framed(body))
    assert (await answer)["error"]["code"] == PARSE_ERROR


@pytest.mark.parametrize("message", [[], 1, {}, {"jsonrpc": "1.0", "id": 1, "method": "x"}])
async def test_what_is_no_message_is_answered(ready: Editor, message: Any) -> None:
    answer = ready.expect(None)
    ready.send(message)
    assert (await answer)["error"]["code"] == INVALID_REQUEST


async def test_objects_inside_a_message_are_not_taken_for_messages(editor: Editor) -> None:
    inner = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": 0}
    await editor.initialize(options={"inner": inner})
    assert "`inner`" in (await editor.said("window/showMessage"))["message"]


async def test_cancelling_is_answered_at_once_and_withdraws_the_work(
    ready: Editor, engine: ScriptedEngine
) -> None:
    engine.script = never
    ready.open("x = ")
    sent = ready.complete(0, 4)
    await engine.started.get()
    ready.cancel(sent.id)
    assert await sent.code() == CANCELLED
    await ready.settled()
    assert len(engine.withdrawn) == 1


async def test_cancelling_a_command_cancels_its_handler(
    ready: Editor, engine: ScriptedEngine
) -> None:
    engine.script = never
    ready.open("x = 1\n")
    sent = ready.fill((0, 4), (0, 5))
    await engine.started.get()
    ready.cancel(sent.id)
    assert await sent.code() == CANCELLED
    await ready.settled()
    assert len(engine.withdrawn) == 1
    assert ready.silent_about("workspace/applyEdit")


async def test_a_request_known_to_be_cancelled_is_not_begun(
    ready: Editor, engine: ScriptedEngine
) -> None:
    """pygls#517"""
    ready.open("x = ")
    sent = ready.complete(0, 4)
    ready.cancel(sent.id)
    assert await sent.code() == CANCELLED
    await ready.settled()
    assert engine.requests == []


async def test_cancelling_what_is_unknown_or_done_does_nothing(ready: Editor) -> None:
    ready.open("x = ")
    sent = ready.complete(0, 4)
    assert await sent.texts()
    ready.cancel(sent.id)
    ready.cancel("never sent")
    await ready.settled()


async def test_notifications_leave_nothing_behind(ready: Editor) -> None:
    ready.open("x = ")
    for version in range(2, 50):
        ready.change(version, {"text": "y = "})
    ready.notify("workspace/didChangeConfiguration", {"settings": {"midfill": {}}})
    await ready.complete(0, 4).items()
    await ready.settled()
    assert ready.server.protocol._request_futures == {}


async def test_unanswered_requests_leave_nothing_behind_once_given_up(ready: Editor) -> None:
    """pygls#608"""
    ready.unanswered.add("workspace/applyEdit")
    ready.open("x = 1\n")
    sent = ready.fill((0, 4), (0, 5))
    await ready.said("workspace/applyEdit")
    ready.cancel(sent.id)
    assert await sent.code() == CANCELLED
    assert ready.server.protocol._request_futures == {}
    assert ready.server.protocol._result_types == {}


async def test_a_late_answer_is_ignored(ready: Editor, caplog: pytest.LogCaptureFixture) -> None:
    ready.unanswered.add("workspace/configuration")
    items = types.ConfigurationParams([])
    given_up = ready.server.protocol.send_request("workspace/configuration", items, msg_id="a")
    given_up.cancel()
    ready.send({"jsonrpc": "2.0", "id": "a", "result": [None]})
    ready.send({"jsonrpc": "2.0", "id": "never asked", "error": {"code": -1, "message": ""}})
    await ready.settled()
    assert "unknown message id" not in caplog.text


async def test_progress_tokens_end_with_their_work(editor: Editor) -> None:
    """pygls#607"""
    await editor.initialize({"window": {"workDoneProgress": True}})
    editor.open("x = 1\n")
    await editor.fill((0, 4), (0, 5)).result()
    assert len(editor.server.progress_tokens) == 0
    assert editor.server.protocol.progress.tokens == {}


async def test_shutdown_with_requests_in_flight(ready: Editor, engine: ScriptedEngine) -> None:
    """pygls#606"""
    engine.script = never
    ready.open("x = 1\n")
    in_flight = [ready.complete(0, 4), ready.fill((0, 4), (0, 5))]
    for _ in in_flight:
        await engine.started.get()
    assert await ready.ask("shutdown") is None
    assert [await sent.code() for sent in in_flight] == [CANCELLED, CANCELLED]


async def test_after_shutdown_requests_are_refused_and_answers_taken_in(ready: Editor) -> None:
    """pygls#605"""
    ready.unanswered.add("workspace/configuration")
    items = types.ConfigurationParams([])
    future = ready.server.protocol.send_request("workspace/configuration", items)
    await ready.ask("shutdown")
    assert future.cancelled()
    assert (await ready.post("textDocument/inlineCompletion", {}).code()) == INVALID_REQUEST
    ready.notify("textDocument/didOpen", {})
    ready.unanswered.clear()
    late = ready.server.protocol.send_request("workspace/configuration", items)
    assert await asyncio.wrap_future(late) == (None,)


async def test_nothing_but_initialize_comes_first(editor: Editor) -> None:
    assert (await editor.error("textDocument/inlineCompletion", {}))["code"] == NOT_INITIALIZED
    editor.open("x = ")
    await editor.initialize()
    error = await editor.error("initialize", {"processId": None, "capabilities": {}})
    assert error["code"] == INVALID_REQUEST


async def test_exit_after_shutdown_ends_with_0(ready: Editor, engine: ScriptedEngine) -> None:
    ready.open("x = ")
    await ready.complete(0, 4).items()
    await ready.ask("shutdown")
    ready.notify("exit")
    assert await ready.ended() == 0
    assert engine.closed == 1


async def test_exit_without_shutdown_ends_with_1(ready: Editor) -> None:
    ready.notify("exit")
    assert await ready.ended() == 1


async def test_the_end_of_the_stream_ends_the_server(ready: Editor) -> None:
    assert await ready.end() == 1


async def test_a_client_that_is_gone_ends_the_server(ready: Editor) -> None:
    ready.gone.set()
    assert await ready.ended() == 1


async def test_lines_are_those_of_the_protocol(ready: Editor, engine: ScriptedEngine) -> None:
    """pygls#550, and form feeds"""
    engine.texts = ["d"]
    ready.open("a = '\f\u2028'\nb = \n")
    ready.change(2, {"range": span(1, 4, 1, 4), "text": "c."})
    assert (await ready.complete(1, 6).items())[0]["range"]["start"] == {
        "line": 1,
        "character": 6,
    }
    assert engine.requests[0].prefix.rstrip().endswith(("b =", "b = c."))
    await ready.complete(2, 0).items()


async def test_trigger_kind_0_is_an_invocation(ready: Editor, engine: ScriptedEngine) -> None:
    engine.texts = ["1", "2"]
    ready.open("x = ")
    assert await ready.complete(0, 4, kind=0).texts() == ["1", "2"]
    assert await ready.complete(0, 4, kind=1).texts() == ["1", "2"]
    assert await ready.complete(0, 4, kind=2).texts() == ["1"]
    assert await ready.complete(0, 4, kind=7).code() == INVALID_PARAMS


async def test_a_handler_sees_the_document_as_it_was_when_its_request_came(
    ready: Editor, engine: ScriptedEngine
) -> None:
    ready.open("x = ")
    sent = ready.complete(0, 4)
    ready.change(2, {"text": ""})
    assert await sent.items() == []
    assert engine.requests == []  # and what an edit has made pointless is not begun


async def test_faults_go_to_the_log(ready: Editor, caplog: pytest.LogCaptureFixture) -> None:
    ready.server.report_server_error(JsonRpcException("a fault"), JsonRpcException)
    assert "a fault" in caplog.text
    assert ready.silent_about("window/showMessage")


def test_upstream_still_refuses_trigger_kind_0() -> None:
    with pytest.raises(ValueError, match="0"):
        default_converter().structure(0, types.InlineCompletionTriggerKind)


def span(*numbers: int) -> dict[str, Any]:
    first_line, first, last_line, last = numbers
    return {
        "start": {"line": first_line, "character": first},
        "end": {"line": last_line, "character": last},
    }


async def test_answers_to_nothing_we_asked_do_no_harm(ready: Editor) -> None:
    for unknown in (1, "unknown", None):
        ready.send({"jsonrpc": "2.0", "id": unknown, "result": None})
    await ready.settled()


async def test_ids_and_methods_of_other_types_are_refused(ready: Editor) -> None:
    for wrong in ({"id": [1], "result": None}, {"id": {}, "method": "x"}, {"method": ["x"]}):
        refused = ready.expect(None)
        ready.send({"jsonrpc": "2.0"} | wrong)
        assert (await refused)["error"]["code"] == INVALID_REQUEST
