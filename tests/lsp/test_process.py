"""The server as a process: what it costs, what it imports, and that it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from midfill_lsp.framing import Frames, framed

MIDFILL = [sys.executable, "-I", "-m", "midfill_lsp"]
SCRIPT = Path(sys.executable).parent / "midfill"


class Process:
    """A server's process and the pipes to it."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self.popen = popen
        self._frames = Frames()
        self._ready: list[dict[str, Any]] = []

    def send(self, method: str, params: Any, msg_id: int | None = None) -> None:
        assert self.popen.stdin is not None
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if msg_id is not None:
            message["id"] = msg_id
        self.popen.stdin.write(framed(json.dumps(message).encode()))
        self.popen.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.popen.stdout is not None
        while not self._ready:
            chunk = os.read(self.popen.stdout.fileno(), 65536)
            assert chunk, "the server has ended"
            self._ready += [json.loads(body) for body in self._frames.feed(chunk)]
        return self._ready.pop(0)

    def ask(self, method: str, params: Any) -> Any:
        self.send(method, params, msg_id=1)
        while True:
            message = self.receive()
            if message.get("id") == 1 and "method" not in message:
                return message["result"]

    def initialize(self, **more: Any) -> Any:
        params = {"processId": None, "rootUri": None, "capabilities": {}} | more
        answer = self.ask("initialize", params)
        self.send("initialized", {})
        return answer

    def open(self, text: str) -> None:
        item = {"uri": "file:///a.py", "languageId": "python", "version": 1, "text": text}
        self.send("textDocument/didOpen", {"textDocument": item})

    def complete(self, line: int, character: int) -> list[dict[str, Any]]:
        params = {
            "textDocument": {"uri": "file:///a.py"},
            "position": {"line": line, "character": character},
            "context": {"triggerKind": 1},
        }
        items: list[dict[str, Any]] = self.ask("textDocument/inlineCompletion", params)["items"]
        return items

    def ends(self) -> int:
        return self.popen.wait(timeout=5)


@contextmanager
def server(command: list[str], environment: dict[str, str], **more: Any) -> Iterator[Process]:
    popen = subprocess.Popen(
        [*command, "serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        **more,
    )
    with popen:
        try:
            yield Process(popen)
        finally:
            popen.kill()


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """One without a model, and without anybody else's worker."""
    own = {"MIDFILL_CACHE_DIR": str(tmp_path / "cache"), "MIDFILL_RUNTIME_DIR": str(tmp_path / "r")}
    return dict(os.environ) | own


def test_initialize_is_answered_in_under_a_second(environment: dict[str, str]) -> None:
    """In processor time, which other work on the machine does not lengthen; the wall's is shown."""
    started = time.perf_counter()
    with server(MIDFILL, environment) as process:
        process.initialize()
        wall_s = time.perf_counter() - started
        times = psutil.Process(process.popen.pid).cpu_times()
    cpu_s = times.user + times.system
    sys.stdout.write(f"initialize answered after {wall_s:.2f} s, {cpu_s:.2f} s of them its own\n")
    assert cpu_s < 1.0


def test_it_stays_small(environment: dict[str, str]) -> None:
    source = Path(__file__).read_text()
    lines = source.splitlines()
    with server(MIDFILL, environment) as process:
        process.initialize()
        process.open(source)
        for line in range(0, len(lines), 10):
            process.complete(line, len(lines[line]))
        rss = psutil.Process(process.popen.pid).memory_info().rss
    sys.stdout.write(f"RSS {rss / 1e6:.1f} MB" + "\n")
    assert rss < 80e6


def test_it_never_imports_what_is_heavy() -> None:
    code = """
import asyncio, sys
from midfill_lsp.cli import fill, model, serve
from midfill_lsp.serving import server_for
from midfill_infill import build_canvas, hole_at
import midfill_engine.client
text = "def f():\\n    return g(\\n"
build_canvas(text, hole_at(text, len(text) - 1, "python"), "python")
server_for(lambda model: midfill_engine.client.EngineClient(model=model))
heavy = {"torch", "transformers", "numpy", "safetensors", "tokenizers", "gguf", "rich"}
sys.stdout.write(",".join(heavy & {name.partition(".")[0] for name in sys.modules}))
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=True)
    assert done.stdout == b""


def test_a_missing_model_is_said_and_completions_are_empty(environment: dict[str, str]) -> None:
    with server(MIDFILL, environment) as process:
        process.initialize()
        process.open("x = \n")
        process.send(
            "textDocument/inlineCompletion",
            {
                "textDocument": {"uri": "file:///a.py"},
                "position": {"line": 0, "character": 4},
                "context": {"triggerKind": 1},
            },
            msg_id=5,
        )
        messages = [process.receive()]
        while messages[-1].get("id") != 5:
            messages.append(process.receive())
    assert messages[-1]["result"] == {"items": []}
    shown = [m["params"]["message"] for m in messages if m.get("method") == "window/showMessage"]
    assert len(shown) == 1
    assert "midfill model fetch embedded" in shown[0]


def test_what_is_printed_does_not_reach_the_editor() -> None:
    code = """
import os
from midfill_lsp.stdio import claim
pipes = claim()
print("noise", flush=True)
os.system("echo more noise; cat")
os.write(pipes.sink, b"message")
"""
    command = [sys.executable, "-I", "-c", code]
    done = subprocess.run(command, input=b"for us", capture_output=True, check=True)
    assert done.stdout == b"message"
    assert done.stderr == b"noise\nmore noise\n"


def test_shutdown_and_exit(environment: dict[str, str]) -> None:
    with server(MIDFILL, environment) as process:
        process.initialize()
        assert process.ask("shutdown", None) is None
        process.send("exit", None)
        assert process.ends() == 0


def test_exit_without_shutdown(environment: dict[str, str]) -> None:
    with server(MIDFILL, environment) as process:
        process.initialize()
        process.send("exit", None)
        assert process.ends() == 1


def test_the_end_of_stdin_ends_it(environment: dict[str, str]) -> None:
    with server(MIDFILL, environment) as process:
        process.initialize()
        assert process.popen.stdin is not None
        process.popen.stdin.close()
        assert process.ends() == 1


def test_an_editor_that_is_killed_ends_it_though_the_pipe_stays_open(
    environment: dict[str, str],
) -> None:
    with (
        subprocess.Popen([sys.executable, "-I", "-c", "input()"], stdin=subprocess.PIPE) as editor,
        server(MIDFILL, environment) as process,
    ):
        process.initialize(processId=editor.pid)
        editor.kill()
        editor.wait()
        assert process.ends() == 1


def test_an_editor_that_cannot_be_seen_is_not_taken_for_dead(environment: dict[str, str]) -> None:
    with subprocess.Popen([sys.executable, "-I", "-c", ""]) as gone:
        gone.wait()
    with server(MIDFILL, environment) as process:
        process.initialize(processId=gone.pid)
        process.open("x = \n")
        assert process.ask("shutdown", None) is None


def test_an_editor_that_stops_reading_ends_it(environment: dict[str, str]) -> None:
    with server(MIDFILL, environment) as process:
        process.initialize()
        assert process.popen.stdout is not None
        process.popen.stdout.close()
        process.send("midfill/unknown", {}, msg_id=9)
        assert process.ends() == 1


def test_the_last_resort_does_not_wait_for_threads() -> None:
    code = """
import threading
from midfill_lsp.lifetime import leave_within
leave_within(0.01, 7)
threading.Event().wait()
"""
    assert subprocess.run([sys.executable, "-I", "-c", code]).returncode == 7


def test_a_workspace_with_modules_of_our_names(environment: dict[str, str], tmp_path: Path) -> None:
    for name in ("engine", "lsp", "infill", "midfill_lsp", "midfill_engine", "pygls", "torch.py"):
        path = tmp_path / name
        if path.suffix:
            path.write_text("raise SystemExit('not yours')\n")
        else:
            path.mkdir()
            (path / "__init__.py").write_text("raise SystemExit('not yours')\n")
    with server([str(SCRIPT)], environment, cwd=tmp_path) as process:
        process.initialize(rootUri=tmp_path.as_uri())
        process.open("x = \n")
        assert process.complete(0, 4) == []
        assert process.ask("shutdown", None) is None
        process.send("exit", None)
        assert process.ends() == 0


def test_an_environment_that_leads_python_into_a_workspace(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """As an installed script runs, without `-I`, and PYTHONPATH names the workspace."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    for name in ("argparse", "asyncio", "logging", "msgpack", "pygls", "midfill_infill"):
        (workspace / f"{name}.py").write_text(f"raise SystemExit('not your {name}')\n")
    script = tmp_path / "midfill"
    script.write_text("import sys\nfrom midfill_lsp.entry import main\nsys.exit(main())\n")
    environment = environment | {"PYTHONPATH": str(workspace)}
    with server([sys.executable, str(script)], environment, cwd=workspace) as process:
        process.initialize(rootUri=workspace.as_uri())
        process.open("x = \n")
        assert process.complete(0, 4) == []
        assert process.ask("shutdown", None) is None
        process.send("exit", None)
        assert process.ends() == 0
