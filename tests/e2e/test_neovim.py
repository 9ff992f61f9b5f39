"""A real Neovim starts the server, asks it, takes what it says, and saves the file."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from support.editor import usual_options
from support.homes import MIDFILL, Home, new_home

NVIM: Final = Path(sys.executable).parent / "nvim"
SCRIPT: Final = Path(__file__).parent / "neovim" / "session.lua"
LIMIT_S: Final = 120
INVOKED, AUTOMATIC = 1, 2
LINE_FORMATS: Final = {
    "LF": ("\n", "unix"),
    "CRLF": ("\r\n", "dos"),
    "CRLF as text": ("\r\n", "unix"),  # Neovim shows each \r as the last character of its line
}
CARET: Final = "# 漢字\n\n\ndef greet(name):\n    return '🎉 漢字', ▸\n\n\ngreet('👩‍👩‍👧')\n"
SELECTION: Final = "# 漢字\n\n\ndef greet(name):\n    return '🎉 漢字', «name», '🎉'\n\n\ngreet(1)"


@dataclass(frozen=True, slots=True)
class Session:
    """What came of one Neovim."""

    file: bytes
    report: dict[str, Any]


def neovim(
    home: Home,
    folder: Path,
    source: bytes,
    fileformat: str,
    start: int,
    stop: int | None,
    *,
    environment: dict[str, str] | None = None,
    **more: Any,
) -> Session:
    """Ask for a completion at `start`, or fill the selection from there to `stop`, in bytes."""
    path, job, report = folder / "example.py", folder / "job.json", folder / "report.json"
    path.write_bytes(source)
    what = {
        "command": MIDFILL,
        "options": usual_options(home),
        "path": str(path),
        "report": str(report),
        "fileformat": fileformat,
        "trigger": INVOKED,
        "start": _row_and_column(source, start),
        "stop": None if stop is None else _row_and_column(source, stop),
    }
    job.write_text(json.dumps(what | more))
    own = {f"XDG_{kind}_HOME": str(folder / kind) for kind in ("STATE", "DATA", "CONFIG")}
    done = subprocess.run(
        [NVIM, "--clean", "--headless", "-l", SCRIPT, job],
        env=home.environment | own | (environment or {}),
        cwd=folder,
        timeout=LIMIT_S,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    said = json.loads(report.read_text())
    assert "problem" not in said, said["problem"]
    return Session(path.read_bytes(), said)


def _row_and_column(source: bytes, offset: int) -> tuple[int, int]:
    """As Neovim counts: lines end with \\n alone, columns are bytes."""
    before = source[:offset]
    return before.count(b"\n"), offset - (before.rfind(b"\n") + 1)


def test_it_is_the_neovim_that_is_pinned() -> None:
    said = subprocess.run([NVIM, "--version"], capture_output=True, check=True, timeout=LIMIT_S)
    assert said.stdout.startswith(b"NVIM v0.11.4")


@pytest.mark.parametrize(
    ("name", "trigger"), [("LF", AUTOMATIC), ("CRLF", INVOKED), ("CRLF as text", INVOKED)]
)
def test_a_completion_is_taken(shared_home: Home, tmp_path: Path, name: str, trigger: int) -> None:
    line_end, fileformat = LINE_FORMATS[name]
    before, after = (part.encode() for part in CARET.replace("\n", line_end).split("▸"))
    session = neovim(
        shared_home, tmp_path, before + after, fileformat, len(before), None, trigger=trigger
    )
    assert session.report["messages"] == []
    items = session.report["items"]
    assert items
    assert items[0]["insertText"].strip()
    assert session.file == before + items[0]["insertText"].encode() + after


@pytest.mark.parametrize("name", LINE_FORMATS)
def test_a_selection_is_filled(shared_home: Home, tmp_path: Path, name: str) -> None:
    line_end, fileformat = LINE_FORMATS[name]
    before, _, rest = SELECTION.replace("\n", line_end).encode().partition("«".encode())
    selected, _, after = rest.partition("»".encode())
    stop = len(before + selected)
    session = neovim(
        shared_home, tmp_path, before + selected + after, fileformat, len(before), stop
    )
    assert session.report["messages"] == []
    assert session.file.startswith(before)
    assert session.file.endswith(after)
    filled = session.file[len(before) : len(session.file) - len(after)]
    assert filled.isalpha(), filled
    assert filled != selected


@pytest.mark.embedded
def test_the_embedded_model_fills_in_neovim(
    tmp_path: Path, wordy_model: Path, embedded_dir: Path
) -> None:
    cache = str(embedded_dir.parent.parent)
    before = "def add(a, b):\r\n    '''漢字 🎉'''\r\n    return ".encode()
    after = b"\r\n\r\n\r\nprint(add(1, 2))\r\n"
    with new_home(wordy_model) as home:
        session = neovim(
            home,
            tmp_path,
            before + after,
            "dos",
            len(before),
            None,
            options={"invokedDeadlineMs": 60_000},
            environment={"MIDFILL_CACHE_DIR": cache},
        )
    sys.stdout.write(f"the embedded model wrote {session.report['items']}\n")
    assert session.file == before + session.report["items"][0]["insertText"].encode() + after
