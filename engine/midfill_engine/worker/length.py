"""An end at a bracket, and the choice of a canvas's length before it is filled. Pure.

The choice is for models that see both sides of a canvas and cannot change its length on their way.
One with *empty* tokens needs none: they trail where it is too long, and it grows where it is full.
How a length is changed is `length_moves`' concern.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

START: Final = 8  # tokens
_QUOTES: Final = b"\"'`"
_ESCAPE: Final = ord("\\")
_GOING_ON: Final = b"([{,"
_PATIENCE: Final = 4  # lengths in a row that are no better, before a direction is given up
_SPREAD: Final = (1.0, 0.75, 1.35, 0.5, 2.0)  # lengths of the drafts around the chosen one


def tokens_to_overrun(tokens: Sequence[bytes], may_close: int) -> int | None:
    """How many tokens it takes to close more brackets than the text opens and `may_close` others.

    None if it does not. Braces do not count, since a line may close one and open another; nor do
    brackets between quotes, and those behind a quote that is never closed: such a text goes on.
    """
    balances = enumerate(_balances(tokens, b"([", b")]"), 1)
    return next((n for n, balance in balances if balance.least < -may_close), None)


def want_brackets(tokens: Sequence[bytes], must_close: int, *, single_line: bool) -> list[bool]:
    """For no token, the first, the first two …: whether that text may not end for a bracket.

    It leaves one open of its own, or of `must_close` before it. A single line may: more may follow
    below, behind an opening bracket or a comma, and a brace is closed there. What counts is as
    above, and in doubt nothing is wanted: within quotes, behind `#` and `/`, which may begin a
    comment or a pattern.
    """
    opening, closing = (b"([", b")]") if single_line else (b"([{", b")]}")
    balances = (_Balance(0, 0, 0, doubtful=False), *_balances(tokens, opening, closing))
    return [
        balance.own > -must_close
        and not balance.doubtful
        and not (single_line and balance.last in _GOING_ON)
        for balance in balances
    ]


@dataclass(frozen=True, slots=True)
class _Balance:
    """Brackets after a token: those the text has opened, less those it has closed."""

    own: int
    least: int  # the lowest it has come to on the way through the token
    last: int  # the last byte that is no blank; 0: there is none
    doubtful: bool


def _balances(tokens: Sequence[bytes], opening: bytes, closing: bytes) -> Iterator[_Balance]:
    own, quote, last, escaped, marked = 0, 0, 0, False, False
    for token in tokens:
        least = own
        for byte in token:
            if escaped:
                escaped = False
            elif quote:
                escaped = byte == _ESCAPE
                quote = 0 if byte == quote else quote
            elif byte in _QUOTES:
                quote = byte
            elif byte in opening:
                own += 1
            elif byte in closing:
                own -= 1
                least = min(least, own)
            else:
                marked = marked or byte in b"#/"
            last = last if byte in b" \t\r\n" else byte
        yield _Balance(own, least, last, doubtful=bool(quote) or marked)


def ends_in_word(left: bytes, right: bytes) -> bool:
    """Whether a word, or a character, goes on from one token to the next."""
    return _in_word(left[-1:]) and _in_word(right[:1])


def _in_word(byte: bytes) -> bool:
    return byte.isalnum() or byte == b"_" or byte >= b"\x80"


@dataclass(frozen=True, slots=True)
class BiasCurve:
    """How sure a model is at first sight of a hole of some length: a·e^(-bL) + c·e^(-dL) + e."""

    a: float
    b: float
    c: float
    d: float
    e: float

    def at(self, length: int) -> float:
        """Its value at a length in tokens."""
        return self.a * math.exp(-self.b * length) + self.c * math.exp(-self.d * length) + self.e


# The authors' own for LLaDA, Dream-Coder and DiffuCoder alike.
PUBLISHED_BIAS: Final = BiasCurve(a=1.00, b=1.77, c=0.56, d=0.06, e=0.24)


def probed_length(
    probe: Callable[[Sequence[int]], Sequence[float]],
    bias: BiasCurve,
    *,
    start: int,
    most: int,
) -> int:
    """Climb from `start` in both directions to the length of the highest calibrated confidence.

    Args:
        probe: the mean, over a hole's masks, of the likeliest token's probability in a first
            step; for several lengths at once. Each is asked for once.
        start: 1…most, in tokens.

    Source: "Diffusion LMs Can Approximate Optimal Infilling Lengths Implicitly"
    (arXiv:2602.00476), CAL, section 4; the bias curve is from its appendix A.
    """
    up, down = _Direction(start, 1, most), _Direction(start, -1, 1)
    best = start
    scores = {start: probe([start])[0] / bias.at(start)}
    while wanted := [*up.next_lengths(), *down.next_lengths()]:
        for length, found in zip(wanted, probe(wanted), strict=True):
            scores[length] = found / bias.at(length)
        for direction in (up, down):
            best = direction.climb(scores, best)
    return best


def lengths_around(best: int, count: int, most: int) -> list[int]:
    """Up to `count` lengths for drafts, the best one first; 1…most, each once."""
    spread = [min(max(round(best * factor), 1), most) for factor in _SPREAD]
    return list(dict.fromkeys(spread))[:count]


class _Direction:
    """One side of the climb."""

    def __init__(self, start: int, step: int, last: int) -> None:
        self._at = start  # the furthest length that has been looked at
        self._step = step
        self._left = abs(last - start)  # lengths there are beyond it
        self._worse = 0

    def next_lengths(self) -> list[int]:
        """What has to be known before it is clear whether to go on."""
        count = min(_PATIENCE - self._worse, self._left)
        return [self._at + self._step * (i + 1) for i in range(count)]

    def climb(self, scores: dict[int, float], best: int) -> int:
        """Go through the lengths just probed: the best length so far."""
        for length in self.next_lengths():
            better = scores[length] > scores[best]
            best = length if better else best
            self._worse = 0 if better else self._worse + 1
            self._at, self._left = length, self._left - 1
        return best
