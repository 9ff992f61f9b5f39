"""What holds for every text, cursor, language and fill."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from midfill_infill import (
    Dropped,
    Edit,
    build_canvas,
    finish,
    hole_at,
    hole_for_range,
    language_for,
)
from midfill_infill.languages import LANGUAGES

FRAGMENTS = [
    *"()[]{}<>:;,.=+-*/\\|&!?@#$%'\"` \t\n\r\0",
    *("\r\n", '"""', "'''", "/*", "*/", "//", "=>", "def f():", "class A {", "if (x) {", "else"),
    *("return", "import a", 'r#"', 'R"(', "${", "    ", "\n    ", "\n\t", "x", "foo", "é", "漢"),
    *("😀", "\ud800", "\udfff", "\ufeff", "\ufffd", "\u2028", "\x85", "\x0b", "e\u0301", "<|a|>"),
]
TEXTS = st.one_of(
    st.text(st.characters(), max_size=200),  # surrogates included
    st.lists(st.sampled_from(FRAGMENTS), max_size=60).map("".join),
)
LANGUAGE_IDS = st.sampled_from([*(language.key for language in LANGUAGES), None, "unknown"])
OFFSETS = st.integers(-3, 300)
PROPERTY = settings(
    max_examples=400,
    deadline=None,
    derandomize=True,  # the same examples in every run; raise the number to search for more
    suppress_health_check=[HealthCheck.too_slow],
)


def _is_outside_kept(text: str, edit: Edit) -> bool:
    after = edit.apply(text)
    new_end = edit.start + len(edit.new_text)
    return after[: edit.start] == text[: edit.start] and after[new_end:] == text[edit.end :]


@PROPERTY
@given(TEXTS, OFFSETS, LANGUAGE_IDS, TEXTS)
def test_a_fill_at_a_cursor_is_an_insertion(
    text: str, offset: int, language: str | None, fill: str
) -> None:
    hole = hole_at(text, offset, language)
    if hole is None:
        return
    assert 0 <= hole.start == hole.end <= len(text)
    canvas = build_canvas(text, hole, language)
    edit = finish(canvas.heal_left + fill + canvas.heal_right, text, canvas)
    if isinstance(edit, Dropped):
        return
    assert edit.start == edit.end == hole.start
    assert _is_outside_kept(text, edit)
    assert edit.new_text.strip()
    added = edit.new_text.replace(canvas.newline, "")
    assert "\n" not in added
    assert "\r" not in added
    assert not canvas.single_line or added == edit.new_text


@PROPERTY
@given(TEXTS, OFFSETS, OFFSETS, LANGUAGE_IDS, TEXTS)
def test_a_fill_of_a_selection_changes_nothing_outside(
    text: str, start: int, end: int, language: str | None, fill: str
) -> None:
    hole = hole_for_range(text, start, end, language)
    if hole is None:
        return
    low, high = sorted(max(0, min(offset, len(text))) for offset in (start, end))
    assert hole.start <= hole.end <= len(text)
    # An offset moves out of a line break to the left, and off a byte order mark to the right.
    assert low - 1 <= hole.start
    assert hole.end <= max(high, 1)
    canvas = build_canvas(text, hole, language)
    edit = finish(canvas.heal_left + fill + canvas.heal_right, text, canvas)
    if isinstance(edit, Edit):
        assert (edit.start, edit.end) == (hole.start, hole.end)
        assert _is_outside_kept(text, edit)


@PROPERTY
@given(TEXTS, OFFSETS, LANGUAGE_IDS)
def test_the_canvas_is_the_document_around_the_hole(
    text: str, offset: int, language: str | None
) -> None:
    hole = hole_at(text, offset, language)
    if hole is None:
        return
    canvas = build_canvas(text, hole, language)
    for piece in (canvas.prefix, canvas.suffix, canvas.heal_left, canvas.heal_right):
        assert "\r" not in piece
        piece.encode("utf-8")
    before = text[: hole.start].removeprefix("\ufeff")
    before = before.replace("\r\n", "\n").replace("\r", "\n")
    seen = canvas.prefix + canvas.heal_left
    assert len(seen) == len(before)
    assert seen == "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in before)


@PROPERTY
@given(TEXTS, OFFSETS, LANGUAGE_IDS, TEXTS)
def test_a_raw_answer_never_raises(
    text: str, offset: int, language: str | None, answer: str
) -> None:
    hole = hole_at(text, offset, language) or hole_for_range(text, offset, offset + 9, language)
    if hole is not None:
        finish(answer, text, build_canvas(text, hole, language))


@given(st.none() | TEXTS, st.none() | TEXTS)
def test_language_for_never_raises(language_id: str | None, path: str | None) -> None:
    assert language_for(language_id, path) in {None, *(language.key for language in LANGUAGES)}
