"""The operations in the journal: consecutive in the payload of a record, each a letter and fixed
fields.

======  ====================  ==========================================================================================
letter  operation             means
======  ====================  ==========================================================================================
S       :class:`Snapshot`     earlier queues, marks and failures are void; the current ones follow
Q       :class:`QueueMade`    a durable queue exists
q       :class:`QueueGone`    … and no longer exists, with everything in it
C       :class:`Consumed`     consumers may have seen messages of a queue, or nobody has
A       :class:`Added`        a message is in these queues; if repeated, it is the same message
G       :class:`Gone`         a queue has finished messages
F       :class:`Failed`       a message returned to a queue as a failed delivery
P       :class:`PageGone`     a queue has finished records of a page
f       :class:`PageFailed`   a message on a page returned to a queue as a failed delivery
U       :class:`UnitDone`     the unit is complete, so its messages on pages count
L       :class:`Length`       only this many bytes of an earlier segment count
W       :class:`PageWritten`  a page has at least this many records that survive
w       :class:`PageOver`     a page is finished, and its file is removed
======  ====================  ==========================================================================================
"""  # noqa: E501

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from brokerproof.harness.model.enums import RoutingType

_TEXT = ("utf-8", "surrogatepass")
_LENGTH = struct.Struct(">I")
_SNAPSHOT = struct.Struct(">cQQI")
_QUEUE = struct.Struct(">cIB")
_ID = struct.Struct(">cI")
_CONSUMED = struct.Struct(">cI?")
_ADDED = struct.Struct(">cQHHII")
_RUNS = struct.Struct(">cII")
_RUN = struct.Struct(">QI")
_FAILED = struct.Struct(">cIQH")
_PAGE_RUNS = struct.Struct(">cIII")
_PAGE_RUN = struct.Struct(">II")
_PAGE_FAILED = struct.Struct(">cIIIH")
_UNIT = struct.Struct(">cQ")
_LENGTH_OF = struct.Struct(">cIQ")
_PAGE_WRITTEN = struct.Struct(">cIIII")
_PAGE_OVER = struct.Struct(">cII")


class BadOperation(Exception):
    """Bytes that are not an operation although their checksum is correct."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Units up to ``unit`` are known to be complete; places up to ``place`` and queue ids up to
    ``queue`` are in use."""

    unit: int
    place: int
    queue: int

    def encode(self) -> bytes:
        return _SNAPSHOT.pack(b"S", self.unit, self.place, self.queue)


@dataclass(frozen=True, slots=True)
class QueueMade:
    """``on_demand``: the queue is deleted when nobody uses it. ``subscription``: it belongs to a
    durable subscription."""

    id: int
    address: str
    name: str
    routing: RoutingType
    on_demand: bool
    subscription: bool
    filter: str | None

    def encode(self) -> bytes:
        flags = (
            (self.routing is RoutingType.MULTICAST)
            | self.on_demand << 1
            | self.subscription << 2
            | (self.filter is not None) << 3
        )
        texts = [text.encode(*_TEXT) for text in (self.address, self.name, self.filter or "")]
        return _QUEUE.pack(b"Q", self.id, flags) + b"".join(
            _LENGTH.pack(len(text)) + text for text in texts
        )


@dataclass(frozen=True, slots=True)
class QueueGone:
    id: int

    def encode(self) -> bytes:
        return _ID.pack(b"q", self.id)


@dataclass(frozen=True, slots=True)
class Consumed:
    id: int
    consumed: bool

    def encode(self) -> bytes:
        return _CONSUMED.pack(b"C", self.id, self.consumed)


@dataclass(frozen=True, slots=True)
class Added:
    """``place`` orders messages; ``earlier`` and ``notes`` come from the queue that dropped the
    message."""

    place: int
    ids: tuple[int, ...]
    earlier: int
    notes: bytes
    message: bytes

    def encode(self) -> bytes:
        head = _ADDED.pack(
            b"A", self.place, len(self.ids), self.earlier, len(self.notes), len(self.message)
        )
        return b"".join((head, *(id.to_bytes(4) for id in self.ids), self.notes, self.message))


@dataclass(frozen=True, slots=True)
class Gone:
    """``runs`` has the first place of each run and the number of consecutive places."""

    id: int
    runs: tuple[tuple[int, int], ...]

    def encode(self) -> bytes:
        return _RUNS.pack(b"G", self.id, len(self.runs)) + b"".join(
            _RUN.pack(*run) for run in self.runs
        )


@dataclass(frozen=True, slots=True)
class Failed:
    id: int
    place: int
    failures: int

    def encode(self) -> bytes:
        return _FAILED.pack(b"F", self.id, self.place, self.failures)


@dataclass(frozen=True, slots=True)
class PageGone:
    """``runs`` has the first record of each run and the one after its last."""

    id: int
    page: int
    runs: tuple[tuple[int, int], ...]

    def encode(self) -> bytes:
        head = _PAGE_RUNS.pack(b"P", self.id, self.page, len(self.runs))
        return head + b"".join(_PAGE_RUN.pack(*run) for run in self.runs)


@dataclass(frozen=True, slots=True)
class PageFailed:
    id: int
    page: int
    record: int
    failures: int

    def encode(self) -> bytes:
        return _PAGE_FAILED.pack(b"f", self.id, self.page, self.record, self.failures)


@dataclass(frozen=True, slots=True)
class UnitDone:
    unit: int

    def encode(self) -> bytes:
        return _UNIT.pack(b"U", self.unit)


@dataclass(frozen=True, slots=True)
class Length:
    segment: int
    length: int

    def encode(self) -> bytes:
        return _LENGTH_OF.pack(b"L", self.segment, self.length)


@dataclass(frozen=True, slots=True)
class PageWritten:
    """The page's file of that ``generation`` has at least this many ``records``, head included."""

    page: int
    generation: int
    records: int
    address: str

    def encode(self) -> bytes:
        address = self.address.encode(*_TEXT)
        head = _PAGE_WRITTEN.pack(b"W", self.page, self.generation, self.records, len(address))
        return head + address


@dataclass(frozen=True, slots=True)
class PageOver:
    page: int
    address: str

    def encode(self) -> bytes:
        address = self.address.encode(*_TEXT)
        return _PAGE_OVER.pack(b"w", self.page, len(address)) + address


Operation: TypeAlias = (
    Snapshot
    | QueueMade
    | QueueGone
    | Consumed
    | Added
    | Gone
    | Failed
    | PageGone
    | PageFailed
    | UnitDone
    | Length
    | PageWritten
    | PageOver
)


def decode(payload: bytes) -> Iterator[Operation]:
    """Return the operations in one record. Raises :class:`BadOperation`."""
    at = 0
    try:
        while at < len(payload):
            letter = payload[at : at + 1]
            if letter == b"A":
                _, place, count, earlier, notes, length = _ADDED.unpack_from(payload, at)
                at += _ADDED.size
                ids = struct.unpack_from(f">{count}I", payload, at)
                middle = at + 4 * count
                at = middle + notes + length
                if at > len(payload):
                    raise BadOperation("a message ends too early")
                yield Added(
                    place, ids, earlier, payload[middle : middle + notes], payload[at - length : at]
                )
            elif letter == b"G":
                _, id, count = _RUNS.unpack_from(payload, at)
                at += _RUNS.size
                yield Gone(
                    id,
                    tuple(
                        _RUN.unpack_from(payload, at + _RUN.size * number)
                        for number in range(count)
                    ),
                )
                at += _RUN.size * count
            elif letter == b"P":
                _, id, page, count = _PAGE_RUNS.unpack_from(payload, at)
                at += _PAGE_RUNS.size
                runs = tuple(
                    _PAGE_RUN.unpack_from(payload, at + _PAGE_RUN.size * number)
                    for number in range(count)
                )
                yield PageGone(id, page, runs)
                at += _PAGE_RUN.size * count
            elif letter == b"Q":
                made, at = _queue(payload, at)
                yield made
            elif letter == b"W":
                _, page, generation, count, length = _PAGE_WRITTEN.unpack_from(payload, at)
                address, at = _text(payload, at + _PAGE_WRITTEN.size, length)
                yield PageWritten(page, generation, count, address)
            elif letter == b"w":
                _, page, length = _PAGE_OVER.unpack_from(payload, at)
                address, at = _text(payload, at + _PAGE_OVER.size, length)
                yield PageOver(page, address)
            else:
                operation, size = _simple(letter, payload, at)
                at += size
                yield operation
    except (struct.error, UnicodeDecodeError) as problem:
        raise BadOperation(f"an operation ends too early: {problem}") from None


def _simple(letter: bytes, payload: bytes, at: int) -> tuple[Operation, int]:
    match letter:
        case b"S":
            return Snapshot(*_SNAPSHOT.unpack_from(payload, at)[1:]), _SNAPSHOT.size
        case b"q":
            return QueueGone(*_ID.unpack_from(payload, at)[1:]), _ID.size
        case b"C":
            return Consumed(*_CONSUMED.unpack_from(payload, at)[1:]), _CONSUMED.size
        case b"F":
            return Failed(*_FAILED.unpack_from(payload, at)[1:]), _FAILED.size
        case b"f":
            return PageFailed(*_PAGE_FAILED.unpack_from(payload, at)[1:]), _PAGE_FAILED.size
        case b"U":
            return UnitDone(*_UNIT.unpack_from(payload, at)[1:]), _UNIT.size
        case b"L":
            return Length(*_LENGTH_OF.unpack_from(payload, at)[1:]), _LENGTH_OF.size
    raise BadOperation(f"unknown operation {letter!r}")


def _queue(payload: bytes, at: int) -> tuple[QueueMade, int]:
    _, id, flags = _QUEUE.unpack_from(payload, at)
    at += _QUEUE.size
    texts = []
    for _ in range(3):
        (length,) = _LENGTH.unpack_from(payload, at)
        text, at = _text(payload, at + _LENGTH.size, length)
        texts.append(text)
    routing = RoutingType.MULTICAST if flags & 1 else RoutingType.ANYCAST
    kept = texts[2] if flags & 8 else None
    return QueueMade(id, texts[0], texts[1], routing, bool(flags & 2), bool(flags & 4), kept), at


def _text(payload: bytes, at: int, length: int) -> tuple[str, int]:
    """Return the text of ``length`` bytes that begins at ``at``, and where it ends."""
    end = at + length
    if end > len(payload):
        raise BadOperation("a name ends too early")
    return payload[at:end].decode(*_TEXT), end
