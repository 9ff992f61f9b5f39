"""What may be asked for, and what every fill has: its edges, its one line, no special token."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final, cast

import pytest
from support.jobs import request_for
from support.schedulers import Running, running
from support.wordy_model import write_line_breaking_model, write_wordy_model
from tokenizers import Tokenizer

from midfill_engine.model.embedded import EmbeddedModel
from midfill_engine.model.vocabulary import Vocabulary
from midfill_engine.protocol import QUALITIES, FillRequest, Quality
from midfill_engine.worker.strategies import STRATEGIES

PREFIX: Final = "class Account:\n    def deposit(self, amount):\n        self.balance"
EDGES: Final = [
    ("ret", ""),
    (" am", ""),
    ("\n", ""),
    ("\n        sel", ""),
    ("\n    a_name_of_many_tokens_x", ""),
    ("", "ance"),
    ("sel", "ance"),
    ("\t\u3000é", "é"),
    ("<mask>", "<empty>"),
    ("z" * 130, ""),
    ("\n" * 20, "q" * 60),
]


@pytest.mark.parametrize(("heal_left", "heal_right"), EDGES)
@pytest.mark.parametrize("deadline_ms", [60_000, 1])
def test_every_fill_has_its_edges(
    busy: Running, heal_left: str, heal_right: str, deadline_ms: int
) -> None:
    asked = [
        request_for(
            PREFIX,
            heal_left=heal_left,
            heal_right=heal_right,
            quality=quality,
            single_line=single_line,
            deadline_ms=deadline_ms,
        )
        for quality in QUALITIES
        for single_line in (True, False)
    ]
    for request, one in zip(asked, busy.ask(*asked), strict=True):
        for fill in one.result().fills:
            assert fill.text.startswith(heal_left)
            assert fill.text.endswith(heal_right)
            assert "" not in fill.pieces  # as a special token's would be
            if request.single_line:
                assert not set("\r\n") & set(fill.text[len(heal_left) :])


def test_edges_leave_room_for_a_fill(busy: Running) -> None:
    for heal_left, heal_right in [("ret", ""), ("\n        sel", ""), ("sel", "ance")]:
        request = request_for(PREFIX, heal_left=heal_left, heal_right=heal_right)
        assert busy.fill(request).fills


@pytest.fixture(scope="module")
def line_breaking(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedModel:
    directory = write_line_breaking_model(tmp_path_factory.mktemp("breaking"))
    return EmbeddedModel.load(str(directory), "float32")


@pytest.mark.parametrize("quality", QUALITIES)
def test_a_single_line_is_not_broken_however_much_the_model_wants_it(
    line_breaking: EmbeddedModel, quality: Quality
) -> None:
    with running(lambda: line_breaking) as run:
        for heal_left in ("", "on", "\n    on", " "):
            request = request_for(heal_left=heal_left, quality=quality)
            result = run.fill(request)
            broken = run.fill(replace(request, single_line=False))
            for fill in result.fills:
                assert "\n" not in fill.text[len(heal_left) :]
            assert any("\n" in fill.text[len(heal_left) :] for fill in broken.fills)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("single_line", [True, False])
def test_every_strategy_fills_within_the_edges(
    busy: Running, strategy: str, single_line: bool
) -> None:
    for heal_left, heal_right in [("", ""), ("\n        sel", ""), ("sel", "ance")]:
        edges = {"heal_left": heal_left, "heal_right": heal_right}
        request = request_for(PREFIX, single_line=single_line, quality="balanced", **edges)
        result = busy.fill(replace(request, strategy=strategy))
        assert not result.at_deadline
        assert result.fills
        for fill in result.fills:
            assert fill.text.startswith(heal_left)
            assert fill.text.endswith(heal_right)
            assert "" not in fill.pieces


def test_a_fill_of_several_lines_is_as_long_as_it_may_be(tmp_path: Path) -> None:
    """The wordy model never says that a hole ends, so its canvases grow until they may not."""
    model = EmbeddedModel.load(str(write_wordy_model(tmp_path / "wordy")), "float32")
    with running(lambda: model) as run:
        for most in (1, 7, 40, 150):
            request = request_for(single_line=False, quality="balanced", max_tokens=most)
            lengths = {len(fill.pieces) for fill in run.fill(request).fills}
            assert lengths == {most}


def check_refused(run: Running, request: FillRequest, complaint: str) -> None:
    failure = run.ask(request)[0].failure()
    assert failure.kind == "RequestRejected"
    assert complaint in failure.message
    assert len(failure.message) < 1000


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800"])
def test_edges_that_no_token_spells_are_refused(
    tiny: EmbeddedModel, tiny_model: Path, text: str
) -> None:
    written = Tokenizer.from_file(str(tiny_model / "tokenizer.json")).to_str()
    poor = Vocabulary(Tokenizer.from_str(written.replace('"Ā":', '"ĀĀ":')))
    with running(lambda: replace(tiny, vocabulary=poor)) as run:
        check_refused(run, request_for(heal_left=text), "no tokens")
        check_refused(run, request_for(heal_right=text), "no tokens")
        assert run.fill(request_for(f"x = {text}", f"{text}\n")).stats.steps


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        (request_for(max_tokens=0), "at least one token, not 0"),
        (request_for(max_tokens=-5), "at least one token, not -5"),
        (replace(request_for(), quality=cast(Quality, "perfect")), "no quality 'perfect'"),
        (replace(request_for(), strategy="magic"), "no strategy 'magic'; there are left-edge, "),
        (request_for(heal_left="x" * 10_000_000), "too long"),
        (request_for(heal_right="\0" * 10_000_000), "too long"),
        (request_for(heal_left="é" * 100), "too long"),
    ],
)
def test_absurd_requests_are_refused(busy: Running, request_: FillRequest, complaint: str) -> None:
    check_refused(busy, request_, complaint)
    assert busy.fill(request_for()).fills


@pytest.mark.parametrize(
    "request_",
    [
        request_for(max_tokens=2**60),
        request_for(max_tokens=1),
        request_for(deadline_ms=2**60),
        replace(request_for(), prefix_line=-(2**60)),
        request_for("x = 1\n" * 2_000_000, "y = 2\n" * 2_000_000),
        request_for("x" * 10_000_000, "y" * 10_000_000),
        request_for("\ud800" * 3000, "\udfff" * 900),
        request_for("", ""),
    ],
)
def test_extreme_requests_are_answered_within_bounds(busy: Running, request_: FillRequest) -> None:
    result = busy.fill(replace(request_, quality="best"))
    assert result.stats.steps
    assert all(len(fill.pieces) <= 200 for fill in result.fills)
    assert result.stats.context_tokens <= 472
