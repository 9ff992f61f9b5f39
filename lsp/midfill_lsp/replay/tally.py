"""What the notes of a typing session come to: the figures of `midfill bench`.

Owns what each figure means. Pure.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from midfill_lsp.replay.typist import Asked, Session


@dataclass(frozen=True, slots=True)
class Spread:
    """How a time is spread, in milliseconds."""

    p50_ms: float
    p95_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True)
class Split:
    """Where the time of a fill goes, in milliseconds, as means. Together: request to answer."""

    editor: float  # between editor and server, and back
    canvas: float  # finding the hole and what is around it
    protocol: float  # between server and worker, and back
    queue: float  # until the worker takes it in
    encode: float  # passes over new tokens of the context
    steps: float  # denoising steps
    score: float  # choosing between drafts
    others: float  # in the worker, while it did something else
    filters: float  # from the model's text to an edit


@dataclass(frozen=True, slots=True)
class Figures:
    """One session's. Where nothing was counted, a figure is None."""

    keystrokes: int
    seconds: float
    requests: int
    superseded: int  # the next key was pressed before the answer came
    without_hole: int  # of the others: no item, and the server asked the model nothing
    typed_through: int  # of the others: the rest of an item that is being typed, without the model
    filled: int  # of the others: the model answered
    request_to_answer: Spread | None  # as the editor sees it, of what was typed through or filled
    model_to_answer: Spread | None  # the same of what was filled. All below is of that, too.
    in_worker: Spread | None  # from the worker's receipt to its answer
    split: Split | None
    offered: int  # answers with an item
    at_deadline: int  # fills that were cut short
    steps_per_fill: float | None  # the mean of denoising steps
    tokens_per_step: float | None  # tokens of the chosen fills by steps
    reused_share: float | None  # context tokens that came from the cache, of all
    letting_go: Spread | None  # from the next key to the answer of what it superseded


def tally(session: Session) -> Figures:
    """The figures of a session whose requests are all answered."""
    superseded = [one for one in session.asked if one.superseded is not None]
    rest = [one for one in session.asked if one.superseded is None]
    filled = [one for one in rest if one.stats is not None]
    typed_through = [one for one in rest if one.stats is None and one.offered]
    to_answer = [_elapsed_ms(one.sent, one) for one in filled]
    at_once = [_elapsed_ms(one.sent, one) for one in typed_through]
    return Figures(
        keystrokes=session.keystrokes,
        seconds=session.seconds,
        requests=len(session.asked),
        superseded=len(superseded),
        without_hole=len(rest) - len(filled) - len(typed_through),
        typed_through=len(typed_through),
        filled=len(filled),
        request_to_answer=spread(at_once + to_answer),
        model_to_answer=spread(to_answer),
        in_worker=spread(_stats(filled, "totalMs")),
        split=_split(filled),
        offered=sum(one.offered for one in filled),
        at_deadline=sum(map(bool, _stats(filled, "atDeadline"))),
        steps_per_fill=_ratio(sum(_stats(filled, "steps")), len(filled)),
        tokens_per_step=_ratio(sum(_stats(filled, "tokens")), sum(_stats(filled, "steps"))),
        reused_share=_ratio(
            sum(_stats(filled, "reusedTokens")), sum(_stats(filled, "contextTokens"))
        ),
        letting_go=spread([_elapsed_ms(one.superseded, one) for one in superseded]),
    )


def spread(values: Sequence[float]) -> Spread | None:
    """The median, the 95th percentile (nearest rank) and the largest of some values."""
    if not values:
        return None
    ordered = sorted(values)
    rank = [ordered[math.ceil(share * len(ordered)) - 1] for share in (0.5, 0.95, 1)]
    return Spread(*rank)


def _split(filled: Sequence[Asked]) -> Split | None:
    if not filled:
        return None

    def mean(name: str) -> float:
        return sum(_stats(filled, name)) / len(filled)

    whole = sum(_elapsed_ms(one.sent, one) for one in filled) / len(filled)
    canvas, engine, filters = mean("canvasMs"), mean("engineMs"), mean("filtersMs")
    worker = ("queueMs", "encodeMs", "denoiseMs", "scoreMs")
    queue, encode, steps, score = map(mean, worker)
    return Split(
        editor=whole - canvas - engine - filters,
        canvas=canvas,
        protocol=engine - mean("totalMs"),
        queue=queue,
        encode=encode,
        steps=steps,
        score=score,
        others=mean("totalMs") - queue - encode - steps - score,
        filters=filters,
    )


def _elapsed_ms(since: float | None, asked: Asked) -> float:
    assert since is not None
    assert asked.answered is not None
    return 1000 * (asked.answered - since)


def _stats(filled: Sequence[Asked], name: str) -> list[float]:
    return [one.stats[name] for one in filled if one.stats is not None]


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
