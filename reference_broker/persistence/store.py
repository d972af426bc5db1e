"""The store of one broker: it collects data, has it written, and knows what is on disk.

Group commit ------------ While files are being written, the data of all inputs is collected. This
data forms the next *batch*, which is written when the previous batch is done: pages first, then the
journal, which accounts for the pages, each with fsync if it holds durable data. So any number of
producers share one fsync. A batch has a number; the output to a connection that caused durable data
waits until its batch is done (see :class:`brokerproof.reference_broker.kernel.outbox.Outbox`). A
receipt or a disposition therefore means that the message survives a power failure, as far as fsync
is reliable.

When a write fails ------------------
* No space: a file kept for this case (the *ballast*) is removed, and the batch is written again.
  From then on no message is accepted, but acknowledgements are still written, so that consumers can
  make room.
* Anything else, or still no space: every waiting peer gets an error and is disconnected, no message
  is accepted, and the same batch is retried every second, in new files, because the content of
  files after a failed write is unknown.

In both cases memory keeps everything that is not on disk, and messages are accepted again once
there is room for the ballast, or the batch has been written.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass

from brokerproof.harness.model.broker_io import (
    Effect,
    FileLoaded,
    FilesStored,
    Report,
    StoreFiles,
    Write,
)
from brokerproof.reference_broker.kernel.queue import Numbered, Queue
from brokerproof.reference_broker.persistence.codec import Decoder
from brokerproof.reference_broker.persistence.durable_queues import DurableQueues
from brokerproof.reference_broker.persistence.journal import Journal
from brokerproof.reference_broker.persistence.large_bodies import LargeFiles
from brokerproof.reference_broker.persistence.page_files import PageFiles
from brokerproof.reference_broker.persistence.pages import PageLimits
from brokerproof.reference_broker.persistence.recovered import Recovered

BALLAST = "journal/ballast"
ASIDE = "damaged"
"""The folder where copies of damaged files are kept."""
MUCH = 8 * 1024 * 1024
"""Connections that send messages to pages are not read while more bytes wait to be written."""


class State(enum.Enum):
    HEALTHY = enum.auto()
    LOW = enum.auto()
    """The ballast was needed: nothing new is accepted until there is room for the ballast."""
    AILING = enum.auto()
    """The last batch could not be written."""


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """``journaled``: something must survive a restart. ``segment`` and ``ballast`` are in bytes."""

    journaled: bool = False
    segment: int = 10 * 1024 * 1024
    ballast: int = 16 * 1024 * 1024


class Store:
    """``limits`` returns an address's page limits, given its name; ``recovered`` is an earlier
    broker's state."""

    def __init__(
        self,
        options: StoreOptions,
        limits: Callable[[str], PageLimits],
        recovered: Recovered | None = None,
    ) -> None:
        self.options = options
        self.journaled = options.journaled
        self.large = LargeFiles(self)
        self.decoder = Decoder(self.large.find)
        self.journal = Journal(options.segment, lambda: self.pages.marks())
        self.state = State.HEALTHY
        self.problem = ""
        self.batch, self.done = 1, 0
        """The numbers of the batch being collected and of the last batch written."""
        self.unstored: list[Numbered] = []
        """Messages of this input, which will be numbered with its batch."""
        self.pages = PageFiles(self, limits)
        self._useless: list[str] = []
        self._removing: list[str] = []
        self._aside: list[str] = []
        self._setting_aside: list[str] = []
        self._ticket = self._stores_as = self._ballast_as = 0
        self._effects: list[Effect] = []
        self._has_ballast = not options.journaled or options.ballast <= 0
        self.last_message = 0 if recovered is None else recovered.message
        """The highest message number that an earlier broker left."""
        if recovered is not None:
            self._adopt(recovered)
        self.queues = DurableQueues(
            self.journal, self.large, self.unstored, journaled=self.journaled
        )
        self.journal.touched = self.journaled

    # --- what happens -----------------------------------------------------------------------------

    @property
    def refuses(self) -> bool:
        """True if no message is accepted because the disk cannot store it."""
        return self.state is not State.HEALTHY

    @property
    def unfinished(self) -> dict[Queue, None]:
        """Queues that have more to read from pages than one input may read."""
        return self.pages.unfinished

    def remove(self, file: str) -> None:
        self._useless.append(file)

    def report(self, sentence: str) -> None:
        """Report a problem to the operator."""
        self.say(Report(sentence))

    def set_aside(self, file: str, damage: str) -> None:
        """Report ``damage`` to a file, of which a copy is kept."""
        self._aside.append(file)
        self.report(f"{file}: {damage}; a copy of the file is kept in {ASIDE}")

    def say(self, effect: Effect) -> None:
        self._effects.append(effect)

    def next_ticket(self) -> int:
        """Return the number for a new effect that will be answered."""
        self._ticket += 1
        return self._ticket

    # --- batches ----------------------------------------------------------------------------------

    def seal(self) -> bool:
        """End an input. Return True if it had durable data, which now belongs to ``batch``."""
        self.pages.read_now = 0
        unstored, self.unstored[:] = tuple(self.unstored), ()
        if not self.journal.touched:
            return False
        self.journal.seal()
        if not self._has_work:
            return False
        for item in unstored:
            item.batch = self.batch
        return True

    @property
    def much_waits(self) -> bool:
        return self.pages.waiting + self.journal.waiting + self.large.waiting > MUCH

    @property
    def little_waits(self) -> bool:
        """True if so little waits to be written that connections may be read again."""
        return self.pages.waiting + self.journal.waiting + self.large.waiting <= MUCH // 2

    @property
    def is_idle(self) -> bool:
        """True if nothing is being written or waits to be written."""
        return not (self._stores_as or self._ballast_as or self._has_work)

    @property
    def _has_work(self) -> bool:
        return bool(
            self.pages.waits
            or self.journal.waits
            or self._useless
            or self.large.waits
            or self._aside
        )

    def effects(self) -> list[Effect]:
        """Return the file operations to perform now."""
        self._useless += self.large.tidy()
        if not self._stores_as and not self._ballast_as and self.state is not State.AILING:
            self._begin()
        effects, self._effects = self._effects, []
        return effects

    def _begin(self, before: tuple[str, ...] = ()) -> None:
        journal = self.journal
        writes = self.large.take() + self.pages.take()
        self._removing, self._useless = self._useless, []
        self.pages.account_for_removal(self._removing)
        if self.journaled and (writes or journal.waits or self._removing):
            writes[:0] = journal.begin()
            if journal.waits:
                writes += journal.write()
            if any(name.startswith("journal/") for name in self._removing):
                writes += journal.extent_for_removal()
        self._setting_aside, self._aside = self._aside, []
        if writes or self._removing or before or self._setting_aside:
            self._stores_as = self.next_ticket()
            self.batch += 1
            self._effects.append(
                StoreFiles(
                    self._ticket,
                    tuple(writes),
                    tuple(self._removing),
                    before,
                    tuple(self._setting_aside),
                )
            )
        elif not self._has_ballast and self.state is State.HEALTHY:
            self._make_ballast()

    def _make_ballast(self) -> None:
        self._ballast_as = self.next_ticket()
        self._effects.append(
            StoreFiles(self._ticket, (Write(BALLAST, 0, bytes(self.options.ballast), sync=True),))
        )

    def stored(self, event: FilesStored) -> bool:
        """Accept the end of a write. Return False if the write failed permanently; peers that wait
        for it must get an error."""
        if event.ticket == self._ballast_as:
            self._ballast_as = 0
            self._ballast(event)
            return True
        if event.ticket != self._stores_as:
            return True
        self._stores_as = 0
        if event.problem is None:
            self._written()
            return True
        return self._not_written(event)

    def _written(self) -> None:
        self.large.written()
        self.pages.written(self._removing)
        self._useless += self.journal.stored()
        self.done = self.batch - 1
        if self.state is State.AILING:
            self.state = State.HEALTHY if self._has_ballast else State.LOW
            self.report("all delayed writes are done; messages are accepted again")

    def _not_written(self, event: FilesStored) -> bool:
        """Write this batch together with the next; return False if it must wait."""
        self._useless = self._removing + self._useless
        self._aside = self._setting_aside + self._aside
        self.journal.failed_to_write()
        self.large.not_written()
        self.pages.not_written(event.full)
        self.problem = str(event.problem)
        if (
            event.full
            and self.journaled
            and self._has_ballast
            and self.options.ballast
            and self.state is State.HEALTHY
        ):
            self._has_ballast = False
            self.state = State.LOW
            self.report(f"{self.problem}; no message is accepted until there is space again")
            self._begin(before=(BALLAST,))
            return True
        if self.state is not State.AILING:
            self.report(f"{self.problem}; no message is accepted until this can be written")
        self.state = State.AILING
        self.large.give_up(self.problem)
        return False

    def _ballast(self, event: FilesStored) -> None:
        if event.problem is None:
            self._has_ballast = True
            if self.state is State.LOW:
                self.state = State.HEALTHY
                self.report("there is space again; messages are accepted")
            return
        if self.state is State.HEALTHY:
            self.state = State.LOW
            self.problem = event.problem
            self.report(
                f"{event.problem}; no message is accepted until there is space for"
                f" {self.options.ballast} bytes"
            )
        # The part that fitted took the last of the space, so the ballast is removed before anything
        # else is written.
        self._begin(before=(BALLAST,))

    def try_again(self) -> None:
        """Retry after a failed write or read."""
        self.pages.read_again()
        if self._stores_as or self._ballast_as:
            return
        if self.state is State.AILING:
            if self._has_work:
                self._begin()
            if not self._stores_as:
                self.state = State.HEALTHY if self._has_ballast else State.LOW
        elif self.state is State.LOW and not self._has_work:
            self._make_ballast()

    @property
    def wants_another_try(self) -> bool:
        """True if :meth:`try_again` must be called after some time."""
        return bool(self.pages.unread) or self.state is not State.HEALTHY

    def loaded(self, event: FileLoaded) -> None:
        """A page, or a part of a large body, was read or could not be read."""
        if not self.large.loaded(event):
            self.pages.loaded(event)

    # --- after a restart --------------------------------------------------------------------------

    def _adopt(self, recovered: Recovered) -> None:
        self.journal.adopt(recovered)
        self.pages.adopt(recovered)
        self._useless += recovered.useless
        self._aside += recovered.aside
        self.large.adopt(recovered.bodies, recovered.last_body)
        for sentence in recovered.reports:
            self.report(sentence)
