"""The base left to right: cached token by token, it writes what full passes would have it write."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from support.jobs import request_for

from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.slab import Slab
from midfill_engine.model.transformer import Segment
from midfill_engine.worker.left_to_right import fill_left_to_right
from midfill_engine.worker.window import make_window

PREFIX = "def fibonacci(n):\n    a, b = 0, 1\n    for _ in"


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> EmbeddedModel:
    return EmbeddedModel.load(str(tiny_model), "float32")


def logits_of(model: EmbeddedModel, ids: list[int]) -> torch.Tensor:
    """[V], by one full pass without a cache."""
    visible = torch.ones(len(ids), len(ids), dtype=torch.bool).tril_()
    segment = Segment(Slab.empty(model.config, len(ids)), len(ids), 0, 0, visible)
    return model.base_logits(model.run_base(ids, torch.arange(len(ids)), [segment]))[-1]


@torch.inference_mode()
def test_it_writes_what_full_passes_would(model: EmbeddedModel) -> None:
    result = fill_left_to_right(model, request_for(PREFIX, single_line=False, max_tokens=12))
    vocabulary = model.vocabulary
    ids = list(make_window(vocabulary, PREFIX, 0, "").prefix)
    pieces, logs = [], []
    while len(pieces) < 12:
        logits = logits_of(model, ids)
        end = logits[0].clone()
        logits[vocabulary.never] = -torch.inf
        logits[0] = end
        token = int(logits.argmax())
        logs.append(float(logits.log_softmax(0)[token]))
        if token == 0:
            break
        ids.append(token)
        pieces.append(vocabulary.piece(token))
    (fill,) = result.fills
    assert fill.pieces == tuple(pieces)
    assert fill.confidence == pytest.approx(math.exp(sum(logs) / len(logs)), rel=1e-3)
    assert result.stats.tokens == len(pieces)


def test_the_suffix_is_not_seen(model: EmbeddedModel) -> None:
    one, other = (fill_left_to_right(model, request_for(PREFIX, s)) for s in ("\n  x", "\n  y"))
    assert one.fills == other.fills


def test_the_left_edge_is_demanded(model: EmbeddedModel) -> None:
    request = request_for("def f():", heal_left="\n    ret", max_tokens=30)
    (fill,) = fill_left_to_right(model, request).fills
    assert fill.text.startswith("\n    ret")
    assert "\n" not in fill.text.removeprefix("\n")
