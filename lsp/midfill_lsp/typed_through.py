"""Answers that are being typed: what is left of them is the next answer, and costs no model's time.

Owns the last automatic answer shown in each open document, at most one, and when it still holds:
the document is what it was but for the answer's first characters, which stand where the answer
was offered, up to the caret. What is left then makes the same text of the document as the whole
answer would have, so that nothing needs to be filtered anew. Knows nothing of who asks and how an
answer comes about.
"""

from dataclasses import dataclass

from midfill_infill import Edit
from midfill_lsp.documents import Document
from midfill_lsp.settings import Settings


@dataclass(frozen=True, slots=True)
class Answer:
    """An insertion that was offered. Offsets are in code points."""

    text: str  # the document's, before the insertion: the snapshot's own string
    offset: int
    inserted: str
    settings: Settings  # it might have been another one under others

    def typed(self, text: str, caret: int) -> int | None:
        """How many of its first characters have been typed, if that is all that has changed."""
        count = caret - self.offset
        if count != len(text) - len(self.text) or not 0 <= count <= len(self.inserted):
            return None
        # What is cheap comes first: the rest looks at each character of the document once.
        same = (
            self.inserted.startswith(text[self.offset : caret])
            and text.endswith(self.text[self.offset :])
            and text.startswith(self.text[: self.offset])
        )
        return count if same else None


class TypedThrough:
    """The last automatic answer shown in each document, by URI."""

    def __init__(self) -> None:
        self._answers: dict[str, Answer] = {}

    def __len__(self) -> int:
        return len(self._answers)

    def keep(self, document: Document, edit: Edit, settings: Settings) -> None:
        """Remember what is shown, instead of what was before. Only insertions can be typed."""
        self.forget(document.uri)
        if edit.start == edit.end:
            answer = Answer(document.text, edit.start, edit.new_text, settings)
            self._answers[document.uri] = answer

    def rest(self, document: Document, caret: int, settings: Settings) -> Edit | None:
        """What is left to type of the answer. None if it does not hold, or all of it is there."""
        answer = self._answers.get(document.uri)
        if answer is None or answer.settings != settings:
            return None
        typed = answer.typed(document.text, caret)
        if typed is None:
            return None
        if typed == len(answer.inserted):
            self.forget(document.uri)
            return None
        return Edit(caret, caret, answer.inserted[typed:])

    def forget(self, uri: str) -> None:
        """Let go of a document's answer, if there is one."""
        self._answers.pop(uri, None)

    def clear(self) -> None:
        """Let go of all answers."""
        self._answers.clear()
