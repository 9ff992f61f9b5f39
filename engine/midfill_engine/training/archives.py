"""Reads the members of archives, within bounds.

Owns the formats: wheels and zips, tarballs, Debian packages. Nothing is extracted to the disk, and
an archive made to fill the memory is refused: sizes that it states are checked before anything is
read, and no more is read than it stated. Knows nothing of what is in a member.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol, cast

from midfill_engine.errors import TrainingError

_MAX_ARCHIVE_BYTES: Final = 256 << 20  # as it lies on the disk
_MAX_UNPACKED_BYTES: Final = 1 << 30
_MAX_MEMBERS: Final = 60_000
_MAX_HEADER_BYTES: Final = 1 << 20  # of a tarball, between the data of two members
_XZ_MEMORY_BYTES: Final = 192 << 20
_AR_MAGIC: Final = b"!<arch>\n"
_AR_HEADER_BYTES: Final = 60
_CHUNK: Final = 1 << 16
_BROKEN: Final = (
    *(tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError),
    *(OSError, ValueError, RuntimeError, NotImplementedError),
)


class _TooMuch(Exception):
    """An archive is larger than we read."""


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def read_members(
    path: Path, wanted: Callable[[str], bool], max_bytes: int
) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the regular files that are `wanted` by name, in the archive's order.

    Files of over `max_bytes` are passed over.

    Raises:
        TrainingError: the archive is broken, of another kind than its name says, or too large.
    """
    try:
        if path.stat().st_size > _MAX_ARCHIVE_BYTES:
            raise _TooMuch(f"over {_MAX_ARCHIVE_BYTES >> 20} MiB")
        with path.open("rb") as stream:
            if path.suffix in (".whl", ".zip"):
                yield from _zip_members(stream, wanted, max_bytes)
            elif path.suffix == ".deb":
                yield from _tar_members(_deb_data(stream), wanted, max_bytes)
            else:
                yield from _tar_members(_unpacked(path.suffix, stream), wanted, max_bytes)
    except _TooMuch as error:
        raise TrainingError(f"{path} is too large: {error}") from error
    except _BROKEN as error:
        raise TrainingError(f"{path} cannot be read: {error}") from error


def _zip_members(
    stream: io.BufferedReader, wanted: Callable[[str], bool], max_bytes: int
) -> Iterator[tuple[str, bytes]]:
    left = _MAX_UNPACKED_BYTES
    with zipfile.ZipFile(stream) as archive:
        _check_count(len(archive.infolist()))
        for info in archive.infolist():
            if info.is_dir() or info.file_size > max_bytes or not wanted(info.filename):
                continue
            if (left := left - info.file_size) < 0:
                raise _TooMuch(f"over {_MAX_UNPACKED_BYTES >> 20} MiB unpacked")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{info.filename} is packed in an unusual way")
            with archive.open(info) as member:  # read() without a size may unpack without bound
                yield info.filename, member.read(info.file_size)


def _tar_members(
    stream: _Readable, wanted: Callable[[str], bool], max_bytes: int
) -> Iterator[tuple[str, bytes]]:
    bounded = _Bounded(stream)
    with tarfile.open(fileobj=bounded, mode="r|") as archive:
        count = 0
        while (member := archive.next()) is not None:
            _check_count(count := count + 1)
            bounded.allow(member.offset_data + member.size)
            if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.size > max_bytes:
                continue
            if wanted(member.name):
                yield member.name, cast(io.BufferedReader, archive.extractfile(member)).read()


def _check_count(members: int) -> None:
    if members > _MAX_MEMBERS:
        raise _TooMuch(f"over {_MAX_MEMBERS} members")


class _Bounded(io.RawIOBase):
    """A tarball that is read no further than its members' stated sizes, and some headers.

    tarfile reads a header of any length into the memory; this is what keeps it from doing so.
    """

    def __init__(self, stream: _Readable) -> None:
        self._stream = stream
        self._read = 0
        self._limit = _MAX_HEADER_BYTES

    def allow(self, end: int) -> None:
        """Let the data be read up to byte `end`, and the headers that follow."""
        if end > _MAX_UNPACKED_BYTES:
            raise _TooMuch(f"over {_MAX_UNPACKED_BYTES >> 20} MiB unpacked")
        self._limit = end + _MAX_HEADER_BYTES

    def read(self, size: int = -1, /) -> bytes:
        if size < 0 or self._read > self._limit:
            raise _TooMuch(f"a header of over {_MAX_HEADER_BYTES >> 20} MiB")
        data = self._stream.read(size)
        self._read += len(data)
        return data


class _Xz:
    """An xz stream, in bounded memory: `lzma.open` allocates as much as the file asks for."""

    def __init__(self, stream: _Readable) -> None:
        self._stream = stream
        self._decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)

    def read(self, size: int, /) -> bytes:
        while not self._decompressor.eof:
            packed = self._stream.read(_CHUNK) if self._decompressor.needs_input else b""
            if self._decompressor.needs_input and not packed:
                raise EOFError("it ends early")
            if data := self._decompressor.decompress(packed, size):
                return data
        return b""


def _unpacked(suffix: str, stream: io.BufferedReader | io.BytesIO) -> _Readable:
    if suffix in (".gz", ".tgz"):
        return cast(_Readable, gzip.open(stream))
    if suffix == ".bz2":
        return bz2.open(stream)
    if suffix == ".xz":
        return _Xz(stream)
    raise ValueError(f"a tarball packed as {suffix or 'nothing'} is not supported")


def _deb_data(stream: io.BufferedReader) -> _Readable:
    """The `data.tar.*` of a Debian package: an ar archive (deb(5))."""
    if stream.read(len(_AR_MAGIC)) != _AR_MAGIC:
        raise ValueError("not a Debian package")
    while len(header := stream.read(_AR_HEADER_BYTES)) == _AR_HEADER_BYTES:
        name = header[:16].decode("ascii").rstrip(" /")
        if (size := int(header[48:58])) < 0:
            raise ValueError("a member of a negative size")
        if name.startswith("data.tar"):
            return _unpacked(Path(name).suffix, io.BytesIO(stream.read(size)))
        stream.seek(size + size % 2, io.SEEK_CUR)
    raise ValueError("a Debian package without data")
