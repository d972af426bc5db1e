"""Decodes both sides of a captured connection, and resumes after gaps.

A :class:`Speaker` takes bytes, and reports of missing bytes, and returns events. After a gap it
searches for the next plausible frame start. If the gap is within a body of known length, nothing
else is lost."""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

from brokerproof.harness.capture import protocol_detection
from brokerproof.harness.capture.capture_events import CaptureEventFactory
from brokerproof.harness.capture.protocol_detection import AMQP, AMQP091, CORE, STOMP, WEBSOCKET
from brokerproof.harness.model.time import Instant
from brokerproof.harness.protocols.amqp091 import trace_recorder as amqp091_trace_recorder
from brokerproof.harness.protocols.amqp10 import codec as amqp10_codec
from brokerproof.harness.protocols.amqp10 import trace_recorder as amqp10_trace_recorder
from brokerproof.harness.protocols.core import codec as core_codec
from brokerproof.harness.protocols.core import trace_recorder as core_trace_recorder
from brokerproof.harness.protocols.stomp import codec as stomp_codec
from brokerproof.harness.protocols.websocket import codec as websocket_codec
from brokerproof.harness.protocols.websocket.codec import Op, WsFrame
from brokerproof.harness.trace import stamp
from brokerproof.harness.trace.events import Event

CUT = "CUT"
_MOST_SOUGHT = 1 << 20
_STILL_SOUGHT = 1 << 16
_SIDES = (True, False)


class Speaker(Protocol):
    """Decodes one connection. ``out`` is true if the client wrote the bytes."""

    def feed(self, at: Instant, out: bool, data: bytes) -> Iterator[Event]: ...

    def missing(
        self, at: Instant, since: Instant, out: bool, why: str, size: int
    ) -> Iterator[Event]:
        """Handle the loss of ``size`` bytes (0: unknown) sent between ``since`` and ``at``."""
        ...


class Reader(Protocol):
    def feed(self, at: Instant, data: bytes) -> Iterator[Event | None]:
        """Return the events that ``data`` completes; None if decoding cannot continue."""
        ...

    def skip(self, size: int) -> int:
        """Return how many of ``size`` missing bytes belong to a body and so can be skipped."""
        ...


class Framed:
    """One reader per side; searches for the start of a frame when a reader has lost its place."""

    def __init__(
        self,
        protocol: str,
        factory: CaptureEventFactory,
        make: Callable[[bool], Reader],
        beginning: protocol_detection.Beginning,
    ) -> None:
        self._protocol, self._factory, self._make, self._beginning = (
            protocol,
            factory,
            make,
            beginning,
        )
        self._readers = {out: make(out) for out in _SIDES}
        self._sought: dict[bool, bytearray | None] = dict.fromkeys(_SIDES)
        self._found_again = dict.fromkeys(_SIDES, False)

    def feed(self, at: Instant, out: bool, data: bytes) -> Iterator[Event]:
        sought = self._sought[out]
        if sought is not None:
            sought += data
            begin = self._beginning(sought, out)
            if begin is None:
                if len(sought) > _MOST_SOUGHT:
                    del sought[:-_STILL_SOUGHT]
                return
            self._sought[out], self._found_again[out] = None, True
            self._readers[out], data = self._make(out), bytes(sought[begin:])
        for event in self._readers[out].feed(at, data):
            if event is not None:
                yield event
            elif self._found_again[out]:  # what looked like a frame start was not one
                yield from self.missing(at, at, out, "LOST", 0)
                return

    def missing(
        self, at: Instant, since: Instant, out: bool, why: str, size: int
    ) -> Iterator[Event]:
        left = size
        if self._sought[out] is None and size and (taken := self._readers[out].skip(size)):
            left -= taken
            yield from filter(None, self._readers[out].feed(at, b""))
        if left or not size:
            yield self._factory.unseen(since, out, self._protocol, why, left)
            self._sought[out] = bytearray()


class _Stomp:
    """One direction of STOMP. ``shared`` holds the version from CONNECTED for both directions."""

    def __init__(self, factory: CaptureEventFactory, out: bool, shared: dict[str, str]) -> None:
        self._factory, self._out, self._shared = factory, out, shared
        self._reader = stomp_codec.Reader()
        self._torn = 0
        self._lost = False

    def feed(self, at: Instant, data: bytes) -> Iterator[Event | None]:
        self._reader.version = self._shared["version"]
        for item in self._reader.feed(data):
            match item:
                case stomp_codec.Frame(command, headers, body, size):
                    yield from self._unknown(at, body)
                    if command == "CONNECTED":
                        self._shared["version"] = self._reader.version = (
                            item.get("version") or "1.0"
                        )
                    yield self._factory.frame(at, self._out, STOMP, command, headers, body, size)
                case stomp_codec.Eol(size):
                    yield self._factory.heartbeat(at, self._out, STOMP, size)
                case stomp_codec.Unreadable(raw, reason):
                    yield self._factory.unreadable(at, self._out, raw, reason)
                    yield None

    def _unknown(self, at: Instant, body: bytes) -> Iterator[Event]:
        """Record that bodies without a stamp can no longer be identified."""
        torn, self._torn = self._torn, 0
        if torn and stamp.read(body[: stamp.LENGTH]) is None:
            yield self._factory.unseen(at, self._out, STOMP, CUT, torn)

    def skip(self, size: int) -> int:
        taken = self._reader.skip(size)
        self._torn += taken
        return taken


class _Amqp:
    def __init__(self, factory: CaptureEventFactory, out: bool) -> None:
        self._factory, self._out, self._reader = factory, out, amqp10_codec.Reader()

    def feed(self, at: Instant, data: bytes) -> Iterator[Event | None]:
        for item in self._reader.feed(data):
            yield amqp10_trace_recorder.event_of(self._factory, at, self._out, item)
            if isinstance(item, amqp10_codec.Unreadable):
                yield None

    def skip(self, size: int) -> int:
        return self._reader.skip(size)


class _Amqp091:
    """One direction of AMQP 0-9-1: methods together with their contents."""

    def __init__(self, factory: CaptureEventFactory, out: bool) -> None:
        self._factory, self._out, self._stream = factory, out, amqp091_trace_recorder.Stream()

    def feed(self, at: Instant, data: bytes) -> Iterator[Event | None]:
        for frame in self._stream.feed(data):
            yield amqp091_trace_recorder.event_of(self._factory, at, self._out, frame)
            if frame.name == amqp091_trace_recorder.UNREADABLE:
                yield None

    def skip(self, size: int) -> int:
        return 0


class _Core:
    """One direction of CORE. ``magic`` is true if it begins with a client's magic bytes."""

    def __init__(self, factory: CaptureEventFactory, out: bool, magic: bool) -> None:
        self._factory, self._out, self._reader = factory, out, core_codec.Reader(magic=magic)

    def feed(self, at: Instant, data: bytes) -> Iterator[Event | None]:
        for packet in self._reader.feed(data):
            yield core_trace_recorder.event_of(self._factory, at, self._out, packet)
            if isinstance(packet, core_codec.Unreadable):
                yield None

    def skip(self, size: int) -> int:
        return 0


class _WebSocket:
    """STOMP or AMQP in WebSocket messages. Frames are masked, so decoding cannot resume after a
    gap."""

    def __init__(self, factory: CaptureEventFactory) -> None:
        self._factory = factory
        self._heads = {out: bytearray() for out in _SIDES}
        self._readers: dict[bool, websocket_codec.Reader] = {}
        self._first = {out: bytearray() for out in _SIDES}
        self._inner: Speaker | None = None
        self._blind = dict.fromkeys(_SIDES, False)

    def feed(self, at: Instant, out: bool, data: bytes) -> Iterator[Event]:
        if self._blind[out]:
            return
        if out not in self._readers:
            head = self._heads[out]
            head += data
            end = head.find(b"\r\n\r\n")
            if end < 0:
                return
            yield from self._shaken(at, out, bytes(head[:end]).decode("latin-1"))
            data = bytes(head[end + 4 :])
        if not self._blind[out]:
            for item in self._readers[out].feed(data):
                if isinstance(item, WsFrame):
                    yield from self._frame(at, out, item)

    def _shaken(self, at: Instant, out: bool, head: str) -> Iterator[Event]:
        line, *fields = head.split("\r\n")
        yield self._factory.noted(at, f"WebSocket: {line}"[:200])
        self._readers[out] = websocket_codec.Reader(upgraded=True)
        extended = any(field.lower().startswith("sec-websocket-extensions:") for field in fields)
        if not out and (" 101" not in line or extended):
            for side in _SIDES:
                yield from self.missing(at, at, side, "FOREIGN", 0)

    def _frame(self, at: Instant, out: bool, item: WsFrame) -> Iterator[Event]:
        if item.op == Op.CLOSE:
            yield self._factory.noted(
                at, f"WebSocket: {'client' if out else 'broker'} says {item.brief()}"
            )
        if item.is_control or not item.payload:
            return
        if self._inner is not None:
            yield from self._inner.feed(at, out, item.payload)
            return
        first = self._first[out]
        first += item.payload
        detected = protocol_detection.recognised({int(not out): bytes(first)}, {int(not out): True})
        if detected is not None and detected.protocol in (STOMP, AMQP, AMQP091):
            self._inner = speaker(detected.protocol, self._factory)
            yield from self._inner.feed(at, out, bytes(first))

    def missing(
        self, at: Instant, since: Instant, out: bool, why: str, size: int
    ) -> Iterator[Event]:
        if not self._blind[out]:
            self._blind[out] = True
            yield self._factory.unseen(since, out, WEBSOCKET, why, size)


def speaker(protocol: str, factory: CaptureEventFactory, *, begun: bool = True) -> Speaker:
    """Return the decoder of ``protocol``; raise ``KeyError`` if there is none. ``begun`` is true if
    the capture contains the start of the connection."""
    if protocol == WEBSOCKET:
        return _WebSocket(factory)
    if protocol == STOMP:
        # Unescaping starts at CONNECTED. A connection that began before the capture probably uses
        # escapes.
        shared = {"version": "1.0" if begun else "1.2"}
        return Framed(
            STOMP, factory, lambda out: _Stomp(factory, out, shared), protocol_detection.stomp_frame
        )
    magic = {True: begun}  # for the first reader of the client's bytes
    makes: dict[str, _Make] = {
        AMQP: (
            lambda out: _Amqp(factory, out),
            lambda data, _: protocol_detection.amqp_frame(data),
        ),
        AMQP091: (
            lambda out: _Amqp091(factory, out),
            lambda data, _: protocol_detection.amqp091_frame(data),
        ),
        CORE: (
            lambda out: _Core(factory, out, magic.pop(out, False)),
            lambda data, _: protocol_detection.core_packet(data),
        ),
    }
    make, beginning = makes[protocol]
    return Framed(protocol, factory, make, beginning)


_Make: TypeAlias = tuple[Callable[[bool], Reader], protocol_detection.Beginning]
