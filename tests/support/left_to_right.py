"""The bare base, left to right and blind to the suffix: what a fill is compared with."""

from __future__ import annotations

import torch

from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.slab import Slab
from midfill_engine.model.transformer import Segment
from midfill_engine.worker.context import ORIGIN, Context
from midfill_engine.worker.window import Window, make_window
from support.jobs import run_encode


@torch.inference_mode()
def greedy_line(model: EmbeddedModel, before: str, max_tokens: int = 48) -> str:
    """The line that the base writes after `before` and a line break."""
    vocabulary = model.vocabulary
    window = make_window(vocabulary, before, 0, "")
    context = Context(Slab.empty(model.config, ORIGIN + 512))
    required, ids = b"\n", list(window.prefix)
    for _ in range(max_tokens):
        run_encode(model, context.open(Window(tuple(ids), ())))
        hidden = _last_hidden(model, context, ids)
        logits = model.base_logits(hidden)[0]
        logits[vocabulary.never] = -torch.inf
        if required:
            logits[~vocabulary.beginnings(required, True)] = -torch.inf
        token = int(logits.argmax())
        text = vocabulary.token_bytes[token]
        if not required and b"\n" in text:
            break
        required = required[len(text) :]
        ids.append(token)
    written = b"".join(vocabulary.token_bytes[i] for i in ids[len(window.prefix) :])
    return written.decode("utf-8", "replace").removeprefix("\n")


def _last_hidden(model: EmbeddedModel, context: Context, ids: list[int]) -> torch.Tensor:
    """The state that predicts the token after `ids`, all but the last of which are cached."""
    slot = ORIGIN + len(ids) - 1
    segment = Segment(context.slab, 1, ORIGIN, slot, None)
    return model.run_base(ids[-1:], torch.tensor([len(ids) - 1]), [segment])
