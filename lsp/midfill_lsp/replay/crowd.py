"""Many clients of one worker at once: what each of them gets.

Owns what they ask for, and what the figures mean. Each client is a person at another place of a
file, who types a few letters again and again and asks after each, as soon as the answer before is
there. There is no deadline, so that answers can be compared with those to a client alone.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from midfill_engine.client import EngineClient
from midfill_engine.protocol import FillRequest, FillResult
from midfill_infill import build_canvas, hole_at
from midfill_lsp.errors import SourceError
from midfill_lsp.filling import request_for
from midfill_lsp.replay.tally import Spread, spread
from midfill_lsp.settings import DEFAULTS, Effort

_TYPED: Final = (0, 3, 6)  # letters of a line that stand there when somebody asks
_NO_DEADLINE_MS: Final = 100_000
_EFFORT: Final = Effort(DEFAULTS.automatic_quality, _NO_DEADLINE_MS, DEFAULTS.max_tokens)


@dataclass(frozen=True, slots=True)
class Load:
    """What so many clients at once get."""

    clients: int
    seconds: float
    fills: int
    fills_per_second: float
    steps_per_second: float  # denoising steps of all requests
    to_answer: Spread  # from a request to its answer, as a client sees it
    slowest_share: float  # fills of the client that got fewest, of a fair share
    reused_share: float  # context tokens that came from the cache, of all
    different: int  # answers that are not what the same request was answered alone


@dataclass(frozen=True, slots=True)
class _Answered:
    client: int
    request: FillRequest
    ms: float
    result: FillResult


def requests_in(text: str, language: str | None, clients: int) -> list[list[FillRequest]]:
    """What each client asks: at so many places of a text, spread evenly; fewer if it has fewer."""
    lines = _lines(text)
    chosen = lines[:: max(len(lines) // clients, 1)][:clients]
    asked = [
        [_request(text, start + typed, end, language) for typed in _TYPED] for start, end in chosen
    ]
    found = [[one for one in requests if one is not None] for requests in asked]
    if not any(found):
        raise SourceError("the file has no line that could be typed and filled")
    return [requests for requests in found if requests]


class Crowd:
    """Clients of the worker that a model has, and what they ask."""

    def __init__(self, clients: Sequence[EngineClient], asked: Sequence[list[FillRequest]]) -> None:
        self._clients = clients
        self._asked = asked
        self._alone: dict[FillRequest, str | None] = {}

    async def ask_alone(self) -> None:
        """Note the answers to each request when there is no other."""
        for request in dict.fromkeys(one for asked in self._asked for one in asked):
            self._alone[request] = _text(await self._clients[0].fill(request))

    async def load(self, clients: int, seconds: float) -> Load:
        """Have so many clients ask for so long; whatever is asked then is waited for."""
        started = time.perf_counter()
        until = started + seconds
        answered = await asyncio.gather(*(self._ask(n, until) for n in range(clients)))
        return self._figures(answered, time.perf_counter() - started)

    async def _ask(self, number: int, until: float) -> list[_Answered]:
        answered: list[_Answered] = []
        asked = self._asked[number % len(self._asked)]
        while (sent := time.perf_counter()) < until:
            request = asked[len(answered) % len(asked)]
            result = await self._clients[number].fill(request)
            elapsed_ms = 1000 * (time.perf_counter() - sent)
            answered.append(_Answered(number, request, elapsed_ms, result))
        return answered

    def _figures(self, answered: Sequence[Sequence[_Answered]], seconds: float) -> Load:
        every = [one for some in answered for one in some]
        times = spread([one.ms for one in every])
        assert times is not None  # each client asks at least once
        stats = [one.result.stats for one in every]
        return Load(
            clients=len(answered),
            seconds=seconds,
            fills=len(every),
            fills_per_second=len(every) / seconds,
            steps_per_second=sum(one.steps for one in stats) / seconds,
            to_answer=times,
            slowest_share=min(map(len, answered)) * len(answered) / len(every),
            reused_share=sum(s.reused_tokens for s in stats) / sum(s.context_tokens for s in stats),
            different=sum(_text(one.result) != self._alone[one.request] for one in every),
        )


def _lines(text: str) -> list[tuple[int, int]]:
    """Where the lines that are long enough begin, behind their indentation, and end."""
    found, start = [], 0
    for line in text.splitlines(keepends=True):
        begin, end = start + len(line) - len(line.lstrip()), start + len(line.rstrip())
        if end - begin > max(_TYPED):
            found.append((begin, end))
        start += len(line)
    return found


def _request(text: str, caret: int, line_end: int, language: str | None) -> FillRequest | None:
    """What is asked when the rest of a line has not been typed yet."""
    cut = text[:caret] + text[line_end:]
    hole = hole_at(cut, caret, language)
    if hole is None:
        return None
    return request_for(build_canvas(cut, hole, language), _EFFORT, want_drafts=False)


def _text(result: FillResult) -> str | None:
    return result.fills[0].text if result.fills else None
