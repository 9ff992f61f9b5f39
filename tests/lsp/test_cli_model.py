"""`midfill model check`, without a worker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.tiny_checkpoints import write_dream, write_llada

from midfill_lsp.cli import main
from midfill_lsp.cli.exit_codes import ExitCode


def check(capsys: pytest.CaptureFixture[str], directory: Path) -> tuple[int, str, str]:
    code = main(["model", "check", "--no-fill", str(directory)])
    out, err = capsys.readouterr()
    return code, out, err


def test_what_a_checkpoint_is_and_needs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, err = check(capsys, write_dream(tmp_path / "on", expand=True))
    assert (code, err) == (ExitCode.DONE, "")
    rows = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert rows["family"].startswith("Dream")
    assert "141,248" in rows["parameters"]
    assert rows["memory"] == "282.5 kB in bfloat16, 565.0 kB in float32"
    assert {"mask", "eos", "bos", "pad", "expand", "delete"} <= set(rows["tokens"].split())
    assert "becomes two masks" in rows["length"]


def test_a_llada(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = check(capsys, write_llada(tmp_path / "llada"))
    assert code == ExitCode.DONE
    assert "LLaDA, run as transformers' llama; predicted in place" in out
    assert "by probing" in out


def test_our_own_format(capsys: pytest.CaptureFixture[str], tiny_model: Path) -> None:
    code, out, _ = check(capsys, tiny_model)
    assert code == ExitCode.DONE
    assert "the embedded model's own format" in out


def test_a_refusal_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llada2_moe"}')
    code, out, err = check(capsys, tmp_path)
    assert (code, out) == (ExitCode.MODEL, "")
    assert err.count("\n") == 1
    assert "block-causal" in err


def test_reading_the_files_takes_no_torch(tmp_path: Path) -> None:
    directory = write_dream(tmp_path / "dream")
    program = (
        "import sys; from midfill_lsp.cli import main; main(sys.argv[1:]);"
        "print(sorted({'torch', 'transformers'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "model", "check", "--no-fill", str(directory)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"
