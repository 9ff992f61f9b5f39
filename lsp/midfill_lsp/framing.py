"""Splits a stream of bytes into the bodies of LSP messages.

Owns the header syntax of the base protocol and the bound on a message's size. Knows nothing of
JSON and of where the bytes come from.
"""

import logging
import re
from collections.abc import Iterator
from typing import Final

MAX_MESSAGE_BYTES: Final = 256 * 1024 * 1024
_CONTENT_LENGTH: Final = re.compile(rb"^content-length:[ \t]*(\d{1,18})[ \t]*$", re.I | re.M)
_MAX_HEADER_BYTES: Final = 64 * 1024

logger = logging.getLogger(__name__)


class Frames:
    """Turns chunks of any size into whole bodies.

    A body over `max_bytes` is skipped, never buffered. A header block without a length is skipped
    too: the next one may be sound.
    """

    def __init__(self, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._wanted: int | None = None  # bytes of the body to come; None while in a header
        self._skip = 0  # bytes of a body that is too large, still to come

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The bodies that are complete with this chunk."""
        self._buffer += chunk
        while self._advance():
            if self._wanted is not None and len(self._buffer) >= self._wanted:
                body = bytes(self._buffer[: self._wanted])
                del self._buffer[: self._wanted]
                self._wanted = None
                yield body

    def _advance(self) -> bool:
        """Go one step further. False when that takes more bytes than have come."""
        if self._skip:
            skipped = min(self._skip, len(self._buffer))
            del self._buffer[:skipped]
            self._skip -= skipped
            return self._skip == 0
        if self._wanted is not None:
            return len(self._buffer) >= self._wanted
        return self._take_header()

    def _take_header(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _MAX_HEADER_BYTES:
                logger.error("dropped %d bytes that are no message header", len(self._buffer))
                self._buffer.clear()
            return False
        header = bytes(self._buffer[:end]).replace(b"\r\n", b"\n")
        del self._buffer[: end + 4]
        length = _CONTENT_LENGTH.search(header)
        if length is None:
            logger.error("skipped a header without a Content-Length: %r", header[:200])
        elif int(length[1]) > self._max_bytes:
            logger.error("skipped a message of %d bytes", int(length[1]))
            self._skip = int(length[1])
        else:
            self._wanted = int(length[1])
        return True


def framed(body: bytes) -> bytes:
    """A body with its header."""
    return b"Content-Length: %d\r\n\r\n" % len(body) + body
