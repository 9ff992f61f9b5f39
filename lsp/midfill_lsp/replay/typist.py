"""Types a passage into an editor at a pace, and asks for completions as editors do.

Owns when a request is sent and what is noted of it. What the notes come to is `tally`'s concern.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from midfill_lsp.replay.editor import Editor
from midfill_lsp.replay.keystrokes import Passage

# An editor asks when no key has been pressed for so long.
DEBOUNCE_S: Final = 0.075


@dataclass(slots=True)
class Asked:
    """One automatic request. Times are the loop's, in seconds."""

    msg_id: int
    sent: float
    answer: asyncio.Future[Any]
    answered: float | None = None
    superseded: float | None = None  # when the next key was pressed, if before the answer
    offered: bool = False  # the answer has an item
    stats: dict[str, Any] | None = None  # the server's, if it asked the model


@dataclass(frozen=True, slots=True)
class Session:
    """A passage typed."""

    keystrokes: int
    seconds: float
    asked: tuple[Asked, ...]


class Typist:
    """Types into one editor, at the end of `passage.before`."""

    def __init__(self, editor: Editor, passage: Passage) -> None:
        self._editor = editor
        self._passage = passage
        self._offset = len(passage.before)
        self._asked: dict[int, Asked] = {}
        self._loop = asyncio.get_running_loop()
        self._begun = self._loop.time()
        editor.on_stats = self._note_stats
        editor.show(passage.before + passage.after)

    async def warm_up(self) -> None:
        """Ask once where typing begins, so that connecting and the first context are not counted.

        Raises:
            ReplayError: the server fails.
        """
        await self._ask().answer
        self._asked.clear()
        self._begun = self._loop.time()

    async def at_human_pace(self, pauses: Sequence[float]) -> Session:
        """Type with these pauses; ask whenever one is long enough for an editor to do so."""
        for stroke, pause in zip(self._passage.strokes, pauses, strict=True):
            self._type(stroke)
            await asyncio.sleep(min(pause, DEBOUNCE_S))
            if pause >= DEBOUNCE_S:
                self._ask()
                await asyncio.sleep(pause - DEBOUNCE_S)
        return await self._session()

    async def at_full_pace(self) -> Session:
        """Ask after each stroke, and press the next key as soon as the answer is there."""
        for stroke in self._passage.strokes:
            self._type(stroke)
            await self._ask().answer
        return await self._session()

    async def _session(self) -> Session:
        asked = tuple(self._asked.values())
        await asyncio.gather(*(one.answer for one in asked))
        return Session(len(self._passage.strokes), self._loop.time() - self._begun, asked)

    def _type(self, stroke: str) -> None:
        for one in self._asked.values():
            if one.answered is None and one.superseded is None:
                one.superseded = self._loop.time()
        self._editor.replace(self._offset, self._offset, stroke)
        self._offset += len(stroke)

    def _ask(self) -> Asked:
        sent = self._loop.time()
        msg_id, answer = self._editor.complete(self._offset, automatic=True)
        asked = Asked(msg_id, sent, answer)
        self._asked[msg_id] = asked
        answer.add_done_callback(lambda answer: self._note_answer(asked))
        return asked

    def _note_answer(self, asked: Asked) -> None:
        asked.answered = self._loop.time()
        if asked.answer.exception() is None:
            asked.offered = bool(asked.answer.result()["items"])

    def _note_stats(self, params: Any) -> None:
        if (asked := self._asked.get(params["requestId"])) is not None:
            asked.stats = params
