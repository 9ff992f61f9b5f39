"""One canvas: what is committed, what the edges demand, and when it is done."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.single_tokens import tokens

from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.vocabulary import EMPTY, MASK, Vocabulary
from midfill_engine.worker.candidate import Candidate, Edges, Prediction, Rule, View
from midfill_engine.worker.copying import MAX_PROPOSED, CopySource
from midfill_engine.worker.strategies import DEFAULT, STRATEGIES, Strategy

OPEN = Edges((), b"", (), single_line=True)
LINES = Edges((), b"", (), single_line=False)
SURE, UNSURE = 0.95, 0.2
RULE = Rule(STRATEGIES[DEFAULT], 0.9)


@pytest.fixture(scope="module")
def vocabulary(tiny: EmbeddedModel) -> Vocabulary:
    return tiny.vocabulary


def canvas(
    length: int, view: View = "masked", edges: Edges = OPEN, *, most: int | None = None
) -> Candidate:
    return Candidate.of_length(edges, view, length, most=most, rule=RULE)


def step(
    vocabulary: Vocabulary, candidate: Candidate, predictions: list[tuple[int, float]]
) -> None:
    ids, confidences = [p[0] for p in predictions], [p[1] for p in predictions]
    logits = torch.zeros(len(ids), vocabulary.size)  # the default rule does not look at them
    candidate.commit(Prediction(ids, confidences, logits), vocabulary)


def check_shown(vocabulary: Vocabulary, candidate: Candidate, shown: list[str | None]) -> None:
    draft = candidate.draft(vocabulary)
    assert list(draft.pieces) == shown
    assert len(draft.confidences) == len(shown)
    assert all((c == 0) == (p is None) for p, c in zip(shown, draft.confidences, strict=True))


def test_a_new_canvas_is_masks_between_its_edges(vocabulary: Vocabulary) -> None:
    a, b = tokens(vocabulary, "a", "b")
    candidate = canvas(2, edges=Edges((a,), b"", (b,), single_line=True))
    assert candidate.ids == [a, MASK, MASK, b]
    assert candidate.open_positions == [1, 2]
    assert not candidate.done
    check_shown(vocabulary, candidate, ["a", None, None, "b"])


def test_masked_commits_the_leftmost_and_what_is_sure(vocabulary: Vocabulary) -> None:
    a, b, c = tokens(vocabulary, "a", "b", "c")
    candidate = canvas(3)
    step(vocabulary, candidate, [(a, UNSURE), (b, UNSURE), (c, SURE)])
    check_shown(vocabulary, candidate, ["a", None, "c"])
    assert candidate.open_positions == [1]
    step(vocabulary, candidate, [(b, UNSURE)])
    assert candidate.done
    assert candidate.tokens() == [a, b, c]
    assert candidate.confidences == [UNSURE, UNSURE, SURE]


def test_what_is_committed_is_never_changed(vocabulary: Vocabulary) -> None:
    a, b, c = tokens(vocabulary, "a", "b", "c")
    candidate = canvas(3)
    step(vocabulary, candidate, [(a, SURE), (b, UNSURE), (c, SURE)])
    before = (candidate.ids[0], candidate.ids[2])
    step(vocabulary, candidate, [(b, SURE)])
    assert (candidate.ids[0], candidate.ids[2]) == before


def test_an_empty_ends_the_hole(vocabulary: Vocabulary) -> None:
    a, b, c = tokens(vocabulary, "a", "b", "c")
    candidate = canvas(4)
    step(vocabulary, candidate, [(a, SURE), (b, UNSURE), (EMPTY, SURE), (c, SURE)])
    check_shown(vocabulary, candidate, ["a", None])
    assert candidate.open_positions == [1]
    step(vocabulary, candidate, [(b, UNSURE)])
    assert candidate.done
    assert candidate.tokens() == [a, b]


def test_an_empty_overrules_what_stands_behind_it(vocabulary: Vocabulary) -> None:
    a, b = tokens(vocabulary, "a", "b")
    candidate = canvas(3)
    step(vocabulary, candidate, [(a, UNSURE), (EMPTY, UNSURE), (b, SURE)])
    step(vocabulary, candidate, [(EMPTY, UNSURE)])
    assert candidate.done
    assert candidate.tokens() == [a]


def test_a_hole_may_stay_empty(vocabulary: Vocabulary) -> None:
    for view in ("masked", "causal"):
        candidate = canvas(3, view)
        ahead = [(EMPTY, UNSURE)] * len(candidate.open_positions)
        step(vocabulary, candidate, ahead)
        assert candidate.done
        assert candidate.tokens() == []
        check_shown(vocabulary, candidate, [])


def test_no_other_position_is_taken_before_the_left_edge_is_spelled(vocabulary: Vocabulary) -> None:
    a, d, e, f = tokens(vocabulary, "a", "d", "e", "f")
    candidate = canvas(4, edges=Edges((), b"de", (), single_line=True))
    step(vocabulary, candidate, [(d, UNSURE), (a, SURE), (a, SURE), (EMPTY, SURE)])
    assert candidate.required == b"e"
    check_shown(vocabulary, candidate, ["d", None, None, None])
    step(vocabulary, candidate, [(e, UNSURE), (f, SURE), (a, UNSURE)])
    assert candidate.required == b""
    check_shown(vocabulary, candidate, ["d", "e", "f", None])


def test_a_token_that_goes_past_the_left_edge_satisfies_it(vocabulary: Vocabulary) -> None:
    (amount,) = tokens(vocabulary, "amount")
    candidate = canvas(2, edges=Edges((), b"amo", (), single_line=True))
    step(vocabulary, candidate, [(amount, UNSURE), (EMPTY, SURE)])
    assert candidate.required == b""
    assert candidate.done
    assert candidate.tokens() == [amount]


def test_causal_takes_one_token_at_a_time(vocabulary: Vocabulary) -> None:
    a, b = tokens(vocabulary, "a", "b")
    candidate = canvas(2, "causal")
    assert (candidate.open_positions, candidate.visible_ids) == ([0], [])
    step(vocabulary, candidate, [(a, UNSURE)])
    assert (candidate.open_positions, candidate.visible_ids) == ([1], [a])
    step(vocabulary, candidate, [(b, UNSURE)])
    assert candidate.done
    assert candidate.tokens() == [a, b]


def test_causal_takes_proposals_as_far_as_they_hold(vocabulary: Vocabulary) -> None:
    a, b, c, d = tokens(vocabulary, "a", "b", "c", "d")
    masked, causal = canvas(5), canvas(5, "causal")
    step(vocabulary, masked, [(a, SURE), (b, UNSURE), (c, UNSURE), (d, UNSURE), (EMPTY, UNSURE)])
    causal.propose([masked, causal], vocabulary)
    assert causal.proposed == [a, b, c, d]
    assert causal.open_positions == [0, 1, 2, 3, 4]
    assert causal.visible_ids == [a, b, c, d]
    step(vocabulary, causal, [(a, SURE), (b, SURE), (d, UNSURE), (a, SURE), (a, SURE)])
    check_shown(vocabulary, causal, ["a", "b", "d", None, None])
    causal.propose([masked], vocabulary)
    assert causal.proposed == []  # it no longer goes the other draft's way


def test_proposals_are_bounded_by_the_canvas(vocabulary: Vocabulary) -> None:
    (a,) = tokens(vocabulary, "a")
    masked = canvas(30)
    step(vocabulary, masked, [(a, SURE)] * 30)
    for length in range(1, 20):
        causal = canvas(length, "causal")
        causal.propose([masked], vocabulary)
        assert len(causal.proposed) == min(MAX_PROPOSED, length - 1)


def test_nothing_is_proposed_to_a_draft_that_is_bound_or_done(vocabulary: Vocabulary) -> None:
    (a,) = tokens(vocabulary, "a")
    other = canvas(3)
    step(vocabulary, other, [(a, SURE)] * 3)
    bound = canvas(3, "causal", Edges((), b"ab", (), single_line=True))
    done = canvas(1, "causal")
    step(vocabulary, done, [(a, SURE)])
    for candidate in (bound, done):
        candidate.propose([other], vocabulary)
        assert candidate.proposed == []


def test_a_guess_is_expected_only_up_to_where_nothing_is_known(vocabulary: Vocabulary) -> None:
    a, b = tokens(vocabulary, "a", "b")
    fresh = canvas(3)
    assert fresh.expected_after([]) == []
    step(vocabulary, fresh, [(a, SURE), (b, UNSURE), (EMPTY, UNSURE)])
    assert fresh.expected_after([]) == [a, b]
    assert fresh.expected_after([a]) == [b]
    assert fresh.expected_after([b]) == []
    assert fresh.expected_after([a, b]) == []


def test_concluding_takes_the_last_guesses(vocabulary: Vocabulary) -> None:
    a, b, c = tokens(vocabulary, "a", "b", "c")
    candidate = canvas(4)
    step(vocabulary, candidate, [(a, UNSURE), (b, UNSURE), (EMPTY, UNSURE), (c, UNSURE)])
    candidate.conclude([], vocabulary)
    assert candidate.done
    assert candidate.tokens() == [a, b]
    assert candidate.confidences[:2] == [UNSURE, UNSURE]


def test_concluding_what_no_step_has_seen_leaves_it_open(vocabulary: Vocabulary) -> None:
    for view in ("masked", "causal"):
        candidate = canvas(3, view)
        candidate.conclude([], vocabulary)
        assert not candidate.done


def test_concluding_does_not_make_up_the_left_edge(vocabulary: Vocabulary) -> None:
    a, d = tokens(vocabulary, "a", "d")
    candidate = canvas(2, edges=Edges((), b"de", (), single_line=True))
    step(vocabulary, candidate, [(d, UNSURE), (a, UNSURE)])
    candidate.conclude([], vocabulary)
    assert not candidate.done


def test_what_is_copied_is_proposed_before_what_is_guessed(vocabulary: Vocabulary) -> None:
    a, b, c, d = tokens(vocabulary, "a", "b", "c", "d")
    masked = canvas(3)
    step(vocabulary, masked, [(d, SURE), (c, UNSURE), (EMPTY, UNSURE)])
    copies = CopySource([a, b, c, a], [])
    causal = Candidate.of_length(OPEN, "causal", 4, copies=copies)
    causal.propose([masked], vocabulary)
    assert causal.proposed == [b, c]
    step(vocabulary, causal, [(d, SURE), (c, SURE), (a, SURE)])
    check_shown(vocabulary, causal, ["d", None, None, None])
    causal.propose([masked], vocabulary)  # nothing is known to follow "d"
    assert causal.proposed == [c]


def test_a_proposal_meets_what_the_left_edge_demands_or_is_not_made(
    vocabulary: Vocabulary,
) -> None:
    a, amount, b = tokens(vocabulary, "a", "amount", "b")
    for required, proposed in ((b"amo", [amount, b]), (b"amx", [])):
        edges = Edges((), required, (), single_line=True)
        copies = CopySource([a, amount, b, a], [])
        causal = Candidate.of_length(edges, "causal", 4, copies=copies)
        causal.propose([], vocabulary)
        assert causal.proposed == proposed
    causal = Candidate.of_length(Edges((), b"amo", (), True), "causal", 4, copies=copies)
    causal.propose([], vocabulary)
    step(vocabulary, causal, [(amount, SURE), (b, SURE), (b, SURE)])
    check_shown(vocabulary, causal, ["amount", "b", "b", None])


def test_no_line_break_is_proposed_to_a_single_line(vocabulary: Vocabulary) -> None:
    a, b, newline = tokens(vocabulary, "a", "b", "\n")
    for edges, proposed in ((OPEN, [b]), (LINES, [b, newline])):
        copies = CopySource([a, b, newline, a], [])
        causal = Candidate.of_length(edges, "causal", 4, copies=copies)
        causal.propose([], vocabulary)
        assert causal.proposed == proposed


@pytest.mark.parametrize("view", ["masked", "causal"])
@settings(deadline=None)
@given(block=st.integers(1, 12), limit=st.integers(0, 40))
def test_growth_is_by_a_block_and_within_the_limit(
    vocabulary: Vocabulary, view: View, block: int, limit: int
) -> None:
    (a,) = tokens(vocabulary, "a")
    candidate, lengths = canvas(block, view), [block]
    candidate.limit = limit
    while not candidate.done:
        step(vocabulary, candidate, [(a, SURE)] * len(candidate.open_positions))
        lengths.append(len(candidate.ids))
    assert lengths == sorted(lengths)
    assert set(lengths) == {*range(block, limit, block), max(block, limit)}
    assert candidate.tokens() == [a] * lengths[-1]


@pytest.mark.parametrize("view", ["masked", "causal"])
def test_a_canvas_that_has_found_its_end_grows_no_more(vocabulary: Vocabulary, view: View) -> None:
    (a,) = tokens(vocabulary, "a")
    candidate = canvas(2, view, most=5)
    while not candidate.done:
        last = len(candidate.ids) == 4
        step(vocabulary, candidate, [(EMPTY if last else a, SURE)] * len(candidate.open_positions))
    assert candidate.tokens() == [a] * 2


def test_several_lines_that_find_no_end_stop_after_a_whole_one(vocabulary: Vocabulary) -> None:
    a, b, newline = tokens(vocabulary, "a", "b", "\n")
    candidate = canvas(4, edges=LINES)
    step(vocabulary, candidate, [(a, SURE), (newline, SURE), (b, SURE), (b, SURE)])
    assert candidate.done
    assert candidate.tokens() == [a]
    candidate = canvas(3, edges=LINES)
    step(vocabulary, candidate, [(a, SURE), (b, SURE), (b, SURE)])
    assert candidate.tokens() == [a, b, b]  # there is no whole line


def test_a_causal_draft_is_concluded_as_a_masked_one_goes_on(vocabulary: Vocabulary) -> None:
    a, b, c = tokens(vocabulary, "a", "b", "c")
    masked, causal = canvas(4), canvas(4, "causal")
    step(vocabulary, masked, [(a, SURE), (b, UNSURE), (EMPTY, UNSURE), (c, UNSURE)])
    step(vocabulary, causal, [(a, SURE)])
    causal.conclude([masked, causal], vocabulary)
    assert causal.done
    assert causal.tokens() == [a, b]
    assert causal.confidences[:3] == [SURE, UNSURE, UNSURE]
    other = canvas(4, "causal")
    step(vocabulary, other, [(c, SURE)])
    other.conclude([masked], vocabulary)
    assert not other.done


def test_a_causal_draft_of_several_lines_is_concluded_with_its_last_whole_one(
    vocabulary: Vocabulary,
) -> None:
    a, b, newline = tokens(vocabulary, "a", "b", "\n")
    causal = canvas(6, "causal", LINES)
    for token in (a, newline, b, newline, b):
        step(vocabulary, causal, [(token, SURE)])
    causal.conclude([], vocabulary)
    assert causal.done
    assert causal.tokens() == [a, newline, b]


PREDICTIONS = st.tuples(st.sampled_from([EMPTY, *range(20, 60)]), st.floats(0, 1))


@pytest.mark.parametrize("required", [b"", b"de"])
@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_comes_to_an_end_within_its_steps(
    vocabulary: Vocabulary, name: str, required: bytes
) -> None:
    """A canvas takes no more steps than it may have positions, and edits no more than it may."""
    for seed, (length, more) in enumerate([(1, 0), (1, 8), (4, 0), (4, 2), (8, 0), (3, 7)] * 2):
        check_ends(vocabulary, STRATEGIES[name], required, length, more, seed)


def check_ends(
    vocabulary: Vocabulary, strategy: Strategy, required: bytes, length: int, more: int, seed: int
) -> None:
    edges = Edges((), required, (), single_line=True)
    rule = Rule(strategy, strategy.level)
    candidate = Candidate.of_length(edges, "masked", length, most=length + more, rule=rule)
    random = torch.Generator().manual_seed(seed)
    allowed = torch.tensor([EMPTY, *range(20, 30)])
    steps = 0
    while not candidate.done:
        logits = torch.full((len(candidate.open_positions), vocabulary.size), -torch.inf)
        noise = torch.randn(len(logits), len(allowed), generator=random)
        logits[:, allowed] = 4 * noise
        if candidate.required:
            logits[0] = logits[0].masked_fill(
                ~vocabulary.beginnings(candidate.required, True), -30.0
            )
            start = vocabulary.encode(candidate.required.decode()[0])[0]
            logits[0, start] = 30.0
        best = logits.softmax(1).max(1)
        prediction = Prediction(best.indices.tolist(), best.values.tolist(), logits)
        candidate.commit(prediction, vocabulary)
        steps += 1
        assert steps <= length + more + strategy.post_edits + 1
    assert MASK not in candidate.tokens()
    if not candidate.required:
        text = vocabulary.decode(candidate.tokens())
        assert text is not None
        assert text.encode().startswith(required)


@settings(deadline=None)
@given(st.integers(1, 12), st.sampled_from(["masked", "causal"]), st.data())
def test_a_canvas_is_done_after_as_many_steps_as_masks(
    vocabulary: Vocabulary, length: int, view: View, data: st.DataObject
) -> None:
    """And on the way a token that is shown only ever goes when the hole is found to end there."""
    candidate = canvas(length, view)
    shown: list[str | None] = []
    for _ in range(length):
        if candidate.done:
            break
        masks = sum(candidate.masked)
        size = len(candidate.open_positions)
        step(vocabulary, candidate, data.draw(st.lists(PREDICTIONS, min_size=size, max_size=size)))
        assert sum(candidate.masked) < masks
        now = list(candidate.draft(vocabulary).pieces)
        assert all(b is None or a == b for a, b in zip(now, shown, strict=False))
        shown = now
    assert candidate.done
    assert MASK not in candidate.tokens()
    assert EMPTY not in candidate.tokens()
