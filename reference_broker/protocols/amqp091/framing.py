"""Octets to frames and back (4.2.3).

A frame that is too large is refused by its header, before it has come. An unknown type, or an end
that is none, means that what follows cannot be read: the connection ends without another word
(4.2.3).
"""

from __future__ import annotations

import struct

from brokerproof.reference_broker.protocols.amqp091.errors import FRAME_ERROR, Refusal

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
END = 0xCE
OVERHEAD = 8
"""Octets of a frame beside its payload."""
LEAST_MAX = 4096
"""frame-min-size: what both sides take before anything is agreed, and the least that can be."""
BEAT = b"\x08\0\0\0\0\0\0\xce"

_HEAD = struct.Struct(">BHI")


class FrameParser:
    """Cuts a stream. ``limit`` is the most octets of a whole frame, 0 for none."""

    def __init__(self, limit: int = LEAST_MAX) -> None:
        self.limit = limit
        self._data = b""
        self._at = 0

    def feed(self, data: bytes) -> None:
        """More octets."""
        self._data = self._data[self._at :] + data
        self._at = 0

    def rest(self) -> bytes:
        """What was not looked at, and is forgotten here."""
        left, self._data, self._at = self._data[self._at :], b"", 0
        return left

    def next(self) -> tuple[int, int, bytes] | None:
        """The next frame's type, channel and payload, or None when it is not complete. Raises
        :class:`Refusal`."""
        data, at = self._data, self._at
        if len(data) - at < _HEAD.size:
            return None
        type, channel, size = _HEAD.unpack_from(data, at)
        if type not in (METHOD, HEADER, BODY, HEARTBEAT):
            raise Refusal(FRAME_ERROR, f"no frame has the type {type}", silent=True)
        if self.limit and size + OVERHEAD > self.limit:
            detail = f"a frame of {size + OVERHEAD} octets is above the frame-max of {self.limit}"
            raise Refusal(FRAME_ERROR, detail, out_of_step=True)
        end = at + _HEAD.size + size
        if end >= len(data):
            return None
        if data[end] != END:
            raise Refusal(
                FRAME_ERROR, f"a frame ends with 0x{data[end]:02x}, not with 0xce", silent=True
            )
        self._at = end + 1
        return type, channel, data[at + _HEAD.size : end]


def frame(type: int, channel: int, payload: bytes) -> bytes:
    """A frame's octets."""
    return b"%b%b\xce" % (_HEAD.pack(type, channel, len(payload)), payload)


def content(channel: int, header: bytes, body: bytes, frame_max: int) -> bytes:
    """Content header and bodies, no frame above ``frame_max`` octets (0: no limit)."""
    head = frame(HEADER, channel, header)
    if not body:
        return head
    most = frame_max - OVERHEAD if frame_max else len(body)
    if len(body) <= most:
        return head + frame(BODY, channel, body)
    return head + b"".join(
        frame(BODY, channel, body[at : at + most]) for at in range(0, len(body), most)
    )
