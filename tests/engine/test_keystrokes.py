"""A context over many keystrokes: what it holds equals a fresh encoding, and little is encoded.

The edits are those of a person in a text: typing, deleting, changing a line above, below, going
elsewhere, a line inserted at the top. Each goes the whole way from text to keys and values.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.jobs import request_for, run_encode, run_rows

from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.slab import Slab
from midfill_engine.worker.context import (
    ORIGIN,
    SCRATCH_ROWS,
    Context,
    ContextPool,
)
from midfill_engine.worker.drafts import growing_drafts
from midfill_engine.worker.job import denoise_rows, start_job
from midfill_engine.worker.window import PREFIX_TOKENS, Window, make_window

BOUND = 1e-4
CAPACITY = ORIGIN + PREFIX_TOKENS + SCRATCH_ROWS
LINES = (
    "def deposit(self, amount):\n",
    "        self.balance += amount\n",
    "    a, b = b, a + b\n",
    "\n",
    "# \u00e9t\u00e9 \U0001f600 \u4f59\n",
    'raise ValueError("' + "amount " * 9 + '")\n',
)
WORDS = ("balance", "self.", " = ", "(", "\n    ", "x9", "\u4f59", "        ", "def f(n):\n")


@dataclass
class Document:
    """A text and a caret in it, edited at random."""

    text: str
    caret: int
    dice: random.Random

    @classmethod
    def new(cls, dice: random.Random) -> Document:
        text = "".join(dice.choices(LINES, k=dice.randint(0, 90)))
        return cls(text, dice.randint(0, len(text)), dice)

    def edit(self) -> None:
        often = [self.type, self.type, self.type, self.delete]
        self.dice.choice([*often, self.change_before, self.change_behind, self.go, self.top])()

    def type(self) -> None:
        self._insert(self.caret, self.dice.choice(WORDS)[: self.dice.randint(1, 12)])

    def delete(self) -> None:
        start = max(0, self.caret - self.dice.randint(1, 6))
        self.text = self.text[:start] + self.text[self.caret :]
        self.caret = start

    def change_before(self) -> None:
        self._insert(self.dice.randint(max(0, self.caret - 900), self.caret), "x")

    def change_behind(self) -> None:
        at = self.dice.randint(self.caret, min(len(self.text), self.caret + 200))
        self.text = self.text[:at] + self.dice.choice(WORDS) + self.text[at + 2 :]

    def go(self) -> None:
        self.caret = self.dice.randint(0, len(self.text))

    def top(self) -> None:
        self._insert(0, "import os\n")

    def _insert(self, at: int, words: str) -> None:
        self.text = self.text[:at] + words + self.text[at:]
        self.caret += len(words) if at <= self.caret else 0

    def window(self, model: EmbeddedModel) -> Window:
        return make_window(model.vocabulary, self.text[: self.caret], 0, self.text[self.caret :])


@pytest.fixture(scope="module")
def pool(tiny: EmbeddedModel) -> ContextPool:
    """One for all examples, so that what others have left behind is found as well."""
    return ContextPool(tiny.config, 3 * Slab.empty(tiny.config, CAPACITY).nbytes)


def opened(model: EmbeddedModel, context: Context, window: Window) -> int:
    """Make the context that of the window. How many tokens of it were encoded."""
    work = context.open(window)
    run_encode(model, work)
    behind = sum(len(ids) - 1 for ids, segment in work if segment.write < ORIGIN)  # but the sink
    return behind + sum(len(ids) for ids, segment in work if segment.write >= ORIGIN)


def check_equals_fresh(model: EmbeddedModel, context: Context) -> None:
    """Keys, values, and what a denoising step makes of them."""
    window = context.window
    fresh = Context(Slab.empty(model.config, CAPACITY))
    opened(model, fresh, window)
    seen = slice(context.first_slot, context.scratch_slot)
    for name in ("keys", "values"):
        ours, theirs = (getattr(c.slab, name)[:, :, seen] for c in (context, fresh))
        assert ours.numel() == 0 or float((ours - theirs).abs().max()) < BOUND
    ours, theirs = (hidden_states(model, c) for c in (context, fresh))
    assert float((ours - theirs).abs().max()) < BOUND


def hidden_states(model: EmbeddedModel, context: Context) -> torch.Tensor:
    request = request_for()
    candidates = growing_drafts(model.vocabulary, request)
    job = start_job(request, context.window, context, 0, candidates)
    return run_rows(model.run_denoiser, [denoise_rows(job)])


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 2**32))
def test_any_edits_leave_what_a_fresh_encoding_gives(
    tiny: EmbeddedModel, pool: ContextPool, seed: int
) -> None:
    """100 edits of four documents, one after another or at once, in three contexts."""
    dice = random.Random(seed)
    documents = [Document.new(dice) for _ in range(4)]
    with torch.inference_mode():
        for number in range(50):
            pair = dice.sample(documents, 2)
            held = []
            for document in pair:
                document.edit()
                window = document.window(tiny)
                context, reused = pool.acquire(window)
                encoded = opened(tiny, context, window)
                assert encoded + reused == len(window.prefix) - 1 + len(window.suffix)
                held.append(context)
            for context in held:
                if number % 4 == 0:
                    check_equals_fresh(tiny, context)
                for tensor in (context.slab.keys, context.slab.values):
                    tensor[:, :, context.scratch_slot :] = torch.nan
                pool.release(context)


def test_a_key_costs_its_own_tokens_only(tiny: EmbeddedModel, pool: ContextPool) -> None:
    """Typing at the end of a long text, and taking it back, in a file with something behind."""
    text, behind = LINES[1] * 200, LINES[0] * 20
    typed = "        self.balance = self.balance + amount"
    lengths = [*range(len(typed)), *range(len(typed), -1, -1)]
    costs = []
    with torch.inference_mode():
        for length in lengths:
            window = make_window(tiny.vocabulary, text + typed[:length], 0, behind)
            context, _ = pool.acquire(window)
            costs.append(opened(tiny, context, window))
            pool.release(context)
    # A letter may turn the token before it into another one, and that one is encoded, too.
    assert max(costs[1:]) <= 6
    assert sum(costs[1:]) < 2 * len(lengths)


def test_a_changed_suffix_leaves_the_prefix_alone(tiny: EmbeddedModel, pool: ContextPool) -> None:
    text = LINES[1] * 20
    with torch.inference_mode():
        costs = []
        for behind in ("return a\n", "return b\n", "return b\n"):
            window = make_window(tiny.vocabulary, text, 0, behind)
            context, _ = pool.acquire(window)
            costs.append(opened(tiny, context, window))
            pool.release(context)
    assert costs[1] == len(window.suffix)
    assert costs[2] == 0
