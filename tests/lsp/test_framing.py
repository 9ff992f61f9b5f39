"""Messages are found in the stream however it is cut."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midfill_lsp.framing import Frames, framed


def bodies(*chunks: bytes, max_bytes: int = 1000) -> list[bytes]:
    frames = Frames(max_bytes)
    return [body for chunk in chunks for body in frames.feed(chunk)]


@given(st.lists(st.binary(max_size=30), max_size=5), st.integers(1, 40))
def test_any_cut_gives_the_same_bodies(sent: list[bytes], size: int) -> None:
    stream = b"".join(framed(body) for body in sent)
    chunks = [stream[i : i + size] for i in range(0, len(stream), size)]
    assert bodies(*chunks) == sent


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: 2\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 2\r\n\r\n",
        b"content-length:2\r\n\r\n",
    ],
)
def test_headers_in_every_form_the_protocol_allows(header: bytes) -> None:
    assert bodies(header + b"{}" + framed(b"next")) == [b"{}", b"next"]


def test_a_message_that_is_too_large_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    large = framed(b"x" * 1001)
    assert bodies(large[:500], large[500:] + framed(b"next")) == [b"next"]
    assert "1001 bytes" in caplog.text


def test_a_header_without_a_length_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert bodies(b"GET / HTTP/1.1\r\n\r\n" + framed(b"next")) == [b"next"]
    assert "GET" in caplog.text


def test_noise_without_an_end_is_not_kept(caplog: pytest.LogCaptureFixture) -> None:
    frames = Frames()
    for _ in range(40):
        assert list(frames.feed(b"x" * 4096)) == []
    assert len(frames._buffer) < 65 * 1024
    assert "no message header" in caplog.text
