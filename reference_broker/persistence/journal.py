"""The journal: durable data that is not on a page, the messages that are finished, and the files
that must exist.

Segments
--------
The journal is a sequence of files, called segments, whose records consist of operations
(``operations.py``). An atomic unit (a transaction, and everything else of one input) is one record,
so it is stored completely or not at all.

A segment begins with a snapshot of everything but the messages themselves. So earlier segments are
needed only for their unfinished messages; once the oldest segment has none, it is removed. When
unfinished messages are a small part of the journal, those of the oldest segment are added again at
the end, and that segment is removed.

A failed write is not repeated in the same file, whose content is now unknown: the segment is left
as it is, and the data is written to a new one. Any part of it that did reach the old segment has
the same meaning.

The journal accounts for every file: for its own segments by their lengths in each snapshot, for the
end of the last segment by the extent (``journal_extent.py``), and for pages by notes of their
stored length. A note alone is not synced: it means only that a shorter page is damaged.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable

from brokerproof.harness.model.broker_io import Write
from brokerproof.reference_broker.kernel.message import Entry, Message
from brokerproof.reference_broker.persistence import codec, records
from brokerproof.reference_broker.persistence.journal_extent import Extent
from brokerproof.reference_broker.persistence.operations import (
    Added,
    Consumed,
    Failed,
    Gone,
    Length,
    Operation,
    PageGone,
    PageOver,
    PageWritten,
    QueueMade,
    Snapshot,
    UnitDone,
)
from brokerproof.reference_broker.persistence.recovered import Recovered

_ATOM = 64 * 1024
"""Approximate bytes of operations in one record; operations that belong together may exceed it."""
_ROOM_FOR_DEAD = 4
"""The journal is compacted above this many segments, and this many times what it needs."""
_MOST_FAILURES = 0xFFFF


class Live:
    """A message in the journal: the queues not finished with it, and where it was last added."""

    __slots__ = ("failures", "ids", "message", "segment", "size", "source_entry")

    def __init__(self, message: Message, ids: tuple[int, ...], source_entry: Entry | None) -> None:
        self.message = message
        self.ids = ids
        self.source_entry = source_entry
        self.failures: dict[int, int] | None = None
        self.segment: Segment | None = None
        self.size = 0


class Segment:
    """One file, of which ``good`` bytes are known to be synced. ``live`` is the number of messages
    last added here, ``live_size`` their bytes."""

    __slots__ = (
        *("good", "live", "live_size", "number", "places", "records", "seed", "size"),
        "snapshot_size",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.seed = records.seed(self.file)
        self.size = self.good = self.records = self.live = self.live_size = 0
        self.snapshot_size = 0
        self.places: list[int] = []

    @property
    def file(self) -> str:
        return f"journal/{self.number:09d}.journal"


class Journal:
    """``size`` is the number of bytes after which a new segment begins; ``marks`` returns the
    snapshot of the pages."""

    def __init__(self, size: int, marks: Callable[[], Iterable[Operation]]) -> None:
        self._size = size
        self._marks = marks
        self.segments: OrderedDict[int, Segment] = OrderedDict()
        self.live: dict[int, Live] = {}
        self.queues: dict[int, QueueMade] = {}
        self.consumed: set[int] = set()
        self.place = self.unit = self.next_segment = 0
        self.queue_id = 0
        self.atomic_unit = 0
        """The number that marks this input's records as belonging together; 0 if none do."""
        self.touched = False
        """True if anything has happened since the last :meth:`seal`."""
        self.waiting = 0
        """Bytes that have been sealed but not yet stored."""
        self.extent: Extent | None = None
        """The extent as last noted; None if both copies must be written."""
        self.extents = 0
        self._current: Segment | None = None
        self._operations: list[bytes] = []
        self._gone: dict[int, list[list[int]]] = {}
        self._page_gone: dict[tuple[int, int], list[list[int]]] = {}
        self._sealed: list[tuple[bytes, list[int]]] = []
        self._places: list[int] = []
        self._under_way: list[tuple[bytes, list[int]]] = []
        self._accounts: list[bytes] = []
        self._syncs = self._must_sync = False

    # --- what happens -----------------------------------------------------------------------------

    def begin_atomic_unit(self) -> None:
        """Store everything from this input, past and future, completely or not at all."""
        if not self.atomic_unit:
            self.unit += 1
            self.atomic_unit = self.unit
            self.say(UnitDone(self.unit))

    def say(self, operation: Operation) -> None:
        self._operations.append(operation.encode())
        self.touched = True

    def add(self, message: Message, ids: tuple[int, ...], source_entry: Entry | None) -> int:
        """Add ``message`` for the queues ``ids``; return its place."""
        self.place += 1
        live = self.live[self.place] = Live(message, ids, source_entry)
        self._add(self.place, live)
        return self.place

    def _add(self, place: int, live: Live) -> None:
        earlier, notes, before = 0, b"", live.source_entry
        if before is not None:
            earlier, notes = (
                min(_MOST_FAILURES, before.earlier + before.failures),
                codec.encode_notes(before.notes),
            )
        added = Added(place, live.ids, earlier, notes, codec.encode(live.message)).encode()
        live.size = len(added)
        self._operations.append(added)
        self._places.append(place)
        self.touched = True

    def remove(self, queue: int, place: int) -> None:
        runs = self._gone.setdefault(queue, [])
        if runs and runs[-1][0] + runs[-1][1] == place:
            runs[-1][1] += 1
        else:
            runs.append([place, 1])
        self.touched = True
        live = self.live[place]
        if len(live.ids) > 1:
            live.ids = tuple(id for id in live.ids if id != queue)
            return
        del self.live[place]
        if live.segment is not None:
            live.segment.live -= 1
            live.segment.live_size -= live.size

    def failed(self, queue: int, place: int, failures: int) -> None:
        """The message at ``place`` returned to ``queue`` as failed delivery number ``failures``."""
        live = self.live[place]
        live.failures = (live.failures or {}) | {queue: min(_MOST_FAILURES, failures)}
        self.say(Failed(queue, place, min(_MOST_FAILURES, failures)))

    def page_gone(self, queue: int, page: int, record: int) -> None:
        runs = self._page_gone.setdefault((queue, page), [])
        if runs and runs[-1][1] == record:
            runs[-1][1] = record + 1
        else:
            runs.append([record, record + 1])
        self.touched = True

    def account(self, operation: PageWritten | PageOver) -> None:
        """Record what the next write stores of a page, or that it removes the page. The record of a
        removal must be synced before the file is removed."""
        self._accounts.append(operation.encode())
        self._must_sync = self._must_sync or isinstance(operation, PageOver)

    def seal(self) -> None:
        """End the operations of one input, which form one record if they are atomic."""
        operations = self._operations
        operations += [
            Gone(id, tuple(map(tuple, runs))).encode()  # type: ignore[arg-type]
            for id, runs in self._gone.items()
        ]
        operations += [
            PageGone(id, page, tuple(map(tuple, runs))).encode()  # type: ignore[arg-type]
            for (id, page), runs in self._page_gone.items()
        ]
        self._gone, self._page_gone, self._operations = {}, {}, []
        places, self._places = self._places, []
        self.touched = False
        parts = _in_parts(operations, places, self.atomic_unit != 0)
        self.atomic_unit = 0
        self._sealed += parts
        self.waiting += sum(len(data) for data, _ in parts)

    # --- writing ----------------------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """True if something must be written."""
        return bool(self._sealed or self._accounts)

    def begin(self) -> tuple[Write, ...]:
        """Return what must be written before any other file: the current extent, unless this broker
        has already written that."""
        if self.extent is not None:
            return ()
        newest = next(reversed(self.segments.values()), None)
        return self._note(newest, 0 if newest is None else newest.good).write_synced()

    def extent_for_removal(self) -> tuple[Write, ...]:
        """Return what must be synced before segments are removed."""
        assert self.extent is not None
        return self._note(self.segments.get(self.extent.last), self.extent.size).write_synced()

    def _note(self, last: Segment | None, size: int) -> Extent:
        self.extents += 1
        first = next(iter(self.segments), 0)
        self.extent = Extent(self.extents, first, 0 if last is None else last.number, size)
        return self.extent

    def write(self) -> tuple[Write, Write]:
        """Return what to write next: everything sealed, and the extent. Call this when ``waits`` is
        true, after :meth:`begin`."""
        self._under_way, self._sealed = self._sealed, []
        accounts, self._accounts = self._accounts, []
        self._syncs, self._must_sync = bool(self._under_way) or self._must_sync, False
        segment = self._current
        # The snapshot does not count. If a snapshot exceeded the size of a segment, each write
        # would begin a new segment.
        if segment is None or segment.size - segment.snapshot_size >= self._size:
            segment = self._current = self.segments[self.next_segment] = Segment(self.next_segment)
            self.next_segment += 1
            self._syncs = True
            snapshot = b"".join(operation.encode() for operation in self._snapshot())
            segment.snapshot_size = len(snapshot)
            parts = [b"".join((snapshot, *accounts, *(part for part, _ in self._under_way)))]
            data = records.head(segment.file)
            segment.records = 1
        else:
            parts = [part for part, _ in self._under_way]
            if accounts:
                parts.append(b"".join(accounts))
            data = b""
        first = segment.records
        data += b"".join(
            records.frame(number, part, segment.seed) for number, part in enumerate(parts, first)
        )
        segment.records += len(parts)
        offset, segment.size = segment.size, segment.size + len(data)
        for _, places in self._under_way:
            for place in places:
                self._settle_in(segment, place)
        extent = self._note(segment, segment.size if self._syncs else segment.good)
        return Write(segment.file, offset, data, self._syncs), extent.write()

    def _settle_in(self, segment: Segment, place: int) -> None:
        live = self.live.get(place)
        if live is None:
            return
        if live.segment is not None:
            live.segment.live -= 1
            live.segment.live_size -= live.size
        live.segment = segment
        segment.live += 1
        segment.live_size += live.size
        segment.places.append(place)

    def stored(self) -> list[str]:
        """The write succeeded. Return the files no longer needed; there may be more to write."""
        self.waiting -= sum(len(data) for data, _ in self._under_way)
        self._under_way = []
        if self._current is not None and self._syncs:
            self._current.good = self._current.size
        useless = []
        while len(self.segments) > 1:
            oldest = next(iter(self.segments.values()))
            if oldest.live:
                break
            del self.segments[oldest.number]
            useless.append(oldest.file)
        self._shrink()
        return useless

    def _shrink(self) -> None:
        if len(self.segments) <= _ROOM_FOR_DEAD or self.waits:
            return
        needed = sum(segment.live_size for segment in self.segments.values())
        size = sum(segment.size - segment.snapshot_size for segment in self.segments.values())
        if size < _ROOM_FOR_DEAD * (needed + self._size):
            return
        oldest = next(iter(self.segments.values()))
        for place in oldest.places:
            live = self.live.get(place)
            if live is not None and live.segment is oldest:
                self._add(place, live)
        self.seal()

    def failed_to_write(self) -> None:
        """The write failed or was incomplete: it must be repeated elsewhere."""
        self._sealed = self._under_way + self._sealed
        self._under_way = []
        if self._current is not None:
            self._current.size = self._current.good
        self._current = self.extent = None
        self._accounts, self._must_sync = [], False

    def adopt(self, recovered: Recovered) -> None:
        """Continue from the data of an earlier broker."""
        for number, size in recovered.segments:
            segment = self.segments[number] = Segment(number)
            segment.size = segment.good = size
        self.next_segment = recovered.next_segment
        self.queues, self.consumed = dict(recovered.queues), set(recovered.consumed)
        self.unit, self.place, self.queue_id = recovered.unit, recovered.place, recovered.queue_id
        for place, kept in recovered.kept.items():
            live = self.live[place] = Live(kept.message, kept.ids, kept.source_entry)
            live.failures = dict(kept.failures) or None
            live.size = kept.size
            live.segment = segment = self.segments[kept.segment]
            segment.live += 1
            segment.live_size += kept.size
            segment.places.append(place)
        self.extents = recovered.extents

    def _snapshot(self) -> Iterable[Operation]:
        yield Snapshot(self.unit, self.place, self.queue_id)
        yield from (
            Length(segment.number, segment.good)
            for segment in self.segments.values()
            if segment is not self._current
        )
        yield from self.queues.values()
        yield from (Consumed(queue, True) for queue in sorted(self.consumed))
        for place, live in self.live.items():
            if live.failures:
                yield from (Failed(id, place, failures) for id, failures in live.failures.items())
        yield from self._marks()


def _in_parts(
    operations: list[bytes], places: list[int], together: bool
) -> list[tuple[bytes, list[int]]]:
    """Return records of about :data:`_ATOM` bytes. The last record has all places, because
    recording them can wait."""
    if not operations:
        return []
    parts: list[tuple[bytes, list[int]]] = []
    part: list[bytes] = []
    size = 0
    for operation in operations:
        part.append(operation)
        size += len(operation)
        if size >= _ATOM and not together:
            parts.append((b"".join(part), []))
            part, size = [], 0
    parts.append((b"".join(part), places))
    return parts
