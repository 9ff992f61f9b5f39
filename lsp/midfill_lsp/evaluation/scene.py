"""A source file taken apart: what a hole may be cut along.

Owns the syntax nodes that matter, in code points. Knows nothing of problems.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from midfill_infill.languages import facts_for
from midfill_infill.syntax import parse
from midfill_lsp.evaluation.packages import Source

_LINE: Final = re.compile(r"[^\n]*")
_TEXT_NODES: Final = re.compile(r"comment|string|char_literal|template_substitution")


@dataclass(frozen=True, slots=True)
class Span:
    """A named node, `[start, end)`."""

    kind: str
    parent: str  # the kind of the node it is in
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Scene:
    """A file, its lines and its nodes."""

    source: Source
    line_starts: tuple[int, ...]
    nodes: tuple[Span, ...]  # in code, by start
    texts: tuple[Span, ...]  # comments and strings

    @property
    def text(self) -> str:
        return self.source.text

    def line_of(self, offset: int) -> tuple[int, int]:
        """The line of an offset: `[start, end)`, without its break."""
        start = self.line_starts[bisect_right(self.line_starts, offset) - 1]
        match = _LINE.match(self.text, start)
        assert match is not None
        return start, match.end()

    def before(self, offset: int) -> str:
        """What is on the offset's line before it."""
        return self.text[self.line_of(offset)[0] : offset]

    def behind(self, offset: int) -> str:
        """What is on the offset's line behind it."""
        return self.text[offset : self.line_of(offset)[1]]

    def one_line(self, start: int, end: int) -> bool:
        """Whether there is no line break in between."""
        return "\n" not in self.text[start:end]

    def in_code(self, start: int, end: int) -> bool:
        """Whether neither end lies inside a comment or a string."""
        return not any(
            span.start < offset < span.end or (span.start <= start and end <= span.end)
            for span in self.texts
            for offset in (start, end)
        )


def scene_of(source: Source) -> Scene | None:
    """Take a file apart; None where its grammar cannot make sense of it."""
    facts = facts_for(source.language)
    parsed = parse("", source.text, "", facts) if facts else None
    if parsed is None or parsed.root.has_error:
        return None
    code_points = _code_points(source.text)
    nodes, texts = [], []
    pending = [(parsed.root, "")]
    while pending:
        node, parent = pending.pop()
        start, end = code_points[node.start_byte], code_points[node.end_byte]
        span = Span(node.type, parent, start, end)
        if _TEXT_NODES.search(node.type):
            texts.append(span)
            continue
        nodes.append(span)
        pending += [(child, node.type) for child in node.named_children]
    starts = (0, *(match.end() for match in re.finditer("\n", source.text)))
    ordered = tuple(sorted(nodes, key=lambda span: (span.start, span.end)))
    return Scene(source, starts, ordered, tuple(texts))


def _code_points(text: str) -> range | list[int]:
    """By byte offset of the text in UTF-8: the code points before it."""
    if text.isascii():
        return range(len(text) + 1)
    continuation = (byte & 0xC0 != 0x80 for byte in text.encode())
    return [0, *accumulate(continuation)]
