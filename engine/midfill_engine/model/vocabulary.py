"""Text to token ids and back, and which tokens may stand where.

Owns the tokenizer file, the bytes of every token and the sets that constraints are made of.
Special tokens never come out of here as text, nor do they come in: text that spells one is
tokenized as the characters it consists of.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import torch
from tokenizers import Tokenizer
from torch import Tensor

from midfill_engine.adapter_file import EMPTY as EMPTY
from midfill_engine.adapter_file import MASK as MASK
from midfill_engine.errors import ModelCorrupt, ModelMissing

END_OF_TEXT: Final = 0  # also the attention sink in front of a suffix
_WORD_PROBE: Final = "x"  # what stands for "a word follows" when whitespace is tokenized


class Vocabulary:
    """A byte-level BPE vocabulary whose ids 0, 15 and 16 carry the meanings above.

    A tokenizer in which they mean something else is taken with its ids in another order:
    `order[i]` is the tokenizer's id of our token i. `expand` and `delete` are tokens of ours that
    move a canvas's length, where a model has them (see `worker.length_moves`).
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        order: Sequence[int] | None = None,
        *,
        expand: int | None = None,
        delete: int | None = None,
        device: str = "cpu",
    ) -> None:
        self._tokenizer = tokenizer
        tokenizer.encode_special_tokens = True
        order = order if order is not None else range(tokenizer.get_vocab_size())
        self.size: int = len(order)
        self.expand, self.delete = expand, delete
        self.moved = {theirs: ours for ours, theirs in enumerate(order) if ours != theirs}
        added = tokenizer.get_added_tokens_decoder()
        special = {i for i, theirs in enumerate(order) if theirs in added and added[theirs].special}
        special |= {END_OF_TEXT, EMPTY, MASK, *self.length_moves}
        self.token_bytes: tuple[bytes, ...] = tuple(
            b"" if i in special else _bytes_of(tokenizer.id_to_token(theirs) or "")
            for i, theirs in enumerate(order)
        )
        self._sorted = sorted((b, i) for i, b in enumerate(self.token_bytes) if b)
        self._by_bytes = dict(self._sorted)
        self._device = device
        self.never = torch.tensor(  # [n] ids of tokens without text
            [i for i, b in enumerate(self.token_bytes) if not b], device=device
        )
        self.line_breaks = torch.tensor(  # [n] ids of tokens that end a line
            [i for i, b in enumerate(self.token_bytes) if b"\n" in b or b"\r" in b], device=device
        )

    @property
    def length_moves(self) -> tuple[int, ...]:
        """Ids of the tokens that move a canvas's length."""
        return tuple(i for i in (self.expand, self.delete) if i is not None)

    @classmethod
    def load(cls, directory: Path, device: str = "cpu") -> Vocabulary:
        """Read `tokenizer.json`.

        Raises:
            ModelMissing: there is no such file.
            ModelCorrupt: it is not a tokenizer.
        """
        path = directory / "tokenizer.json"
        if not path.exists():
            raise ModelMissing(f"no model in {directory}: tokenizer.json is missing")
        try:
            return cls(Tokenizer.from_file(str(path)), device=device)
        except Exception as error:  # tokenizers raises bare Exception
            raise ModelCorrupt(f"{path}: {error}") from error

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`; lone surrogates become replacement characters."""
        return self._ours(self._tokenizer.encode(_clean(text), add_special_tokens=False).ids)

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[int]]:
        """Token ids of `text`, and the code point at which each starts."""
        encoding = self._tokenizer.encode(_clean(text), add_special_tokens=False)
        return self._ours(encoding.ids), [start for start, _ in encoding.offsets]

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """Token ids of each text, for many long texts at once."""
        done = self._tokenizer.encode_batch_fast(
            [_clean(text) for text in texts], add_special_tokens=False
        )
        return [self._ours(encoding.ids) for encoding in done]

    def word_starts(self, text: str) -> list[int]:
        """Code points at which the words of `text` begin; a token never reaches into the next."""
        pieces = self._tokenizer.pre_tokenizer.pre_tokenize_str(_clean(text))
        return [start for _, (start, _) in pieces]

    def decode(self, ids: list[int]) -> str | None:
        """The text of `ids`, or None where they do not make whole characters."""
        try:
            return b"".join(self.token_bytes[i] for i in ids).decode("utf-8")
        except UnicodeDecodeError:
            return None

    def piece(self, token: int) -> str:
        """A token's text for display."""
        return self.token_bytes[token].decode("utf-8", "replace")

    def can_spell(self, text: str) -> bool:
        """Whether tokens exist for all of `text`: some rare bytes and lone surrogates have none."""
        clean = _clean(text)
        return clean == text and all(bytes((b,)) in self._by_bytes for b in clean.encode())

    def heal(self, text: str) -> tuple[list[int], bytes]:
        """How a fill must begin: tokens that are certain, then bytes that are only a beginning.

        The blanks in front of a word are tokenized as they are before any word; the last blank
        and the word itself may belong to a longer token, so they only constrain what follows.
        So does a line break with nothing after it: tokens reach from it into the indentation.
        """
        blanks = text[: len(text) - len(text.lstrip())]
        if blanks == text and blanks.endswith(("\n", "\r")):
            return [], _clean(text).encode()
        ids, starts = self.encode_with_offsets(blanks + _WORD_PROBE)
        known = len(blanks) - blanks.endswith(" ")
        certain = [i for i, end in zip(ids, starts[1:], strict=False) if end <= known]
        covered = len(b"".join(self.token_bytes[i] for i in certain))
        return certain, _clean(text).encode()[covered:]

    @lru_cache(maxsize=256)  # noqa: B019 - one vocabulary lives as long as its worker
    def beginnings(self, required: bytes, single_line: bool) -> Tensor:
        """[V] bool: tokens with which a text that must begin with `required` can begin.

        These either go on past `required`, or are a proper part of its beginning. With
        `single_line`, nothing past `required` may break the line.
        """
        allowed = torch.zeros(self.size, dtype=torch.bool)
        start = bisect_left(self._sorted, (required, -1))
        for token_bytes, token in self._sorted[start:]:
            if not token_bytes.startswith(required):
                break
            rest = token_bytes[len(required) :]
            allowed[token] = not (single_line and (b"\n" in rest or b"\r" in rest))
        for length in range(1, len(required)):
            part = self._by_bytes.get(required[:length])
            if part is not None:
                allowed[part] = True
        return allowed.to(self._device)

    def _ours(self, ids: list[int]) -> list[int]:
        """The tokenizer's ids in our order."""
        return [self.moved.get(i, i) for i in ids] if self.moved else ids


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins for the 256 bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + n): b for n, b in enumerate(others)}


_ALPHABET: Final = _byte_alphabet()


def _bytes_of(token: str) -> bytes:
    try:
        return bytes(_ALPHABET[c] for c in token)
    except KeyError:  # an added token, spelled in plain characters
        return token.encode()
