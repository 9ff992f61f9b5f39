"""What is copied from the text around a hole."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.worker.copying import CopySource

TEXTS = st.lists(st.integers(0, 4), max_size=40)


@pytest.mark.parametrize(
    ("prefix", "suffix", "known", "copied"),
    [
        ([], [], [], []),
        ([1], [], [], []),
        ([1, 2, 3, 4, 9, 1, 2], [], [], [3, 4, 9, 1]),  # two match, so twice as many
        ([1, 2, 3, 4, 9, 1], [], [2], [3, 4, 9, 1]),  # a match may reach into the canvas
        ([1, 2, 3, 4, 9], [], [5], []),
        ([2, 7, 1, 2, 3, 9], [], [1, 2], [3, 9]),  # the longer match, not the first
        ([1, 5, 0, 1, 6, 0, 2], [], [1], [6, 0]),  # of two as long, the nearest
        ([9, 1], [1, 7, 8], [], [7, 8]),  # from behind the hole
        ([1, 5, 9, 1], [1, 7], [], [5, 9]),  # before it rather
        (list(range(20)) * 2, [], [], list(range(8))),  # never more than eight
    ],
)
def test_what_followed_the_longest_match(
    prefix: list[int], suffix: list[int], known: list[int], copied: list[int]
) -> None:
    assert CopySource(prefix, suffix).after(known) == copied


def longest_match(text: Sequence[int], recent: Sequence[int]) -> int:
    """The longest end of `recent` that stands in `text` with something behind it: by trial."""
    return max(
        (
            count
            for count in range(len(recent) + 1)
            for end in range(count, len(text))
            if list(text[end - count : end]) == list(recent[len(recent) - count :])
        ),
        default=0,
    )


@given(TEXTS, TEXTS, st.lists(st.integers(0, 4), max_size=6))
def test_no_longer_match_is_overlooked(
    prefix: list[int], suffix: list[int], known: list[int]
) -> None:
    copied = CopySource(prefix, suffix).after(known)
    recent = [*prefix, *known][-16:]
    expected = max(longest_match(text, recent) for text in (prefix, suffix))
    assert bool(copied) == (expected > 0)
    assert len(copied) <= min(2 * expected, 8)
    wanted = [*recent[len(recent) - expected :], *copied]
    assert not copied or any(
        list(text[i : i + len(wanted)]) == wanted
        for text in (prefix, suffix)
        for i in range(len(text))
    )


def test_only_the_nearest_text_is_searched(tiny: EmbeddedModel) -> None:
    def copied(between: int) -> str | None:
        text = "def f(n):\n    return\n" + "x" * between + "\ndef f("
        source = CopySource.of_texts(tiny.vocabulary, text, "")
        return tiny.vocabulary.decode(source.after([]))

    assert (copied(100) or "").startswith("n")
    assert copied(20_000) == ""
