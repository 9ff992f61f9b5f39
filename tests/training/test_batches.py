"""The stream of windows: what is masked, what is seen, and that it is the product's own."""

from __future__ import annotations

import numpy as np

from midfill_engine.model.vocabulary import EMPTY, MASK
from midfill_engine.training.batches import Batches, Window, pack
from midfill_engine.training.byte_tokens import ByteTokens


def test_same_index_same_batch(batches: Batches) -> None:
    assert repr(batches.window(3)) == repr(batches.window(3))
    assert repr(batches.window(3)) != repr(batches.window(4))


def _known(batch: Window) -> list[tuple[list[int], list[int]]]:
    return [(c.ids[1:], c.targets[:-1]) for g in batch.groups for c in g.canvases if not c.causal]


def test_visible_tokens_are_the_targets(batches: Batches) -> None:
    for index in range(20):
        for ids, targets in _known(batches.window(index)):
            assert all(i in (MASK, t) for i, t in zip(ids, targets, strict=True))
            shown = [i for i, token in enumerate(ids) if token == EMPTY]
            assert all(token == EMPTY for token in ids[shown[0] :]) if shown else True


def test_causal_canvas_predicts_the_next_token(batches: Batches) -> None:
    for index in range(20):
        for group in batches.window(index).groups:
            for canvas in group.canvases:
                if canvas.causal:
                    assert canvas.ids[1:] == canvas.targets[:-1]
                    assert canvas.targets[-1] == EMPTY


def test_prefix_hole_and_suffix_make_the_text(batches: Batches, tokens: ByteTokens) -> None:
    """Tokenized on its own, each side gives the ids that the canvas uses."""
    for index in range(30):
        batch = batches.window(index)
        for group in batch.groups:
            for canvas in group.canvases:
                prefix = [*batch.prefix[: canvas.context].tolist(), canvas.ids[0]]
                text = tokens.decode(np.array(prefix))
                if text.isascii():
                    assert tokens.encode(text) == prefix
                after = tokens.decode(np.array(group.suffix, dtype=np.int64))
                if after.isascii() and after.strip():  # blanks at its end depend on what follows
                    tail = len(tokens.encode(after[len(after.rstrip()) :])) + 1
                    assert (
                        tokens.encode(after)[:-tail]
                        == group.suffix[: len(tokens.encode(after)) - tail]
                    )


def test_rows_see_their_own_context_only(batches: Batches) -> None:
    batch = batches.window(0)
    packed = pack([batch])
    for group, seen, span in zip(batch.groups, packed.visible, packed.spans, strict=True):
        suffix, context, row = span.suffix, span.context, 0
        for canvas in group.canvases:
            size = len(canvas.ids)
            part = seen[row : row + size]
            own = suffix + context + row
            assert part[:, :suffix].all()
            assert part[:, suffix : suffix + context].sum() == size * canvas.context
            assert part[:, suffix + context :].sum() == part[:, own : own + size].sum()
            assert part[0, own + size - 1] == (not canvas.causal or size == 1)
            row += size
