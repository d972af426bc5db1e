"""Detects a connection's protocol and client from its content; ports are ignored.

In the middle of a connection it searches for a plausible frame start: a STOMP command with header
lines after a NUL, or an AMQP frame followed by another."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from brokerproof.harness.protocols.core.codec import MAGIC
from brokerproof.harness.protocols.core.messages import PACKET_HEADER
from brokerproof.harness.protocols.core.tables import BY_CODE

STOMP, AMQP, AMQP091, CORE = "STOMP", "AMQP", "AMQP091", "CORE"
WEBSOCKET, TLS, OTHER = "WEBSOCKET", "TLS", "OTHER"

CLIENT_WORDS = rb"CONNECT|STOMP|SEND|SUBSCRIBE|UNSUBSCRIBE|BEGIN|COMMIT|ABORT|ACK|NACK|DISCONNECT"
SERVER_WORDS = rb"CONNECTED|MESSAGE|RECEIPT|ERROR"
_FIRST_WORDS = (b"CONNECT", b"STOMP", b"CONNECTED")
_LINES = rb"\r?\n(?:[^\x00\r\n:]+:[^\x00\n]*\n)*\r?\n"
_STOMP_FRAME = {
    out: re.compile(rb"(?:\A|\x00)[\r\n]*((?:" + words + rb")" + _LINES + rb")")
    for out, words in ((True, CLIENT_WORDS), (False, SERVER_WORDS))
}
_STOMP_START = re.compile(rb"[\r\n]*(?:(" + CLIENT_WORDS + rb")|(" + SERVER_WORDS + rb"))\r?\n")
_TLS = re.compile(rb"[\x14-\x17]\x03[\x00-\x04]")
_REQUEST = re.compile(rb"GET [^\r\n]* HTTP/1\.1\r\n(?:[^\r\n]+\r\n)*?(?i:Upgrade: *websocket)\r\n")
_FOREIGN = {b"\x10": b"MQTT", b"\x00": b"ActiveMQ"}
ENOUGH = 4
"""The maximum number of bytes of each side that are needed to detect a protocol from its
beginning."""
MOST_LOOKED_AT = 64 * 1024
LARGEST_FRAME = 1 << 24
"""In the middle of a connection, an AMQP frame that claims to be longer is not credible."""


Beginning: TypeAlias = Callable[[bytearray, bool], int | None]
"""Finds the offset of a side's first credible frame in bytes that begin at a packet boundary."""


@dataclass(frozen=True)
class Recognised:
    """A protocol, the client's side (None: unknown), and which sides were captured from their first
    byte."""

    protocol: str
    client: int | None = None
    first: frozenset[int] = frozenset()


def recognised(raw: Mapping[int, bytes], begun: Mapping[int, bool]) -> Recognised | None:
    """Return the protocol of the bytes in ``raw``, which has an entry for each side; None while
    more are needed. ``begun`` tells which sides were captured from their first byte.

    A side captured from the middle begins at a packet boundary."""
    for side, data in raw.items():
        detected = _by_start(side, data)
        if detected is not None:
            return detected
    for side, data in raw.items():
        if not begun[side] and (detected := _by_middle(side, data)) is not None:
            return detected
    if any(len(data) > MOST_LOOKED_AT for data in raw.values()):
        return Recognised(OTHER)
    if all(begun.values()) and all(len(data) >= ENOUGH for data in raw.values()):
        return Recognised(OTHER)
    return None


def _by_start(side: int, data: bytes) -> Recognised | None:
    if _TLS.match(data):
        return Recognised(TLS)
    if data[:4] == b"AMQP" and len(data) >= 8:
        if data[5:8] == b"\x01\x00\x00" and data[4] in (0, 2, 3):
            return Recognised(TLS if data[4] == 2 else AMQP, None, frozenset({side}))
        # Brokers answer with their version; only a client begins with one of these.
        return (
            Recognised(AMQP091, side, frozenset({side}))
            if data[4:] and data[4] in (0, 1)
            else Recognised(OTHER)
        )
    if len(data) >= ENOUGH and MAGIC.startswith(data[: len(MAGIC)]):
        return Recognised(CORE, side, frozenset({side}))
    word = _STOMP_START.match(data)
    if word is not None:
        command = word[1] or word[2]
        first = frozenset({side}) if command in _FIRST_WORDS else frozenset[int]()
        return Recognised(STOMP, side if word[1] else 1 - side, first)
    if data.startswith(b"GET ") and _REQUEST.match(data):
        return Recognised(WEBSOCKET, side, frozenset({side}))
    if data[:1] in _FOREIGN and _FOREIGN[data[:1]] in data[:16]:
        return Recognised(OTHER)
    return None


def _by_middle(side: int, data: bytes) -> Recognised | None:
    for out in (True, False):
        if stomp_frame(data, out) is not None:
            return Recognised(STOMP, side if out else 1 - side)
    for protocol, size_of in ((AMQP, amqp_size), (AMQP091, amqp091_size), (CORE, core_size)):
        if follows(data, 0, size_of) is True:
            return Recognised(
                protocol, _client_of_core(side, data[4]) if protocol == CORE else None
            )
    return None


def _client_of_core(side: int, code: int) -> int | None:
    """Return the client's side, according to the first packet of either side."""
    name = BY_CODE[code].name
    if name.startswith(("ping", "packets-confirmed", "disconnect", "exception")):
        return None
    of_broker = (
        name in ("receive", "producer-credits", "producer-credits-refused") or "-response" in name
    )
    return 1 - side if of_broker else side


def stomp_frame(data: bytes | bytearray, out: bool) -> int | None:
    """Return the offset of the first plausible frame (``out``: from a client) in ``data``, which
    begins at a packet boundary."""
    match = _STOMP_FRAME[out].search(data)
    return None if match is None else match.start(1)


def amqp_frame(data: bytes | bytearray) -> int | None:
    """Return the offset of the first plausible AMQP 1.0 frame."""
    return _first(
        data, amqp_size, re.compile(rb"(?=[\x00-\x01]...[\x02-\x03][\x00\x01]..)", re.DOTALL)
    )


def amqp091_frame(data: bytes | bytearray) -> int | None:
    """Return the offset of the first plausible AMQP 0-9-1 frame."""
    return _first(data, amqp091_size, re.compile(rb"\A|(?<=\xce)"))


def core_packet(data: bytes | bytearray) -> int | None:
    """Return the offset of the first plausible CORE packet."""
    return _first(data, core_size, re.compile(rb"(?=[\x00]...[\x01-\xff]\x00{6})", re.DOTALL))


def _first(
    data: bytes | bytearray, size_of: Callable[[bytes, int], int], starts: re.Pattern[bytes]
) -> int | None:
    raw = bytes(data)
    return next(
        (at.start() for at in starts.finditer(raw) if follows(raw, at.start(), size_of)), None
    )


def follows(data: bytes, at: int, size_of: Callable[[bytes, int], int]) -> bool:
    """True if a frame at ``at`` is plausible: it is complete, and the data end or another frame
    begins after it."""
    size = size_of(data, at)
    end = at + size
    return size > 0 and (end == len(data) or (end + 8 <= len(data) and size_of(data, end) > 0))


def amqp_size(data: bytes, at: int) -> int:
    """Return the stated length of the AMQP 1.0 frame at ``at``; 0 if there is no frame."""
    head = data[at : at + 11]
    if len(head) < 8:
        return 0
    size, offset, kind = int.from_bytes(head[:4]), head[4], head[5]
    if not 8 <= size <= LARGEST_FRAME or offset != 2 or kind > 1:
        return 0
    if size == 8:
        return size if kind == 0 else 0
    codes = range(0x40, 0x45) if kind else range(0x10, 0x19)
    described = head[8:10] == b"\x00\x53" and len(head) == 11 and head[10] in codes
    return size if described else 0


def amqp091_size(data: bytes, at: int) -> int:
    """Return the stated length of the AMQP 0-9-1 frame at ``at``; 0 if there is no frame."""
    head = data[at : at + 7]
    if len(head) < 7 or head[0] not in (1, 2, 3, 8):
        return 0
    size = int.from_bytes(head[3:7]) + 8
    whole = size <= LARGEST_FRAME and at + size <= len(data)
    return size if whole and data[at + size - 1] == 0xCE else 0


def core_size(data: bytes, at: int) -> int:
    """Return the stated length of the CORE packet at ``at``; 0 if there is no packet."""
    head = data[at : at + PACKET_HEADER]
    if len(head) < PACKET_HEADER or head[4] not in BY_CODE or any(head[5:11]):
        return 0
    size = int.from_bytes(head[:4]) + 4
    return size if PACKET_HEADER <= size <= LARGEST_FRAME else 0
