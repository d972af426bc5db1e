"""Large AMQP messages: everything before the body is in memory; the body sections and the footer
are in a file.

While such a message arrives, only two things are parsed: the beginnings of its sections, to locate
their bodies in the file, and the footer, whose annotations must be understood (AMQP10-MSG-11). The
message is sent as it arrived (AMQP10-MSG-02); STOMP clients get its content (see
:mod:`brokerproof.reference_broker.protocols.amqp10.stomp_conversion`).
"""

import struct
from collections.abc import Callable
from typing import Self

from brokerproof.reference_broker.kernel.large_body import LargeBody, LargeBodySlice, SliceReader
from brokerproof.reference_broker.kernel.message import Section
from brokerproof.reference_broker.protocols.amqp10.decoder import DecodeError
from brokerproof.reference_broker.protocols.amqp10.delivery import (
    more_transfer,
    opening_transfer,
    room,
)
from brokerproof.reference_broker.protocols.amqp10.message import AmqpMessage
from brokerproof.reference_broker.protocols.amqp10.messaging import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    DATA,
    FOOTER,
)
from brokerproof.reference_broker.protocols.amqp10.sections import BadMessage, section_code, skip

EMPTY_DATA = b"\0\x53\x75\xa0\0"
"""A placeholder for a body that is in a file."""
LONGEST_FOOTER = 1024 * 1024
LARGEST_FRAME = 128 * 1024
"""Bytes of a file that are sent together, however large the peer's frames are."""

_BINARY, _LIST, _MAP = frozenset({0xA0, 0xB0}), frozenset({0xC0, 0xD0}), frozenset({0xC1, 0xD1})
_STRING, _SYMBOL = frozenset({0xA1, 0xB1}), frozenset({0xA3, 0xB3})
_ALLOWED = {
    DATA: _BINARY,
    AMQP_SEQUENCE: _LIST | {0x45},
    AMQP_VALUE: _BINARY | _STRING | _SYMBOL | _LIST | _MAP | {0xE0, 0xF0},
    FOOTER: _MAP,
}
"""Constructors of sections that may be kept in a file, because they have a length."""


class LargeAmqpMessage(AmqpMessage):
    """A message whose body is in the file ``large``. ``plain`` is everything before the body;
    ``sections`` are the sections in the file."""

    __slots__ = ("large", "sections")

    large: LargeBody

    def __init__(self, plain: AmqpMessage, large: LargeBody, sections: tuple[Section, ...]) -> None:
        super().__init__(
            plain.number,
            plain.route,
            plain.arrived,
            plain.prefix,
            plain.ttl,
            plain.annotations,
            plain.bare,
        )
        self.large = large
        self.sections = sections

    @property
    def described(self) -> bytes:
        return self.bare + EMPTY_DATA

    def stomp_body(self) -> tuple[bool, LargeBodySlice, str]:
        bodies = [section for section in self.sections if section[0] != FOOTER]
        ranges: list[tuple[int, int]] = []
        for _, constructor, begin, end in bodies:
            plain = constructor in _BINARY | _STRING | _SYMBOL
            ranges.append((begin + 1 + _wide(constructor) if plain else begin, end))
        kind = ""
        if bodies[0][0] == AMQP_SEQUENCE:
            kind = "sequence"
        elif not plain:
            kind = "value"
        text = bodies[0][0] == AMQP_VALUE and bodies[0][1] in _STRING
        return text, LargeBodySlice(self.large, tuple(ranges)), kind

    @property
    def bare_size(self) -> int:
        return len(self.bare) + self.large.length


# --- in -------------------------------------------------------------------------------------------


def body_at(data: bytes) -> int | None:
    """Return where the body of the message in ``data`` begins; None if the body is not in ``data``
    or cannot be kept in a file."""
    at = 0
    try:
        while at < len(data):
            code, after = section_code(data, at)
            if code >= DATA:
                return at if data[after] in _ALLOWED.get(code, ()) else None
            at = skip(data, after)
    except (IndexError, struct.error, DecodeError, BadMessage):
        return None  # any fault shows when the whole message is read
    return None


class BodyScan:
    """Finds the sections of a body as its bytes pass by."""

    def __init__(self) -> None:
        self.sections: list[Section] = []
        self.footer = bytearray()
        self._at = self._begin = self._skip = 0
        self._code = self._constructor = 0
        self._head = bytearray()

    def feed(self, data: bytes) -> None:
        """Read the next bytes. Raises :class:`BadMessage`."""
        pos, size = 0, len(data)
        while pos < size:
            if self._skip:
                count = min(self._skip, size - pos)
                self._note(data[pos : pos + count] if self._code == FOOTER else b"")
                pos += count
                self._at += count
                self._skip -= count
                if not self._skip:
                    self._ended()
                continue
            self._head.append(data[pos])
            pos += 1
            self._at += 1
            self._begun()

    def finish(self) -> tuple[Section, ...]:
        """Return all sections now that the body is complete. Raises :class:`BadMessage`."""
        if self._skip or self._head:
            raise BadMessage("the message ends within a section")
        return tuple(self.sections)

    def _begun(self) -> None:
        head = bytes(self._head)
        after = _descriptor_end(head)
        if after is None or len(head) <= after:
            return
        try:
            code, _ = section_code(head, 0)
        except DecodeError as problem:
            raise BadMessage(str(problem)) from None
        last, constructor = self._code, head[after]
        if code < DATA or (
            last and not (last < code == FOOTER or last == code in (DATA, AMQP_SEQUENCE))
        ):
            raise BadMessage(f"section 0x{code:02x} comes after section 0x{last or DATA:02x}")
        if constructor not in _ALLOWED[code]:
            raise BadMessage(
                f"section 0x{code:02x} has a value of the wrong type, 0x{constructor:02x}"
            )
        wide = 0 if constructor == 0x45 else _wide(constructor)
        if len(head) < after + 1 + wide:
            return
        self._code, self._constructor, self._begin = code, constructor, self._at - len(head) + after
        self._head.clear()
        if code == FOOTER:
            self._note(head)
        self._skip = int.from_bytes(head[after + 1 :])
        if not self._skip:
            self._ended()

    def _note(self, data: bytes) -> None:
        self.footer += data
        if len(self.footer) > LONGEST_FOOTER:
            raise BadMessage(f"the footer has more than {LONGEST_FOOTER} bytes")

    def _ended(self) -> None:
        self.sections.append((self._code, self._constructor, self._begin, self._at))


def _wide(constructor: int) -> int:
    """Return the width of the length field after ``constructor``."""
    return 1 if constructor >> 4 in (0xA, 0xC, 0xE) else 4


def _descriptor_end(head: bytes) -> int | None:
    """Return the end of a section's descriptor; None if that has not arrived."""
    if len(head) < 2:
        return None
    kind = head[1]
    if head[0] != 0 or kind not in (0x53, 0x80, 0xA3):
        raise BadMessage(
            f"a section begins with 0x{head[0]:02x}{kind:02x}, which is not a section's descriptor"
        )
    if kind == 0xA3:
        return 3 + head[2] if len(head) > 2 and len(head) >= 3 + head[2] else None
    end = 3 if kind == 0x53 else 10
    return end if len(head) >= end else None


# --- out ------------------------------------------------------------------------------------------


class LargeTransfers:
    """The transfer frames of a delivery: ``head``, then the file. An empty frame means that the
    next piece must be read first: ``go_on`` is called once it has been read, ``broken`` if it
    cannot be read."""

    def __init__(
        self,
        first: tuple[int, int, int, bytes, bool],
        head: bytes,
        body: LargeBody,
        largest: int,
        go_on: Callable[[], None],
        broken: Callable[[], None],
    ) -> None:
        self._first: tuple[int, int, int, bytes, bool] | None = first
        self._channel, self._handle = first[0], first[1]
        self._buffer = bytearray(head)
        self._reading = SliceReader(LargeBodySlice(body))
        self._room = room(min(largest, LARGEST_FRAME))
        self._go_on, self._broken = go_on, broken

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        reading = self._reading
        if reading.closed:
            raise StopIteration
        if len(self._buffer) <= self._room and (reading.waits or not reading.is_over):
            if not reading.waits:
                reading.ask(self._came)
            return b""
        piece = bytes(self._buffer[: self._room])
        del self._buffer[: self._room]
        more = bool(self._buffer) or not reading.is_over
        if not more:
            reading.close()
        if self._first is not None:
            first, self._first = self._first, None
            return opening_transfer(*first, piece, more=more)
        return more_transfer(self._channel, self._handle, piece, more=more)

    def _came(self, data: bytes | None) -> None:
        if data is None:
            self._broken()
            return
        self._buffer += data
        self._go_on()

    def close(self) -> None:
        """Drop the frames that were not sent."""
        self._reading.close()
