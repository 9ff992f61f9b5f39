"""Cached contexts: equal to fresh ones whatever has been edited, bounded, and never shared."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.jobs import run_encode

from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.slab import Slab
from midfill_engine.worker.context import (
    LEAST_SHARED,
    ORIGIN,
    SCRATCH_ROWS,
    Context,
    ContextPool,
)
from midfill_engine.worker.window import PREFIX_TOKENS, SUFFIX_TOKENS, Window

BOUND = 1e-4
CAPACITY = ORIGIN + PREFIX_TOKENS + SCRATCH_ROWS
SLABS = 3
IDS = st.integers(17, 380)


@dataclass
class Document:
    """Tokens around a caret, edited at random."""

    prefix: list[int]
    suffix: list[int]
    random: random.Random = field(repr=False)

    def edit(self) -> None:
        kinds = [self.append, self.append, self.delete, self.elsewhere, self.change_suffix]
        self.random.choice([*kinds, self.move])()

    def append(self) -> None:
        self.prefix += self.some(3)

    def delete(self) -> None:
        del self.prefix[max(1, len(self.prefix) - self.random.randint(1, 4)) :]

    def elsewhere(self) -> None:
        """Replace some tokens anywhere before the caret."""
        at = self.random.randrange(len(self.prefix))
        self.prefix[at : at + self.random.randint(0, 3)] = self.some(3)

    def change_suffix(self) -> None:
        at = self.random.randint(0, len(self.suffix))
        self.suffix[at : at + self.random.randint(0, 2)] = self.some(self.random.randint(0, 2))

    def move(self) -> None:
        """The caret goes elsewhere: tokens change sides."""
        whole = self.prefix + self.suffix
        at = self.random.randint(1, len(whole))
        self.prefix, self.suffix = whole[:at], whole[at:]

    def some(self, count: int) -> list[int]:
        return [self.random.randint(17, 380) for _ in range(count)]

    def window(self) -> Window:
        return Window(tuple(self.prefix[-40:]), tuple(self.suffix[:12]))


def pool_of(model: EmbeddedModel, slabs: int = SLABS) -> ContextPool:
    return ContextPool(model.config, slabs * Slab.empty(model.config, CAPACITY).nbytes)


def encoded(model: EmbeddedModel, pool: ContextPool, window: Window) -> tuple[Context, int]:
    context, reused = pool.acquire(window)
    run_encode(model, context.open(window))
    return context, reused


def scribble(context: Context) -> None:
    """What passes leave behind: anything, but only where a canvas goes."""
    for tensor in (context.slab.keys, context.slab.values):
        tensor[:, :, context.scratch_slot :] = torch.nan


def check_equals_fresh(model: EmbeddedModel, context: Context) -> None:
    window = context.window
    fresh = Context(Slab.empty(model.config, CAPACITY))
    run_encode(model, fresh.open(window))
    seen = slice(context.first_slot, context.scratch_slot)
    assert (fresh.first_slot, fresh.scratch_slot) == (seen.start, seen.stop)
    for name in ("keys", "values"):
        ours = getattr(context.slab, name)[:, :, seen]
        theirs = getattr(fresh.slab, name)[:, :, seen]
        assert ours.shape[2] == len(window.prefix) - 1 + len(window.suffix)
        if ours.numel():
            assert float((ours - theirs).abs().max()) < BOUND


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32), st.integers(1, 4))
def test_contexts_reused_over_many_edits_equal_fresh_ones(
    tiny_pool: tuple[EmbeddedModel, ContextPool], seed: int, documents: int
) -> None:
    """More documents than contexts, hundreds of edits each: what is found is what would be made."""
    model, pool = tiny_pool
    source = random.Random(seed)
    opened = [Document([source.randint(17, 380)], [], source) for _ in range(documents)]
    reused_tokens = 0
    with torch.inference_mode():
        for number in range(100):
            document = source.choice(opened)
            document.edit()
            context, reused = encoded(model, pool, document.window())
            reused_tokens += reused
            if number % 4 == 0:
                check_equals_fresh(model, context)
            scribble(context)
            pool.release(context)
            assert pool.nbytes <= SLABS * context.slab.nbytes
    assert reused_tokens > 0


@pytest.fixture(scope="module")
def tiny_pool(tiny: EmbeddedModel) -> tuple[EmbeddedModel, ContextPool]:
    return tiny, pool_of(tiny)


@settings(deadline=None, max_examples=200)
@given(st.lists(IDS, min_size=1, max_size=9), st.lists(IDS, max_size=4), st.data())
def test_what_is_reused_is_what_is_the_same(
    prefix: list[int], suffix: list[int], data: st.DataObject
) -> None:
    context = Context(slab=None)  # type: ignore[arg-type]  # nothing is computed
    context.open(Window(tuple(prefix), tuple(suffix)))
    kept = data.draw(st.integers(0, len(prefix)))
    other = Window(
        (*prefix[:kept], *data.draw(st.lists(IDS, min_size=kept == 0, max_size=4))),
        tuple(data.draw(st.sampled_from([suffix, suffix[1:], [5, *suffix]]))),
    )
    same, same_suffix = context.common(other)
    limit = min(len(prefix), len(other.prefix)) - 1  # neither has its last token cached
    assert same <= limit
    assert other.prefix[:same] == tuple(prefix[:same])
    assert same == limit or other.prefix[same] != prefix[same]
    assert same_suffix == (bool(suffix) and other.suffix == tuple(suffix))


@torch.inference_mode()
def test_a_spoilt_context_is_encoded_anew(tiny: EmbeddedModel) -> None:
    pool = pool_of(tiny)
    window = Window((20, 21, 22), (23, 24))
    context, _ = encoded(tiny, pool, window)
    context.slab.keys.fill_(torch.nan)
    context.spoil()
    pool.release(context)
    context, reused = encoded(tiny, pool, window)
    assert reused == 0
    check_equals_fresh(tiny, context)


def test_the_largest_windows_fit(tiny: EmbeddedModel) -> None:
    context, _ = pool_of(tiny).acquire(Window((20,), ()))
    window = Window((20,) * PREFIX_TOKENS, (21,) * SUFFIX_TOKENS)
    work = context.open(window)
    assert min(segment.first for _, segment in work) == 0
    assert context.scratch_slot + SCRATCH_ROWS <= context.slab.capacity


def test_a_request_for_the_same_text_reuses_all_of_it(tiny: EmbeddedModel) -> None:
    pool = pool_of(tiny)
    window = Window((20, 21, 22), (23, 24))
    first, reused = pool.acquire(window)
    assert reused == 0
    assert first.open(window)
    pool.release(first)
    again, reused = pool.acquire(window)
    assert again is first
    assert reused == 4  # all but the last token before the hole, which every pass runs anyway
    assert again.open(window) == []


def test_busy_contexts_are_never_shared_and_none_is_over_the_limit(tiny: EmbeddedModel) -> None:
    pool = pool_of(tiny)
    window = Window((20, 21, 22), (23,))
    held = []
    while pool.has_room:
        context, _ = pool.acquire(window)
        context.open(window)
        held.append(context)
    assert len({id(context.slab) for context in held}) == SLABS
    assert pool.nbytes == SLABS * held[0].slab.nbytes
    pool.release(held[1])
    assert pool.has_room
    assert pool.acquire(window) == (held[1], 3)
    assert not pool.has_room


def test_a_little_in_common_is_not_enough_while_there_is_room(tiny: EmbeddedModel) -> None:
    """Many files begin with the same few tokens."""
    pool = pool_of(tiny)
    license_header = tuple(range(20, 20 + LEAST_SHARED - 1))
    windows = [Window((*license_header, *[90 + n] * 200), ()) for n in range(SLABS)]
    for window in windows:
        context, reused = pool.acquire(window)
        assert reused == 0
        context.open(window)
        pool.release(context)
    for window in windows:
        context, reused = pool.acquire(window)
        assert reused == len(window.prefix) - 1
        pool.release(context)


def test_the_most_in_common_is_taken(tiny: EmbeddedModel) -> None:
    pool = pool_of(tiny)
    start = tuple(range(20, 100))
    for length in (40, 60, 50):
        context = pool._new()
        context.open(Window((*start[:length], *[300 + length] * 3), ()))
        pool._contexts.append(context)
    assert pool.acquire(Window((*start, 7, 8), ()))[1] == 60


def test_an_unknown_text_takes_the_place_of_the_least_recently_used(tiny: EmbeddedModel) -> None:
    pool = pool_of(tiny)
    windows = [Window((20 + n, 21 + n, 22 + n), ()) for n in range(SLABS)]
    slabs = []
    for window in (*windows, windows[0]):
        context, _ = pool.acquire(window)
        context.open(window)
        pool.release(context)
        slabs.append(context)
    assert slabs[0] is slabs[SLABS]
    unknown, reused = pool.acquire(Window((90, 91), ()))
    assert reused == 0
    assert unknown is slabs[1]


def test_a_limit_below_one_context_still_serves_one_at_a_time(tiny: EmbeddedModel) -> None:
    pool = ContextPool(tiny.config, 1)
    for n in range(3):
        assert pool.has_room
        context, _ = pool.acquire(Window((20 + n,), ()))
        assert not pool.has_room
        pool.release(context)
    assert pool.nbytes == context.slab.nbytes


def test_a_pool_grows_and_shrinks_with_its_limit(tiny: EmbeddedModel) -> None:
    pool = pool_of(tiny)
    windows = [Window((20 + n, 21 + n, 22 + n), ()) for n in range(SLABS + 2)]

    def held() -> list[Context]:
        contexts = []
        for window in windows:
            context, _ = pool.acquire(window)
            context.open(window)
            pool.release(context)
            contexts.append(context)
        return contexts

    assert len({id(context) for context in held()}) == SLABS
    size = pool.nbytes // SLABS
    pool.bound((SLABS + 2) * size)
    contexts = held()
    assert pool.nbytes == (SLABS + 2) * size
    assert all(pool.acquire(window)[0] is c for window, c in zip(windows, contexts, strict=True))
    pool.release(contexts[0])
    pool.release(contexts[1])
    pool.bound(size)  # the busy ones are still needed
    assert pool.nbytes == SLABS * size
    for context in contexts[2:]:
        pool.release(context)
    pool.bound(size)
    assert pool.nbytes == size
    assert pool.acquire(windows[-1]) == (contexts[-1], 2)
