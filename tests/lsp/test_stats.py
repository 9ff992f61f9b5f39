"""`midfill/stats`: what a client that counts is told of each fill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Editor, ScriptedEngine

URI = "file:///project/example.py"
CAPABILITIES: dict[str, Any] = {
    "workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True}}
}


@pytest.fixture
async def counting(editor: Editor) -> Editor:
    await editor.initialize(CAPABILITIES, options={"stats": True})
    return editor


async def check(editor: Editor, **expected: Any) -> None:
    """The next notification says this, among other things."""
    told = await editor.said("midfill/stats")
    assert told | expected == told


async def test_a_completion(counting: Editor) -> None:
    counting.open("x = \n")
    sent = counting.complete(0, 4)
    assert await sent.texts() == ["42"]
    await check(counting, uri=URI, version=1, requestId=sent.id, reason=None, confidence=0.9)


async def test_a_selection(counting: Editor) -> None:
    counting.open("x = 1\n")
    sent = counting.fill((0, 4), (0, 5))
    assert await sent.result() == {"applied": True}
    await check(counting, requestId=sent.id, reason=None, confidence=0.9, atDeadline=False)


async def test_the_workers_account(counting: Editor) -> None:
    counting.open("x = \n")
    await counting.complete(0, 4).items()
    await check(counting, steps=1, tokens=1, totalMs=0.0, contextTokens=1, reusedTokens=0)


async def test_why_nothing_is_offered(counting: Editor, engine: ScriptedEngine) -> None:
    counting.open("x = 1\ny = \n")
    engine.texts = []
    await counting.complete(1, 4).items()
    await check(counting, confidence=None, reason="the model came to no result in time")
    engine.texts, engine.confidence = ["42"], 0.1
    assert await counting.complete(1, 4).items() == []
    await check(counting, confidence=None, reason="the model is too unsure of what it wrote (0.10)")
    engine.texts = ["1"]
    await counting.fill((0, 4), (0, 5)).result()
    await check(counting, reason="what the model wrote was refused (unchanged)")


async def test_nothing_is_said_of_what_the_model_was_not_asked(
    counting: Editor, engine: ScriptedEngine
) -> None:
    counting.open("x = 1\n")
    assert await counting.complete(0, 0).items() == []
    assert engine.requests == []
    assert counting.silent_about("midfill/stats")


async def test_nothing_is_said_to_others(ready: Editor) -> None:
    ready.open("x = \n")
    await ready.complete(0, 4).items()
    await ready.fill((0, 0), (0, 3)).result()
    assert ready.silent_about("midfill/stats")
