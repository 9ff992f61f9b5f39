"""The vocabulary of a checkpoint, with our ids for what is special.

Owns how a checkpoint's tokenizer is read and in which order its ids are taken: *mask* and *empty*
come to where every vocabulary of ours has them, by exchanging places.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tokenizers import Tokenizer

from midfill_engine.checkpoint import Checkpoint, SpecialIds, added_tokens
from midfill_engine.errors import ModelCorrupt, ModelUnsupported
from midfill_engine.model.vocabulary import EMPTY, END_OF_TEXT, MASK, Vocabulary


def load_vocabulary(checkpoint: Checkpoint, device: str = "cpu") -> Vocabulary:
    """The vocabulary of a checkpoint.

    Raises:
        ModelCorrupt: its tokenizer cannot be read.
        ModelUnsupported: it is no byte-level BPE, or has no id to spare.
    """
    tokenizer = _read_tokenizer(checkpoint.directory)
    # Unicode normalization would change the text that a fill has to begin and end with.
    tokenizer.normalizer = None
    if "Ġ" not in tokenizer.get_vocab():
        raise ModelUnsupported(f"{checkpoint.directory}: the tokenizer is no byte-level BPE")
    special = checkpoint.special
    known = 1 + max(tokenizer.get_vocab().values())
    columns = checkpoint.config["vocab_size"]
    if known > columns:
        raise ModelCorrupt(
            f"{checkpoint.directory}: the tokenizer has ids up to {known - 1}, the model"
            f" {columns} outputs"
        )
    places = _places(tokenizer, special, known, columns)
    size = max(known, *(theirs + 1 for theirs in places.values()))
    order = _exchanged(size, places)
    ours = {theirs: i for i, theirs in enumerate(order)}
    return Vocabulary(
        tokenizer,
        order,
        expand=None if special.expand is None else ours[special.expand],
        delete=None if special.delete is None else ours[special.delete],
        device=device,
    )


def _read_tokenizer(directory: Path) -> Tokenizer:
    """`tokenizer.json`, or what transformers makes of Qwen2's `vocab.json` and `merges.txt`."""
    whole = directory / "tokenizer.json"
    try:
        if whole.is_file():
            return Tokenizer.from_file(str(whole))
        from transformers import Qwen2Tokenizer

        tokenizer: Tokenizer = Qwen2Tokenizer.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False
        ).backend_tokenizer
    except Exception as error:  # tokenizers raises bare Exception
        raise ModelCorrupt(f"{directory}: the tokenizer cannot be read: {error}") from error
    for text, number in added_tokens(directory).items():
        if tokenizer.token_to_id(text) != number:
            raise ModelCorrupt(
                f"{directory}: the added token {text!r} comes to"
                f" {tokenizer.token_to_id(text)}, not {number}"
            )
    return tokenizer


def _places(tokenizer: Tokenizer, special: SpecialIds, known: int, columns: int) -> dict[int, int]:
    """Our ids with a meaning: the tokenizer's ids that take their places.

    What has no counterpart (an *empty* beside length moves; an end of text other than the one
    that ends a hole) takes an id that stands for no text.
    """
    taken = set(special.found().values())
    added = tokenizer.get_added_tokens_decoder()
    unused = [*range(known, columns)]
    unused += [i for i, token in added.items() if token.special and i not in taken]
    spare = iter(unused)
    try:
        empty = special.eos if special.expand is None else next(spare)
        return {MASK: special.mask, EMPTY: empty, END_OF_TEXT: next(spare)}
    except StopIteration:
        raise ModelUnsupported(
            "the tokenizer has no id to spare for the marks that this engine needs"
        ) from None


def _exchanged(size: int, places: Mapping[int, int]) -> list[int]:
    """0 … size - 1 in an order that has `places`, and all else where it was."""
    order = list(range(size))
    where = list(range(size))
    for ours, theirs in places.items():
        at = where[theirs]
        order[ours], order[at] = theirs, order[ours]
        where[order[ours]], where[order[at]] = ours, at
    return order
