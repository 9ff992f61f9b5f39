"""One problem of an evaluation: a document, a cursor in it, and what should come of it.

Owns the value and the canvas it becomes. Knows nothing of where problems come from, nor of models.
"""

from dataclasses import dataclass
from typing import Literal

from midfill_infill import Canvas, Hole, build_canvas, hole_at

Suite = Literal["humaneval", "held-out", "complete"]
"""HumanEval's missing lines; holes in packages held out of training; places in the same packages
where the code is complete, so that nothing should be offered."""


@dataclass(frozen=True, slots=True)
class Problem:
    """`text` with something missing at `cursor`; offsets are code points, line ends "\\n"."""

    name: str  # tells it apart from all others
    suite: Suite
    kind: str  # of hole, or of complete place
    language: str  # our key
    package: str  # where the text is from
    text: str
    cursor: int
    expected: str  # what was taken out; "" where nothing is missing
    test: str | None = None  # Python that follows the whole text and raises if it is wrong

    @property
    def whole(self) -> str:
        """The text as it was written."""
        return self.filled(self.expected)

    def filled(self, new_text: str) -> str:
        """The text with something put in at the cursor."""
        return self.text[: self.cursor] + new_text + self.text[self.cursor :]

    def canvas(self) -> Canvas | None:
        """What the model is asked; None where midfill sees no hole.

        Of a HumanEval problem it is known that one line is missing, so it is not asked whether a
        hole is there and of what kind.
        """
        if self.suite == "humaneval":
            hole: Hole | None = Hole(self.cursor, self.cursor, "line_rest")
        else:
            hole = hole_at(self.text, self.cursor, self.language)
        return build_canvas(self.text, hole, self.language) if hole else None
