"""Problems cut into source files: holes of the kinds that people leave, and places without one.

Owns what is cut where, and the order in which problems are drawn: the same seed gives the same
sequence, of which a smaller evaluation takes a shorter beginning. Pure.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain, islice, zip_longest
from typing import Final

from midfill_lsp.evaluation.packages import Source
from midfill_lsp.evaluation.problems import Problem, Suite
from midfill_lsp.evaluation.scene import Scene, Span, scene_of

_MOST_CHARACTERS: Final = 100  # of a hole on one line
_BLOCK_LINES: Final = 5
_TRIES: Final = 12  # places of one kind that are looked at in one file at a time
_TELLING: Final = re.compile(r"\w\W*\w")  # a hole with less in it says nothing
_STOP: Final = re.compile(r"[(=.\[{,:] ?(?=\S)|\b(?:return|in|if|not|and|or|new|await|let|const) ")
_SIMPLE: Final = re.compile(r"(statement|declaration|assignment)\Z")
_LIST: Final = re.compile(r"block|module|program|source_file|translation_unit|list\Z|body|compound")
_BLOCK: Final = re.compile(r"(block|body|compound_statement)\Z")
_ARGUMENTS: Final = re.compile(r"arguments?(_list)?\Z")
_BRACKETED: Final = re.compile(r"arguments?(_list)?\Z|parameter(s|_list)\Z|\A(array|list|tuple)\Z")
_VALUE: Final = re.compile(r"expression|call|invocation|attribute|operator|subscript")
_CLOSING: Final = re.compile(r"[ )\]};:,]*\Z")

_Range = tuple[int, int]  # code points; empty where nothing is missing
_Finder = Callable[[Scene], list[_Range]]


def draw(sources: Sequence[Source], suite: Suite, wanted: int, seed: int) -> list[Problem]:
    """So many problems, the languages in turn and their kinds in turn, as far as there are any."""
    by_language: dict[str, list[Source]] = {}
    for source in sources:
        by_language.setdefault(source.language, []).append(source)
    names = sorted(by_language)
    decks = [_deck(by_language[name], suite, seed, turn) for turn, name in enumerate(names)]
    return list(islice(_in_turn(decks), wanted))


def _deck(sources: Sequence[Source], suite: Suite, seed: int, turn: int) -> Iterator[Problem]:
    """The problems of one language. Each begins with another kind, lest one be early everywhere."""
    dice = random.Random(f"{seed} {suite} {sources[0].language}")
    files = _shuffled(sources, dice)
    look = cache(scene_of)
    kinds = list(_HOLES if suite == "held-out" else _COMPLETE)
    first = turn % len(kinds)
    return _in_turn(
        [
            _of_kind(files, look, suite, kind, random.Random(dice.random()))
            for kind in kinds[first:] + kinds[:first]
        ]
    )


def _of_kind(
    files: Sequence[Source],
    look: Callable[[Source], Scene | None],
    suite: Suite,
    kind: str,
    dice: random.Random,
) -> Iterator[Problem]:
    """The problems of one kind, each from another file until all had their turn."""
    find = (_HOLES if suite == "held-out" else _COMPLETE)[kind]
    taken: set[tuple[str, str, _Range]] = set()
    first = dice.randrange(len(files))
    while True:
        before = len(taken)
        for source in chain(files[first:], files[:first]):
            scene = look(source)
            place = scene and _place(scene, find(scene), taken, dice)
            if scene and place:
                taken.add((source.package, source.path, place))
                yield _problem(scene, suite, kind, *place)
        if len(taken) == before:
            return


def _place(
    scene: Scene,
    places: Sequence[_Range],
    taken: set[tuple[str, str, _Range]],
    dice: random.Random,
) -> _Range | None:
    """One of some places, in code, that was not taken before."""
    for place in dice.sample(places, min(len(places), _TRIES)):
        known = (scene.source.package, scene.source.path, place) in taken
        if not known and scene.in_code(*place):
            return place
    return None


def _in_turn(decks: Sequence[Iterator[Problem]]) -> Iterator[Problem]:
    """One problem of each deck, then the next of each."""
    for problems in zip_longest(*decks):
        yield from (problem for problem in problems if problem is not None)


def _shuffled(sources: Sequence[Source], dice: random.Random) -> list[Source]:
    """One file of each package, then the next of each."""
    piles: dict[str, list[Source]] = {}
    for source in dice.sample(sources, len(sources)):
        piles.setdefault(source.package, []).append(source)
    rounds = zip_longest(*(piles[name] for name in sorted(piles)))
    return [source for source in chain.from_iterable(rounds) if source is not None]


def _problem(scene: Scene, suite: Suite, kind: str, start: int, end: int) -> Problem:
    source = scene.source
    return Problem(
        name=f"{source.package}/{source.path}:{start}-{end}",
        suite=suite,
        kind=kind,
        language=source.language,
        package=source.package,
        text=source.text[:start] + source.text[end:],
        cursor=start,
        expected=source.text[start:end],
    )


def _fits(scene: Scene, place: _Range) -> bool:
    start, end = place
    text = scene.text[start:end]
    return end - start <= _MOST_CHARACTERS and "\n" not in text and bool(_TELLING.search(text))


def _whole_lines(scene: Scene) -> list[_Range]:
    """A line without its indentation."""
    lines = (scene.line_of(start) for start in scene.line_starts)
    places = ((end - len(scene.text[start:end].lstrip()), end) for start, end in lines)
    return [place for place in places if _fits(scene, place)]


def _line_rests(scene: Scene) -> list[_Range]:
    """From where a person pauses in a line, to its end."""
    places = (
        (start + stop.end(), end)
        for start, end in _whole_lines(scene)
        for stop in _STOP.finditer(scene.text[start:end])
    )
    return [place for place in places if _fits(scene, place)]


def _insides(scene: Scene) -> list[_Range]:
    """All that is in a pair of brackets."""
    return _spans(scene, _BRACKETED, lambda span: (span.start + 1, span.end - 1))


def _expressions(scene: Scene) -> list[_Range]:
    """A value, where its line goes on behind it."""
    return [
        (start, end)
        for start, end in _spans(scene, _VALUE, lambda span: (span.start, span.end))
        if scene.before(start).strip() and not _CLOSING.match(scene.behind(end))
    ]


def _bodies(scene: Scene) -> list[_Range]:
    """All of a body of a few lines."""
    places = []
    for span in scene.nodes:
        start, end = _inner(scene, span) if _BLOCK.search(span.kind) else (0, 0)
        lines = scene.text[start:end].count("\n") + 1
        if start < end and lines <= _BLOCK_LINES and _TELLING.search(scene.text[start:end]):
            places.append((start, end))
    return places


def _inner(scene: Scene, span: Span) -> _Range:
    """A block without braces and the blanks inside them, if it has lines of its own; else empty."""
    start, end = span.start, span.end
    if scene.text[start:end][:1] == "{" and scene.text[start:end][-1:] == "}":
        start, end = start + 1, end - 1
        inner = scene.text[start:end]
        start += len(inner) - len(inner.lstrip())
        end -= len(inner) - len(inner.rstrip())
    alone = not scene.before(start).strip() and not scene.behind(end).strip()
    return (start, end) if start < end and alone else (start, start)


def _spans(scene: Scene, kinds: re.Pattern[str], part: Callable[[Span], _Range]) -> list[_Range]:
    places = (part(span) for span in scene.nodes if kinds.search(span.kind))
    return [place for place in places if _fits(scene, place)]


def _statement_ends(scene: Scene) -> list[_Range]:
    """The end of a line that is a statement."""
    return [
        (span.end, span.end)
        for span in scene.nodes
        if _SIMPLE.search(span.kind) and _LIST.search(span.parent)
        if scene.one_line(span.start, span.end) and not scene.before(span.start).strip()
        if scene.line_of(span.end)[1] == span.end
    ]


def _block_ends(scene: Scene) -> list[_Range]:
    """The end of the line that ends a block of several lines."""
    return [
        (span.end, span.end)
        for span in scene.nodes
        if _BLOCK.search(span.kind) and not scene.one_line(span.start, span.end)
        if scene.line_of(span.end)[1] == span.end
    ]


def _argument_ends(scene: Scene) -> list[_Range]:
    """Behind the bracket that ends a call's arguments, where the line does not go on."""
    return [
        (span.end, span.end)
        for span in scene.nodes
        if _ARGUMENTS.search(span.kind) and scene.text[span.end - 1] == ")"
        if scene.one_line(span.start, span.end) and _CLOSING.match(scene.behind(span.end))
    ]


_HOLES: Final[dict[str, _Finder]] = {
    "rest of line": _line_rests,
    "whole line": _whole_lines,
    "inside brackets": _insides,
    "expression": _expressions,
    "block": _bodies,
}
_COMPLETE: Final[dict[str, _Finder]] = {
    "after a statement": _statement_ends,
    "after a block": _block_ends,
    "after arguments": _argument_ends,
}
