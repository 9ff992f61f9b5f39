"""The drafts that a request begins with.

Owns which canvases are made for what is asked, and what is refused.
"""

from __future__ import annotations

from typing import Final

from midfill_engine.errors import RequestRejected
from midfill_engine.model.vocabulary import Vocabulary
from midfill_engine.protocol import FillRequest
from midfill_engine.worker.candidate import Candidate, Edges, Rule
from midfill_engine.worker.copying import CopySource
from midfill_engine.worker.plan import LONGEST, causal_length, lengths, longest, plan_for
from midfill_engine.worker.strategies import STRATEGIES

MAX_EDGE_TOKENS: Final = 160  # or bytes, of what is not certain
MAX_EDGE_CHARACTERS: Final = 4096  # more is not even tokenized


def growing_drafts(vocabulary: Vocabulary, request: FillRequest) -> list[Candidate]:
    """Of a model whose canvases end with an *empty*: masked and left-to-right drafts, as planned.

    Raises:
        RequestRejected: its edges cannot be put into this model's tokens, it asks for nothing, or
            for a quality or a strategy that there is not.
    """
    plan = plan_for(request)
    edges = _edges(vocabulary, request)
    asked = (request.max_tokens, request.single_line)
    most = longest(plan, *asked)
    causal = plan.causal_length and not edges.tail
    drafts: list[Candidate] = []
    if not (causal and plan.causal_only):
        drafts += _masked(edges, request, most, grows=True)
    if causal:
        copies = CopySource.of_texts(vocabulary, request.prefix, request.suffix)
        length = causal_length(plan, *asked)
        drafts += [
            Candidate.of_length(edges, "causal", length, seed, most=most, copies=copies)
            for seed in (None, *range(plan.samples))
        ]
    for draft in drafts:
        draft.propose((), vocabulary)
    return drafts


def fitting_drafts(vocabulary: Vocabulary, request: FillRequest) -> list[Candidate]:
    """Of a model that sees both sides of a canvas and fills all of it: masked drafts only.

    Raises:
        RequestRejected: as `growing_drafts`.
    """
    most = min(LONGEST, request.max_tokens)
    return _masked(_edges(vocabulary, request), request, most, grows=False)


def _masked(edges: Edges, request: FillRequest, most: int, *, grows: bool) -> list[Candidate]:
    plan = plan_for(request)
    rule = Rule(STRATEGIES[plan.strategy], plan.level)
    wanted = lengths(plan, request.max_tokens, request.single_line, bool(edges.tail))
    return [
        Candidate.of_length(edges, "masked", length, most=most, rule=rule, grows=grows)
        for length in wanted
    ]


def _edges(vocabulary: Vocabulary, request: FillRequest) -> Edges:
    if len(request.heal_left) + len(request.heal_right) > MAX_EDGE_CHARACTERS:
        raise RequestRejected("the text to be healed at the hole's edges is too long")
    for text in (request.heal_left, request.heal_right):
        if not vocabulary.can_spell(text):
            raise RequestRejected(f"no tokens of this model spell {text!r}")
    certain, required = vocabulary.heal(request.heal_left)
    tail = vocabulary.encode(request.heal_right)
    if len(certain) + len(required) + len(tail) > MAX_EDGE_TOKENS:
        raise RequestRejected("the text to be healed at the hole's edges is too long")
    return Edges(
        certain=tuple(certain),
        required=required,
        tail=tuple(tail),
        single_line=request.single_line,
        may_close=request.may_close,
        must_close=request.must_close,
    )
