"""WebSocket frames, read by wsproto and written by ten lines here.

Payload is passed on unmasked as it arrives, even part of a data frame. So only a header, a control
frame or part of a character is ever kept. Message boundaries are ignored: as in Artemis, STOMP
finds its frames itself.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from wsproto.frame_protocol import CloseReason, FrameDecoder, MessageDecoder, Opcode, ParseFailed

_LOCAL_ONLY = frozenset(
    {CloseReason.NO_STATUS_RCVD, CloseReason.ABNORMAL_CLOSURE, CloseReason.TLS_HANDSHAKE_FAILED}
)
_FIN = 0x80


@dataclass(frozen=True, slots=True)
class Data:
    """The payload of a text or binary message, or part of it."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class Ping:
    payload: bytes


@dataclass(frozen=True, slots=True)
class Closed:
    """The peer's Close with its status code; None if it had none."""

    code: int | None


class Broken(Exception):
    """A violation of the protocol; ``code`` is the status code of our Close."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class _LimitedDecoder(FrameDecoder):
    """Refuses a frame because of its announced length, before any of its payload is kept."""

    def __init__(self, most: int) -> None:
        super().__init__(client=False)
        self._most = most

    def parse_extended_payload_length(self, opcode: Opcode, payload_len: int) -> int | None:
        length = super().parse_extended_payload_length(opcode, payload_len)
        if length is not None and length > self._most:
            reason = (
                f"a frame announced a payload of {length} bytes; at most {self._most} are allowed"
            )
            raise ParseFailed(reason, CloseReason.MESSAGE_TOO_BIG)
        return length


class Frames:
    """Both directions of one connection. A frame has a payload of at most ``most`` bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._frames = _LimitedDecoder(most)
        self._messages = MessageDecoder()

    def feed(self, data: bytes) -> Iterator[Data | Ping | Closed]:
        """Yield the events that ``data`` completes. Pongs are dropped (RFC6455-CTRL-05).

        Raises :class:`Broken` for a violation. After that or a :class:`Closed`, the object must not
        be used.
        """
        self._frames.receive_bytes(data)
        try:
            while (frame := self._frames.process_buffer()) is not None:
                payload = frame.payload
                assert isinstance(payload, bytes)
                if frame.opcode is Opcode.CLOSE:
                    yield _closed(payload)
                    return
                if frame.opcode is Opcode.PING:
                    yield Ping(payload)
                elif not frame.opcode.iscontrol():
                    self._messages.process_frame(
                        frame
                    )  # checks the order of fragments, and UTF-8 in text
                    if payload:
                        yield Data(payload)
        except ParseFailed as problem:
            raise Broken(int(problem.code), str(problem)) from None

    def message(self, payload: bytes, *, text: bool) -> bytes:
        """Return one whole message. Text that is not UTF-8 is sent as binary (RFC6455-DATA-01)."""
        opcode = Opcode.TEXT if text and _is_utf8(payload) else Opcode.BINARY
        if len(payload) <= self._most:
            return encode(opcode, payload)
        data = []
        for start in range(0, len(payload), self._most):
            piece = payload[start : start + self._most]
            data.append(encode(opcode, piece, fin=start + self._most >= len(payload)))
            opcode = Opcode.CONTINUATION
        return b"".join(data)

    def part(self, payload: bytes, *, first: bool, last: bool) -> bytes:
        data = []
        for start in range(0, max(1, len(payload)), self._most):
            opcode = Opcode.BINARY if first and not start else Opcode.CONTINUATION
            fin = last and start + self._most >= len(payload)
            data.append(encode(opcode, payload[start : start + self._most], fin=fin))
        return b"".join(data)


def pong(payload: bytes) -> bytes:
    """Return the answer to a Ping with that payload (RFC6455-CTRL-02, RFC6455-CTRL-04)."""
    return encode(Opcode.PONG, payload)


def close(code: int | None, reason: str = "") -> bytes:
    """Return a Close frame; ``reason`` is ASCII and cut to fit (RFC6455-CTRL-01)."""
    return encode(
        Opcode.CLOSE, b"" if code is None else struct.pack("!H", code) + reason.encode()[:123]
    )


def encode(opcode: Opcode, payload: bytes, *, fin: bool = True) -> bytes:
    """Return one frame, unmasked, with the shortest form of the length (RFC6455-FRAME-02, -05)."""
    first, length = opcode | (_FIN if fin else 0), len(payload)
    if length < 126:
        return b"%c%c%b" % (first, length, payload)
    if length < 1 << 16:
        return struct.pack("!BBH", first, 126, length) + payload
    return struct.pack("!BBQ", first, 127, length) + payload


def _closed(payload: bytes) -> Closed:
    if not payload:
        return Closed(None)
    if len(payload) == 1:
        raise Broken(CloseReason.PROTOCOL_ERROR, "a Close frame with one byte has no status code")
    (code,) = struct.unpack("!H", payload[:2])
    if not _may_be_sent(code):
        raise Broken(CloseReason.PROTOCOL_ERROR, f"{code} is not a status code of a Close frame")
    if not _is_utf8(payload[2:]):
        raise Broken(
            CloseReason.INVALID_FRAME_PAYLOAD_DATA, "the reason in a Close frame is not UTF-8"
        )
    return Closed(code)


def _may_be_sent(code: int) -> bool:
    if 3000 <= code <= 4999:
        return True
    return code in {int(reason) for reason in CloseReason} - {int(reason) for reason in _LOCAL_ONLY}


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
