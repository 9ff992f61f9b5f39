"""The parser: how many faults a grammar sees in a piece of text.

Owns tree-sitter, and is the only module in which positions are bytes. Grammars are imported when
a language is first parsed. Knows nothing of holes.

A generalized LR parser that recovers from errors can take minutes over a few thousand characters
of nonsense, so a parse is given up after a number of steps that sound code stays far below. Steps
and not time, so that the same text has the same outcome on every machine.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from typing import Final

from tree_sitter import Language as Grammar
from tree_sitter import Node, Parser, Point

from midfill_infill.languages.language import Language

# The parser reports every so many operations. Code takes 4 to 17 reports a kilobyte.
_REPORTS: Final = 20
_REPORTS_PER_KILOBYTE: Final = 20


@dataclass(frozen=True, slots=True)
class Parsed:
    """A text `before + middle + after` and where its middle is, in bytes of UTF-8."""

    root: Node
    start_byte: int
    end_byte: int


def parse(before: str, middle: str, after: str, language: Language) -> Parsed | None:
    """Parse the three pieces as one text; None if that takes too many steps.

    What UTF-8 cannot hold is parsed as "?".
    """
    left, hole, right = (piece.encode("utf-8", "replace") for piece in (before, middle, after))
    source = left + hole + right
    reports_left = _REPORTS + _REPORTS_PER_KILOBYTE * len(source) // 1000

    def read(offset: int, _point: Point) -> bytes:
        return source[offset:]

    def is_too_long(_offset: int, _has_error: bool) -> bool:
        nonlocal reports_left
        reports_left -= 1
        return reports_left < 0

    try:
        tree = Parser(_grammar(language.grammar)).parse(read, progress_callback=is_too_long)
    except ValueError:  # how the binding says that the callback ended the parse
        return None
    return Parsed(tree.root_node, len(left), len(left) + len(hole))


def enclosing_bytes(parsed: Parsed) -> tuple[int, int]:
    """Bytes before and behind the middle that its outermost enclosing node covers.

    That is the function, class or other item of the file that the middle lies in. Where the middle
    lies between items, or faults leave no sound item around it, it is the whole text.
    """
    root = parsed.root
    for child in root.children:
        around = child.start_byte < parsed.start_byte and parsed.end_byte < child.end_byte
        if around and child.is_named and not child.is_error:
            return parsed.start_byte - child.start_byte, child.end_byte - parsed.end_byte
    return parsed.start_byte, root.end_byte - parsed.end_byte


def count_faults(parsed: Parsed, bytes_before: int, bytes_behind: int) -> int:
    """Error and missing nodes that touch the middle widened by so many bytes on each side."""
    start, end = parsed.start_byte - bytes_before, parsed.end_byte + bytes_behind
    faults = 0
    pending = [parsed.root]
    while pending:
        node = pending.pop()
        if node.end_byte < start or node.start_byte > end:
            continue
        faults += node.is_error or node.is_missing
        if node.has_error:
            pending += node.children
    return faults


@cache
def _grammar(source: tuple[str, str]) -> Grammar:
    module, function = source
    return Grammar(getattr(importlib.import_module(module), function)())
