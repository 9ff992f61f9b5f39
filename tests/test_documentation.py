"""What README.md and ARCHITECTURE.md name is there, and what is there is named."""

from __future__ import annotations

import json
import re
from pathlib import Path

from midfill_lsp.cli import SUBCOMMANDS
from midfill_lsp.cli.exit_codes import ExitCode
from midfill_lsp.options import KEYS, parse_options
from midfill_lsp.settings import DEFAULTS, resolve

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
PACKAGES = ("lsp/midfill_lsp", "infill/midfill_infill", "engine/midfill_engine")


def section(text: str, heading: str) -> str:
    """What stands below a heading, up to the next one of its level."""
    level = heading.partition(" ")[0]
    (found,) = re.findall(rf"^{heading}.*?\n(.*?)(?=^{level} |\Z)", text, re.M | re.S)
    return str(found)


def rows(text: str) -> list[list[str]]:
    """The cells of a table, without its head."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in lines[2:]]


def test_every_setting_is_in_the_table_with_its_default() -> None:
    table = rows(section(README, "## Settings"))
    assert [key.strip("`") for key, *_ in table] == list(KEYS)
    given = {key.strip("`"): json.loads(default.strip("`")) for key, default, _ in table if default}
    options, problems = parse_options(given)
    assert not problems
    assert resolve(options) == DEFAULTS


def test_every_exit_code_is_in_the_table() -> None:
    table = rows(section(README, "## Commands"))
    assert [int(code) for code, _ in table] == [int(code) for code in ExitCode]


def test_every_command_is_named() -> None:
    commands = section(README, "## Commands")
    names = [module.__name__.rpartition(".")[2] for module in SUBCOMMANDS]
    assert all(f"midfill {name}" in commands for name in names)


def test_the_code_map_is_complete() -> None:
    for package in PACKAGES:
        mapped = section(ARCHITECTURE, f"### `{package}`")
        named = [name for cell, _ in rows(mapped) for name in re.findall(r"`([^`]+)`", cell)]
        root = ROOT / package
        found = {path for name in named for path in root.glob(name)}
        assert all(list(root.glob(name)) for name in named)
        for path in root.rglob("*.py"):
            is_marker = path.name in ("__init__.py", "__main__.py")
            assert is_marker or path in found or path.parent in found, path


def test_every_invariant_names_tests_that_exist() -> None:
    tests = {path: path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py")}
    for invariant in section(ARCHITECTURE, "## Invariants").split("**Architecture Invariant:**")[
        1:
    ]:
        files = re.findall(r"`(tests/[\w/]+\.py)`", invariant)
        assert files
        assert all(ROOT / name in tests for name in files)
        for name in re.findall(r"`(test_\w+)`", invariant):
            assert any(f"def {name}(" in tests[ROOT / file] for file in files), name
