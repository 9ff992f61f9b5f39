"""The file a command works on: read whole, checked, and written back byte for byte.

Owns what makes a file unfit (not there, too large, NUL bytes, not UTF-8), the byte order mark, and
writing so that a file is never half old and half new. Knows nothing of what is in the text.
"""

import contextlib
import os
import stat
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from midfill_infill import language_for
from midfill_lsp.errors import OutputError, SourceError

MAX_BYTES: Final = 50_000_000
STDIN: Final = "-"
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Source:
    """A text and where it came from."""

    name: str  # as the user wrote it
    text: str  # line ends as in the file, no byte order mark
    has_bom: bool

    @property
    def shown_name(self) -> str:
        """What to call it in messages."""
        return "stdin" if self.name == STDIN else self.name


def read_source(name: str) -> Source:
    """Read a file, or stdin for `-`.

    Raises:
        SourceError: it cannot be read, or is no text that we take.
    """
    shown = "stdin" if name == STDIN else name
    try:
        data = _read(sys.stdin.buffer) if name == STDIN else _read_file(Path(name))
    except OSError as error:
        raise SourceError(f"{shown}: {error.strerror or error}") from error
    if len(data) > MAX_BYTES:
        raise SourceError(f"{shown}: over {MAX_BYTES} bytes, which is too large")
    if (nul := data.find(0)) >= 0:
        raise SourceError(f"{shown}: not a text file: a NUL byte at offset {nul}")
    has_bom = data.startswith(_BOM)
    try:
        return Source(name, data.removeprefix(_BOM).decode(), has_bom)
    except UnicodeDecodeError as error:
        offset = error.start + (len(_BOM) if has_bom else 0)
        byte = data[offset]
        raise SourceError(f"{shown}: not UTF-8: byte 0x{byte:02x} at offset {offset}") from error


def uri_of(source: Source) -> str:
    """What an editor would call it."""
    return "untitled:stdin" if source.name == STDIN else Path(source.name).resolve().as_uri()


def language_id_of(source: Source) -> str:
    """What an editor would take it for, by its name."""
    return language_for(None, source.name) or "plaintext"


def to_bytes(source: Source, text: str) -> bytes:
    """What the file holds with this text in place of its own."""
    return (_BOM if source.has_bom else b"") + text.encode()


def write_atomically(path: Path, data: bytes, *, instead_of: bytes) -> None:
    """Replace a file's content, keeping its mode; behind a link, that of the file it leads to.

    Raises:
        OutputError: it could not be written, or no longer holds `instead_of`; it then is as it
            was.
    """
    target = path.resolve()
    try:
        if target.read_bytes() != instead_of:
            raise OutputError(f"{path}: has changed since it was read, and is left as it is")
        os.close(os.open(target, os.O_WRONLY))  # a read-only file is not replaced, either
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
                os.fsync(file.fileno())
            Path(name).replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return _read(file)


def _read(file: BinaryIO) -> bytes:
    return file.read(MAX_BYTES + 1)  # one more tells that it is too large
