"""The files of large bodies: written as they arrive, read as they leave, removed when nobody needs
them.

What arrives is gathered and written with the next batch (see
:mod:`brokerproof.reference_broker.persistence.store`), in front of everything else of it: so what
says in the journal or on a page that a message is there is never written before its body is. A body
that is to survive a restart is synced then. What is not written yet cannot be read; who wants it
waits for the batch.

After a restart a file that nothing speaks of is removed: its message never came to be, or was done
with.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from typing import Protocol

from brokerproof.harness.model.broker_io import Effect, FileLoaded, LoadFile, Write
from brokerproof.reference_broker.kernel.large_body import LargeBody

_Then = Callable[[bytes | None], None]


class Store(Protocol):
    """What large bodies need of their store."""

    def next_ticket(self) -> int:
        """Return the number of a new request."""

    def say(self, effect: Effect) -> None:
        """Add an effect to the answer to this input."""

    def report(self, sentence: str) -> None:
        """Report a problem to the operator."""


class Spool:
    """A body that is arriving. ``failed`` is called with a sentence if it cannot be stored."""

    def __init__(
        self, files: LargeFiles, body: LargeBody, text: bool, failed: Callable[[str], None]
    ) -> None:
        self.failed = failed
        self.body = body
        self._files = files
        self._decoder = codecs.getincrementaldecoder("utf-8")() if text else None
        self._is_open = True

    @property
    def octets(self) -> int:
        """How many came."""
        return self.body.octets

    def write(self, data: bytes) -> None:
        """The next octets."""
        if self._decoder is not None:
            try:
                self._decoder.decode(data)
            except UnicodeDecodeError:
                self._decoder = None
        self._files.add(self.body, data)

    def finish(self) -> LargeBody:
        """All of it is here. Unless somebody holds it at the end of this input it goes again."""
        self._close()
        if self._decoder is not None:
            try:
                self._decoder.decode(b"", final=True)
            except UnicodeDecodeError:
                self._decoder = None
        self.body.is_text = self._decoder is not None
        return self.body

    def abandon(self) -> None:
        """The rest will not come. May be called again, and after the end."""
        self._close()

    def _close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._files.close(self)


class LargeFiles:
    """All large bodies of a broker; ``waiting`` are the octets of them that wait to be written."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._bodies: dict[int, LargeBody] = {}
        self._last = 0
        self._open: dict[LargeBody, Spool] = {}
        self._idle: dict[LargeBody, None] = {}
        self._writes: list[tuple[LargeBody, Write]] = []
        self._under_way: list[tuple[LargeBody, Write]] = []
        self._reads: dict[int, tuple[LargeBody, int, int, _Then]] = {}
        self._later: list[tuple[LargeBody, int, int, _Then]] = []
        self.waiting = 0

    # --- in ---------------------------------------------------------------------------------------

    def begin(self, *, text: bool, failed: Callable[[str], None]) -> Spool:
        """A new body begins to arrive; with ``text`` it is looked at whether it is UTF-8."""
        self._last += 1
        body = self._bodies[self._last] = LargeBody(self, self._last)
        spool = self._open[body] = Spool(self, body, text, failed)
        return spool

    def add(self, body: LargeBody, data: bytes) -> None:
        """The next octets of ``body``."""
        self._writes.append((body, Write(body.file, body.octets, data, sync=False)))
        body.octets += len(data)
        self.waiting += len(data)

    def close(self, spool: Spool) -> None:
        """No more octets of it come."""
        del self._open[spool.body]
        if not spool.body.holders:
            self._idle[spool.body] = None

    def find(self, id: int, octets: int) -> LargeBody:
        """The body that something stored speaks of."""
        body = self._bodies.get(id)
        if body is None:
            body = self._bodies[id] = LargeBody(self, id, octets)
        return body

    def sync(self, body: LargeBody) -> None:
        """``body`` is to survive a restart from the next batch on."""
        if not body.synced:
            body.synced = True
            self._writes.append((body, Write(body.file, body.octets, b"", sync=True)))

    def idle(self, body: LargeBody) -> None:
        """Nobody holds ``body`` now."""
        self._idle[body] = None

    def tidy(self) -> list[str]:
        """The end of an input: returns the files of bodies that nobody came to hold."""
        if not self._idle:
            return []
        idle, self._idle = self._idle, {}
        gone = [body for body in idle if not body.holders and body not in self._open]
        useless = []
        for body in gone:
            del self._bodies[body.id]
            self.waiting -= sum(len(write.data) for each, write in self._writes if each is body)
            self._writes = [write for write in self._writes if write[0] is not body]
            if body.begun:
                useless.append(body.file)
        return useless

    # --- batches ----------------------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """Whether something is to be written."""
        return bool(self._writes)

    def take(self) -> list[Write]:
        """What is to be written with the next batch."""
        self._under_way, self._writes = self._writes, []
        for body, _ in self._under_way:
            body.begun = True
        return [write for _, write in self._under_way]

    def written(self) -> None:
        """The batch was written."""
        for body, write in self._under_way:
            body.written = max(body.written, write.offset + len(write.data))
            self.waiting -= len(write.data)
        self._under_way = []
        later, self._later = self._later, []
        for each in later:
            self.read(*each)

    def not_written(self) -> None:
        """The batch is to be written once more, as far as its bodies are still wanted."""
        gone = [write for body, write in self._under_way if body.id not in self._bodies]
        self.waiting -= sum(len(each.data) for each in gone)
        self._writes = [
            each for each in self._under_way if each[0].id in self._bodies
        ] + self._writes
        self._under_way = []

    def give_up(self, problem: str) -> None:
        """What is arriving cannot be stored: whoever sends it is told."""
        for spool in tuple(self._open.values()):
            spool.failed(problem)

    # --- out --------------------------------------------------------------------------------------

    def read(self, body: LargeBody, begin: int, count: int, then: _Then) -> None:
        """Calls ``then`` later with these octets, or with None if they cannot be read."""
        if begin + count > body.written:
            self._later.append((body, begin, count, then))
            return
        ticket = self._store.next_ticket()
        self._reads[ticket] = body, begin, count, then
        self._store.say(LoadFile(ticket, body.file, count, begin))

    def loaded(self, event: FileLoaded) -> bool:
        """Whether ``event`` is the answer to one of ours."""
        asked = self._reads.pop(event.ticket, None)
        if asked is None:
            return False
        body, begin, count, then = asked
        problem = event.problem
        if problem is None and len(event.data) != count:
            problem = f"{body.file}: octets {begin} to {begin + count} are not there"
        if problem is not None:
            self._store.report(f"{problem}; whoever was to get them is cut off")
        then(None if problem is not None else event.data)
        return True

    # --- after a restart --------------------------------------------------------------------------

    def adopt(self, bodies: Mapping[int, LargeBody], last: int) -> None:
        """These bodies were found, and numbers up to ``last`` are used."""
        for body in bodies.values():
            body.files, body.written = self, body.octets
            body.begun = body.synced = True
            self._idle[body] = None
        self._bodies.update(bodies)
        self._last = max(self._last, last)
