"""The noisy-channel score of a fill: how well the base expects it, and what follows after it.

    score = log p(fill | prefix) + log p(suffix | prefix, fill)

Both count alike: with a fill that weighs less, the more drafts there are, the likelier one of them
wins that nobody would write but that happens to suit the suffix (docs/log.md).

Pure but for the model's passes, which its caller runs. The fill and the head of the suffix are
tokenized as one text, as they would stand in a file, so a token may straddle the seam; it counts
for the side on which it starts.

Source: the noisy-channel decomposition of Yu et al. 2017, "The Neural Noisy Channel", with an
infill's suffix in place of the observed sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from torch import Tensor

from midfill_engine.model.vocabulary import Vocabulary

_CHARACTERS_A_TOKEN: Final = 6  # enough suffix text to make the tokens wanted


@dataclass(frozen=True, slots=True)
class ScoredText:
    """A fill and the head of its suffix, as the base will read them after the prefix."""

    ids: tuple[int, ...]
    fill_ids: int  # how many of them start inside the fill


def scored_text(
    vocabulary: Vocabulary, fill: str, suffix: str, suffix_tokens: int, room: int
) -> ScoredText:
    """Tokenize `fill` and at most `suffix_tokens` of `suffix`; at most `room` ids in all."""
    ids, starts = vocabulary.encode_with_offsets(
        fill + suffix[: suffix_tokens * _CHARACTERS_A_TOKEN]
    )
    fill_ids = sum(start < len(fill) for start in starts)
    kept = ids[: min(fill_ids + suffix_tokens, room)]
    return ScoredText(tuple(kept), min(fill_ids, len(kept)))


def noisy_channel(text: ScoredText, log_probabilities: Tensor) -> float:
    """The score in nats; where nothing follows, the mean per token, lest the shortest win.

    Args:
        text: what was scored.
        log_probabilities: [len(text.ids)], each token's given all before it.
    """
    if text.ids and len(text.ids) == text.fill_ids:
        return float(log_probabilities.mean())
    return float(log_probabilities.sum())


def token_log_probabilities(logits: Tensor, ids: Tensor) -> Tensor:
    """[N, V] logits and the [N] tokens that came → [N] log probabilities."""
    chosen = logits.gather(1, ids.to(logits.device)[:, None])[:, 0]
    return chosen - logits.logsumexp(1)
