"""Reads and writes the AMQP 1.0 frames of load tests without the general codec.

Load clients and the benchmarks' peers handle so many transfers, flows and dispositions that they
would mostly measure the general codec. The functions here read and write the few encodings that
matter, from and to plain bytes; for everything else, callers use
:mod:`brokerproof.harness.protocols.amqp10.codec`.
"""

import struct
from collections.abc import Mapping
from typing import Any

from brokerproof.harness.protocols.amqp10 import codec, types

ROOM = 64
"""Bytes reserved for the performative in a frame."""
BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION = 0x11, 0x12, 0x13, 0x14, 0x15
ACCEPTED = b"\x00\x53\x24\x45"

_SMALL = frozenset((0x52, 0x53, 0x50, 0x56))
_CONSTANTS = {0x40: -1, 0x41: 1}
"""The encodings of null and true; false and 0 are 0."""


def performative(name: str, fields: Mapping[str, Any], /) -> bytes:
    """Encode a frame without payload on channel 0."""
    return codec.encode_frame(types.encode(codec.composite(name, fields)))


def data_message(body: bytes) -> bytes:
    """Encode a message with a single data section."""
    size = len(body)
    if size < 256:
        return b"\x00\x53\x75\xa0%c%b" % (size, body)
    return b"\x00\x53\x75\xb0" + size.to_bytes(4) + body


def transfers(handle: int, delivery: int, message: bytes, settled: bool, most: int) -> list[bytes]:
    """Encode one delivery in as many transfers as the frame size ``most`` requires."""
    number = delivery.to_bytes(4)
    fields = b"\x52%c\x70%b\xa0\x04%b\x43%c" % (
        handle & 0xFF,
        number,
        number,
        0x41 if settled else 0x42,
    )
    if handle > 0xFF:
        fields = b"\x70" + handle.to_bytes(4) + fields[2:]
    most -= ROOM
    pieces = [message]
    if len(message) > most:
        pieces = [message[at : at + most] for at in range(0, len(message), most)]
    last = len(pieces) - 1
    frames = []
    for at, piece in enumerate(pieces):
        more = b"\x41" if at < last else b""
        body = b"\x00\x53\x14\xc0%c%c%b%b" % (
            len(fields) + len(more) + 1,
            5 + len(more),
            fields,
            more,
        )
        frames.append(
            b"%b\x02\x00\x00\x00%b%b" % ((8 + len(body) + len(piece)).to_bytes(4), body, piece)
        )
    return frames


def accepted(low: int, high: int) -> bytes:
    """Encode a receiver's disposition that accepts and settles deliveries ``low`` to ``high``."""
    fields = b"\x41" + struct.pack(">BIBI", 0x70, low, 0x70, high) + b"\x41" + ACCEPTED
    return codec.encode_frame(b"\x00\x53\x15\xc0" + bytes((len(fields) + 1, 5)) + fields)


def split(data: bytes) -> tuple[list[bytes], bytes]:
    """Return the complete frames and protocol headers in ``data``, and the remaining bytes."""
    frames: list[bytes] = []
    place, size = 0, len(data)
    while size - place >= codec.HEADER_SIZE:
        if data[place : place + 4] == codec.PREFIX:
            end = place + codec.HEADER_SIZE
        else:
            end = place + max(codec.HEADER_SIZE, int.from_bytes(data[place : place + 4]))
            if end > size:
                break
        frames.append(data[place:end])
        place = end
    return frames, data[place:]


def code_of(frame: bytes) -> tuple[int, int]:
    """Return the code of an AMQP frame's performative and where its list begins; -1 for others."""
    if len(frame) == codec.HEADER_SIZE or frame[5] != codec.AMQP_FRAME:
        return -1, 0
    start = frame[4] * 4
    kind = frame[start : start + 2]
    if kind == b"\x00\x53":
        return frame[start + 2], start + 3
    if kind == b"\x00\x80":  # the long form of the descriptor
        return frame[start + 9], start + 10
    return -1, 0


def numbers(frame: bytes, at: int, count: int) -> list[int]:
    """Return the first ``count`` fields, which are unsigned numbers, booleans or null, of the list
    at ``at``.

    Null and missing fields are returned as -1.
    """
    values: list[int] = []
    if frame[at] == 0x45:
        return [-1] * count
    if frame[at] == 0xC0:
        size, at = frame[at + 2], at + 3
    else:
        size, at = int.from_bytes(frame[at + 5 : at + 9]), at + 9
    for _ in range(min(count, size)):
        kind = frame[at]
        if kind in _SMALL:
            values.append(frame[at + 1])
            at += 2
        elif kind == 0x70:
            values.append(int.from_bytes(frame[at + 1 : at + 5]))
            at += 5
        elif kind == 0x60:
            values.append(int.from_bytes(frame[at + 1 : at + 3]))
            at += 3
        else:
            values.append(_CONSTANTS.get(kind, 0))
            at += 1
    return values + [-1] * (count - len(values))


def transfer_fields(frame: bytes, at: int) -> tuple[list[int], int]:
    """Return handle, delivery-id, tag (as 0), message-format, settled and more, and the list's end.

    Null and missing fields are returned as -1.
    """
    if frame[at] == 0xC0:
        size, end, at = frame[at + 2], at + 2 + frame[at + 1], at + 3
    else:
        size = int.from_bytes(frame[at + 5 : at + 9])
        end = at + 5 + int.from_bytes(frame[at + 1 : at + 5])
        at += 9
    values: list[int] = []
    for _ in range(min(size, 6)):
        kind = frame[at]
        if kind in _SMALL:
            values.append(frame[at + 1])
            at += 2
        elif kind == 0x70:
            values.append(int.from_bytes(frame[at + 1 : at + 5]))
            at += 5
        elif kind == 0xA0:
            values.append(0)
            at += 2 + frame[at + 1]
        elif kind == 0xB0:
            values.append(0)
            at += 5 + int.from_bytes(frame[at + 1 : at + 5])
        else:
            values.append(_CONSTANTS.get(kind, 0))
            at += 1
    return values + [-1] * (6 - len(values)), end
