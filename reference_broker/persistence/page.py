"""One page: a file with consecutive messages of an address, and its state while it is not in
memory.

The head of the file has the name of the address. Each other record is one message with its queues::

    flags (1) | queues (2) | unit (8) | queue ids (4 each) | [earlier failures (2) | notes' length
    (4) | notes] | message

A ``unit`` other than 0 marks a message of a transaction, which counts only if the journal says that
the unit was completed.
"""

import hashlib
import struct
import urllib.parse
from array import array
from collections.abc import Sequence

from brokerproof.reference_broker.kernel.large_body import LargeBody
from brokerproof.reference_broker.kernel.message import Entry, Message
from brokerproof.reference_broker.persistence import codec, records

DURABLE, SOURCE = 1, 2
"""Flags: the message survives a restart; the message was dead-lettered, and its history follows."""

_FIXED = struct.Struct(">BHQ")
_ID = struct.Struct(">I")
_SOURCE = struct.Struct(">HI")
_MOST_FAILURES = 0xFFFF
_LONGEST_FOLDER = 150
IDS_AT = _FIXED.size
"""The offset at which the queue ids begin."""


def pack(
    message: Message, ids: Sequence[int], durable: bool, unit: int, source_entry: Entry | None
) -> bytes:
    data = codec.encode(message)
    flags = DURABLE if durable else 0
    to = _ID.pack(ids[0]) if len(ids) == 1 else b"".join(map(_ID.pack, ids))
    if source_entry is None:
        return b"".join((_FIXED.pack(flags, len(ids), unit), to, data))
    notes = codec.encode_notes(source_entry.notes)
    failures = min(_MOST_FAILURES, source_entry.earlier + source_entry.failures)
    source = _SOURCE.pack(failures, len(notes)) + notes
    return b"".join((_FIXED.pack(flags | SOURCE, len(ids), unit), to, source, data))


def peek(payload: bytes) -> tuple[int, int, tuple[int, ...], int]:
    """Return the flags, the unit, the queue ids, and the position after them. Raises
    ``struct.error``.
    """
    flags, count, unit = _FIXED.unpack_from(payload)
    if count == 1:
        return flags, unit, _ID.unpack_from(payload, IDS_AT), IDS_AT + 4
    return flags, unit, struct.unpack_from(f">{count}I", payload, IDS_AT), IDS_AT + 4 * count


def unpack(
    payload: bytes, flags: int, at: int, decoder: codec.Decoder
) -> tuple[Message, Entry | None]:
    """Return the message and its history in the queue that dropped it. Raises ``BadBytes``,
    ``struct.error``."""
    source_entry = None
    if flags & SOURCE:
        earlier, length = _SOURCE.unpack_from(payload, at)
        at += _SOURCE.size + length
        notes = codec.decode_notes(payload[at - length : at])
    message = decoder.decode(payload, at)
    if flags & SOURCE:
        source_entry = Entry(message, 0)
        source_entry.earlier, source_entry.notes = earlier, notes
    return message, source_entry


def number(payload: bytes, flags: int, at: int) -> int:
    """Return the number of a record's message, given the flags and the end of the ids from
    :func:`peek`. Raises ``struct.error``."""
    return codec.number(payload, _message_at(payload, flags, at))


def large(payload: bytes, flags: int, at: int) -> tuple[int, int] | None:
    """Return the number and bytes of the message's large body; None if there is none."""
    return codec.large(payload, _message_at(payload, flags, at))


def _message_at(payload: bytes, flags: int, at: int) -> int:
    return at + _SOURCE.size + int(_SOURCE.unpack_from(payload, at)[1]) if flags & SOURCE else at


class Loaded:
    """The records of a loaded page: the bytes of the file, and the position of each record."""

    __slots__ = ("_begins", "_data", "_ends", "damaged")

    def __init__(self, data: bytes, count: int, path: str) -> None:
        try:
            scan = records.scan(data, path)
        except records.OtherFormat:  # the content is not what was written
            scan = records.Scan(b"")
        self._data = data
        self._begins, self._ends = array("q", [-1]) * count, array("q", [-1]) * count
        for number, begin, end in scan.records:
            if number < count:
                self._begins[number], self._ends[number] = begin, end
        self.damaged = self._begins.count(-1) - 1
        """The number of unreadable records. Record 0 is the head."""

    def __len__(self) -> int:
        return len(self._begins)

    def __getitem__(self, number: int) -> bytes | None:
        begin = self._begins[number]
        return None if begin < 0 else self._data[begin : self._ends[number]]


class Page:
    """``content`` has the records by number while they are in memory; a damaged record is None.

    ``refs`` is the number of unfinished records by queue, ``left`` the number that the queue's
    cursor has not read yet, and ``pending`` the total of refs. ``acked`` marks finished records by
    queue where this must survive a restart. ``written`` bytes of ``size`` are on disk;
    ``accounted`` records are known to the journal (0 if nothing here must survive); ``missing``
    records were already damaged when an earlier broker's files were read; ``generation`` is the
    number of files in which this page was restarted. ``large`` maps a record to its message's large
    body and the number of queues that have not finished it; the body is held until they have, or
    until the page is removed. ``batch`` stores the last message added by a durable input.
    """

    __slots__ = (
        *(
            "accounted",
            "acked",
            "address",
            "batch",
            "content",
            "folder",
            "generation",
            "large",
            "left",
            "loading",
            "missing",
            "number",
            "size",
            "pending",
        ),
        *("recovered", "records", "refs", "seed", "sync", "tail", "written"),
    )

    def __init__(self, folder: str, number: int, address: str, generation: int = 0) -> None:
        self.folder = folder
        self.number = number
        self.address = address
        self.generation = generation
        self.content: list[bytes] | Loaded | None = [b""]
        self.seed = records.seed(self.file)
        self.tail = [self._head()]
        self.records = 1
        self.size = len(self.tail[0])
        self.written = self.pending = self.accounted = self.missing = self.batch = 0
        self.refs: dict[int, int] = {}
        self.left: dict[int, int] = {}
        self.acked: dict[int, bytearray] = {}
        self.large: dict[int, tuple[LargeBody, int]] = {}
        self.sync = self.recovered = self.loading = False

    @property
    def file(self) -> str:
        return f"{self.folder}/{self.number:09d}{f'-{self.generation}' if self.generation else ''}.page"  # noqa: E501

    @property
    def is_written(self) -> bool:
        return self.written == self.size

    @property
    def average(self) -> int:
        """Return the average size, in bytes, of the messages on the page."""
        return self.size // max(1, self.records - 1)

    def _head(self) -> bytes:
        return records.head(self.file, self.address.encode("utf-8", "surrogatepass"))

    def add(self, payload: bytes, ids: Sequence[int]) -> None:
        assert isinstance(self.content, list)
        framed = records.frame(self.records, payload, self.seed)
        self.content.append(payload)
        self.tail.append(framed)
        self.records += 1
        self.size += len(framed)
        refs, left = self.refs, self.left
        for id in ids:
            refs[id] = refs.get(id, 0) + 1
            left[id] = left.get(id, 0) + 1
        self.pending += len(ids)

    def take_tail(self) -> bytes:
        """Return the bytes to write next, which end at byte ``size``."""
        tail, self.tail = self.tail, []
        return tail[0] if len(tail) == 1 else b"".join(tail)

    def begin_anew(self) -> str:
        """Have everything rewritten to a new file; return the path of the old file."""
        assert isinstance(self.content, list)
        old = self.file
        self.generation += 1
        self.seed = records.seed(self.file)
        self.written = 0
        self.tail = [self._head()]
        self.tail += [
            records.frame(number, payload, self.seed)
            for number, payload in enumerate(self.content[1:], 1)
        ]
        self.size = sum(map(len, self.tail))
        return old

    def keep(self, index: int, body: LargeBody, queues: int) -> None:
        """Hold ``body`` for the message in record ``index``, which is for this many queues."""
        self.large[index] = body, queues
        body.retain()

    def done(self, index: int) -> None:
        """Record that one more queue has finished record ``index``."""
        entry = self.large.get(index)
        if entry is not None:
            body, queues = entry
            if queues > 1:
                self.large[index] = body, queues - 1
            else:
                del self.large[index]
                body.drop()

    def let_go(self) -> None:
        for body, _ in self.large.values():
            body.drop()
        self.large.clear()

    def drop(self, queue: int, count: int) -> None:
        """Record that ``queue`` has finished ``count`` references."""
        self.refs[queue] -= count
        self.pending -= count

    def mark(self, queue: int, index: int) -> None:
        """Record durably that ``queue`` has finished record ``index``."""
        marks = self.acked.get(queue)
        if marks is None:
            marks = self.acked[queue] = bytearray()
        at = index >> 3
        if at >= len(marks):
            marks.extend(bytes(at + 1 - len(marks)))
        marks[at] |= 1 << (index & 7)

    def is_marked(self, queue: int, index: int) -> bool:
        marks = self.acked.get(queue)
        return (
            marks is not None
            and index >> 3 < len(marks)
            and bool(marks[index >> 3] & 1 << (index & 7))
        )


def runs(marks: bytes) -> list[tuple[int, int]]:
    """Return the marked numbers as runs: the first number, and the one after the last."""
    runs: list[tuple[int, int]] = []
    start: int | None = None
    for at in range(8 * len(marks) + 1):
        is_set = at < 8 * len(marks) and marks[at >> 3] >> (at & 7) & 1
        if is_set and start is None:
            start = at
        elif not is_set and start is not None:
            runs.append((start, at))
            start = None
    return runs


def folder(address: str) -> str:
    """Return the folder of an address's pages: the address's name if its characters allow that,
    otherwise the allowed part and a checksum."""
    data = address.encode("utf-8", "surrogatepass")
    quoted = urllib.parse.quote(data, safe="")
    if address in (".", ".."):
        quoted = quoted.replace(".", "%2E")
    if len(quoted) > _LONGEST_FOLDER:
        quoted = f"{quoted[:_LONGEST_FOLDER]}-{hashlib.sha256(data).hexdigest()[:16]}"
    return f"paging/{quoted or '%'}"
