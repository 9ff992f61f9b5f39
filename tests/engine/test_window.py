"""How much of a text the model is shown, and that it stays put while a person types."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.vocabulary import END_OF_TEXT, Vocabulary
from midfill_engine.worker.window import (
    ANCHOR_LINES,
    LINE_TOKENS,
    PREFIX_TOKENS,
    SUFFIX_TOKENS,
    Window,
    make_window,
)

LINE = "        self.balance += amount\n"
WORDS = ("balance", " = ", "self.", "deposit(", "\u00e9t\u00e9 ", "9" * 7, "    ", "\U0001f600")
LONG_LINE = "".join(f"a{n % 97}+b{n % 89};" for n in range(2000))


@pytest.fixture(scope="module")
def vocabulary(tiny: EmbeddedModel) -> Vocabulary:
    return tiny.vocabulary


def check_bounds(window: Window) -> None:
    assert 1 <= len(window.prefix) <= PREFIX_TOKENS
    assert len(window.suffix) <= SUFFIX_TOKENS


def prefix_text(vocabulary: Vocabulary, text: str, line: int = 0) -> str:
    window = make_window(vocabulary, text, line, "")
    check_bounds(window)
    return b"".join(vocabulary.token_bytes[i] for i in window.prefix).decode("utf-8", "replace")


def test_a_short_text_is_shown_whole(vocabulary: Vocabulary) -> None:
    window = make_window(vocabulary, "def f(n):", 3, "\n    return n\n")
    assert vocabulary.decode(list(window.prefix)) == "def f(n):"
    assert vocabulary.decode(list(window.suffix)) == "\n    return n\n"


def test_each_side_is_tokenized_on_its_own(vocabulary: Vocabulary) -> None:
    assert len(vocabulary.encode("balance")) < len(vocabulary.encode("bal")) + len(
        vocabulary.encode("ance")
    )
    window = make_window(vocabulary, "bal", 0, "ance")
    assert window.prefix == tuple(vocabulary.encode("bal"))
    assert window.suffix == tuple(vocabulary.encode("ance"))


def test_nothing_before_the_hole_is_the_end_of_another_text(vocabulary: Vocabulary) -> None:
    assert make_window(vocabulary, "", 0, "") == Window((END_OF_TEXT,), ())


def test_a_suffix_is_cut_at_its_far_end(vocabulary: Vocabulary) -> None:
    window = make_window(vocabulary, "", 0, LINE * 100)
    assert len(window.suffix) == SUFFIX_TOKENS
    assert window.suffix == tuple(vocabulary.encode(LINE * 100)[:SUFFIX_TOKENS])


@pytest.mark.parametrize("first_line", [0, 3, ANCHOR_LINES, 1001])
def test_a_long_text_begins_at_an_anchor(vocabulary: Vocabulary, first_line: int) -> None:
    lines = [f"line {n}\n" for n in range(first_line, first_line + 200)]
    shown = prefix_text(vocabulary, "".join(lines) + "x = ", first_line)
    first = shown.partition("\n")[0]
    assert shown.endswith("x = ")
    assert int(first.removeprefix("line ")) % ANCHOR_LINES == 0


def starts_while_typing(vocabulary: Vocabulary, text: str, typed: str) -> list[int]:
    """Where in the text the window begins, before the first key and after each."""
    ends = range(len(text), len(text) + len(typed) + 1)
    return [end - len(prefix_text(vocabulary, (text + typed)[:end])) for end in ends]


def test_the_start_stays_while_a_person_types(vocabulary: Vocabulary) -> None:
    """Whoever types at the end of a long file moves the start once in so many lines."""
    typed = LINE * (3 * ANCHOR_LINES)
    starts = starts_while_typing(vocabulary, LINE * 80, typed)
    assert starts == sorted(starts)
    assert 2 <= len(set(starts)) <= 4
    moved = [at for at, (a, b) in enumerate(pairwise(starts)) if a != b]
    assert all(typed[at] == "\n" for at in moved)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12), st.integers(20, 60))
def test_no_word_moves_the_start(vocabulary: Vocabulary, words: list[str], lines: int) -> None:
    """Whatever is typed into a line, letter by letter, up to the room that a line has."""
    text, typed = "".join(f"line {n}\n" for n in range(lines)) * 2, ""
    for word in words:
        if len(vocabulary.encode(typed + word)) + len(word) <= LINE_TOKENS:
            typed += word
    assert len(set(starts_while_typing(vocabulary, text, typed))) == 1


def test_the_start_does_not_depend_on_where_the_text_was_cut(vocabulary: Vocabulary) -> None:
    """The text that a client sends starts later in the document as that grows."""
    whole = "".join(f"line {n}\n" for n in range(300))
    expected = prefix_text(vocabulary, whole)
    for cut in (1, 2, 3, ANCHOR_LINES, 50, 101):
        kept = whole.split("\n", cut)[-1]
        assert prefix_text(vocabulary, kept, cut) == expected


@pytest.mark.parametrize("length", [2401, 5000, len(LONG_LINE) - 100])
def test_in_a_line_longer_than_a_window_the_start_stays_too(
    vocabulary: Vocabulary, length: int
) -> None:
    starts = set()
    for end in range(length, length + 100):
        text = LONG_LINE[:end]
        starts.add(end - len(prefix_text(vocabulary, text)))
    assert len(starts) <= 3


def test_a_long_line_after_short_ones(vocabulary: Vocabulary) -> None:
    shown = prefix_text(vocabulary, LINE * 30 + LONG_LINE)
    assert LONG_LINE.endswith(shown)
    assert len(vocabulary.encode(shown)) > PREFIX_TOKENS // 2


def test_ten_megabytes_cost_no_more_than_what_is_shown(vocabulary: Vocabulary) -> None:
    huge = "\n" * 5_000_000 + "x" * 5_000_000
    started = time.process_time()
    check_bounds(make_window(vocabulary, huge, 0, huge))
    check_bounds(make_window(vocabulary, huge[::-1], 0, huge[::-1]))
    assert time.process_time() - started < 2


@settings(deadline=None)
@given(
    st.text(max_size=40),
    st.integers(1, 120),
    st.text(max_size=40),
    st.integers(-1000, 1000),
    st.text(st.characters(), max_size=40),
    st.integers(0, 40),
)
def test_budgets_hold_for_any_text(
    vocabulary: Vocabulary, part: str, times: int, end: str, line: int, after: str, repeated: int
) -> None:
    check_bounds(make_window(vocabulary, part * times + end, line, after * repeated))
