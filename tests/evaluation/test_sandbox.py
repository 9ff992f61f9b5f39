"""Programs that must not do harm, with and without namespaces."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from midfill_lsp.evaluation import sandbox
from midfill_lsp.evaluation.humaneval import load_problems
from midfill_lsp.evaluation.sandbox import in_force, runs_through, walls

SECONDS = 1.0  # what does not end by itself is ended then
PATIENT = 60.0

ENDLESS = {
    "loops": "while True: pass",
    "sleeps": "import time\ntime.sleep(1000)",
    "prints": "while True: print('x' * 100_000)",
}
REFUSED = {
    "leaves early": "import os\nos._exit(0)",
    "leaves early by an exception": "raise SystemExit(0)",
    "is no Python": "def f(:",
    "fails": "assert False",
    "forks": "import os\nwhile True: os.fork()",
    "starts a program": "import subprocess\nsubprocess.run(['true'])",
    "starts a shell": "import os\nos.system('true')",
    "starts a process by the back door": "import _posixsubprocess",
    "kills its parent": "import os\nos.kill(os.getppid(), 9)",
    "opens a socket": "import socket\nsocket.socket()",
    "looks up a name": "import socket\nsocket.getaddrinfo('localhost', 80)",
    "calls C": "import ctypes\nctypes.CDLL(None)",
    "lifts a limit": "import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
    "allocates": "x = bytearray(1 << 31)",
    "recurses": "def f(): f()\nf()",
}


@pytest.fixture(params=["namespaces", "hook alone"])
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What keeps the program in."""
    if request.param == "namespaces" and not walls():
        pytest.skip("the system permits no namespaces")
    if request.param == "hook alone":
        monkeypatch.setattr(sandbox, "walls", lambda: ())


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("program", ["", "import math, re, random, hashlib, collections, typing"])
def test_a_harmless_program_runs_through(program: str) -> None:
    assert runs_through(program, seconds=PATIENT)


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("name", REFUSED)
def test_a_harmful_program_fails_by_itself(name: str) -> None:
    assert not runs_through(REFUSED[name], seconds=PATIENT)


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_program_is_ended(name: str) -> None:
    assert not runs_through(ENDLESS[name], seconds=SECONDS)


@pytest.mark.usefixtures("kept")
def test_nothing_is_written_or_removed(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("kept")
    new = str(tmp_path / "new")
    for program in (
        f"open({new!r}, 'w')",
        f"import os\nos.open({new!r}, os.O_CREAT | os.O_WRONLY)",
        f"import os\nos.mkdir({new!r})",
        f"import os\nos.remove({str(there)!r})",
        f"open({str(there)!r}, 'a').write('x')",
        f"import shutil\nshutil.rmtree({str(tmp_path)!r})",
        "open('big', 'wb').write(bytes(1 << 24))",
    ):
        assert not runs_through(program, seconds=PATIENT)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert there.read_text() == "kept"


@pytest.mark.usefixtures("kept")
def test_a_listening_port_is_not_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        program = f"import socket\nsocket.create_connection(('127.0.0.1', {port}))"
        assert not runs_through(program, seconds=PATIENT)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_namespaces_keep_a_program_in_without_the_hook(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The wall holds by itself: no route to a listening port, and no sight of the parent."""
    if not walls():
        pytest.skip("the system permits no namespaces")
    guest = tmp_path / "guest.py"
    text = Path(sandbox.guest.__file__).read_text("utf-8")
    guest.write_text(text.replace("    sys.addaudithook(_deny)\n", ""))
    monkeypatch.setattr(sandbox.guest, "__file__", str(guest))
    assert runs_through("import socket\nsocket.socket()", seconds=PATIENT)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        program = f"import socket\nsocket.create_connection(('127.0.0.1', {port}))"
        assert not runs_through(program, seconds=PATIENT)
    assert not runs_through(f"import os\nos.kill({os.getpid()}, 0)", seconds=PATIENT)


def test_it_says_what_is_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "walls", lambda: ("unshare",))
    assert "namespaces" in in_force()
    monkeypatch.setattr(sandbox, "walls", lambda: ())
    assert "alone" in in_force()


def test_the_right_line_passes_and_a_wrong_one_does_not() -> None:
    problem = load_problems()[0]
    assert problem.test is not None
    assert runs_through(problem.whole + problem.test, seconds=PATIENT)
    assert not runs_through(problem.filled("    return None") + problem.test, seconds=PATIENT)
