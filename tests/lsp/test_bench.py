"""`midfill bench`: what is typed and when, what is counted, and a whole run with a tiny model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from midfill_lsp.cli import main
from midfill_lsp.cli.exit_codes import ExitCode
from midfill_lsp.replay.keystrokes import human_pauses, passage
from midfill_lsp.replay.tally import Figures, Split, Spread, spread, tally
from midfill_lsp.replay.typist import DEBOUNCE_S, Asked, Session
from midfill_lsp.samples import SAMPLE

TEXT = "# one\n# two\ndef f():\n    return 1\n\nx = 2\n"


def check_passage(text: str, characters: int, strokes: Sequence[str], after: str) -> None:
    """These strokes are typed, before this text."""
    part = passage(text, characters)
    assert (list(part.strokes), part.after) == (list(strokes), after)
    assert text.startswith(part.before + "".join(part.strokes))
    assert text.endswith(part.after)


def test_a_passage_begins_at_a_line_and_ends_where_one_ends() -> None:
    check_passage(TEXT, 7, "def f()", "\n    return 1\n\nx = 2\n")
    check_passage("ab", 1, "a", "")
    check_passage("", 5, "", "")


def test_editors_indent_by_themselves() -> None:
    check_passage(TEXT, 15, [*"def f():", "\n    ", *"re"], "\n\nx = 2\n")
    check_passage("\r\n\t\tab\r\n", 99, ["\r\n\t\t", "a", "b", "\r\n"], "")


def test_a_passage_is_no_longer_than_the_file() -> None:
    part = passage(TEXT, 10_000)
    assert (part.before, "".join(part.strokes), part.after) == ("", TEXT, "")


def test_pauses_are_a_persons_and_always_the_same() -> None:
    strokes = passage(SAMPLE.read_text(), 400).strokes
    pauses = human_pauses(strokes, 1)
    assert pauses == human_pauses(strokes, 1) != human_pauses(strokes, 2)
    assert 3 < len(strokes) / sum(pauses) < 8
    assert any(pause < DEBOUNCE_S for pause in pauses)
    assert max(pauses) < 5


def test_spread() -> None:
    assert spread([]) is None
    assert spread([3.0]) == Spread(3.0, 3.0, 3.0)
    assert spread([float(i) for i in range(100, 0, -1)]) == Spread(50.0, 95.0, 100.0)


async def test_tally() -> None:
    def asked(sent: float, answered: float, **more: Any) -> Asked:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.cancel()
        return Asked(1, sent, future, answered, **more)

    def stats(steps: int, tokens: int, reused: int, *, late: bool = False) -> dict[str, Any]:
        told = {"totalMs": 100.0, "steps": steps, "tokens": tokens, "atDeadline": late}
        told |= {"canvasMs": 10.0, "engineMs": 150.0, "filtersMs": 20.0, "queueMs": 5.0}
        told |= {"encodeMs": 15.0, "denoiseMs": 40.0, "scoreMs": 30.0}
        return told | {"reusedTokens": reused, "contextTokens": 100}

    session = Session(
        10,
        2.0,
        (
            asked(0.0, 0.25, offered=True, stats=stats(2, 8, 99)),
            asked(1.0, 1.5, stats=stats(4, 4, 51, late=True)),
            asked(2.0, 2.5, superseded=2.25),
            asked(3.0, 3.0),
            asked(4.0, 4.125, offered=True),
            asked(5.0, 5.125, offered=True),
        ),
    )
    assert tally(session) == Figures(
        keystrokes=10,
        seconds=2.0,
        requests=6,
        superseded=1,
        without_hole=1,
        typed_through=2,
        filled=2,
        request_to_answer=Spread(125.0, 500.0, 500.0),
        model_to_answer=Spread(250.0, 500.0, 500.0),
        in_worker=Spread(100.0, 100.0, 100.0),
        split=Split(195.0, 10.0, 50.0, 5.0, 15.0, 40.0, 30.0, 10.0, 20.0),
        offered=1,
        at_deadline=1,
        steps_per_fill=3.0,
        tokens_per_step=2.0,
        reused_share=0.75,
        letting_go=Spread(250.0, 250.0, 250.0),
    )


def test_a_run(tiny_model: Path, private_dirs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = SAMPLE.read_text()
    assert main(["bench", "--model", str(tiny_model), "--characters", "20", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    human, full = report["paces"]["human"], report["paces"]["full"]
    for figures in (human, full):
        assert figures["keystrokes"] == len(passage(source, 20).strokes)
        kinds = ("superseded", "without_hole", "typed_through", "filled")
        assert figures["requests"] == sum(figures[kind] for kind in kinds) > 0
    assert full["requests"] == full["keystrokes"]
    assert full["superseded"] == 0
    assert full["filled"] > 0
    assert full["model_to_answer"]["p50_ms"] >= full["in_worker"]["p50_ms"] > 0
    assert full["steps_per_fill"] >= 1
    assert all(ms >= 0 for ms in full["split"].values())
    assert full["split"]["steps"] > 0
    assert 0.9 < full["reused_share"] <= 1
    assert report["server_rss_bytes"] > 0
    assert report["worker_rss_bytes"] > report["worker_cache_bytes"] > 0


def test_a_run_for_people(
    tiny_model: Path, private_dirs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.go"
    path.write_bytes(b"package a\r\n\r\nfunc f() int {\r\n\treturn 1\r\n}\r\n")
    arguments = ["--file", str(path), "--pace", "full", "--characters", "4"]
    assert main(["bench", "--model", str(tiny_model), *arguments]) == 0
    out = capsys.readouterr().out
    assert "full pace" in out
    assert "human pace" not in out
    assert "request to answer, p50" in out
    assert "typed through" in out
    assert "memory: server" in out
    assert "where its time goes, mean" in out
    assert path.read_bytes().startswith(b"package a\r\n")


def test_clients_at_once(
    tiny_model: Path, private_dirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--clients", "1,3", "--seconds", "1"]
    assert main(["bench", "--model", str(tiny_model), *arguments, "--json"]) == 0
    loads = json.loads(capsys.readouterr().out)["loads"]
    assert [load["clients"] for load in loads] == [1, 3]
    for load in loads:
        assert load["fills"] >= load["clients"]
        assert load["different"] == 0
        assert 0 < load["slowest_share"] <= 1
        assert load["steps_per_second"] > load["fills_per_second"] > 0
        assert load["to_answer"]["p95_ms"] >= load["to_answer"]["p50_ms"] > 0
    assert main(["bench", "--model", str(tiny_model), *arguments]) == 0
    assert "unlike alone" in capsys.readouterr().out


def test_what_cannot_be_measured(
    private_dirs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def check(code: ExitCode, words: str, *arguments: str) -> None:
        try:
            found = main(["bench", *arguments])
        except SystemExit as error:
            found = int(error.code or 0)
        assert found == code
        assert words in capsys.readouterr().err

    (tmp_path / "latin.py").write_bytes(b"\xe4")
    check(ExitCode.USAGE, "not a number of characters", "--characters", "0")
    check(ExitCode.USAGE, "not a number of clients", "--clients", "1,,2")
    check(ExitCode.INPUT, "not UTF-8", "--file", str(tmp_path / "latin.py"))
    check(ExitCode.INPUT, "No such file", "--file", str(tmp_path / "none.py"))
    check(ExitCode.MODEL, "midfill model fetch embedded")
