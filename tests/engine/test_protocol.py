"""Frames: what goes in comes out, and nothing else comes through."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import fields
from typing import Any, get_args

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.jobs import request_for

from midfill_engine import protocol
from midfill_engine.errors import ProtocolError
from midfill_engine.protocol import (
    MAX_FRAME_BYTES,
    Cancel,
    Draft,
    Fill,
    FillRequest,
    Hello,
    Message,
    decode,
    encode,
    read_message,
)

INTEGERS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False)
TEXTS = st.text(st.characters())  # lone surrogates, too: an editor may send them
st.register_type_strategy(int, INTEGERS)
st.register_type_strategy(float, FLOATS)
st.register_type_strategy(str, TEXTS)
MESSAGES = st.one_of([st.from_type(cls) for cls in get_args(Message)])


async def read(data: bytes) -> list[Message]:
    """All messages of a stream that ends after `data`."""
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    messages = []
    while (message := await read_message(reader)) is not None:
        messages.append(message)
    return messages


def check_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(ProtocolError, match=complaint):
        asyncio.run(read(data))


def frame(*body: Any) -> bytes:
    packed = msgpack.packb(list(body))
    return struct.pack(">I", len(packed)) + packed


@given(st.lists(MESSAGES, max_size=4))
def test_messages_come_out_as_they_went_in(messages: list[Message]) -> None:
    assert asyncio.run(read(b"".join(map(encode, messages)))) == messages


@pytest.mark.parametrize("cls", [*get_args(Message), Draft, Fill])
def test_values_cannot_be_changed(cls: type) -> None:
    assert cls.__dataclass_params__.frozen
    assert "__slots__" in vars(cls)


@given(MESSAGES, st.data())
def test_a_frame_that_is_cut_short_is_no_end_of_stream(
    message: Message, data: st.DataObject
) -> None:
    whole = encode(message)
    end = data.draw(st.integers(1, len(whole) - 1))
    check_refused(whole[:end], "ended inside a frame")


@given(st.binary(max_size=200))
def test_noise_is_refused_or_a_message_and_nothing_else(body: bytes) -> None:
    try:
        message = decode(body)
    except ProtocolError:
        return
    assert isinstance(message, get_args(Message))


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (frame(), "not a message"),
        (frame("Hello"), "not a message"),
        (frame("Hello", [1], 2), "not a message"),
        (frame("Goodbye", [1]), "not a message"),
        (frame(["Hello"], [1]), "not a message"),
        (frame({}, {}), "not a message"),
        (frame("Draft", [[], []]), "not a message"),  # a part of one, but none
        (frame("Hello", []), "malformed Hello"),
        (frame("Hello", ["one"]), "malformed Hello"),
        (frame("Hello", 1), "malformed Hello"),
        (frame("Welcome", [1, 2]), "malformed Welcome"),
        (frame("Cancel", [None]), "malformed Cancel"),
        (struct.pack(">I", 0), "not a message"),
        (struct.pack(">I", 3) + b"\xc1\xc1\xc1", "not a message"),
        (struct.pack(">I", 5) + b"\xdd\xff\xff\xff\xff", "not a message"),  # a list of 4 billion
        (struct.pack(">I", 2000) + b"\x91" * 2000, "not a message"),  # lists in lists in lists
    ],
)
def test_malformed_frames(data: bytes, complaint: str) -> None:
    check_refused(data, complaint)


def test_a_quality_that_does_not_exist_is_named() -> None:
    values = [getattr(request_for(), field.name) for field in fields(FillRequest)]
    values[[field.name for field in fields(FillRequest)].index("quality")] = "perfect"
    check_refused(frame("FillRequest", values), "malformed FillRequest")


def test_an_oversized_frame_is_refused_before_it_is_read() -> None:
    check_refused(struct.pack(">I", MAX_FRAME_BYTES + 1), "is over")


def test_an_oversized_message_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "MAX_FRAME_BYTES", 1000)
    with pytest.raises(ProtocolError, match="is over 1000"):
        encode(request_for("x" * 1000))
    assert encode(request_for("x" * 700))


def test_what_follows_a_bad_frame_is_not_read() -> None:
    check_refused(encode(Hello(1, "")) + frame("Hello", []) + encode(Cancel(1)), "malformed Hello")
