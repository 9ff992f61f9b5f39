"""Chooses holes in a window of source text.

Owns the distribution of holes: rest of a line, whole lines, blocks, brackets, expressions, random
spans. Pure: bytes and a random generator in, byte offsets out. Knows nothing of tokens; the
caller checks that an edge suits the tokenizer.

Holes come in groups that share their end, so that one encoded suffix serves them all.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from tree_sitter import Language, Node, Parser

_GRAMMARS: Final = {
    "python": ("tree_sitter_python", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
    "go": ("tree_sitter_go", "language"),
    "rust": ("tree_sitter_rust", "language"),
    "java": ("tree_sitter_java", "language"),
    "c": ("tree_sitter_c", "language"),
    "cpp": ("tree_sitter_cpp", "language"),
}
_KINDS: Final = ("line", "block", "bracket", "expression", "random")
_SHARES: Final = (0.52, 0.14, 0.13, 0.15, 0.06)
_LINE: Final = re.compile(rb"[^\n]*[^\s]")
_TRIGGERS: Final = frozenset(b"(=.[{,: ")
_NOTHING_SHARE: Final = 0.04  # holes in which nothing is missing
_MAX_BYTES: Final = 260


@dataclass(frozen=True, slots=True)
class HoleGroup:
    """Holes `text[start:end]` for every start, in bytes; empty where nothing is missing."""

    end: int
    starts: tuple[int, ...]
    kind: str


@dataclass(frozen=True, slots=True)
class _Scene:
    """A window, taken apart once."""

    text: bytes
    words: np.ndarray  # byte offsets of word starts, ascending
    lines: list[tuple[int, int]]  # content of non-blank lines, without indentation
    brackets: list[tuple[int, int]]  # insides of bracket pairs
    nodes: list[tuple[int, int]]  # expressions on one line


def choose_holes(
    text: bytes,
    words: np.ndarray,
    language: str,
    limit: int,
    groups: int,
    starts: int,
    rng: np.random.Generator,
) -> list[HoleGroup]:
    """Up to `groups` groups of up to `starts` holes, all ending before byte `limit`, by end."""
    scene = _scene(text[:limit], words[words < limit], language)
    chosen: dict[int, HoleGroup] = {}
    for _ in range(groups * 5):
        if len(chosen) == groups:
            break
        kind = _KINDS[int(rng.choice(len(_KINDS), p=_SHARES))]
        if (found := _CHOOSERS[kind](scene, rng)) is None:
            continue
        end, candidates = found
        kept = _settle(scene, end, candidates, starts, rng)
        if kept and end not in chosen:
            chosen[end] = HoleGroup(end, kept, kind)
    return sorted(chosen.values(), key=lambda group: group.end)


def _settle(
    scene: _Scene, end: int, candidates: list[int], starts: int, rng: np.random.Generator
) -> tuple[int, ...]:
    """Move starts before blanks, as the product does, and drop what is too long."""
    settled: list[int] = []
    for start in candidates:
        start = len(scene.text[:start].rstrip())
        if start > 0 and start < end <= start + _MAX_BYTES and start not in settled:
            settled.append(start)
    settled = settled[:starts]
    if rng.random() < _NOTHING_SHARE and scene.text[end - 1 : end].strip():
        settled[-1:] = [end]
    return tuple(settled)


def _line(scene: _Scene, rng: np.random.Generator) -> tuple[int, list[int]] | None:
    if len(scene.lines) < 4:
        return None
    begin, end = scene.lines[int(rng.integers(2, len(scene.lines)))]
    starts = [begin, *_inside(scene, begin, end, 2, rng)]
    return end, [starts[i] for i in rng.permutation(len(starts))] if rng.random() < 0.5 else starts


def _block(scene: _Scene, rng: np.random.Generator) -> tuple[int, list[int]] | None:
    count = int(rng.integers(2, 6))
    if len(scene.lines) < count + 2:
        return None
    last = int(rng.integers(count + 1, len(scene.lines)))
    first = scene.lines[last - count + 1]
    starts = [first[0], *_inside(scene, *first, 1, rng), scene.lines[last - count + 2][0]]
    return scene.lines[last][1], starts


def _bracket(scene: _Scene, rng: np.random.Generator) -> tuple[int, list[int]] | None:
    if not scene.brackets:
        return None
    begin, end = scene.brackets[int(rng.integers(len(scene.brackets)))]
    return end, [begin, *_inside(scene, begin, end, 2, rng)]


def _expression(scene: _Scene, rng: np.random.Generator) -> tuple[int, list[int]] | None:
    if not scene.nodes:
        return None
    begin, end = scene.nodes[int(rng.integers(len(scene.nodes)))]
    return end, [begin, *_inside(scene, begin, end, 1, rng)]


def _random(scene: _Scene, rng: np.random.Generator) -> tuple[int, list[int]] | None:
    if len(scene.words) < 60:
        return None
    first = int(rng.integers(20, len(scene.words) - 1))
    last = min(first + int(rng.integers(1, 36)), len(scene.words) - 1)
    begin, end = int(scene.words[first]), int(scene.words[last])
    end = len(scene.text[:end].rstrip())
    return end, [begin, *_inside(scene, begin, end, 1, rng)]


_Chooser = Callable[[_Scene, np.random.Generator], tuple[int, list[int]] | None]
_CHOOSERS: Final[dict[str, _Chooser]] = {
    "line": _line,
    "block": _block,
    "bracket": _bracket,
    "expression": _expression,
    "random": _random,
}


def _inside(scene: _Scene, begin: int, end: int, count: int, rng: np.random.Generator) -> list[int]:
    """Points of a span where a person may stop typing: more often after `(`, `=`, `.`, a blank."""
    low, high = np.searchsorted(scene.words, (begin + 1, end))
    points = scene.words[low:high]
    if not len(points):
        return []
    likely = np.array(
        [3.0 if scene.text[p - 1] in _TRIGGERS or scene.text[p] == 32 else 1.0 for p in points]
    )
    return [
        int(p)
        for p in rng.choice(
            points, size=min(count, len(points)), replace=False, p=likely / likely.sum()
        )
    ]


def _scene(text: bytes, words: np.ndarray, language: str) -> _Scene:
    lines = []
    for match in _LINE.finditer(text):
        content = match.group()
        lines.append((match.start() + len(content) - len(content.lstrip()), match.end()))
    return _Scene(text, words, lines[:-1], _brackets(text), _expressions(text, language))


def _brackets(text: bytes) -> list[tuple[int, int]]:
    """Insides of `()`, `[]`, `{}`; quotes are ignored, a window may begin inside one anyway."""
    open_at: list[int] = []
    found = []
    for match in re.finditer(rb"[()\[\]{}]", text):
        if match.group() in b"([{":
            open_at.append(match.end())
        elif open_at:
            begin, end = open_at.pop(), len(text[: match.start()].rstrip())
            if begin < end <= begin + _MAX_BYTES:
                found.append((begin, end))
    return found


@cache
def _parser(language: str) -> Parser:
    module, function = _GRAMMARS[language]
    return Parser(Language(getattr(importlib.import_module(module), function)()))


def _expressions(text: bytes, language: str) -> list[tuple[int, int]]:
    """Named nodes within one line, other than the first thing on it; none without a grammar."""
    if language not in _GRAMMARS:
        return []
    spans: set[tuple[int, int]] = set()
    stack: list[Node] = [_parser(language).parse(text).root_node]
    while stack:
        node = stack.pop()
        begin, end = node.start_byte, node.end_byte
        if end - begin < 2:
            continue
        stack.extend(node.named_children)
        one_line = node.start_point.row == node.end_point.row and end - begin <= 90
        if one_line and text[:begin].rpartition(b"\n")[2].strip():
            spans.add((begin, end))
    return sorted(spans)
