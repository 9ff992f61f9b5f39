"""Turns the corpus into windows: which text, which holes, what is masked.

Owns the noise, the canvas lengths, the weights and the layout of packed rows. A window is a pure
function of (corpus, seed, index), so a run that resumes goes on with the very same data.

A window's prefix is encoded once and serves every hole in it; each group of holes with the same
end has one suffix. Canvas rows of all windows of a pass are packed without padding, by group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from midfill_engine.errors import TrainingError
from midfill_engine.model.vocabulary import EMPTY, MASK
from midfill_engine.training.byte_tokens import ByteTokens
from midfill_engine.training.config import TrainConfig
from midfill_engine.training.corpus import Corpus
from midfill_engine.training.holes import HoleGroup, choose_holes
from midfill_engine.training.sources import LANGUAGES

_PYTHON_SHARE: Final = 0.7
_FULL_NOISE_SHARE: Final = 0.4
_REVEAL_LEFT_SHARE: Final = 0.3
_MIN_NOISE: Final = 0.1
_MIN_PREFIX: Final = 2  # tokens


@dataclass(frozen=True, slots=True)
class Canvas:
    """Rows of one canvas. Row j sees `ids[j]` and predicts `targets[j]`, weighted; 0 = no loss."""

    ids: list[int]
    targets: list[int]
    weights: list[float]
    context: int  # prefix tokens whose keys it sees; also the position of its first row
    causal: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Canvases that share a suffix."""

    suffix: list[int]
    canvases: list[Canvas]


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a file, and the canvases cut into it."""

    prefix: np.ndarray  # [n] ids; canvases see slices of its keys
    groups: list[Group]
    language: str


class Batches:
    """The stream of windows of a run."""

    def __init__(
        self,
        corpus: Corpus,
        tokens: ByteTokens,
        config: TrainConfig,
        *,
        validation: bool = False,
    ) -> None:
        self._corpus, self._tokens, self._config = corpus, tokens, config
        rows = corpus.documents
        chosen = (rows["validation"] == validation) & (rows["length"] >= 64)
        self._documents = [
            np.flatnonzero(chosen & (rows["language"] == i)) for i in range(len(LANGUAGES))
        ]
        present = np.array([len(d) > 0 for d in self._documents])
        if not present.any():
            raise TrainingError(f"the corpus has no {'held-out ' * validation}files to learn from")
        other_share = (1 - _PYTHON_SHARE) / max(present[1:].sum(), 1)
        shares = present * [_PYTHON_SHARE, *[other_share] * (len(LANGUAGES) - 1)]
        self._shares = shares / shares.sum()
        weights = [np.minimum(rows["length"][d], 6000).astype(float) for d in self._documents]
        self._weights = [w / w.sum() if len(w) else w for w in weights]
        self._salt = 7919 if validation else 0

    def window(self, index: int) -> Window:
        """The `index`-th window. Tries places until one has holes."""
        rng = np.random.default_rng((self._config.seed, self._salt, index))
        while True:
            language = int(rng.choice(len(LANGUAGES), p=self._shares))
            document = int(rng.choice(self._documents[language], p=self._weights[language]))
            if window := self._cut(document, LANGUAGES[language], rng):
                return window

    def _cut(self, document: int, language: str, rng: np.random.Generator) -> Window | None:
        config, tokens = self._config, self._tokens
        ids = self._corpus.document(document)
        first = _window_start(ids, tokens, config.window_tokens, rng)
        text = tokens.decode(ids[first : first + config.window_tokens + config.suffix_tokens + 8])
        # A window may begin at a line's indentation: tokenize it as the product would.
        ids = np.array(tokens.encode(text), dtype=np.int64)
        ends = np.cumsum(tokens.lengths[ids])
        if int(ends[-1]) != len(text):
            return None  # not valid UTF-8 on its own
        limit = int(ends[min(len(ids), config.window_tokens) - 1])
        words = tokens.word_starts(text)
        maker = _CanvasMaker(tokens, config, text, ids, ends, words, rng)
        holes = choose_holes(text, words, language, limit, config.groups, config.starts, rng)
        groups = [group for hole in holes if (group := maker.group(hole))]
        if not groups:
            return None
        longest = max(canvas.context for group in groups for canvas in group.canvases)
        return Window(ids[:longest], groups, language)


def _window_start(
    ids: np.ndarray, tokens: ByteTokens, window: int, rng: np.random.Generator
) -> int:
    """The file's start, or the start of a line: one that is not indented where there is one."""
    if len(ids) <= window or rng.random() < 0.25:
        return 0
    guess = int(rng.integers(0, len(ids) - window // 2))
    fallback = 0
    for i in range(guess, min(guess + 400, len(ids) - window // 3)):
        before, here = (
            tokens.vocabulary.token_bytes[ids[i - 1]] if i else b"\n",
            tokens.vocabulary.token_bytes[ids[i]],
        )
        if before.endswith(b"\n"):
            if here[:1].isalpha() or here[:1] in (b"@", b"#", b"/"):
                return i
            fallback = fallback or i
    return fallback


@dataclass(frozen=True, slots=True)
class _CanvasMaker:
    """Makes the canvases of one window."""

    tokens: ByteTokens
    config: TrainConfig
    text: bytes
    ids: np.ndarray  # [n] of the whole window
    ends: np.ndarray  # [n] byte at which each token ends
    words: np.ndarray
    rng: np.random.Generator

    def group(self, hole: HoleGroup) -> Group | None:
        canvases: list[Canvas] = []
        for start in hole.starts:
            edge = self._left_edge(start)
            fill = self.tokens.encode(self.text[start : hole.end])
            if edge is None or len(fill) > max(self.config.canvas_lengths):
                continue
            if self.config.views != "causal":
                canvases.append(self._masked(*edge, fill))
            if self.config.views != "masked" and self.rng.random() < self.config.causal_share:
                canvases.append(_causal(*edge, fill))
        return Group(self._suffix(hole.end), canvases) if canvases else None

    def _left_edge(self, start: int) -> tuple[int, int] | None:
        """How many of the window's tokens are context, and the token after them, the first row's.

        An edge within a word is kept where the word's left part is one token, and not a blank,
        which would be one word with the blanks before it: that token is not in the cached context
        in any case.
        """
        word = int(self.words[np.searchsorted(self.words, start, side="right") - 1])
        context = int(np.searchsorted(self.ends, word, side="right"))
        if word == start:
            return (context - 1, int(self.ids[context - 1])) if context >= _MIN_PREFIX else None
        if self.text[word:start].isspace():
            return None
        part = self.tokens.encode(self.text[word:start])
        return (context, part[0]) if len(part) == 1 and context >= _MIN_PREFIX else None

    def _suffix(self, end: int) -> list[int]:
        """The suffix's ids, cut to a random length now and then; rarely none."""
        choice = self.rng.random()
        limit = self.config.suffix_tokens
        if choice < 0.08:
            return []
        if choice < 0.5:
            limit = int(self.rng.integers(6, limit))
        following = int(np.searchsorted(self.words, end))
        word = int(self.words[following])
        rest = self.tokens.encode(self.text[end:word]) if word > end else []
        after = int(np.searchsorted(self.ends, word, side="right"))
        return [*rest, *self.ids[after : after + limit].tolist()][:limit]

    def _masked(self, context: int, last: int, fill: list[int]) -> Canvas:
        length = self._length(len(fill))
        full = fill + [EMPTY] * (length - len(fill))
        masked = self._noise(length, len(fill))
        visible_empty = np.flatnonzero(~masked[len(fill) :])
        if len(visible_empty):  # right of an empty all is known
            masked[len(fill) + visible_empty[0] :] = False
        if not masked.any():
            masked[:] = True
        shown = np.where(masked, MASK, full)
        learnt = masked.copy()
        if self.config.corrupted_share:
            wrong = ~masked & (self.rng.random(length) < self.config.corrupted_share)
            wrong[len(fill) :] = False
            shown[wrong] = self.rng.choice(self.ids, int(wrong.sum()))
            learnt |= wrong
        ids = [last, *shown.tolist()]
        weights = [
            float(m) if i <= len(fill) else m * self.config.empty_weight
            for i, m in enumerate(learnt)
        ]
        return Canvas(ids, [*full, 0], [*weights, 0.0], context, causal=False)

    def _length(self, needed: int) -> int:
        """A canvas length: the tightest one most often, at times any that fits."""
        fitting = [n for n in self.config.canvas_lengths if n >= needed]
        if len(fitting) == 1 or self.rng.random() < 0.55:
            return fitting[0]
        return int(self.rng.choice(fitting[: 3 if self.rng.random() < 0.8 else None]))

    def _noise(self, length: int, fill: int) -> np.ndarray:
        """[length] bool: what is masked."""
        if self.rng.random() < _REVEAL_LEFT_SHARE:
            return np.arange(length) >= self.rng.integers(0, fill + 1)
        if self.rng.random() < _FULL_NOISE_SHARE / (1 - _REVEAL_LEFT_SHARE):
            return np.ones(length, dtype=bool)
        return self.rng.random(length) < self.rng.uniform(_MIN_NOISE, 1.0)


def _causal(context: int, last: int, fill: list[int]) -> Canvas:
    targets = [*fill, EMPTY]
    return Canvas([last, *fill], targets, [1.0] * len(targets), context, causal=True)


def left_to_right(windows: Sequence[Window]) -> list[Window]:
    """The same rows as a left-to-right model has them: the text before each, and no suffix."""
    return [replace(w, groups=[_left_to_right(group) for group in w.groups]) for w in windows]


def _left_to_right(group: Group) -> Group:
    canvases = [
        replace(canvas, ids=[canvas.ids[0], *canvas.targets[:-1]], causal=True)
        for canvas in group.canvases
    ]
    return Group([], canvases)


@dataclass(frozen=True, slots=True)
class Span:
    """A group's rows, and how much of its window's prefix and of its suffix they may see."""

    first: int
    end: int
    window: int
    suffix: int
    context: int


@dataclass(frozen=True, slots=True)
class PackedRows:
    """The canvas rows of a pass as arrays. Groups are consecutive; so are a group's canvases."""

    ids: np.ndarray  # [R]
    positions: np.ndarray  # [R]
    targets: np.ndarray  # [R]
    weights: np.ndarray  # [R] float32
    causal: np.ndarray  # [R] bool
    spans: list[Span]
    visible: list[np.ndarray]  # per group: [rows, suffix + context + rows] bool


def pack(windows: Sequence[Window]) -> PackedRows:
    """Lay out rows and who sees whom: all of the suffix, the own context, the own canvas."""
    spans: list[Span] = []
    first = 0
    for number, window in enumerate(windows):
        for group in window.groups:
            context = max(canvas.context for canvas in group.canvases)
            end = first + sum(len(canvas.ids) for canvas in group.canvases)
            spans.append(Span(first, end, number, len(group.suffix), context))
            first = end
    groups = [group for window in windows for group in window.groups]
    canvases = [canvas for group in groups for canvas in group.canvases]
    sizes = [len(canvas.ids) for canvas in canvases]
    positions = [np.arange(c.context, c.context + len(c.ids)) for c in canvases]
    return PackedRows(
        np.array([i for c in canvases for i in c.ids]),
        np.concatenate(positions),
        np.array([i for c in canvases for i in c.targets]),
        np.array([w for c in canvases for w in c.weights], dtype=np.float32),
        np.repeat([c.causal for c in canvases], sizes),
        spans,
        [_visible(group, span) for group, span in zip(groups, spans, strict=True)],
    )


def _visible(group: Group, span: Span) -> np.ndarray:
    rows, before = span.end - span.first, span.suffix + span.context
    seen = np.zeros((rows, before + rows), dtype=bool)
    seen[:, : span.suffix] = True
    row = 0
    for canvas in group.canvases:
        own = slice(row, row + len(canvas.ids))
        seen[own, span.suffix : span.suffix + canvas.context] = True
        square = np.ones((len(canvas.ids), len(canvas.ids)), dtype=bool)
        seen[own, before:][:, own] = np.tril(square) if canvas.causal else square
        row = own.stop
    return seen
