"""Typing what an item begins with, on texts with the cursor marked by `¦`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midfill_infill import Edit
from midfill_lsp.documents import Document
from midfill_lsp.positions import Encoding, line_starts, position_at
from midfill_lsp.settings import DEFAULTS
from midfill_lsp.typed_through import TypedThrough

if TYPE_CHECKING:
    from conftest import Editor, ScriptedEngine

URI = "file:///project/example.py"
INVOKED, AUTOMATIC = 1, 2


class Window:
    """A text that a person types into, and what the server and the engine are asked meanwhile."""

    def __init__(self, editor: Editor, engine: ScriptedEngine, marked: str) -> None:
        self.editor = editor
        self.engine = engine
        self.version = 1
        self.caret, self.text = marked.index("¦"), marked.replace("¦", "")
        editor.open(self.text)

    def type(self, text: str, *, after: str = "") -> None:
        """`after` is what the editor adds behind the caret by itself."""
        self.replace(self.caret, self.caret, text + after)
        self.caret += len(text)

    def rub_out(self, count: int) -> None:
        self.replace(self.caret - count, self.caret, "")
        self.caret -= count

    def replace(self, start: int, end: int, text: str) -> None:
        where = {"start": self.position(start), "end": self.position(end)}
        self.text = self.text[:start] + text + self.text[end:]
        self.version += 1
        self.editor.change(self.version, {"range": where, "text": text})

    def reopen(self) -> None:
        self.editor.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
        self.editor.open(self.text)

    def position(self, offset: int) -> dict[str, int]:
        at = position_at(self.text, line_starts(self.text), offset, Encoding.Utf16)
        return {"line": at.line, "character": at.character}

    async def reused(self, rest: str) -> None:
        """The next automatic answer is this one, and it is not the engine's."""
        await self._check([rest], asks=0, kind=AUTOMATIC)

    async def filled(self, *texts: str, kind: int = AUTOMATIC, **context: Any) -> None:
        """The next answer is the engine's."""
        await self._check(list(texts), asks=1, kind=kind, **context)

    async def _check(self, texts: list[str], *, asks: int, **asking: Any) -> None:
        before, here = len(self.engine.requests), self.position(self.caret)
        items = await self.editor.complete(here["line"], here["character"], **asking).items()
        assert [item["insertText"] for item in items] == texts
        assert all(item["range"] == {"start": here, "end": here} for item in items)
        assert len(self.engine.requests) - before == asks


@pytest.fixture
async def window(ready: Editor, engine: ScriptedEngine) -> Window:
    """One in which `call(a)` has been offered at the cursor."""
    window = Window(ready, engine, "x = 1\ny = ¦\nz = 2\n")
    engine.texts = ["call(a)"]
    await window.filled("call(a)")
    engine.texts = ["other"]
    return window


async def test_what_is_left_is_the_answer(window: Window) -> None:
    await window.reused("call(a)")
    window.type("c")
    await window.reused("all(a)")
    window.type("al")
    window.type("l(")
    await window.reused("a)")


async def test_what_was_rubbed_out_is_left_again(window: Window) -> None:
    window.type("cal")
    await window.reused("l(a)")
    window.rub_out(2)
    await window.reused("all(a)")
    window.rub_out(1)
    await window.reused("call(a)")
    window.rub_out(1)
    await window.filled("other")


async def test_something_else_is_typed(window: Window) -> None:
    window.type("k")
    window.engine.texts = []
    await window.filled()
    window.rub_out(1)
    await window.reused("call(a)")
    window.type("x")
    window.engine.texts = ["y"]
    await window.filled("y")
    window.rub_out(1)
    await window.filled("y")


async def test_all_of_it_is_typed_or_accepted(window: Window) -> None:
    window.type("call(a)")
    window.engine.texts = []
    await window.filled()
    window.rub_out(1)
    await window.filled()


async def test_more_than_all_of_it_is_typed(window: Window) -> None:
    window.type("call(a).b")
    window.engine.texts = [" = 1"]
    await window.filled(" = 1")


async def test_a_bracket_that_the_editor_closes_by_itself(window: Window) -> None:
    window.type("call")
    await window.reused("(a)")
    window.type("(", after=")")
    await window.filled("other")


@pytest.mark.parametrize("old", ["x", "z"])
async def test_an_edit_elsewhere(window: Window, old: str) -> None:
    at = window.text.index(old)
    window.replace(at, at + 1, "w")
    await window.filled("other")


@pytest.mark.parametrize(("old", "new"), [("x", ""), ("x", "xx"), ("z", ""), ("z", "zz")])
async def test_an_edit_elsewhere_that_moves_the_text(window: Window, old: str, new: str) -> None:
    window.type("ca")
    at = window.text.index(old)
    window.replace(at, at + 1, new)
    window.caret += (len(new) - 1) * (at < window.caret)
    await window.filled("other")


async def test_the_caret_is_elsewhere(window: Window) -> None:
    window.type("ca")
    window.engine.texts = []
    window.caret += len("\nz = 2")
    await window.filled()
    window.caret -= len("\nz = 2")
    await window.reused("ll(a)")


async def test_what_is_asked_for_is_always_the_engines(window: Window) -> None:
    window.engine.texts = ["one", "two"]
    await window.filled("one", "two", kind=INVOKED)
    window.type("o")
    window.engine.texts = ["f"]
    await window.filled("f")


async def test_what_the_menu_selects_is_heeded(window: Window) -> None:
    here = window.position(window.caret)
    selected = {"range": {"start": here, "end": here}, "text": "oth"}
    await window.filled("other", selectedCompletionInfo=selected)
    await window.reused("call(a)")
    window.type("k")
    await window.filled(selectedCompletionInfo=selected)


async def test_under_other_settings_it_would_be_another_answer(window: Window) -> None:
    change = {"settings": {"midfill": {"quality": "best"}}}
    window.editor.notify("workspace/didChangeConfiguration", change)
    await window.editor.settled()
    assert len(window.editor.server.typed_through) == 0
    await window.filled("other")


async def test_settings_that_change_while_the_engine_works(
    ready: Editor, engine: ScriptedEngine
) -> None:
    go = asyncio.Event()

    async def held(request: Any) -> Any:
        await go.wait()
        return engine.healed(request)

    engine.script = held
    window = Window(ready, engine, "x = ¦\n")
    sent = ready.complete(0, 4)
    await engine.started.get()
    change = {"settings": {"midfill": {"maxTokens": 8}}}
    ready.notify("workspace/didChangeConfiguration", change)
    await ready.settled()
    go.set()
    assert await sent.texts() == ["42"]
    window.type("4")
    engine.texts = ["3"]
    await window.filled("3")


async def test_a_document_that_was_closed_or_opened_anew_is_another(window: Window) -> None:
    window.reopen()
    assert await window.editor.complete(1, 4).texts() == ["other"]
    window.engine.texts = ["third"]
    window.editor.open(window.text)
    assert await window.editor.complete(1, 4).texts() == ["third"]
    window.editor.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
    await window.editor.settled()
    assert len(window.editor.server.typed_through) == 0


async def test_nothing_is_kept_of_a_document_that_grows_too_large(
    editor: Editor, engine: ScriptedEngine
) -> None:
    await editor.initialize(options={"maxFileBytes": 100})
    window = Window(editor, engine, "x = ¦\n")
    await window.filled("42")
    window.type("4" * 100)
    await editor.settled()
    assert len(editor.server.typed_through) == 0


async def test_documents_have_an_answer_each(ready: Editor, engine: ScriptedEngine) -> None:
    uris = ["file:///a.py", "file:///b.py"]
    for uri, text in zip(uris, ["12", "34"], strict=True):
        engine.texts = [text]
        ready.open("x = \n", uri=uri)
        assert await ready.complete(0, 4, uri=uri).texts() == [text]
    assert [await ready.complete(0, 4, uri=uri).texts() for uri in uris] == [["12"], ["34"]]
    assert len(engine.requests) == 2


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
async def test_several_lines(ready: Editor, engine: ScriptedEngine, line_end: str) -> None:
    engine.texts = ["a = 1\n    return a"]
    text = "def f():\n    ¦\n\n\nx = 1\n".replace("\n", line_end)
    window = Window(ready, engine, text)
    whole = engine.texts[0].replace("\n", line_end)
    await window.filled(whole)
    window.type("a = 1")
    await window.reused(whole[5:])
    window.type(line_end + "    ")
    await window.reused("return a")
    window.type("r")
    await window.reused("eturn a")


async def test_a_line_break_that_is_not_the_documents(
    ready: Editor, engine: ScriptedEngine
) -> None:
    engine.texts = ["a = 1\n    return a"]
    window = Window(ready, engine, "def f():\r\n    ¦\r\n\r\n\r\nx = 1\r\n")
    await window.filled("a = 1\r\n    return a")
    window.type("a = 1\n    ")
    engine.texts = ["pass"]
    await window.filled("pass")


async def test_characters_of_two_code_units(ready: Editor, engine: ScriptedEngine) -> None:
    engine.texts = ["'😀漢😀'"]
    window = Window(ready, engine, "s = '😀'; x = ¦\ny = 1\n")
    await window.filled("'😀漢😀'")
    window.type("'😀")
    await window.reused("漢😀'")
    window.type("漢")
    await window.reused("😀'")
    window.type("😁")
    engine.texts = ["'"]
    await window.filled("'")


async def test_a_newer_request_takes_the_place_of_one_that_is_not_answered(
    window: Window,
) -> None:
    sent = [window.editor.complete(1, 4) for _ in range(3)]
    assert [await one.texts() for one in sent] == [[], [], ["call(a)"]]


async def test_no_stats_of_what_cost_nothing(editor: Editor, engine: ScriptedEngine) -> None:
    await editor.initialize(options={"stats": True})
    window = Window(editor, engine, "x = ¦\n")
    await window.filled("42")
    await editor.said("midfill/stats")
    window.type("4")
    await window.reused("2")
    assert editor.silent_about("midfill/stats")


def document(text: str) -> Document:
    return Document(URI, 1, "python", text, line_starts(text), Encoding.Utf16)


def test_only_insertions_can_be_typed() -> None:
    answers = TypedThrough()
    answers.keep(document("ab"), Edit(1, 1, "x"), DEFAULTS)
    answers.keep(document("ab"), Edit(1, 2, "x"), DEFAULTS)
    assert len(answers) == 0


FEW = st.text("ab\r\n😀", max_size=6)


@given(FEW, FEW, FEW, FEW, st.integers(0, 12))
def test_the_rest_makes_the_text_the_whole_answer_would_have(
    before: str, after: str, inserted: str, now: str, caret: int
) -> None:
    for text in (now, before + inserted[:caret] + after, before + now + after):
        check_rest(before, after, inserted, text, caret)
        check_rest(before, after, inserted, text, len(before) + caret)


def check_rest(before: str, after: str, inserted: str, text: str, caret: int) -> None:
    """There is a rest just where a slow look at the whole text says so."""
    caret = min(caret, len(text))
    answers = TypedThrough()
    answers.keep(document(before + after), Edit(len(before), len(before), inserted), DEFAULTS)
    rest = answers.rest(document(text), caret, DEFAULTS)
    count = caret - len(before)
    holds = 0 <= count < len(inserted) and text == before + inserted[:count] + after
    assert (rest is not None) == holds
    if rest is not None:
        assert rest.apply(text) == before + inserted + after
