"""What is found in the files of a broker that ended, in whatever way.

* Messages of the journal that some queue is not done with, in order; durable queues; pages with
  what is not done with.
* A record that cannot be read is reported, and what was in it is never delivered. At the very end
  of the journal, or of an address's last page, such octets are what was being written when power
  was lost or the process was killed: nobody was told that it is stored, so it is cut off, and that
  is no loss.
* Messages on pages that are not durable are not there any more. Messages of a transaction that was
  not completed never were.

All pages are read once, one at a time. Nothing here touches files: it reads through a
:class:`Folder`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from brokerproof.reference_broker.kernel.large_body import LargeBody
from brokerproof.reference_broker.kernel.message import Entry, Message
from brokerproof.reference_broker.persistence import codec, records
from brokerproof.reference_broker.persistence import page as layout
from brokerproof.reference_broker.persistence.codec import BadOctets, Decoder
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
    QueueGone,
    QueueMade,
    Snapshot,
    UnitDone,
    decode,
)
from brokerproof.reference_broker.persistence.page import Page

_SEGMENT = re.compile(r"journal/(\d{9,})\.journal")
_LARGE = re.compile(r"large/(\d{9,})\.body")
_PAGE = re.compile(r"(paging/[^/]+)/(\d{9,})(?:-(\d+))?\.page")


class _Nobody:
    """Stands for the files of bodies until somebody adopts them."""

    def read(
        self, body: LargeBody, begin: int, count: int, then: Callable[[bytes | None], None]
    ) -> None:
        raise AssertionError("nothing is read before the store has it")

    def idle(self, body: LargeBody) -> None:
        """They are looked at when they are adopted."""


_NOBODY = _Nobody()


class Folder(Protocol):
    """Where files are, by their paths as in :class:`brokerproof.harness.model.Write`."""

    def names(self) -> Iterable[str]:
        """The paths of all files."""

    def read(self, name: str) -> bytes:
        """The octets of one. Raises ``OSError``."""

    def size(self, name: str) -> int:
        """How many octets one has. Raises ``OSError``."""


@dataclass(slots=True)
class Kept:
    """A message of the journal. ``ids`` are the queues that are not done with it; ``failures`` how
    often it came back."""

    message: Message
    ids: tuple[int, ...]
    given_up: Entry | None
    octets: int
    segment: int
    failures: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Recovered:
    """What was found. ``segments`` has number and good octets; ``pages`` are by folder, with the
    name of their address."""

    kept: dict[int, Kept] = field(default_factory=dict)
    queues: dict[int, QueueMade] = field(default_factory=dict)
    consumed: set[int] = field(default_factory=set)
    segments: list[tuple[int, int]] = field(default_factory=list)
    pages: dict[str, tuple[str, list[Page]]] = field(default_factory=dict)
    next_page: dict[int, int] = field(default_factory=dict)
    """By queue: a number that no page of its address had."""
    page_failures: dict[tuple[int, int, int], int] = field(default_factory=dict)
    bodies: dict[int, LargeBody] = field(default_factory=dict)
    """The large bodies that are spoken of, by their numbers."""
    last_body: int = 0
    unit: int = 0
    place: int = 0
    queue_id: int = 0
    message: int = 0
    useless: list[str] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)


def recover(folder: Folder) -> Recovered:
    """Reads everything. Raises ``OSError`` for a file that cannot be read at all."""
    return _Recovery(folder).run()


class _Recovery:
    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._found = Recovered()
        self._decoder = Decoder(self._body)
        self._base = 0
        self._units: set[int] = set()
        self._marks: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def run(self) -> Recovered:
        names = sorted(self._folder.names())
        self._journal(
            [(int(match[1]), name) for name in names if (match := _SEGMENT.fullmatch(name))]
        )
        files: dict[str, dict[int, list[tuple[int, str]]]] = {}
        for name in names:
            match = _PAGE.fullmatch(name)
            if match:
                files.setdefault(match[1], {}).setdefault(int(match[2]), []).append(
                    (int(match[3] or 0), name)
                )
        for folder, numbers in files.items():
            self._pages(folder, numbers)
        self._large([(int(match[1]), name) for name in names if (match := _LARGE.fullmatch(name))])
        return self._finish()

    # --- large bodies -----------------------------------------------------------------------------

    def _body(self, id: int, octets: int) -> LargeBody:
        body = self._found.bodies.get(id)
        if body is None:
            body = self._found.bodies[id] = LargeBody(_NOBODY, id, octets)
        return body

    def _large(self, files: list[tuple[int, str]]) -> None:
        """What nobody speaks of is of no use; a message whose body is not wholly there is lost."""
        found = self._found
        found.last_body = max((id for id, _ in files), default=0)
        found.useless += [name for id, name in files if id not in found.bodies]
        there = {id: self._folder.size(name) for id, name in files if id in found.bodies}
        short = {id for id, body in found.bodies.items() if there.get(id, -1) < body.octets}
        for place, kept in list(found.kept.items()):
            large = kept.message.large
            if large is not None and large.id in short:
                del found.kept[place]
                sentence = (
                    f"{large.file}: has {there.get(large.id, 0)} of {large.octets} octets; its"
                    " message is lost"
                )
                found.reports.append(sentence)

    # --- the journal ------------------------------------------------------------------------------

    def _journal(self, segments: list[tuple[int, str]]) -> None:
        segments.sort()
        texts = {number: records.scan(self._folder.read(name)) for number, name in segments}
        lengths = self._lengths(texts)
        for number, name in segments:
            scanned = texts.pop(number)
            good = lengths.get(number, scanned.end)
            self._found.segments.append((number, good))
            self._judge(name, number, scanned, lengths)
            at = 0
            for record, payload in scanned.payloads():
                at += records.HEAD.size + len(payload)
                if at > good and number in lengths:
                    break
                try:
                    for operation in decode(payload):
                        self._apply(operation, number)
                except (BadOperation, BadOctets) as problem:
                    self._found.reports.append(
                        f"{name}, record {record}: {problem}; nothing of it is used"
                    )

    @staticmethod
    def _lengths(texts: dict[int, records.Scan]) -> dict[int, int]:
        """What later segments say of how much of the earlier ones counts."""
        lengths: dict[int, int] = {}
        for scanned in texts.values():
            for number, payload in islice(scanned.payloads(), 1):
                if number == 0:
                    try:
                        lengths |= {
                            each.segment: each.octets
                            for each in decode(payload)
                            if isinstance(each, Length)
                        }
                    except BadOperation:
                        continue
        return lengths

    def _judge(
        self, name: str, number: int, scanned: records.Scan, lengths: dict[int, int]
    ) -> None:
        reports = self._found.reports
        good = lengths.get(number)
        for begin, end in scanned.damages:
            if good is None or begin < good:
                reports.append(
                    f"{name}: octets {begin} to {end} are damaged; what was in them is lost"
                )
        if good is not None and scanned.end < good:
            reports.append(
                f"{name}: octets {scanned.end} to {good} are damaged; what was in them is lost"
            )

    def _apply(self, operation: Operation, segment: int) -> None:
        found = self._found
        match operation:
            case Added(place, ids, earlier, notes, octets):
                found.place = max(found.place, place)
                known = found.kept.get(place)
                if known is not None:
                    known.segment = segment
                    return
                message = self._decoder.decode(octets, 0)
                given_up = None
                if earlier or notes:
                    given_up = Entry(message, 0)
                    given_up.earlier, given_up.notes = earlier, codec.decode_notes(notes)
                found.message = max(found.message, message.number)
                found.kept[place] = Kept(message, ids, given_up, len(octets), segment)
            case Gone(id, runs):
                for first, count in runs:
                    for place in range(first, first + count):
                        self._gone(id, place)
            case PageGone(id, page, page_runs):
                self._marks.setdefault((id, page), []).extend(page_runs)
                found.next_page[id] = max(found.next_page.get(id, 0), page + 1)
            case Failed(id, place, failures):
                if place in found.kept:
                    found.kept[place].failures[id] = failures
            case PageFailed(id, page, record, failures):
                found.page_failures[id, page, record] = failures
            case UnitDone(unit):
                self._units.add(unit)
                found.unit = max(found.unit, unit)
            case QueueMade():
                found.queues[operation.id] = operation
                found.queue_id = max(found.queue_id, operation.id)
            case QueueGone(id):
                found.queues.pop(id, None)
                found.consumed.discard(id)
            case Consumed(id, consumed):
                (found.consumed.add if consumed else found.consumed.discard)(id)
            case Snapshot(unit, place, queue):
                self._base = max(self._base, unit)
                found.unit, found.place = max(found.unit, unit), max(found.place, place)
                found.queue_id = max(found.queue_id, queue)
                found.queues.clear()
                found.consumed.clear()
                found.page_failures.clear()
                self._marks.clear()
            case Length():
                pass

    def _gone(self, queue: int, place: int) -> None:
        kept = self._found.kept.get(place)
        if kept is None:
            return
        kept.ids = tuple(each for each in kept.ids if each != queue)
        if not kept.ids:
            del self._found.kept[place]

    # --- pages ------------------------------------------------------------------------------------

    def _pages(self, folder: str, numbers: dict[int, list[tuple[int, str]]]) -> None:
        found = self._found
        pages: list[Page] = []
        address = ""
        for number in sorted(numbers):
            candidates = [
                (records.scan(self._folder.read(name)), generation, name)
                for generation, name in numbers[number]
            ]
            scanned, generation, name = max(
                candidates, key=lambda candidate: (len(candidate[0].records), candidate[1])
            )
            found.useless += [candidate[2] for candidate in candidates if candidate[2] != name]
            del candidates
            if not scanned.records or scanned.records[0][0] != 0:
                if scanned.end or number != max(numbers):
                    found.reports.append(f"{name}: its head is damaged; nothing of it is used")
                else:
                    found.useless.append(name)  # it had just been begun
                continue
            for begin, end in scanned.damages:
                found.reports.append(
                    f"{name}: octets {begin} to {end} are damaged; what was in them is lost"
                )
            _, begin, end = scanned.records[0]
            address = scanned.octets[begin:end].decode("utf-8", "surrogatepass")
            page = self._page(folder, number, scanned, name)
            page.generation = generation
            pages.append(page)
        if pages:
            found.pages[folder] = address, pages

    def _page(self, folder: str, number: int, scanned: records.Scan, name: str) -> Page:
        found = self._found
        page = Page(folder, number, b"")
        page.content = None
        page.recovered = True
        page.octets = page.written = scanned.end
        page.records = scanned.records[-1][0] + 1
        for record, payload in islice(scanned.payloads(), 1, None):
            try:
                flags, unit, ids, at = layout.peek(payload)
                found.message = max(found.message, layout.number(payload, flags, at))
                body = layout.large(payload, flags, at)
            except struct.error as problem:
                found.reports.append(f"{name}, record {record}: {problem}; it is not delivered")
                continue
            found.queue_id = max(found.queue_id, *ids)
            wanted = sum(id in found.queues for id in ids) if flags & layout.DURABLE else 0
            if body is not None and wanted:
                page.keep(record, self._body(*body), wanted)
            counts = not unit or unit <= self._base or unit in self._units
            for id in ids:
                if id not in found.queues or not flags & layout.DURABLE:
                    continue
                if not counts:
                    page.mark(id, record)
                    page.done(record)
                    continue
                page.refs[id] = page.refs.get(id, 0) + 1
        for id in [queue for queue in found.queues if (queue, number) in self._marks]:
            self._mark(page, id, {record for record, *_ in scanned.records[1:]})
        page.pending = sum(page.refs.values())
        page.left = dict(page.refs)
        return page

    def _mark(self, page: Page, id: int, present: set[int]) -> None:
        """What ``id`` is done with, if it is for it and there: the same queue id is of one address
        only."""
        if id not in page.refs:
            return
        for first, end in self._marks[id, page.number]:
            for record in range(first, end):
                if record in present and not page.is_marked(id, record):
                    page.mark(id, record)
                    page.refs[id] -= 1
                    page.done(record)

    def _finish(self) -> Recovered:
        found = self._found
        for place in [place for place, each in found.kept.items()]:
            kept = found.kept[place]
            kept.ids = tuple(each for each in kept.ids if each in found.queues)
            if not kept.ids:
                del found.kept[place]
        return found
