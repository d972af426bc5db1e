"""Bytes to frames and back (4.2.3).

A frame that is too large is refused as soon as its header arrives. An unknown type or a wrong
frame-end octet ends the connection without another method (4.2.3).
"""

import struct

from brokerproof.reference_broker.kernel.byte_buffer import ByteBuffer
from brokerproof.reference_broker.protocols.amqp091.errors import FRAME_ERROR, Refusal

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
END = 0xCE
OVERHEAD = 8
"""Bytes of a frame in addition to its payload."""
LEAST_MAX = 4096
"""frame-min-size: what both sides accept before tune-ok, and the smallest frame-max."""
BEAT = b"\x08\0\0\0\0\0\0\xce"

_HEAD = struct.Struct(">BHI")


class FrameParser(ByteBuffer):
    """Cuts frames from a stream.

    ``limit`` is the largest size of a whole frame in bytes; 0 means no limit. After bytes that are
    not a frame, the next frame cannot be found: :meth:`next` raises an exception once, then returns
    None.
    """

    def __init__(self, limit: int = LEAST_MAX) -> None:
        super().__init__()
        self.limit = limit
        self._is_out_of_step = False

    def feed(self, data: bytes) -> None:
        if not self._is_out_of_step:
            super().feed(data)

    def next(self) -> tuple[int, int, bytes] | None:
        """Return the type, channel and payload of the next frame; None if it is not complete.
        Raises :class:`Refusal`."""
        if not self.has(_HEAD.size):
            return None
        type, channel, size = _HEAD.unpack_from(self._data, self._at)
        if type not in (METHOD, HEADER, BODY, HEARTBEAT):
            raise self._out_of_step(f"no frame has the type {type}", silent=True)
        if self.limit and size + OVERHEAD > self.limit:
            detail = f"a frame of {size + OVERHEAD} bytes is above the frame-max of {self.limit}"
            raise self._out_of_step(detail)
        if not self.has(size + OVERHEAD):
            return None
        data = self._data
        start = self._at + _HEAD.size
        end = start + size
        if data[end] != END:
            detail = f"a frame ends with 0x{data[end]:02x}, not with 0xce"
            raise self._out_of_step(detail, silent=True)
        self._at = end + 1
        return type, channel, data[start:end]

    def _out_of_step(self, detail: str, *, silent: bool = False) -> Refusal:
        self._is_out_of_step = True
        self.clear()
        return Refusal(FRAME_ERROR, detail, silent=silent, out_of_step=True)


def frame(type: int, channel: int, payload: bytes) -> bytes:
    return b"%b%b\xce" % (_HEAD.pack(type, channel, len(payload)), payload)


def content(channel: int, header: bytes, body: bytes, frame_max: int) -> bytes:
    """Return a content header and body frames of at most ``frame_max`` bytes (0: no limit)."""
    head = frame(HEADER, channel, header)
    if not body:
        return head
    most = frame_max - OVERHEAD if frame_max else len(body)
    if len(body) <= most:
        return head + frame(BODY, channel, body)
    return head + b"".join(
        frame(BODY, channel, body[at : at + most]) for at in range(0, len(body), most)
    )
