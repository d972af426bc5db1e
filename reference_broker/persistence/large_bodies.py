"""The files of large bodies: written as bodies arrive, read as they are sent, removed when no
longer needed.

Received bytes are collected and written first in the next batch (see
:mod:`brokerproof.reference_broker.persistence.store`), so a reference to a message in the journal
or on a page is never written before its body. A body that must survive a restart is synced at that
time. Unwritten bytes cannot be read; readers wait for the batch. A file consists of a head and
blocks of :data:`BLOCK` bytes (the last may be shorter), each of them a record (``records.py``). The
reference to a message states the length of its body, so the whole body is accounted for, and every
byte is checked before it is sent. After a restart, unreferenced files are removed, because their
messages were never completed or are finished.
"""

import codecs
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from brokerproof.harness.model.broker_io import Effect, FileLoaded, LoadFile, Write
from brokerproof.reference_broker.kernel.large_body import LargeBody
from brokerproof.reference_broker.persistence import records

BLOCK = 16 * 1024
"""Bytes of a body that share one checksum."""
_Then = Callable[[bytes | None], None]


class Store(Protocol):
    def next_ticket(self) -> int:
        """Return the number of a new request."""

    def say(self, effect: Effect) -> None:
        """Add an effect to the result of the current input."""

    def report(self, sentence: str) -> None:
        """Report a problem to the operator."""

    def set_aside(self, file: str, damage: str) -> None:
        """Report ``damage`` to ``file`` and keep a copy."""


@dataclass(frozen=True, slots=True)
class Part:
    """The whole blocks in the file ``path`` that contain the bytes from ``begin`` to ``end`` of a
    body of ``size`` bytes."""

    path: str
    size: int
    begin: int
    end: int

    @property
    def offset(self) -> int:
        return _position(self.path, self.begin // BLOCK * BLOCK)

    @property
    def length(self) -> int:
        """Return how many bytes of the file the part takes up."""
        end = min(self.size, -(-self.end // BLOCK) * BLOCK)
        return _position(self.path, end) - self.offset

    def read(self, data: bytes) -> bytes | None:
        """Return the body's bytes from ``data``, which was read from the file; None if damaged."""
        seed, first, at = records.seed(self.path), self.begin // BLOCK, 0
        blocks: list[bytes] = []
        for block in range(first, -(-self.end // BLOCK)):
            payload = records.payload_at(data, at, block + 1, seed)
            if payload is None or len(payload) != min(BLOCK, self.size - block * BLOCK):
                return None
            blocks.append(payload)
            at += records.HEAD.size + len(payload)
        whole = blocks[0] if len(blocks) == 1 else b"".join(blocks)
        begin = self.begin - first * BLOCK
        return whole[begin : begin + self.end - self.begin]


def _position(path: str, count: int) -> int:
    """Return the end of the block whose last byte is number ``count`` of the body."""
    return len(records.head(path)) + count + -(-count // BLOCK) * records.HEAD.size


@dataclass(slots=True)
class _Arriving:
    """The last bytes of a body, which no write contains yet. They will be stored ``at`` this
    place."""

    seed: int
    head: bytes
    rest: bytearray
    at: int = 0
    blocks: int = 0

    def take(self, data: bytes, *, last: bool = False) -> bytes:
        """Return the blocks that ``data`` fills; with the ``last`` bytes, also a partial block."""
        parts: list[bytes | memoryview] = [] if self.at else [self.head]
        view = memoryview(data)
        if self.rest:
            missing = BLOCK - len(self.rest)
            self.rest += view[:missing]
            view = view[missing:]
            if len(self.rest) == BLOCK:
                self._add(parts, bytes(self.rest))
                self.rest.clear()
        while len(view) >= BLOCK:
            self._add(parts, view[:BLOCK])
            view = view[BLOCK:]
        self.rest += view
        if last and self.rest:
            self._add(parts, bytes(self.rest))
            self.rest.clear()
        return b"".join(parts)

    def _add(self, parts: list[bytes | memoryview], block: bytes | memoryview) -> None:
        self.blocks += 1
        parts += (records.frame_head(self.blocks, block, self.seed), block)


@dataclass(frozen=True, slots=True)
class _BodyWrite:
    """A write after which the body can be read up to byte ``readable``."""

    body: LargeBody
    write: Write
    readable: int


class Spool:
    """A body that is arriving. ``failed`` is called with a sentence if storing it fails."""

    def __init__(
        self, files: "LargeFiles", body: LargeBody, text: bool, failed: Callable[[str], None]
    ) -> None:
        self.failed = failed
        self.body = body
        self._files = files
        self._decoder = codecs.getincrementaldecoder("utf-8")() if text else None
        self._is_open = True

    @property
    def length(self) -> int:
        """The number of bytes that have arrived."""
        return self.body.length

    def write(self, data: bytes) -> None:
        if self._decoder is not None:
            try:
                self._decoder.decode(data)
            except UnicodeDecodeError:
                self._decoder = None
        self._files.add(self.body, data)

    def finish(self) -> LargeBody:
        """Record that the body is complete. Unless held at the end of this input, it is removed."""
        self._close()
        if self._decoder is not None:
            try:
                self._decoder.decode(b"", final=True)
            except UnicodeDecodeError:
                self._decoder = None
        self.body.is_text = self._decoder is not None
        return self.body

    def abandon(self) -> None:
        """Give up the body: the rest will not arrive. May be called repeatedly, even after the
        end.
        """
        self._close()

    def _close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._files.close(self)


class LargeFiles:
    """A broker's large bodies; ``waiting`` is how many of their bytes wait to be written."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._bodies: dict[int, LargeBody] = {}
        self._last = 0
        self._open: dict[LargeBody, Spool] = {}
        self._idle: dict[LargeBody, None] = {}
        self._arriving: dict[LargeBody, _Arriving] = {}
        self._writes: list[_BodyWrite] = []
        self._under_way: list[_BodyWrite] = []
        self._reads: dict[int, tuple[LargeBody, Part, _Then]] = {}
        self._later: list[tuple[LargeBody, int, int, _Then]] = []
        self.waiting = 0

    # --- in ---------------------------------------------------------------------------------------

    def begin(self, *, text: bool, failed: Callable[[str], None]) -> Spool:
        """Begin to receive a body; ``text``: check whether it is UTF-8."""
        self._last += 1
        body = self._bodies[self._last] = LargeBody(self, self._last)
        head = records.head(body.file)
        self._arriving[body] = _Arriving(records.seed(body.file), head, bytearray())
        spool = self._open[body] = Spool(self, body, text, failed)
        return spool

    def add(self, body: LargeBody, data: bytes) -> None:
        body.length += len(data)
        self._write(body, self._arriving[body].take(data))

    def _write(self, body: LargeBody, data: bytes) -> None:
        arriving = self._arriving[body]
        if data:
            write = Write(body.file, arriving.at, data, sync=False)
            self._writes.append(_BodyWrite(body, write, body.length - len(arriving.rest)))
            arriving.at += len(data)
            self.waiting += len(data)

    def close(self, spool: Spool) -> None:
        """Record that no more bytes of the body will arrive."""
        body = spool.body
        del self._open[body]
        self._write(body, self._arriving[body].take(b"", last=True))
        del self._arriving[body]
        if not body.holders:
            self._idle[body] = None

    def find(self, id: int, size: int) -> LargeBody:
        """Return the body that a stored message refers to."""
        body = self._bodies.get(id)
        if body is None:
            body = self._bodies[id] = LargeBody(self, id, size)
        return body

    def sync(self, body: LargeBody) -> None:
        """Make ``body`` survive a restart, from the next batch on."""
        if not body.synced:
            body.synced = True
            self._writes.append(_BodyWrite(body, Write(body.file, 0, b"", sync=True), 0))

    def idle(self, body: LargeBody) -> None:
        self._idle[body] = None

    def tidy(self) -> list[str]:
        """End an input: return the files of bodies that nobody holds."""
        if not self._idle:
            return []
        idle, self._idle = self._idle, {}
        gone = [body for body in idle if not body.holders and body not in self._open]
        useless = []
        for body in gone:
            del self._bodies[body.id]
            self.waiting -= sum(
                len(waiting.write.data) for waiting in self._writes if waiting.body is body
            )
            self._writes = [waiting for waiting in self._writes if waiting.body is not body]
            if body.begun:
                useless.append(body.file)
        return useless

    # --- batches ----------------------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """True if something must be written."""
        return bool(self._writes)

    def take(self) -> list[Write]:
        """Return what must be written with the next batch."""
        self._under_way, self._writes = self._writes, []
        for taken in self._under_way:
            taken.body.begun = True
        return [taken.write for taken in self._under_way]

    def written(self) -> None:
        for done in self._under_way:
            done.body.written = max(done.body.written, done.readable)
            self.waiting -= len(done.write.data)
        self._under_way = []
        later, self._later = self._later, []
        for request in later:
            self.read(*request)

    def not_written(self) -> None:
        """The batch must be written again, except bodies that are no longer needed."""
        unfinished = [undone for undone in self._under_way if undone.body.id in self._bodies]
        self.waiting -= sum(len(undone.write.data) for undone in self._under_way)
        self.waiting += sum(len(undone.write.data) for undone in unfinished)
        self._writes = unfinished + self._writes
        self._under_way = []

    def give_up(self, problem: str) -> None:
        """Tell the senders of all arriving bodies that these cannot be stored."""
        for spool in tuple(self._open.values()):
            spool.failed(problem)

    # --- out --------------------------------------------------------------------------------------

    def read(self, body: LargeBody, begin: int, count: int, then: _Then) -> None:
        """Call ``then`` later with these bytes, or with None if they cannot be read."""
        if begin + count > body.written:
            self._later.append((body, begin, count, then))
            return
        ticket = self._store.next_ticket()
        part = Part(body.file, body.length, begin, begin + count)
        self._reads[ticket] = body, part, then
        self._store.say(LoadFile(ticket, body.file, part.length, part.offset))

    def loaded(self, event: FileLoaded) -> bool:
        """Accept the bytes read; return True if they were part of a large body."""
        asked = self._reads.pop(event.ticket, None)
        if asked is None:
            return False
        body, part, then = asked
        data = None
        if event.problem is not None:
            self._store.report(f"{event.problem}; its consumer is disconnected")
        else:
            data = part.read(event.data)
            if data is None and not body.damaged:
                body.damaged = True
                self._store.set_aside(
                    part.path,
                    f"bytes {part.begin} to {part.end} of the body are partly damaged or missing;"
                    " its consumer is disconnected, and the message leaves its queues",
                )
        then(data)
        return True

    # --- after a restart --------------------------------------------------------------------------

    def adopt(self, bodies: Mapping[int, LargeBody], last: int) -> None:
        """Take over the bodies found on disk; numbers up to ``last`` are in use."""
        for body in bodies.values():
            body.files, body.written = self, body.length
            body.begun = body.synced = True
            self._idle[body] = None
        self._bodies.update(bodies)
        self._last = max(self._last, last)
