"""The score of a fill: how well both models expect it, and the base what follows after it.

    score = log p(fill | prefix) + log p(suffix | prefix, fill) + 2 · log q(fill | prefix, suffix)

p is the base, q the denoiser as it made the draft. The fill and the suffix count alike: with a fill
that weighs less, the more drafts there are, the likelier one of them wins that nobody would write
but that happens to suit the suffix. The denoiser's own word was given its weight on held-out
packages (docs/log.md).

Pure but for the model's passes, which its caller runs. The fill and the head of the suffix are
tokenized as one text, as they would stand in a file, so a token may straddle the seam; it counts
for the side on which it starts.

Source: the noisy-channel decomposition of Yu et al. 2017, "The Neural Noisy Channel", with an
infill's suffix in place of the observed sequence; the direct model beside it as in their equation
for decoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from torch import Tensor

from midfill_engine.model.vocabulary import Vocabulary

_CHARACTERS_A_TOKEN: Final = 6  # enough suffix text to make the tokens wanted
_DIRECT: Final = 2.0  # weight of the denoiser's own log probabilities


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


def score_of(text: ScoredText, log_probabilities: Tensor, direct: Sequence[float]) -> float:
    """The score in nats; where nothing follows, of means per token, lest the shortest win.

    Args:
        text: what was scored.
        log_probabilities: [len(text.ids)], the base's of each token given all before it.
        direct: the denoiser's of the fill's own tokens and its end.
    """
    if text.ids and len(text.ids) == text.fill_ids:
        return float(log_probabilities.mean()) + _DIRECT * sum(direct) / max(len(direct), 1)
    return float(log_probabilities.sum()) + _DIRECT * sum(direct)


def token_log_probabilities(logits: Tensor, ids: Tensor) -> Tensor:
    """[N, V] logits and the [N] tokens that came → [N] log probabilities."""
    chosen = logits.gather(1, ids.to(logits.device)[:, None])[:, 0]
    return chosen - logits.logsumexp(1)
