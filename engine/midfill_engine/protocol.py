"""What client and worker say to each other: frozen dataclasses in length-prefixed msgpack frames.

Owns the wire format and its version. Knows nothing of sockets, models or editors.

A frame is a 4-byte big-endian length followed by a msgpack array `[tag, fields…]`, with the fields
in the order of the dataclass. One connection carries any number of requests at once, told apart
by `request_id`, which the client chooses. `Hello` and `Welcome` are the same in every version, so
that two of different versions can say so. Every `FillRequest` is answered by exactly one
`FillResult` or `Failure`; before it, any number of `DraftEvent`s.
"""

import asyncio
import struct
from dataclasses import dataclass
from typing import Final, Literal, get_args

import msgpack
from cattrs import Converter, UnstructureStrategy

from midfill_engine.calibration import DEFAULT_GATE
from midfill_engine.errors import ProtocolError

PROTOCOL_VERSION: Final = 4
MAX_FRAME_BYTES: Final = 64 * 1024 * 1024
_LENGTH: Final = struct.Struct(">I")
_SURROGATES: Final = "surrogatepass"  # an editor's text may hold halves of characters

Quality = Literal["fast", "balanced", "best"]
QUALITIES: Final[tuple[Quality, ...]] = ("fast", "balanced", "best")


@dataclass(frozen=True, slots=True)
class Hello:
    """First message of a client. A worker of another version or build serves it nothing."""

    version: int
    build: str  # tells code apart that has the same version


@dataclass(frozen=True, slots=True)
class Welcome:
    """First answer of a worker."""

    version: int
    build: str  # of whoever started the worker
    worker_pid: int
    model: str  # name or directory of the model it serves
    others: int  # other clients it serves; a worker of another build goes if it has none


@dataclass(frozen=True, slots=True)
class FillRequest:
    """Fill one hole.

    `prefix` and `suffix` are the text around the hole, with "\\n" line ends. Text that was taken
    back into the hole because a token may straddle its edge is *not* in them but in `heal_left`
    and `heal_right`: a fill starts with the one and ends with the other. On an empty line
    `heal_left` is the indentation that the lines around it demand, if they leave no choice.
    """

    request_id: int
    prefix: str
    prefix_line: int  # number of the document's line on which `prefix` starts; anchors the window
    suffix: str
    heal_left: str
    heal_right: str
    single_line: bool  # no line break may follow `heal_left`
    quality: Quality
    deadline_ms: int  # counted from receipt; the best draft so far is the answer then
    max_tokens: int  # upper bound of a fill's length
    want_drafts: bool
    interactive: bool  # goes before requests that nobody is waiting for
    may_close: int | None = None  # brackets that a fill may close: not those closed in `suffix`
    must_close: int | None = None  # and those it does not end before, nor within its own; None: any
    strategy: str | None = None  # the rule by which a step decides masks; None: the quality's


@dataclass(frozen=True, slots=True)
class Draft:
    """One candidate on its way: `pieces[i]` is the text of token i, None while it is masked."""

    pieces: tuple[str | None, ...]
    confidences: tuple[float, ...]  # probability of each token when it was committed; 0 if masked


@dataclass(frozen=True, slots=True)
class DraftEvent:
    """The candidates after one denoising step, in a fixed order."""

    request_id: int
    step: int  # from 1
    drafts: tuple[Draft, ...]


@dataclass(frozen=True, slots=True)
class Fill:
    """A finished candidate. `text` begins with `heal_left` and ends with `heal_right`."""

    text: str
    confidence: float  # 0…1, the probability that it is what was wanted, if calibrated
    score: float  # what the fills are ranked by, comparable within one answer only
    pieces: tuple[str, ...]
    confidences: tuple[float, ...]
    evidence: tuple[float, ...] = ()  # what `confidence` was made of: see `calibration`


@dataclass(frozen=True, slots=True)
class FillStats:
    """What one fill cost. Times in milliseconds, counted in the worker."""

    queue_ms: float
    encode_ms: float
    denoise_ms: float
    score_ms: float
    total_ms: float
    steps: int  # denoising steps of the request
    passes: int  # forward passes it took part in, of any kind
    tokens: int  # tokens of the chosen fill
    context_tokens: int  # tokens of prefix and suffix that the model saw
    reused_tokens: int  # of these, how many came from the cache


@dataclass(frozen=True, slots=True)
class FillResult:
    """The answer: distinct fills, best first; empty if no draft came to an end."""

    request_id: int
    fills: tuple[Fill, ...]
    at_deadline: bool
    stats: FillStats
    gate: float = DEFAULT_GATE  # fills of less confidence should not be shown unasked


@dataclass(frozen=True, slots=True)
class Failure:
    """The other answer. `kind` is the name of a class in `errors`."""

    request_id: int
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """Withdraw a request. It is answered with a `Failure` of kind `RequestCancelled`."""

    request_id: int


@dataclass(frozen=True, slots=True)
class StatusRequest:
    """Ask how the worker is. It is answered when the model is loaded, which it brings about."""

    request_id: int


@dataclass(frozen=True, slots=True)
class StatusResult:
    """How the worker is."""

    request_id: int
    worker_pid: int
    model: str
    weights: str  # how they are held: "float32", "bfloat16" or "int8"
    threads: int
    rss_bytes: int
    cache_bytes: int
    active: int
    clients: int
    device: str  # "cpu" or "cuda:0"


Message = (
    Hello
    | Welcome
    | FillRequest
    | DraftEvent
    | FillResult
    | Failure
    | Cancel
    | StatusRequest
    | StatusResult
)
_MESSAGES: Final[dict[str, type[Message]]] = {cls.__name__: cls for cls in get_args(Message)}
_CONVERTER: Final = Converter(unstruct_strat=UnstructureStrategy.AS_TUPLE)


def encode(message: Message) -> bytes:
    """One whole frame, length included."""
    values = [type(message).__name__, _CONVERTER.unstructure(message)]
    body: bytes = msgpack.packb(values, unicode_errors=_SURROGATES)
    if len(body) > MAX_FRAME_BYTES:
        raise ProtocolError(f"a message of {len(body)} bytes is over {MAX_FRAME_BYTES}")
    return _LENGTH.pack(len(body)) + body


def decode(body: bytes) -> Message:
    """The message in a frame's body.

    Raises:
        ProtocolError: it is not msgpack, of no known kind, or its fields do not fit.
    """
    try:
        tag, values = msgpack.unpackb(body, unicode_errors=_SURROGATES)
        cls = _MESSAGES[tag]
    except Exception as error:
        raise ProtocolError(f"not a message: {error!r}") from error
    try:
        message: Message = _CONVERTER.structure(values, cls)
    except Exception as error:
        raise ProtocolError(f"a malformed {tag}: {error}") from error
    return message


async def read_message(reader: asyncio.StreamReader) -> Message | None:
    """The next message, or None at a clean end of the stream.

    Raises:
        ProtocolError: the stream ends inside a frame, or the frame is no message.
    """
    try:
        head = await reader.readexactly(_LENGTH.size)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise ProtocolError("the stream ended inside a frame") from error
        return None
    (length,) = _LENGTH.unpack(head)
    if length > MAX_FRAME_BYTES:
        raise ProtocolError(f"a frame of {length} bytes is over {MAX_FRAME_BYTES}")
    try:
        return decode(await reader.readexactly(length))
    except asyncio.IncompleteReadError as error:
        raise ProtocolError("the stream ended inside a frame") from error
