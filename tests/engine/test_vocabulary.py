"""Text, bytes and tokens: what may come in, what may come out, and what may stand where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from midfill_engine.errors import ModelCorrupt, ModelMissing
from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.vocabulary import EMPTY, END_OF_TEXT, MASK, Vocabulary

SPECIAL = {END_OF_TEXT, EMPTY, MASK}
BLANKS = st.text(st.sampled_from(" \t\n\r\u3000\xa0"), max_size=8)
WORDS = st.one_of(st.text(max_size=8), st.sampled_from(["ret", "self.bal", "if", "é", "<mask>"]))
# Beginnings of texts that tokens of the tiny vocabulary spell in several ways.
REQUIRED = st.one_of(
    st.sampled_from([b"\n", b"\n    ", b" ", b" self", b"amount", b"dep", b"\n        return x"]),
    st.binary(min_size=1, max_size=6),
)


@pytest.fixture(scope="module")
def vocabulary(tiny: EmbeddedModel) -> Vocabulary:
    return tiny.vocabulary


@pytest.mark.parametrize(
    "text", ["<|endoftext|>", "<mask>", "<empty>", "a<mask>b", "<special_3>", "<|endoftext|>" * 9]
)
def test_text_that_spells_a_special_token_is_plain_text(vocabulary: Vocabulary, text: str) -> None:
    ids = vocabulary.encode(text)
    assert len(ids) > 1
    assert not SPECIAL & set(ids)
    assert vocabulary.decode(ids) == text


@settings(deadline=None)
@given(st.text(st.sampled_from("<|>maskemptyndofx_3 \n"), max_size=60))
def test_no_text_makes_a_special_token(vocabulary: Vocabulary, text: str) -> None:
    ids = vocabulary.encode(text)
    assert all(vocabulary.token_bytes[i] for i in ids)
    assert vocabulary.decode(ids) == text


@settings(deadline=None)
@given(st.text())
def test_text_comes_back_byte_for_byte(vocabulary: Vocabulary, text: str) -> None:
    ids, starts = vocabulary.encode_with_offsets(text)
    assert ids == vocabulary.encode(text)
    assert vocabulary.decode(ids) == text
    assert starts == sorted(starts)
    assert all(0 <= start < len(text) for start in starts)


def test_special_tokens_have_no_text(vocabulary: Vocabulary) -> None:
    assert set(vocabulary.never.tolist()) >= SPECIAL
    assert vocabulary.decode([EMPTY, MASK, END_OF_TEXT]) == ""
    assert vocabulary.piece(MASK) == ""
    assert len(vocabulary.token_bytes) == vocabulary.size


def test_line_breaks_are_all_tokens_that_break_a_line(vocabulary: Vocabulary) -> None:
    breaking = set(vocabulary.line_breaks.tolist())
    for token, text in enumerate(vocabulary.token_bytes):
        assert (token in breaking) == (b"\n" in text or b"\r" in text)


def test_half_a_character_is_no_text(vocabulary: Vocabulary) -> None:
    ids = vocabulary.encode("é€😀")
    assert len(ids) == 9  # bytes: the vocabulary has seen none of them
    whole = {2: "é", 5: "é€", 9: "é€😀"}
    for end in range(1, len(ids) + 1):
        assert vocabulary.decode(ids[:end]) == whole.get(end)
    assert vocabulary.decode(ids[1:]) is None
    assert vocabulary.piece(ids[0]) == "\N{REPLACEMENT CHARACTER}"


def test_a_lone_surrogate_is_replaced_and_cannot_be_spelled(vocabulary: Vocabulary) -> None:
    assert vocabulary.decode(vocabulary.encode("a\ud800b")) == "a?b"
    assert vocabulary.encode_with_offsets("\ud800b")[1] == [0, 1]
    assert not vocabulary.can_spell("a\ud800b")


def test_what_has_no_tokens_cannot_be_spelled(tiny_model: Path, tmp_path: Path) -> None:
    poor = without_nul(tiny_model, tmp_path)
    assert not poor.can_spell("a\0b")
    assert poor.can_spell("a\1b")
    assert poor.can_spell("")
    assert poor.decode(poor.encode("a\0b")) == "ab"


def without_nul(model: Path, directory: Path) -> Vocabulary:
    """The vocabulary of `model`, but for its token of the byte 0."""
    raw = json.loads((model / "tokenizer.json").read_bytes())
    vocab = raw["model"]["vocab"]
    vocab["ĀĀ"] = vocab.pop("Ā")
    (directory / "tokenizer.json").write_text(json.dumps(raw))
    return Vocabulary.load(directory)


@pytest.mark.parametrize(
    ("text", "certain", "required"),
    [
        ("", "", b""),
        ("ret", "", b"ret"),
        (" ret", "", b" ret"),
        ("\n    ret", "\n   ", b" ret"),
        ("\n", "", b"\n"),
        ("\n\n", "", b"\n\n"),
        ("    ", "   ", b" "),
        ("\r\n", "", b"\r\n"),
        ("<mask>", "", b"<mask>"),
    ],
)
def test_healing(vocabulary: Vocabulary, text: str, certain: str, required: bytes) -> None:
    ids, rest = vocabulary.heal(text)
    assert (vocabulary.decode(ids), rest) == (certain, required)


@settings(deadline=None)
@given(BLANKS, WORDS)
def test_healing_loses_nothing(vocabulary: Vocabulary, blanks: str, word: str) -> None:
    ids, rest = vocabulary.heal(blanks + word)
    certain = b"".join(vocabulary.token_bytes[i] for i in ids)
    assert certain + rest == (blanks + word).encode()
    assert not SPECIAL & set(ids)


@settings(deadline=None)
@given(BLANKS, st.sampled_from(["return", "x", "self.balance", "amount <= 0"]))
def test_certain_tokens_begin_the_whole_line(
    vocabulary: Vocabulary, blanks: str, word: str
) -> None:
    """They are how the blanks are tokenized whatever word follows."""
    ids, _ = vocabulary.heal(blanks + word[:1])
    assert vocabulary.encode(blanks + word)[: len(ids)] == ids


@settings(deadline=None)
@given(REQUIRED, st.booleans())
def test_beginnings_are_those_of_a_search_through_all_tokens(
    vocabulary: Vocabulary, required: bytes, single_line: bool
) -> None:
    allowed = vocabulary.beginnings(required, single_line)
    for token, text in enumerate(vocabulary.token_bytes):
        past = text[len(required) :] if text.startswith(required) else b""
        expected = bool(text) and (text.startswith(required) or required.startswith(text))
        if single_line and (b"\n" in past or b"\r" in past):
            expected = False
        assert bool(allowed[token]) == expected, (required, text)


@settings(deadline=None)
@given(st.text(min_size=1, max_size=6), st.booleans())
def test_what_can_be_spelled_can_be_begun(vocabulary: Vocabulary, text: str, single: bool) -> None:
    """So a fill never stands before an empty set of tokens."""
    assert vocabulary.can_spell(text)
    assert vocabulary.beginnings(text.encode(), single).any()


def test_beginnings_are_kept_within_bounds(vocabulary: Vocabulary) -> None:
    for n in range(300):
        vocabulary.beginnings(b"%d" % n, True)
    kept = Vocabulary.beginnings.cache_info()
    assert kept.maxsize is not None
    assert kept.currsize <= kept.maxsize


def test_ids_are_indices(vocabulary: Vocabulary) -> None:
    assert vocabulary.never.dtype == vocabulary.line_breaks.dtype == torch.int64


def test_a_missing_and_a_damaged_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"tokenizer\.json"):
        Vocabulary.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"model": ')
    with pytest.raises(ModelCorrupt, match=r"tokenizer\.json"):
        Vocabulary.load(tmp_path)
