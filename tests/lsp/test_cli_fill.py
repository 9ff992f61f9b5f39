"""`midfill fill`, with the cursor marked by `¦` or a selection between two of them."""

from __future__ import annotations

import io
import json
import stat
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from midfill_engine.errors import ModelMissing, RequestRejected, WorkerLost
from midfill_lsp.cli import main
from midfill_lsp.cli.exit_codes import EPILOG, ExitCode
from midfill_lsp.cli.places import place_at
from midfill_lsp.cli.source import MAX_BYTES

if TYPE_CHECKING:
    from conftest import ScriptedEngine

    from midfill_engine.protocol import FillRequest, FillResult


class Command:
    """Runs `midfill fill` in this process."""

    def __init__(self, directory: Path, capture: pytest.CaptureFixture[bytes]) -> None:
        self.directory = directory
        self.capture = capture
        self.err = ""

    def file(self, data: str | bytes, name: str = "a.py") -> Path:
        path = self.directory / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def run(self, *arguments: object) -> tuple[int, bytes]:
        """The exit code and stdout; stderr is kept, and is at most one line."""
        try:
            code = main(["fill", *map(str, arguments)])
        except SystemExit as error:
            code = int(error.code or 0)
        out, err = self.capture.readouterr()
        self.err = err.decode()
        assert "Traceback" not in self.err
        assert self.err.count("\n") <= 1
        return code, out

    def fill(self, marked: str, *arguments: object, name: str = "a.py") -> tuple[int, bytes]:
        """Fill at the mark, or between the marks."""
        before, *rest = marked.split("¦")
        path = self.file(before + "".join(rest), name)
        text = before + "".join(rest)
        place = place_at(len(before), text)
        if len(rest) == 1:
            return self.run(path, "--at", place, *arguments)
        end = place_at(len(before) + len(rest[0]), text)
        return self.run(path, "--range", f"{place}-{end}", *arguments)

    def check_error(self, code: ExitCode, *words: str, arguments: tuple[object, ...]) -> None:
        """It ends with this code, and says these words."""
        found, out = self.run(*arguments)
        assert (found, out) == (code, b"")
        assert self.err.startswith("midfill")
        assert all(word in self.err for word in words), self.err


@pytest.fixture
def command(
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
    engine: ScriptedEngine,
    monkeypatch: pytest.MonkeyPatch,
) -> Command:
    def connect(*, model: str) -> ScriptedEngine:
        return engine.connect(model)

    monkeypatch.setattr("midfill_engine.client.EngineClient", connect)
    return Command(tmp_path, capfdbinary)


def test_the_whole_file_is_printed_and_left_as_it_was(command: Command) -> None:
    assert command.fill("x = ¦\ny = 2\n") == (0, b"x = 42\ny = 2\n")
    assert (command.directory / "a.py").read_text() == "x = \ny = 2\n"
    assert command.fill("x = ¦1 + 1¦\n") == (0, b"x = 42\n")


def test_columns_are_code_points(command: Command) -> None:
    assert command.fill("s = '漢😀'; x = ¦\n") == (0, "s = '漢😀'; x = 42\n".encode())
    assert command.fill("a = '\f\u2028'\nx = ¦\n") == (0, "a = '\f\u2028'\nx = 42\n".encode())


def test_writing_keeps_every_other_byte_and_the_mode(command: Command) -> None:
    path = command.file(b"\xef\xbb\xbfx = \r\ny\t= 2\r\n")
    path.chmod(0o754)
    assert command.run(path, "--at", "1:5", "--write") == (0, b"")
    assert path.read_bytes() == b"\xef\xbb\xbfx = 42\r\ny\t= 2\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o754
    assert [path.name for path in command.directory.iterdir()] == ["a.py"]


def test_writing_behind_a_link_changes_the_file_it_leads_to(command: Command) -> None:
    path = command.file("x = \n", "real.py")
    link = command.directory / "link.py"
    link.symlink_to(path)
    assert command.run(link, "--at", "1:5", "--write") == (0, b"")
    assert link.is_symlink()
    assert path.read_text() == "x = 42\n"


def test_a_file_that_cannot_be_written_is_left_whole(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    path = command.file("x = \n")
    monkeypatch.setattr("os.fsync", full)
    command.check_error(
        ExitCode.OUTPUT, "a.py", "No space left", arguments=(path, "--at", "1:5", "--write")
    )
    assert path.read_text() == "x = \n"
    assert [path.name for path in command.directory.iterdir()] == ["a.py"]


@pytest.mark.parametrize("text", ["x = \ny = 2\n", "x = ", "x = \r\ny = 2\r\n", "a = '\f'\nx = \n"])
def test_the_diff_is_one_that_patch_takes(command: Command, text: str) -> None:
    line = 2 if text.startswith("a") else 1
    path = command.file(text)
    code, diff = command.run(path, "--at", f"{line}:5", "--diff")
    assert code == 0
    assert diff.startswith(b"--- a/")
    patch = ["git", "apply", "--unsafe-paths", "--whitespace=nowarn", "-p1", "-"]
    relative = diff.replace(str(path).lstrip("/").encode(), b"a.py")
    subprocess.run(patch, input=relative, cwd=command.directory, check=True)
    assert path.read_bytes() == text.replace("x = ", "x = 42").encode()


def test_json_tells_all(command: Command, engine: ScriptedEngine) -> None:
    engine.texts = ["1", "2"]
    code, out = command.fill("a\r\nx = ¦\r\n", "--json")
    told = json.loads(out)
    place = {"line": 2, "column": 5}
    assert code == 0
    assert told["language"] == "python"
    assert (told["hole"]["start"], told["hole"]["end"]) == (place, place)
    assert [c["newText"] for c in told["candidates"]] == ["1", "2"]
    assert told["candidates"][0]["confidence"] == 0.9
    assert told["stats"]["steps"] == 1
    assert told["atDeadline"] is False


def test_stdin(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"x = \n")))
    assert command.run("-", "--at", "1:5", "--language", "python") == (0, b"x = 42\n")
    command.check_error(
        ExitCode.USAGE, "--write", "stdin", arguments=("-", "--at", "1:5", "--write")
    )


def test_what_is_asked_of_the_engine(command: Command, engine: ScriptedEngine) -> None:
    command.fill("x = ¦\n", "--quality", "best", "--deadline-ms", 77, "--model", "/m")
    (request,) = engine.requests
    assert (request.quality, request.deadline_ms, request.strategy) == ("best", 77, None)
    assert engine.models == ["/m"]
    assert engine.closed == 1


def test_a_strategy_is_asked_for(command: Command, engine: ScriptedEngine) -> None:
    command.fill("x = ¦\n", "--strategy", "entropy")
    assert engine.requests[0].strategy == "entropy"


def test_a_strategy_that_there_is_not(command: Command, engine: ScriptedEngine) -> None:
    async def refuse(request: FillRequest) -> FillResult:
        raise RequestRejected(f"there is no strategy {request.strategy!r}; there are entropy")

    engine.script = refuse
    path = command.file("x = \n")
    arguments = (path, "--at", "1:5", "--strategy", "magic")
    command.check_error(ExitCode.USAGE, "--strategy", "'magic'", arguments=arguments)


def test_no_fill(command: Command, engine: ScriptedEngine) -> None:
    engine.texts = []
    assert command.fill("x = ¦\n") == (ExitCode.NO_FILL, b"")
    assert "no result in time" in command.err
    engine.texts = ["1"]
    assert command.fill("x = ¦1¦\n") == (ExitCode.NO_FILL, b"")
    assert "refused (unchanged)" in command.err


def test_an_empty_file(command: Command) -> None:
    path = command.file("")
    assert command.run(path, "--at", "1:1")[0] in (ExitCode.DONE, ExitCode.NO_FILL)
    command.check_error(ExitCode.USAGE, "1:2", "last column is 1", arguments=(path, "--at", "1:2"))


def test_a_cursor_past_the_end(command: Command) -> None:
    path = command.file("x = 1\ny\n")
    check = command.check_error
    check(ExitCode.USAGE, "9:1", "a.py", "last line is 3", arguments=(path, "--at", "9:1"))
    check(ExitCode.USAGE, "1:7", "line 1", "last column is 6", arguments=(path, "--at", "1:7"))
    check(ExitCode.USAGE, "2:9", "last column is 2", arguments=(path, "--range", "1:1-2:9"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--at", "0:1"),
        ("--at", "1"),
        ("--at", "1:0"),
        ("--at", "one:1"),
        ("--at", "1:1", "--range", "1:1-1:2"),
        ("--range", "1:1"),
        ("--range", "1:2-1:2"),
        ("--range", "2:1-1:1"),
        ("--at", "1:1", "--deadline-ms", "0"),
        ("--at", "1:1", "--deadline-ms", "soon"),
        ("--at", "1:1", "--quality", "good"),
        ("--at", "1:1", "--write", "--diff"),
        ("--at", "1:1", "--writ"),
        (),
    ],
)
def test_a_wrong_command_line(command: Command, arguments: tuple[str, ...]) -> None:
    path = command.file("x = 1\n")
    command.check_error(ExitCode.USAGE, "--help", arguments=(path, *arguments))


def test_not_utf_8(command: Command) -> None:
    for data, offset in ((b"x = '\xe4'\n", 5), (b"\xef\xbb\xbfab\xff", 5), (b"caf\xc3", 3)):
        path = command.file(data)
        words = ("a.py", "not UTF-8", f"offset {offset}")
        command.check_error(ExitCode.INPUT, *words, arguments=(path, "--at", "1:1"))


def test_a_file_of_nuls(command: Command) -> None:
    path = command.file(bytes(1000))
    command.check_error(
        ExitCode.INPUT, "a.py", "NUL byte at offset 0", arguments=(path, "--at", "1:1")
    )


def test_a_file_over_50_mb(command: Command) -> None:
    path = command.directory / "large.py"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    command.check_error(ExitCode.INPUT, "large.py", "too large", arguments=(path, "--at", "1:1"))


def test_files_that_are_not_there_or_no_files(command: Command) -> None:
    path = command.directory
    command.check_error(
        ExitCode.INPUT, "none.py", "No such file", arguments=(path / "none.py", "--at", "1:1")
    )
    command.check_error(ExitCode.INPUT, "directory", arguments=(path, "--at", "1:1"))


def test_a_line_of_200_000_characters(command: Command) -> None:
    line = "x = '" + "a" * 200_000 + "'; y = "
    assert command.fill(line + "¦\n") == (0, f"{line}42\n".encode())


def test_an_unknown_language_is_noted(command: Command) -> None:
    assert command.fill("x = ¦\n", name="a.unknown") == (0, b"x = 42\n")
    assert "no grammar is known for" in command.err
    assert "a.unknown" in command.err
    assert command.fill("x = ¦\n", "--language", "klingon") == (0, b"x = 42\n")
    assert "'klingon'" in command.err
    assert command.fill("x = ¦\n", "--language", "python", name="a.unknown") == (0, b"x = 42\n")
    assert command.err == ""


def test_a_missing_model(command: Command, engine: ScriptedEngine) -> None:
    async def missing(request: Any) -> Any:
        raise ModelMissing("there is no model in /cache")

    engine.script = missing
    path = command.file("x = \n")
    command.check_error(
        ExitCode.MODEL, "no model", "midfill model fetch", arguments=(path, "--at", "1:5")
    )
    command.check_error(ExitCode.MODEL, "'/m'", arguments=(path, "--at", "1:5", "--model", "/m"))


def test_an_engine_that_fails(command: Command, engine: ScriptedEngine) -> None:
    async def lost(request: Any) -> Any:
        raise WorkerLost("the worker went away")

    engine.script = lost
    path = command.file("x = \n")
    command.check_error(ExitCode.ENGINE, "went away", arguments=(path, "--at", "1:5"))
    assert engine.closed == 1


def test_every_exit_code_is_documented() -> None:
    documented = {line.split()[0] for line in EPILOG.splitlines() if line[2:3].isdigit()}
    assert documented == {str(int(code)) for code in ExitCode}
