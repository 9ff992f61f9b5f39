"""All that a training needs in pieces, for a machine that gets them over a narrow way.

Owns the form of the pieces: one tar archive, cut into numbered files, and `SHA256SUMS` as sha256sum
writes it. In the archive lie `model/`, `corpus/`, the adapter to start from if there is one, and a
`config.json` that names them.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from midfill_engine.adapter_file import check_adapter
from midfill_engine.digest import file_sha256
from midfill_engine.errors import TrainingError
from midfill_engine.model_files import CONFIG, TOKENIZER, WEIGHTS, check_model
from midfill_engine.paths import model_dir
from midfill_engine.training.config import TrainConfig
from midfill_engine.training.corpus import FILES, Corpus

SUMS: Final = "SHA256SUMS"
_ADAPTER: Final = "adapter.safetensors"


def write_pieces(
    config: TrainConfig, out: Path, piece_bytes: int, say: Callable[[str], None]
) -> None:
    """Cut what a training needs into files of at most `piece_bytes` in the folder `out`.

    Raises:
        ModelError: the model, or the adapter to start from, is not usable.
        TrainingError: there is no corpus, or there are pieces in `out` already.
    """
    model = model_dir(config.model)
    base = check_model(model)
    Corpus.open(config.corpus)
    if (out / SUMS).exists():
        raise TrainingError(f"{out} has pieces in it already")
    members = {f"model/{name}": model / name for name in (CONFIG, TOKENIZER, WEIGHTS)}
    members |= {f"corpus/{name}": config.corpus / name for name in FILES}
    settings = asdict(config) | {"model": "./model", "corpus": "corpus", "out": "."}
    if config.adapter is not None:
        check_adapter(config.adapter, base)
        members[_ADAPTER] = config.adapter
        settings["adapter"] = _ADAPTER
    out.mkdir(parents=True, exist_ok=True)
    cutter = _Cutter(out, piece_bytes)
    with tarfile.open(fileobj=cutter, mode="w|") as archive:
        for name, path in members.items():
            archive.add(path, name, filter=_without_owner)
        text = json.dumps({k: v for k, v in settings.items() if v is not None}).encode()
        entry = tarfile.TarInfo("config.json")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    cutter.end()
    (out / SUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in cutter.sums))
    for name, _ in cutter.sums:
        say(f"{out / name}: {(out / name).stat().st_size} bytes")


def join_pieces(pieces: Path, folder: Path) -> Path:
    """Check pieces and join them in a folder; the path of the settings there.

    Raises:
        TrainingError: a piece is missing or damaged.
    """
    try:
        lines = (pieces / SUMS).read_text().splitlines()
        sums = [(name, digest) for digest, name in (line.split("  ", 1) for line in lines)]
    except (OSError, ValueError) as error:
        raise TrainingError(f"{pieces / SUMS} cannot be read: {error}") from error
    for name, want in sums:
        path = pieces / name
        if not path.is_file():
            raise TrainingError(f"{path} is not there, one of {len(sums)} pieces")
        if (found := file_sha256(path)) != want:
            raise TrainingError(f"{path} is damaged: its sha256 is {found}, not {want}")
    stream = io.BufferedReader(_Joined(pieces / name for name, _ in sums))
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            archive.extractall(folder, filter="data")
    except (OSError, tarfile.TarError) as error:
        raise TrainingError(f"{pieces} cannot be joined: {error}") from error
    return folder / "config.json"


def timed(config: TrainConfig, out: Path, seconds: float) -> TrainConfig:
    """The settings for so many seconds; the rate falls in the last two fifths, unless planned."""
    config = replace(config, out=out, seconds=seconds)
    if config.decay_from is not None:
        return config
    return replace(config, decay_from=0.6 * seconds, decay_for=0.4 * seconds)


class _Cutter(io.RawIOBase):
    """A stream to write to that is cut into files."""

    def __init__(self, out: Path, piece_bytes: int) -> None:
        super().__init__()
        self.sums: list[tuple[str, str]] = []
        self._out, self._piece_bytes = out, piece_bytes
        self._piece = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data)
        for first in range(0, len(view), self._piece_bytes):
            self._piece += view[first : first + self._piece_bytes]
            while len(self._piece) >= self._piece_bytes:
                self._put(self._piece_bytes)
        return len(view)

    def end(self) -> None:
        """Write the last piece."""
        if self._piece:
            self._put(len(self._piece))

    def _put(self, size: int) -> None:
        name, data = f"piece-{len(self.sums):03}", bytes(self._piece[:size])
        (self._out / name).write_bytes(data)
        self.sums.append((name, hashlib.sha256(data).hexdigest()))
        del self._piece[:size]


class _Joined(io.RawIOBase):
    """A stream to read from, of several files."""

    def __init__(self, paths: Iterable[Path]) -> None:
        super().__init__()
        self._blocks = _blocks(paths)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or next(self._blocks, b"")
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def _blocks(paths: Iterable[Path]) -> Iterator[bytes]:
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                yield block


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """So that the same files make the same pieces."""
    return member.replace(mtime=0, mode=0o644, uid=0, gid=0, uname="", gname="")
