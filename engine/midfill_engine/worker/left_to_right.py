"""The base left to right and blind to the suffix: what fills are compared with.

A process of its own, for `midfill eval`: it reads `FillRequest`s as frames from stdin and answers
each with a `FillResult` on stdout, until stdin ends. Greedy, one token a pass over cached keys and
values. Knows nothing of drafts, schedules and deadlines.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import sys
import time

import torch
from torch import Tensor

from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.linear import best_format
from midfill_engine.model.slab import Slab
from midfill_engine.model.transformer import Segment
from midfill_engine.model.vocabulary import END_OF_TEXT
from midfill_engine.protocol import Fill, FillRequest, FillResult, FillStats, encode, read_message
from midfill_engine.worker.score import token_log_probabilities
from midfill_engine.worker.window import make_window


def main() -> None:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(prog="midfill-left-to-right")
    parser.add_argument("--model", required=True)
    options = parser.parse_args()
    answers = os.dup(1)
    os.dup2(2, 1)  # no library writes between our frames
    model = EmbeddedModel.load(options.model, best_format())
    model.warm_up()
    asyncio.run(_answer(model, answers))


async def _answer(model: EmbeddedModel, answers: int) -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    with os.fdopen(answers, "wb") as out:
        while (message := await read_message(reader)) is not None:
            assert isinstance(message, FillRequest)
            out.write(encode(fill_left_to_right(model, message)))
            out.flush()


@torch.inference_mode()
def fill_left_to_right(model: EmbeddedModel, request: FillRequest) -> FillResult:
    """What the base writes after the prefix: one fill, or none where it breaks a character.

    It begins with `heal_left`, and ends before a line break where a single line is asked for, else
    with the end of the text or after `max_tokens`.
    """
    started = time.monotonic()
    vocabulary = model.vocabulary
    window = make_window(vocabulary, request.prefix, request.prefix_line, "")
    certain, required = vocabulary.heal(request.heal_left)
    prompt = [*window.prefix, *certain]
    slab = Slab.empty(model.config, len(prompt) + request.max_tokens)
    hidden = _run(model, slab, prompt, 0)
    encoded = time.monotonic()
    written: list[int] = []
    probabilities: list[float] = []
    while len(written) < request.max_tokens:
        logits = _allowed(model, hidden, required, request.single_line)
        token = int(logits.argmax())
        chosen = torch.tensor([token])
        probabilities.append(float(token_log_probabilities(logits, chosen).exp()))
        text = vocabulary.token_bytes[token]
        if token == END_OF_TEXT or (request.single_line and not required and _breaks(text)):
            break
        required = required[len(text) :]
        written.append(token)
        hidden = _run(model, slab, [token], len(prompt) + len(written) - 1)
    ended = time.monotonic()
    stats = FillStats(
        queue_ms=0,
        encode_ms=1000 * (encoded - started),
        denoise_ms=1000 * (ended - encoded),
        score_ms=0,
        total_ms=1000 * (ended - started),
        steps=len(probabilities),
        passes=len(probabilities),
        tokens=len(written),
        context_tokens=len(window.prefix),
        reused_tokens=0,
    )
    fills = _fills(model, [*certain, *written], [1.0] * len(certain) + probabilities)
    return FillResult(request.request_id, fills, False, stats, gate=0.0)


def _run(model: EmbeddedModel, slab: Slab, ids: list[int], slot: int) -> Tensor:
    """Append tokens to the cache; the last one's state: [1, hidden]."""
    rows = len(ids)
    visible = torch.ones(rows, slot + rows, dtype=torch.bool).tril_(slot) if rows > 1 else None
    positions = torch.arange(slot, slot + rows)
    return model.run_base(ids, positions, [Segment(slab, rows, 0, slot, visible)])[-1:]


def _allowed(model: EmbeddedModel, hidden: Tensor, required: bytes, single_line: bool) -> Tensor:
    """[1, hidden] → [1, V], without what may not come next. The text may end only past the edge."""
    vocabulary = model.vocabulary
    logits = model.base_logits(hidden)
    end = logits[:, END_OF_TEXT].clone()
    logits.index_fill_(1, vocabulary.never, -torch.inf)
    if required:
        logits[0].masked_fill_(~vocabulary.beginnings(required, single_line), -torch.inf)
    else:
        logits[:, END_OF_TEXT] = end
    return logits


def _breaks(text: bytes) -> bool:
    return b"\n" in text or b"\r" in text


def _fills(model: EmbeddedModel, ids: list[int], probabilities: list[float]) -> tuple[Fill, ...]:
    text = model.vocabulary.decode(ids)
    if text is None:
        return ()
    mean = sum(map(math.log, (max(p, 1e-9) for p in probabilities))) / max(len(probabilities), 1)
    pieces = tuple(model.vocabulary.piece(i) for i in ids)
    return (Fill(text, math.exp(mean), mean, pieces, tuple(probabilities[: len(ids)])),)
