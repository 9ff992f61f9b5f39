"""The invariants of ARCHITECTURE.md that can be read off the tree or off a fresh process."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MIB = 1024 * 1024

ROOMS = {
    "midfill_lsp": ROOT / "lsp" / "midfill_lsp",
    "midfill_infill": ROOT / "infill" / "midfill_infill",
    "midfill_engine": ROOT / "engine" / "midfill_engine",
}
MAY_IMPORT = {
    "midfill_lsp": {"midfill_lsp", "midfill_infill", "midfill_engine"},
    "midfill_infill": {"midfill_infill"},
    "midfill_engine": {"midfill_engine"},
}
HEAVY = ("torch", "transformers")
WORKER_SIDE = ("midfill_engine.model", "midfill_engine.worker", "midfill_engine.training")
TRAINING = ("midfill_engine.training",)
TRAIN_COMMAND = "midfill_lsp.cli.train"
HELD_OUT = "midfill_lsp.evaluation.packages"  # for the list of packages and their readers
LIGHT_TRAINING = (
    "midfill_engine.training.packages",
    "midfill_engine.training.download",
    "midfill_engine.training.sources",
)
INPUT_OUTPUT = {
    *("asyncio", "http", "io", "logging", "multiprocessing", "os", "pathlib", "shutil", "signal"),
    *("socket", "sqlite3", "subprocess", "sys", "tempfile", "threading", "time", "urllib"),
}
# In pieces, so that this file does not break its own rule.
FORBIDDEN_TEXT = re.compile(
    "|".join(
        (
            *(host + r"\.org\b" for host in ("pypi", "pythonhosted")),
            r"(?<![\w.-])/" + "(?:work|root|opt)/",
        )
    )
)


@dataclass(frozen=True, slots=True)
class Module:
    """A Python file of one of the three packages."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def room(self) -> str:
        return self.name.partition(".")[0]

    @property
    def worker_side(self) -> bool:
        return is_below(self.name, WORKER_SIDE)


def is_below(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def modules() -> list[Module]:
    found = []
    for room, directory in ROOMS.items():
        for path in sorted(directory.rglob("*.py")):
            parts = path.relative_to(directory).with_suffix("").parts
            name = ".".join((room, *(part for part in parts if part != "__init__")))
            found.append(Module(name, path, ast.parse(path.read_text("utf-8"))))
    return found


def imports(module: Module) -> Iterator[str]:
    """Dotted names of all that a module imports, at any depth; `from a import b` gives `a.b`."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module.name} imports relatively"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def tracked() -> list[Path]:
    """Files of the tree that are tracked, or would be by `git add`."""
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-coz", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    names = {name for name in listed.decode().split("\0") if name}
    return [ROOT / name for name in sorted(names) if (ROOT / name).is_file()]


def test_rooms_import_in_one_direction() -> None:
    wrong = [
        f"{module.name} imports {name}"
        for module in modules()
        for name in imports(module)
        if name.partition(".")[0] in ROOMS.keys() - MAY_IMPORT[module.room]
    ]
    assert not wrong


def test_only_the_worker_side_imports_torch() -> None:
    wrong = [
        f"{module.name} imports {name}"
        for module in modules()
        for name in imports(module)
        if not module.worker_side and is_below(name, HEAVY)
    ]
    assert not wrong


def may_import_training(module: Module, name: str) -> bool:
    """Training may be imported by its command, and the list of packages by the evaluation."""
    if module.name == HELD_OUT:
        return is_below(name, LIGHT_TRAINING)
    return module.name == TRAIN_COMMAND and is_below(name, TRAINING)


def test_nothing_reaches_into_the_worker_side() -> None:
    wrong = [
        f"{module.name} imports {name}"
        for module in modules()
        for name in imports(module)
        if not module.worker_side and is_below(name, WORKER_SIDE)
        if not may_import_training(module, name)
    ]
    assert not wrong


def test_only_the_train_command_imports_training() -> None:
    wrong = [
        f"{module.name} imports {name}"
        for module in modules()
        for name in imports(module)
        if is_below(name, TRAINING) and not is_below(module.name, TRAINING)
        if not may_import_training(module, name)
    ]
    assert not wrong


def test_infill_does_no_input_or_output() -> None:
    inside = [module for module in modules() if module.room == "midfill_infill"]
    wrong = [
        f"{module.name} imports {name}"
        for module in inside
        for name in imports(module)
        if name.partition(".")[0] in INPUT_OUTPUT and not name.startswith("pathlib.Pure")
    ]
    wrong += [
        f"{module.name} calls {node.func.id}"
        for module in inside
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"open", "print", "input"}
    ]
    assert not wrong


@pytest.mark.parametrize(
    "name",
    [
        *("midfill_lsp.server", "midfill_lsp.cli", "midfill_engine.client"),
        *("midfill_lsp.evaluation.running", *LIGHT_TRAINING),
    ],
)
def test_no_torch_in_the_server_process(name: str, tmp_path: Path) -> None:
    program = f"import sys, {name}; print(*sorted({set(HEAVY)!r} & sys.modules.keys()))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        module.name
        for module in modules()
        if module.tree.body and not ast.get_docstring(module.tree)
    ]
    assert not silent


def test_no_python_file_is_over_400_lines() -> None:
    lengths = {
        path.relative_to(ROOT): len(path.read_text("utf-8").splitlines())
        for path in tracked()
        if path.suffix == ".py"
    }
    assert not {path: length for path, length in lengths.items() if length > 400}


def test_the_tree_is_small() -> None:
    size = sum(path.stat().st_size for path in tracked())
    assert size < 45 * MIB, f"{size / MIB:.1f} MiB"


def test_no_text_names_a_registry_or_a_machine() -> None:
    wrong = []
    for path in tracked():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue  # not text
        wrong += [f"{path.relative_to(ROOT)}: {hit[0]}" for hit in FORBIDDEN_TEXT.finditer(text)]
    assert not wrong
