"""`midfill demo`: the holes, what is seen of them, and a whole run with a tiny model."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from midfill_lsp.cli import main
from midfill_lsp.cli.exit_codes import ExitCode
from midfill_lsp.cli.screen import Screen
from midfill_lsp.cli.source import Source
from midfill_lsp.errors import ReplayError
from midfill_lsp.replay.connection import connected
from midfill_lsp.replay.cutting import Cut, cut_range, cut_samples
from midfill_lsp.replay.editor import editing
from midfill_lsp.samples import HOLES, SAMPLE

SOURCE = "def f(a):\n    if a:\n        return 1\n    return a + 1\n"


def cut(what: str) -> Cut:
    start = SOURCE.index(what)
    return cut_range(SOURCE, start, start + len(what))


# Holes


def test_a_range_is_replaced_by_a_placeholder() -> None:
    hole = cut("a + 1")
    assert hole.text == SOURCE.replace("a + 1", "...")
    assert hole.text[hole.start : hole.end] == "..."
    assert hole.removed == "a + 1"
    assert hole.masked_text == SOURCE.replace("a + 1", "░ ░ ░")


def test_the_samples_holes_are_in_the_sample_once() -> None:
    text = SAMPLE.read_text()
    assert all(text.count(hole.before + hole.removed) == 1 for hole in HOLES)
    for sample, hole in zip(HOLES, cut_samples(text, HOLES), strict=True):
        assert hole.at_cursor == sample.at_cursor
        assert text == hole.text[: hole.start] + hole.removed + hole.text[hole.end :]


# What is seen


def screen(*, live: bool = False, width: int = 80) -> tuple[Screen, io.StringIO]:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=live, highlight=False)
    return Screen(Source("a.py", SOURCE, False), "python", console, live=live), out


STATS: dict[str, Any] = {
    "confidence": 0.5,
    "steps": 2,
    "tokens": 3,
    "atDeadline": True,
    "encodeMs": 10.0,
    "denoiseMs": 2000.0,
    "scoreMs": 0.0,
}


def draft(step: int, *drafts: dict[str, float | None]) -> dict[str, Any]:
    """A notification: each draft's pieces with their confidences; None for a masked one."""
    told = [
        {
            "pieces": [None if c is None else piece for piece, c in one.items()],
            "confidences": [c or 0.0 for c in one.values()],
        }
        for one in drafts
    ]
    return {"step": step, "drafts": told}


def test_a_hole_is_shown_in_its_lines() -> None:
    shown, out = screen()
    shown.hole(1, 2, cut("return 1\n    return a + 1"))
    assert out.getvalue().splitlines()[1:] == [
        "1/2 the selection, line 3 " + "─" * 54,
        "  1 │ def f(a):",
        "  2 │     if a:",
        "  3 │         ░░░░░░ ░",
        "  4 │     ░░░░░░ ░ ░ ░",
        "  5 │ ",
    ]


def test_without_a_terminal_there_is_a_line_for_each_step() -> None:
    shown, out = screen(width=40)
    finished = {"x": 1.0}
    with shown.watching() as watch:
        watch(draft(1, {"\n    a": 0.9, "b": None, "c": None}, {"x": None}))
        watch(draft(2, {"\n    a": 0.9, "b": 0.8, "c": None}, finished))
        watch(draft(3, {"\n    a": 0.9, "b": 0.8, "\n    c": 0.1}, finished))
        watch(draft(4, {"\n    a": 0.9, "b": 0.8, "\n    c": 0.1}, finished))
        watch(draft(5, {"a" * 99: 0.9}, finished))
    assert out.getvalue().splitlines() == [
        "  step  1  0/2 drafts done  a░░░░",
        "  step  2  1/2 drafts done  x",
        "  step  3  2/2 drafts done  ab⏎ c",
        "  step  5  2/2 drafts done  " + "a" * 11 + "…",
    ]


def test_in_a_terminal_all_drafts_sharpen_in_place() -> None:
    shown, out = screen(live=True)
    with shown.watching() as watch:
        watch(draft(1, {"a": 0.95, "b": None}))
        watch(draft(2, {"a": 0.95, "b": 0.1}))
    told = out.getvalue()
    green, red = "\x1b[32m", "\x1b[31m"
    assert f"{green}a\x1b[0m\x1b[2m░░\x1b[0m" in told
    assert f"{green}a\x1b[0m{red}b\x1b[0m" in told
    assert "step 2" in told


def test_what_was_filled_and_what_it_took() -> None:
    shown, out = screen()
    hole = cut("a + 1")
    shown.filled(hole, SOURCE.replace("a + 1", "a"), STATS, 2.5)
    told = out.getvalue()
    assert "-    return ...\n+    return a\n" in told
    assert "confidence 0.50 · 2 steps · 1.5 tokens per step · 2.50 s, cut short" in told
    assert "of which encode 0.01 s, denoise 2.00 s, score 0.00 s" in told
    assert "cut out was: a + 1" in told


def test_what_was_filled_as_it_was_before() -> None:
    shown, out = screen()
    shown.filled(cut("a + 1"), SOURCE, STATS, 1.0)
    assert "exactly what was cut out" in out.getvalue()


def test_what_was_not_filled() -> None:
    shown, out = screen()
    shown.refused("what the model wrote was refused (empty)", 1.0)
    assert out.getvalue().startswith("nothing offered after 1.00 s: what the model wrote was")


# The editor


async def test_a_server_that_does_not_start_is_told_by_its_last_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = "import sys; sys.stdin.readline(); sys.exit('no such thing')"
    monkeypatch.setattr("midfill_lsp.replay.connection.SERVER", (sys.executable, "-c", code))
    with pytest.raises(ReplayError, match="the server has ended: no such thing"):
        async with editing("file:///a.py", "python", {}):
            raise AssertionError("it has no server")


async def test_errors_of_the_server(private_dirs: Path) -> None:
    async with connected(lambda method, params: NotImplemented) as connection:
        with pytest.raises(ReplayError, match="initialize"):
            await connection.ask("workspace/executeCommand", {})


# Whole runs


def check_run(
    capsys: pytest.CaptureFixture[str], model: Path, *arguments: str, holes: int
) -> list[str]:
    """It runs, and every hole ends in a diff or with a reason. The lines it prints."""
    code = main(["demo", "--model", str(model), *arguments])
    out = capsys.readouterr().out
    filled, refused = out.count("confidence "), out.count("nothing offered")
    assert filled + refused == holes
    assert f"{filled} of {holes} filled" in out
    assert code == (ExitCode.DONE if filled else ExitCode.NO_FILL)
    assert "\x1b" not in out
    return out.splitlines()


def test_a_run(tiny_model: Path, private_dirs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = check_run(capsys, tiny_model, holes=3)
    assert lines[0].endswith("fills 3 holes in stock.py")
    assert sum(line.startswith("  step  1  ") for line in lines) == 3


def test_a_run_on_a_file_leaves_it_as_it_is(
    tiny_model: Path, private_dirs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(SOURCE.replace("\n", "\r\n").encode())
    before = path.read_bytes()
    arguments = ["--file", str(path), "--range", "4:12-4:17", "--range", "2:8-2:9"]
    lines = check_run(capsys, tiny_model, *arguments, holes=2)
    assert "  4 │     return ░ ░ ░" in lines
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("code", "words", "arguments"),
    [
        (ExitCode.USAGE, "go together", ["--range", "1:1-1:2"]),
        (ExitCode.USAGE, "go together", ["--file", "a.py"]),
        (ExitCode.USAGE, "is not LINE:COL", ["--file", "a.py", "--range", "1"]),
        (ExitCode.INPUT, "No such file", ["--file", "none/a.py", "--range", "1:1-1:2"]),
        (ExitCode.USAGE, "past the end", ["--file", str(SAMPLE), "--range", "1:1-9999:2"]),
        (ExitCode.MODEL, "midfill model fetch embedded", []),
    ],
)
def test_what_cannot_be_shown(
    private_dirs: Path,
    capsys: pytest.CaptureFixture[str],
    code: ExitCode,
    words: str,
    arguments: list[str],
) -> None:
    try:
        found = main(["demo", *arguments])
    except SystemExit as error:
        found = int(error.code or 0)
    assert found == code
    assert words in capsys.readouterr().err
