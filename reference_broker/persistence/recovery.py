"""Recovery: reads the files of a broker that ended in any way.

* Recovery finds the journal's unfinished messages, in order; durable queues; and pages with
  unfinished messages.
* The journal accounts for every file. Damaged, missing or misplaced data is reported with the file,
  the address and the loss; a copy of the file is kept, and the undamaged rest is used. After damage
  to the journal, every message is treated as if it had been delivered before, since
  acknowledgements may be lost.
* Unreadable bytes after the accounted bytes were being written when power failed or the process was
  killed. Nothing in them was confirmed, so they are cut off without a report.
* Non-durable messages on pages are lost. Messages of an incomplete transaction never existed.

All pages and large bodies are read once, one at a time. Files are read through a
:class:`Folder`.
"""

import re
import struct
import urllib.parse
from collections.abc import Callable, Iterable
from typing import Protocol

from brokerproof.reference_broker.kernel.large_body import LargeBody
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.persistence import codec, journal_extent, records
from brokerproof.reference_broker.persistence import page as layout
from brokerproof.reference_broker.persistence.codec import BadBytes, Decoder
from brokerproof.reference_broker.persistence.journal_extent import Extent
from brokerproof.reference_broker.persistence.large_bodies import BLOCK, Part
from brokerproof.reference_broker.persistence.operations import (
    Added,
    BadOperation,
    Consumed,
    Failed,
    Gone,
    Length,
    Operation,
    PageFailed,
    PageGone,
    PageOver,
    PageWritten,
    QueueGone,
    QueueMade,
    Snapshot,
    UnitDone,
    decode,
)
from brokerproof.reference_broker.persistence.page import Page
from brokerproof.reference_broker.persistence.recovered import Kept, Recovered

_SEGMENT = re.compile(r"journal/(\d{9,})\.journal")
_LARGE = re.compile(r"large/(\d{9,})\.body")
_PAGE = re.compile(r"(paging/[^/]+)/(\d{9,})(?:-(\d+))?\.page")
_AT_ONCE = 64 * BLOCK
"""Bytes of a large body that are checked together."""


class _Nobody:
    """Stands in for the files of bodies until the bodies are adopted."""

    def read(
        self, body: LargeBody, begin: int, count: int, then: Callable[[bytes | None], None]
    ) -> None:
        raise AssertionError("nothing is read before the store has it")

    def idle(self, body: LargeBody) -> None:
        """Do nothing, because bodies are checked when they are adopted."""


_NOBODY = _Nobody()


class Folder(Protocol):
    """The files of a disk by their paths, as in
    :class:`brokerproof.harness.model.broker_io.Write`."""

    def names(self) -> Iterable[str]:
        """Return the paths of all files."""

    def read(self, name: str) -> bytes:
        """Return the content of a file. Raises ``OSError``."""

    def read_part(self, name: str, offset: int, length: int) -> bytes:
        """Return those of the requested bytes of a file that exist. Raises ``OSError``."""

    def size(self, name: str) -> int:
        """Return the size of a file in bytes. Raises ``OSError``."""


def recover(folder: Folder) -> Recovered:
    """Read everything. Raises ``OSError`` for a completely unreadable file, and
    :class:`records.OtherFormat`."""
    return _Recovery(folder).run()


class _Recovery:
    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._recovered = Recovered()
        self._decoder = Decoder(self._body)
        self._base = 0
        self._units: set[int] = set()
        self._marks: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._written: dict[tuple[str, int], PageWritten] = {}
        self._over: set[tuple[str, int]] = set()
        self._large_records: list[tuple[LargeBody, Page, int, tuple[int, ...]]] = []
        self._journal_is_damaged = False

    def run(self) -> Recovered:
        names = sorted(self._folder.names())
        segments = {int(match[1]): name for name in names if (match := _SEGMENT.fullmatch(name))}
        pages: dict[str, dict[int, list[str]]] = {}
        for name in names:
            match = _PAGE.fullmatch(name)
            if match:
                pages.setdefault(match[1], {}).setdefault(int(match[2]), []).append(name)
        self._journal(segments, self._extent(names, bool(segments or pages)))
        for (folder, number), written in self._written.items():
            pages.setdefault(folder, {}).setdefault(number, [])
            self._recovered.pages.setdefault(folder, (written.address, []))
        for folder, numbers in pages.items():
            self._pages(folder, numbers)
        self._forget_unknown_queues()
        self._large({int(match[1]): name for name in names if (match := _LARGE.fullmatch(name))})
        return self._recovered

    def _damaged(self, name: str, damage: str) -> None:
        """Report damage to a file, and keep a copy."""
        if name not in self._recovered.aside:
            self._recovered.aside.append(name)
        self._recovered.reports.append(f"{name}: {damage}; a copy of the file is kept in damaged")

    def _missing(self, name: str, loss: str) -> None:
        self._recovered.reports.append(f"{name}: is missing, and no broker removed it; {loss}")

    # --- the journal ------------------------------------------------------------------------------

    def _extent(self, names: list[str], expected: bool) -> Extent:
        """Return the journal's extent; an empty one if it cannot be read."""
        unknown = "if the end of the journal was cut off, this cannot be detected"
        if journal_extent.FILE not in names:
            if expected:
                self._missing(journal_extent.FILE, unknown)
            return Extent()
        newest, synced = journal_extent.read(self._folder.read(journal_extent.FILE))
        if newest is None:
            if expected:
                self._damaged(journal_extent.FILE, f"is damaged; {unknown}")
            return Extent()
        if not synced:
            self._damaged(
                journal_extent.FILE, "the first of its two copies is damaged; nothing is lost"
            )
        self._recovered.extents = newest.version
        return newest

    def _journal(self, segments: dict[int, str], known: Extent) -> None:
        recovered = self._recovered
        scans = {
            number: records.scan(self._folder.read(segments[number]), segments[number])
            for number in sorted(segments)
        }
        lengths, latest, stated = self._lengths(scans)
        recovered.next_segment = (
            max((*segments, known.last, -1)) + 1 if segments or known.size else 0
        )
        needed = {number for number, good in stated.items() if good}
        needed.update(range(latest, known.last) if latest >= 0 else range(known.first, known.last))
        if known.size:
            needed.add(known.last)
        for number in sorted(needed - segments.keys()):
            if number >= known.first:
                self._journal_is_damaged = True
                self._missing(f"journal/{number:09d}.journal", _JOURNAL_LOSS)
        for number, scanned in scans.items():
            if number < known.first or (number < latest and number not in stated):
                recovered.useless.append(segments[number])
                continue
            least = known.size if number == known.last and number not in lengths else 0
            good = lengths.get(number, scanned.end)
            self._judge(segments[number], scanned, lengths.get(number, least), number in lengths)
            if scanned.other is not None:
                recovered.useless.append(segments[number])
                continue
            recovered.segments.append((number, min(good, scanned.end)))
            self._replay(segments[number], number, scanned, good)
        if self._journal_is_damaged:
            recovered.consumed = set(recovered.queues)

    def _replay(self, name: str, number: int, scanned: records.Scan, good: int) -> None:
        """Apply the operations in a segment up to byte ``good``."""
        for record, begin, end in scanned.records:
            if end > good:
                break
            try:
                for operation in decode(scanned.data[begin:end]):
                    self._apply(operation, number)
            except (BadOperation, BadBytes) as problem:
                self._journal_is_damaged = True
                self._damaged(name, f"record {record}: {problem}; {_JOURNAL_LOSS}")

    @staticmethod
    def _lengths(scans: dict[int, records.Scan]) -> tuple[dict[int, int], int, dict[int, int]]:
        """Return the good part of each segment, the last segment with a good snapshot (-1 if none),
        and that snapshot."""
        lengths: dict[int, int] = {}
        latest, stated = -1, {}
        for number, scanned in scans.items():
            if not scanned.records or scanned.records[0][0] != 1:
                continue
            _, begin, end = scanned.records[0]
            try:
                operations = [
                    operation
                    for operation in decode(scanned.data[begin:end])
                    if isinstance(operation, Snapshot | Length)
                ]
            except BadOperation:
                continue
            latest = number
            stated = {
                operation.segment: operation.length
                for operation in operations
                if isinstance(operation, Length)
            }
            lengths |= stated
        return lengths, latest, stated

    def _judge(self, name: str, scanned: records.Scan, least: int, is_limit: bool) -> None:
        """Report damage in a segment that must have ``least`` bytes; if that ``is_limit``, any
        further bytes are ignored."""
        if scanned.other is not None:
            self._journal_is_damaged = True
            self._damaged(name, f"is the file {scanned.other}, and is not used; {_JOURNAL_LOSS}")
            return
        for gap in scanned.gaps:
            if is_limit and gap.begin >= least:
                continue
            if gap.next == 1:
                self._damaged(name, "its header is damaged; nothing is lost")
                continue
            self._journal_is_damaged = True
            self._damaged(name, f"{_gap(gap)}; {_JOURNAL_LOSS}")
        if scanned.end < least:
            self._journal_is_damaged = True
            self._damaged(
                name, f"bytes {scanned.end} to {least} are damaged or missing; {_JOURNAL_LOSS}"
            )

    def _apply(self, operation: Operation, segment: int) -> None:
        recovered = self._recovered
        match operation:
            case Added(place, ids, earlier, notes, data):
                recovered.place = max(recovered.place, place)
                # Do not reuse the number of a queue that damage has lost. Its messages would pass
                # to another queue.
                recovered.queue_id = max(recovered.queue_id, *ids)
                known = recovered.kept.get(place)
                if known is not None:
                    known.segment = segment
                    return
                message = self._decoder.decode(data, 0)
                source_entry = None
                if earlier or notes:
                    source_entry = Entry(message, 0)
                    source_entry.earlier, source_entry.notes = earlier, codec.decode_notes(notes)
                recovered.message = max(recovered.message, message.number)
                recovered.kept[place] = Kept(message, ids, source_entry, len(data), segment)
            case Gone(id, runs):
                for first, count in runs:
                    for place in range(first, first + count):
                        self._gone(id, place)
            case PageGone(id, page, page_runs):
                self._marks.setdefault((id, page), []).extend(page_runs)
                recovered.next_page[id] = max(recovered.next_page.get(id, 0), page + 1)
            case Failed(id, place, failures):
                if place in recovered.kept:
                    recovered.kept[place].failures[id] = failures
            case PageFailed(id, page, record, failures):
                recovered.page_failures[id, page, record] = failures
            case UnitDone(unit):
                self._units.add(unit)
                recovered.unit = max(recovered.unit, unit)
            case QueueMade():
                recovered.queues[operation.id] = operation
                recovered.queue_id = max(recovered.queue_id, operation.id)
            case QueueGone(id):
                recovered.queues.pop(id, None)
                recovered.consumed.discard(id)
            case Consumed(id, consumed):
                (recovered.consumed.add if consumed else recovered.consumed.discard)(id)
            case Snapshot(unit, place, queue):
                self._base = max(self._base, unit)
                recovered.unit = max(recovered.unit, unit)
                recovered.place = max(recovered.place, place)
                recovered.queue_id = max(recovered.queue_id, queue)
                recovered.queues.clear()
                recovered.consumed.clear()
                recovered.page_failures.clear()
                self._marks.clear()
                self._written.clear()
                self._over.clear()
            case PageWritten(page, _, _, address):
                self._written[layout.folder(address), page] = operation
            case PageOver(page, address):
                self._written.pop((layout.folder(address), page), None)
                self._over.add((layout.folder(address), page))
            case Length():
                pass

    def _gone(self, queue: int, place: int) -> None:
        kept = self._recovered.kept.get(place)
        if kept is None:
            return
        kept.ids = tuple(id for id in kept.ids if id != queue)
        if not kept.ids:
            del self._recovered.kept[place]

    # --- pages ------------------------------------------------------------------------------------

    def _pages(self, folder: str, numbers: dict[int, list[str]]) -> None:
        """Read the pages of one address. ``numbers`` has the files of each page."""
        recovered = self._recovered
        known = recovered.pages.pop(folder, None)
        address = None if known is None else known[0]
        pages: list[Page] = []
        last = max(numbers)
        for number, names in sorted(numbers.items()):
            if (folder, number) in self._over:
                recovered.useless += names
                continue
            scans = {name: records.scan(self._folder.read(name), name) for name in sorted(names)}
            for scanned in scans.values():
                if address is None and scanned.detail is not None and scanned.other is None:
                    address = scanned.detail.decode("utf-8", "surrogatepass")
            likely = _likely_address(folder) if address is None else address
            name = self._best(folder, number, scans, likely, last)
            recovered.useless += [other for other in names if other != name]
            if name is None:
                continue
            page = self._page(folder, number, likely, name, scans[name])
            if self._is_known(folder, page):
                pages.append(page)
            else:
                self._damaged(
                    name,
                    f"the journal lists newer pages of address {likely} but not this one, so it is"
                    " not used",
                )
                recovered.useless.append(name)
        if pages:
            recovered.pages[folder] = pages[-1].address, pages

    def _best(
        self, folder: str, number: int, candidates: dict[str, records.Scan], address: str, last: int
    ) -> str | None:
        """Return the most complete file of a page; None if none has any records. Report damage."""
        written = self._written.get((folder, number))
        count = 0 if written is None else written.records
        if not candidates:
            loss = _lost(count - 1, address)
            self._missing(
                Page(folder, number, address, written.generation if written else 0).file, loss
            )
            return None
        name = max(candidates, key=lambda name: (len(candidates[name].records), len(name), name))
        scanned = candidates[name]
        lost = max(count, scanned.next) - 1 - len(scanned.records)
        loss = _lost(max(lost, 0), address)
        if scanned.other is not None:
            self._damaged(name, f"is the file {scanned.other}, and is not used; {loss}")
            return None
        if not scanned.next:
            if written is not None or (number != last and scanned.data):
                self._damaged(name, f"nothing of it can be read; {loss}")
            return None
        for gap in scanned.gaps:
            if gap.next == 1:
                self._damaged(name, "its header is damaged; nothing is lost")
            else:
                lost = gap.next - max(1, gap.first)
                self._damaged(name, f"{_gap(gap)}; {_lost(lost, address)}")
        if scanned.next < count:
            self._damaged(
                name,
                f"is damaged or cut off after byte {scanned.end};"
                f" {_lost(count - scanned.next, address)}",
            )
        return name if scanned.records else None

    def _is_known(self, folder: str, page: Page) -> bool:
        """Return False for an older page with durable messages that is not in the journal. A page
        is noted there before the next one, so the messages of that page are finished."""
        return (
            self._journal_is_damaged
            or not page.accounted
            or (folder, page.number) in self._written
            or not any(other == folder and number > page.number for other, number in self._written)
        )

    def _page(
        self, folder: str, number: int, address: str, name: str, scanned: records.Scan
    ) -> Page:
        recovered = self._recovered
        match = _PAGE.fullmatch(name)
        assert match is not None
        page = Page(folder, number, address, int(match[3] or 0))
        page.content, page.tail = None, []
        page.recovered = True
        page.size = page.written = scanned.end
        page.records = scanned.next
        page.missing = page.records - 1 - len(scanned.records)
        strange = 0
        for record, payload in scanned.payloads():
            try:
                flags, unit, ids, at = layout.peek(payload)
                recovered.message = max(recovered.message, layout.number(payload, flags, at))
                body = layout.large(payload, flags, at)
            except struct.error as problem:
                self._damaged(name, f"record {record}: {problem}; it is not delivered")
                continue
            recovered.queue_id = max(recovered.queue_id, *ids)
            if not flags & layout.DURABLE:
                continue
            page.accounted = page.records
            known_ids = [id for id in ids if id in recovered.queues]
            strange += not known_ids
            if body is not None and known_ids:
                large = self._body(*body)
                page.keep(record, large, len(known_ids))
                self._large_records.append((large, page, record, ids))
            counts = not unit or unit <= self._base or unit in self._units
            for id in known_ids:
                if not counts:
                    page.mark(id, record)
                    page.done(record)
                    continue
                page.refs[id] = page.refs.get(id, 0) + 1
        if strange and self._journal_is_damaged:
            self._damaged(
                name,
                f"the queues of {strange} messages of address {address} are missing from the"
                " damaged journal; the messages are lost",
            )
        for id in [queue for queue in recovered.queues if (queue, number) in self._marks]:
            self._mark(page, id, {record for record, *_ in scanned.records})
        page.pending = sum(page.refs.values())
        page.left = dict(page.refs)
        return page

    def _mark(self, page: Page, id: int, present: set[int]) -> None:
        """Mark the records that ``id`` has finished, if they are here and belong to that queue; a
        queue id belongs to one address only."""
        if id not in page.refs:
            return
        for first, end in self._marks[id, page.number]:
            for record in range(first, end):
                if record in present and not page.is_marked(id, record):
                    page.mark(id, record)
                    page.refs[id] -= 1
                    page.done(record)

    # --- large bodies -----------------------------------------------------------------------------

    def _body(self, id: int, size: int) -> LargeBody:
        body = self._recovered.bodies.get(id)
        if body is None:
            body = self._recovered.bodies[id] = LargeBody(_NOBODY, id, size)
        return body

    def _large(self, files: dict[int, str]) -> None:
        """Remove files that have no message, and messages whose body is damaged."""
        recovered = self._recovered
        # A finished record may still refer to a body whose file is gone. A new body with the same
        # number would be mistaken for that body.
        recovered.last_body = max((*files, *recovered.bodies), default=0)
        kept: dict[int, list[int]] = {}
        for place, entry in recovered.kept.items():
            if entry.message.large is not None:
                kept.setdefault(entry.message.large.id, []).append(place)
        on_pages: dict[int, list[tuple[Page, int, tuple[int, ...]]]] = {}
        for body, page, record, ids in self._large_records:
            if record in page.large:
                on_pages.setdefault(body.id, []).append((page, record, ids))
        for id, body in list(recovered.bodies.items()):
            if id not in kept and id not in on_pages:
                continue
            damage = self._body_damage(body, files.get(id))
            if damage is None:
                continue
            addresses = {
                recovered.queues[queue].address
                for place in kept.get(id, ())
                for queue in recovered.kept[place].ids
            }
            addresses |= {page.address for page, _, _ in on_pages.get(id, ())}
            loss = f"{damage}; its message of address {', '.join(sorted(addresses))} is lost"
            if id in files:
                self._damaged(body.file, loss)
            else:
                recovered.reports.append(f"{body.file}: {loss}")
            del recovered.bodies[id]
            for place in kept.get(id, ()):
                del recovered.kept[place]
            for page, record, ids in on_pages.get(id, ()):
                self._drop(page, record, ids)
        recovered.useless += [name for id, name in files.items() if id not in recovered.bodies]

    def _drop(self, page: Page, record: int, ids: tuple[int, ...]) -> None:
        """Record that the queues ``ids`` have finished a record whose body is damaged."""
        for id in ids:
            if page.refs.get(id, 0) and not page.is_marked(id, record):
                page.mark(id, record)
                page.done(record)
                page.drop(id, 1)
                page.left[id] -= 1

    def _body_damage(self, body: LargeBody, name: str | None) -> str | None:
        """Return the damage to the file of a body; None if there is none."""
        if name is None:
            return f"has 0 of {body.length} bytes"
        head = records.scan(self._folder.read_part(name, 0, len(records.head(name))), name)
        if head.other is not None:
            return f"is the file {head.other}"
        end = Part(name, body.length, 0, body.length)
        size = self._folder.size(name)
        if size < end.offset + end.length:
            return f"has {size} of {end.offset + end.length} bytes"
        for begin in range(0, body.length, _AT_ONCE):
            part = Part(name, body.length, begin, min(begin + _AT_ONCE, body.length))
            if part.read(self._folder.read_part(name, part.offset, part.length)) is None:
                return f"bytes {part.begin} to {part.end} of the body are partly damaged"
        if head.detail is None and body.length:
            self._damaged(name, "its header is damaged; nothing is lost")
        return None

    def _forget_unknown_queues(self) -> None:
        recovered = self._recovered
        strange = 0
        for place, kept in list(recovered.kept.items()):
            kept.ids = tuple(id for id in kept.ids if id in recovered.queues)
            if not kept.ids:
                del recovered.kept[place]
                strange += 1
        if strange and self._journal_is_damaged:
            recovered.reports.append(
                f"journal: the queues of {strange} messages are missing from the damaged journal;"
                " the messages are lost"
            )


def _likely_address(folder: str) -> str:
    """Return the address of a folder as far as the folder's name reveals it."""
    return urllib.parse.unquote(folder.removeprefix("paging/"), errors="surrogateescape")


_JOURNAL_LOSS = (
    "its messages, acknowledgements and queues are lost, so messages may be missing or delivered"
    " again"
)


def _gap(gap: records.Gap) -> str:
    last = gap.next - 1
    which = f"record {last} (" if gap.first == last else f"records {gap.first} to {last} ("
    verb = "is" if gap.first == last else "are"
    return f"{which}bytes {gap.begin} to {gap.end}) {verb} damaged or missing"


def _lost(count: int, address: str) -> str:
    if count == 1:
        return f"up to 1 message of address {address} is lost"
    return f"up to {count} messages of address {address} are lost"
