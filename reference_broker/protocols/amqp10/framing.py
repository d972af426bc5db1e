"""Frames (2.3): bytes in, whole frames out, however the bytes are fragmented.

::

size (4) | doff (1) | type (1) | channel (2, for type 0) | extended header | body up to size

``size`` covers the whole frame (AMQP10-FRAME-01), the body begins ``doff`` * 4 bytes from the
start, and bytes between the eighth and the body are ignored (AMQP10-FRAME-04). A frame without a
body only shows that the peer is alive.

The size is checked as soon as its four bytes have arrived, so a frame that is too large is never
collected: memory holds less than one frame of the allowed size plus one chunk. A frame in many
pieces is joined once, when the last piece arrives.
"""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from brokerproof.reference_broker.kernel.byte_buffer import ByteBuffer
from brokerproof.reference_broker.protocols.amqp10 import refusal
from brokerproof.reference_broker.protocols.amqp10.composite import (
    Composite,
    InvalidField,
    descriptor,
)
from brokerproof.reference_broker.protocols.amqp10.decoder import DEPTH, DecodeError
from brokerproof.reference_broker.protocols.amqp10.refusal import Refusal

AMQP, SASL = 0, 1
"""Frame types."""

HEADER = struct.Struct(">IBBH")


class Frame(NamedTuple):
    """One frame. ``channel`` is meaningful only for type AMQP."""

    type: int
    channel: int
    body: bytes


class FrameParser(ByteBuffer):
    """Cuts frames from a stream. ``limit`` is the largest frame in bytes; it may be changed."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def next(self) -> Frame | None:
        """Return the next frame; None while it is incomplete. Raises :class:`Refusal` for bytes
        that cannot be a frame, and must not be called again after that."""
        # This runs for every frame: has() is called only if the bytes are not in one piece.
        if len(self._data) - self._at < 8 and not self.has(8):
            if self.has(4):
                self._judge(int.from_bytes(self._data[self._at : self._at + 4]))
            return None
        start = self._at
        size, doff, type, channel = HEADER.unpack_from(self._data, start)
        if not 8 <= size <= self.limit:
            self._judge(size)
        if doff < 2 or doff * 4 > size:
            detail = f"the data offset of a frame of {size} bytes is {doff}, in units of 4 bytes"
            raise Refusal(refusal.BAD_DOFF, detail)
        if len(self._data) - start < size:
            if not self.has(size):
                return None
            start = self._at
        self._at = end = start + size
        return Frame(type, channel, self._data[start + doff * 4 : end])

    def _judge(self, size: int) -> None:
        if size < 8:
            raise Refusal(
                refusal.FRAME_TOO_SMALL, f"a frame has at least 8 bytes, but this one states {size}"
            )
        if size > self.limit:
            detail = (
                f"a frame of {size} bytes is larger than the {self.limit} that are allowed here"
            )
            raise Refusal(refusal.FRAME_TOO_LARGE, detail)


def frame(channel: int, body: bytes, type: int = AMQP) -> bytes:
    """Return a whole frame without an extended header."""
    return HEADER.pack(8 + len(body), 2, type, channel) + body


EMPTY = frame(0, b"")
"""An empty frame on channel 0, a heartbeat (AMQP10-IDLE-11, AMQP10-IDLE-12)."""


def pieces(payload: bytes, first: int, others: int) -> Iterator[bytes | memoryview]:
    """Yield ``payload`` in pieces of at most ``first`` and then ``others`` bytes, uncopied."""
    if len(payload) <= first:
        yield payload
        return
    view = memoryview(payload)
    yield view[:first]
    for at in range(first, len(payload), others):
        yield view[at : at + others]


def decoded(body: bytes, known: dict[int, type[Composite]]) -> tuple[Any, int]:
    """Return the performative at the start of ``body``, which must be one of ``known``, and its
    end.

    Raises :class:`Refusal`.
    """
    try:
        if body[0] != 0:
            raise Refusal(
                refusal.NOT_A_PERFORMATIVE,
                f"a body must begin with a descriptor, not with 0x{body[0]:02x}",
            )
        code, at = (body[2], 3) if body[1] == 0x53 else descriptor(body, 1)
        kind = known.get(code) if code is not None else None
        if kind is None:
            raise Refusal(
                refusal.NOT_A_PERFORMATIVE,
                f"descriptor {code} names no performative that is allowed here",
            )
        return kind.read(body, at, DEPTH)
    except (IndexError, struct.error):
        raise Refusal(refusal.BAD_PERFORMATIVE, "the body ends within its performative") from None
    except DecodeError as problem:
        raise Refusal(refusal.BAD_PERFORMATIVE, str(problem)) from None
    except InvalidField as problem:
        raise Refusal(refusal.BAD_FIELD, str(problem)) from None
