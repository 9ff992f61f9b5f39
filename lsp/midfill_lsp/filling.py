"""From a canvas to the engine's request, and from its answer to edits.

Owns the seam between `infill` and the engine. Knows nothing of editors, documents' versions and
files: the server and the command line share it.
"""

from dataclasses import dataclass
from itertools import takewhile

from midfill_engine.protocol import Fill, FillRequest, FillResult
from midfill_infill import Canvas, Edit, Place, finish
from midfill_lsp.settings import Effort


@dataclass(frozen=True, slots=True)
class Candidate:
    """A fill that came through the filters. Its edit is exact outside the hole."""

    edit: Edit
    fill: Fill


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of an answer's fills."""

    candidates: tuple[Candidate, ...]  # best first, each edit once
    dropped: tuple[str, ...]  # the filters that refused the others

    @property
    def reason(self) -> str:
        """Why there is no candidate, if there is none."""
        if self.dropped:
            return f"what the model wrote was refused ({', '.join(sorted(set(self.dropped)))})"
        return "the model came to no result in time"


def request_for(
    canvas: Canvas, effort: Effort, *, want_drafts: bool, strategy: str | None = None
) -> FillRequest:
    """What to ask the engine."""
    return FillRequest(
        request_id=0,  # the client's to choose
        prefix=canvas.prefix,
        prefix_line=canvas.prefix_line,
        suffix=canvas.suffix,
        heal_left=canvas.heal_left + canvas.place.lead,
        heal_right=canvas.heal_right,
        single_line=canvas.single_line,
        quality=effort.quality,
        deadline_ms=effort.deadline_ms,
        max_tokens=min(canvas.max_tokens, effort.max_tokens),
        want_drafts=want_drafts,
        interactive=True,
        may_close=_may_close(canvas.place),
        must_close=_must_close(canvas),
        strategy=strategy,
    )


def _may_close(place: Place) -> int | None:
    """How many parentheses and square brackets around the hole a fill may close.

    From the inmost on, up to one that is closed already; None where that cannot be said.
    """
    if place.in_text:
        return None
    left_open = 0
    for bracket in reversed(place.brackets):
        if bracket.closed:
            break
        if bracket.char == "{":
            return None
        left_open += 1
    return left_open


def _must_close(canvas: Canvas) -> int | None:
    """How many parentheses and square brackets a fill should close.

    None where a fill may end with some open: in text, and where nothing is known of the language.
    """
    if canvas.place.in_text or canvas.language is None:
        return None
    inmost_first = reversed(canvas.place.brackets)
    return sum(1 for _ in takewhile(lambda bracket: bracket.wanting, inmost_first))


def judged(result: FillResult, text: str, canvas: Canvas) -> Judged:
    """The fills worth showing, and why the others are not."""
    kept: dict[Edit, Candidate] = {}
    dropped: list[str] = []
    for fill in result.fills:
        edit = finish(fill.text, text, canvas)
        if isinstance(edit, Edit):
            kept.setdefault(edit, Candidate(edit, fill))
        else:
            dropped.append(edit.reason)
    return Judged(tuple(kept.values()), tuple(dropped))
