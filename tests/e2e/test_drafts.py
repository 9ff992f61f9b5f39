"""Drafts on their way to an editor that wants to watch them."""

from __future__ import annotations

import sys
from itertools import pairwise

from support.editor import URI, editor
from support.homes import Home


async def test_drafts_sharpen_into_the_fill(shared_home: Home) -> None:
    async with editor(shared_home, drafts=True, maxTokens=12, quality="best") as ed:
        buffer = ed.open("print()\n")
        items = await ed.complete(6)
        watched, last = (
            [[list(d.pieces) for d in event.drafts] for event in ed.drafts],
            ed.drafts[-1],
        )
        assert {(event.uri, event.version) for event in ed.drafts} == {(URI, 1)}
    masks = [[pieces.count(None) for pieces in step] for step in watched]
    sys.stdout.write(f"masks in each draft, step by step: {masks}\n")
    assert [event.step for event in ed.drafts] == list(range(1, len(ed.drafts) + 1))
    for earlier, later in pairwise(watched):
        for before, after in zip(earlier, later, strict=True):
            assert _remains(before, after)
    assert set(masks[-1]) == {0}
    texts = ["".join(draft.pieces) for draft in last.drafts]
    assert items[0].insert_text in texts
    assert buffer.text == "print()\n"


async def test_no_drafts_for_an_editor_that_did_not_ask(shared_home: Home) -> None:
    async with editor(shared_home) as ed:
        ed.open("print()\n")
        assert await ed.complete(6)
        assert ed.drafts == []


def _remains(before: list[str | None], after: list[str | None]) -> bool:
    """Whether what a step has decided is there after the next; a full draft may have grown."""
    kept = after[: len(before)]
    return len(kept) == len(before) and all(
        piece is None or piece == now for piece, now in zip(before, kept, strict=True)
    )
