"""What a person would type to write a part of a file, and how long each key takes them.

Pure, and the same for the same text and seed. Knows nothing of servers and clocks.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

# A line break brings its indentation along, as editors indent by themselves.
_STROKE: Final = re.compile(r"(?:\r\n|\n|\r)[ \t]*|.", re.DOTALL)
_START_SHARE: Final = 0.4  # how far into the file typing begins

_MEDIAN_PAUSE_S: Final = 0.11
_SPREAD: Final = 0.4  # of the pauses' logarithms
_SHORTEST_PAUSE_S: Final = 0.03
# Keys come in bursts: now and then, and before a new line is begun, somebody thinks.
_THOUGHT_SHARE: Final = 0.06
_THOUGHT_S: Final = 0.8


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a file that is typed anew, in its place."""

    before: str
    after: str  # begins where the line ends on which typing ends
    strokes: tuple[str, ...]


def passage(text: str, characters: int) -> Passage:
    """A passage of so many characters, or as many as there are, from a line in the first half on.

    What is on the rest of its last line is taken out too: a person types at the end of a line.
    """
    latest = min(int(len(text) * _START_SHARE), max(len(text) - characters, 0))
    start = max(text.rfind("\n", 0, latest), text.rfind("\r", 0, latest)) + 1
    end = min(start + characters, len(text))
    line_end = re.compile(r"[\r\n]|\Z").search(text, end)
    assert line_end is not None
    typed = _STROKE.findall(text[start:end])
    return Passage(text[:start], text[line_end.start() :], tuple(typed))


def human_pauses(strokes: Sequence[str], seed: int) -> list[float]:
    """Seconds that pass after each stroke: some 5 strokes a second on the whole."""
    dice = random.Random(seed)
    return [_pause(stroke, dice) for stroke in strokes]


def _pause(stroke: str, dice: random.Random) -> float:
    pause = _MEDIAN_PAUSE_S * dice.lognormvariate(0, _SPREAD)
    thinks = dice.random() < _THOUGHT_SHARE or stroke[0] in "\r\n"
    thought = _THOUGHT_S * dice.lognormvariate(0, _SPREAD) if thinks else 0.0
    return max(pause + thought, _SHORTEST_PAUSE_S)
