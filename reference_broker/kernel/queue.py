"""An ordered store of messages, and the rule by which its consumers get them.

Order: every entry has a number that never changes; the ready entries are sorted by it, always.
Entries that come back are merged into their old places, so the next consumer gets the oldest
message first. Invariant between calls: if entries are ready, no consumer has room that may have
them. Therefore a new message either goes straight to a consumer or to the end. An entry may wait
although a consumer has room only if the consumer's selector does not select it, or if it came back
as undeliverable to that consumer.

A queue in which consumers may not have everything is choosy. There each entry goes to the next
consumer in turn who has room and may have it, and a new one is treated like those that wait. What
each consumer has looked at is remembered, so that nothing is looked at again unless it comes back.

A delivery ends in one of four ways (:class:`brokerproof.harness.model.enums.Outcome`):
ACCEPTED is gone; RELEASED comes back and does not count against the message; MODIFIED comes back as
a failed delivery; REJECTED goes to the dead letters at once. A message with as many failures as
``max_attempts`` (above 0) goes to the dead letters too.

A browser sees what waits, oldest first and each entry once, and takes nothing away.
"""

from __future__ import annotations

import bisect
import heapq
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Protocol

from brokerproof.harness.model.enums import Outcome, RoutingType
from brokerproof.harness.model.time import NS_PER_MS, Instant
from brokerproof.reference_broker.kernel.message import Entry, Message, ResourceClaim
from brokerproof.reference_broker.selector.selector import Selector

_FEW = 16
"""Entries that are put back one by one; more are merged with those that wait."""
_MOST_COUNTED = 32
"""Entries looked at to count what a selector selects: the count is asked for by every flow."""


MOST_SERVED = 1000
"""Messages that queues hand out within one input, about 10 ms of processor time. One counts once
more for each 4 KiB of its size, not of its body: an AMQP message decodes that when it is asked."""


class Serving:
    """The share of an input that queues may hand out. A consumer may have room for all of a deep
    queue; what it does not get at once follows in turns of its own, at the same instant."""

    def __init__(self, most: int = sys.maxsize) -> None:
        self._most = most
        self.left = most
        self.interrupted: dict[Queue, None] = {}
        """Queues that may have more to hand out."""

    def begin(self) -> None:
        """The next input has a share of its own."""
        self.left = self._most

    def go_on(self) -> None:
        """Let interrupted queues hand out more, in turn."""
        while self.interrupted and self.left > 0:
            queue = next(iter(self.interrupted))
            del self.interrupted[queue]
            queue.read()


class Consumer(Protocol):
    def has_room(self) -> bool:
        """True if one more message can be taken now."""

    def deliver(self, entry: Entry) -> None:
        """Takes a message. Called only right after ``has_room()`` was true."""

    def wait_for(self, batch: int) -> None:
        """Send nothing more before ``batch`` is stored (see :meth:`Outbox.wait_for`)."""


class Browser(Protocol):
    """A reader of a queue that takes nothing away. ``cursor`` is the order of the last entry it
    saw, 0 before the first."""

    cursor: int

    def has_room(self) -> bool:
        """True if one more message can be shown now."""

    def show(self, entry: Entry) -> None:
        """Sees a message. Called only right after ``has_room()`` was true."""

    def wait_for(self, batch: int) -> None:
        """Send nothing more before ``batch`` is stored (see :meth:`Outbox.wait_for`)."""


class PagedTail(Protocol):
    """The part of a queue that is on pages, behind all that is in memory
    (:class:`brokerproof.reference_broker.persistence.cursor.PageCursor`)."""

    left: int
    """Number of messages."""

    @property
    def is_coming(self) -> bool:
        """True if what comes next is on its way."""

    def read_on(self, most: int = 128) -> bool:
        """Appends the next few to the queue, ``most`` at most. False if there are none, or none can
        be had now."""

    def browse(self, browser: Browser) -> None:
        """Shows ``browser``, which has seen all that waits in memory, what is behind that."""

    def stop_browsing(self, browser: Browser) -> None:
        """``browser`` sees nothing more."""


class Numbered(Protocol):
    """Something that is on disk when ``batch`` is stored."""

    batch: int


class RoundRobin:
    """Chooses the next consumer: the first with room after the one served last (ties go by order
    of arrival)."""

    def __init__(self) -> None:
        # Not a list: a peer that leaves takes up to 20,000 consumers out, from anywhere.
        self._turns: OrderedDict[Consumer, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._turns)

    def add(self, consumer: Consumer) -> None:
        """``consumer`` joins, as the last in turn."""
        self._turns[consumer] = None

    def remove(self, consumer: Consumer) -> None:
        """``consumer`` leaves; the turn of the others does not change."""
        del self._turns[consumer]

    def pick(self) -> Consumer | None:
        """The consumer to serve now, or None when none has room."""
        for consumer in self._turns:
            if consumer.has_room():
                self._end_turn(consumer)
                return consumer
        return None

    def pick_of(self, may_have: Callable[[Consumer], bool]) -> Consumer | None:
        """Return the next consumer with room among those that ``may_have`` the message; None if
        there is none."""
        for consumer in self._turns:
            if consumer.has_room() and may_have(consumer):
                self._end_turn(consumer)
                return consumer
        return None

    def _end_turn(self, consumer: Consumer) -> None:
        """Put ``consumer``, and those that it was preferred to, behind all others."""
        first = None
        while first is not consumer:
            first = next(iter(self._turns))
            self._turns.move_to_end(first)

    def with_room(self) -> list[Consumer]:
        return [consumer for consumer in self._turns if consumer.has_room()]


class ReadyEntries(deque[Entry]):
    """The entries in memory that wait for a consumer, sorted by their order."""

    __slots__ = ()

    def behind(self, order: int) -> int:
        return bisect.bisect_right(self, order, key=attrgetter("order"))

    def put_back(self, back: list[Entry]) -> None:
        """Merge in ``back``, which is sorted."""
        if not back or not self or back[-1].order < self[0].order:
            self.extendleft(reversed(back))
        elif len(back) <= _FEW:
            # A merge would cost each single entry that comes back the length of the queue.
            for entry in back:
                self.insert(self.behind(entry.order), entry)
        else:
            merged = list(heapq.merge(back, self, key=attrgetter("order")))
            self.clear()
            self.extend(merged)


class Selection:
    """Who of the consumers may have which entry. ``choosy`` is true if not everybody may have
    everything; ``looked`` has up to which order a consumer has looked at what waits then."""

    def __init__(self, dispatcher: RoundRobin) -> None:
        self.choosy = False
        self.selectors: dict[Consumer, Selector] = {}
        self.looked: dict[Consumer, int] = {}
        self._barring = False
        self._dispatcher = dispatcher

    def add(self, consumer: Consumer, selector: Selector) -> None:
        self.selectors[consumer] = selector
        self.choosy = True

    def remove(self, consumer: Consumer) -> None:
        self.selectors.pop(consumer, None)
        self.looked.pop(consumer, None)
        self.choosy = self._barring or bool(self.selectors)
        if not self.choosy:
            self.looked.clear()

    def may_have(self, entry: Entry, consumer: Consumer) -> bool:
        if entry.barred is not None and consumer in entry.barred:
            return False
        selector = self.selectors.get(consumer)
        return selector is None or selector.matches(entry.message)

    def note_looked(self, order: int) -> None:
        """Consumers with room have looked at all that waits up to ``order``."""
        for consumer in self._dispatcher.with_room():
            self.looked[consumer] = order

    def look_again(self, order: int) -> None:
        """Have consumers look at what waits behind ``order``."""
        for consumer, looked in self.looked.items():
            self.looked[consumer] = min(looked, order)

    def came_back(self, back: list[Entry]) -> None:
        """``back``, which is sorted, waits again."""
        if not self._barring and any(entry.barred is not None for entry in back):
            self._barring = self.choosy = True
        if back and self.choosy:
            self.look_again(back[0].order - 1)


class Browsers:
    """The browsers of ``queue``, of which ``ready`` waits in memory."""

    def __init__(self, queue: Queue, ready: ReadyEntries) -> None:
        self.joined: dict[Browser, None] = {}
        self._queue = queue
        self._ready = ready

    def add(self, browser: Browser) -> None:
        """``browser`` joins and sees what waits."""
        self.joined[browser] = None
        self.offer(browser)

    def remove(self, browser: Browser) -> None:
        """``browser`` sees nothing more."""
        del self.joined[browser]
        if self._queue.behind is not None:
            self._queue.behind.stop_browsing(browser)

    def unseen(self, browser: Browser, selector: Selector | None = None) -> int:
        """Return the number of waiting messages that ``browser`` has not seen and ``selector``
        selects. Messages on pages are counted as for :meth:`Queue.available`."""
        place = self._ready.behind(browser.cursor)
        if selector is None:
            return max(0, len(self._queue) - place - max(0, browser.cursor - self._queue.order))
        unseen = islice(self._ready, place, place + _MOST_COUNTED)
        return sum(selector.matches(entry.message) for entry in unseen)

    def offer(self, browser: Browser) -> None:
        """Shows ``browser`` what it has not seen, as long as it has room."""
        queue, ready = self._queue, self._ready
        place = ready.behind(browser.cursor)
        while place < len(ready) and browser.has_room():
            entry = ready[place]
            browser.cursor = entry.order
            if queue.unstored is not None:
                browser.wait_for(max(entry.batch, queue.batch))
            browser.show(entry)
            place += 1
        if queue.behind is not None and place >= len(ready) and browser.has_room():
            queue.behind.browse(browser)


class Queue:
    """One queue. ``dead_letter`` takes a message that failed ``max_attempts`` times; 0 or less is
    no limit.

    ``filter`` says which messages may enter; who puts messages in asks it before. ``durable``
    queues are there again after a restart. ``id`` is the store's number for the queue, 0 where
    there is no store; ``behind`` is what lies on pages. ``unstored`` gathers what an input brought
    into being, for the store to number with the input's batch; None where nothing survives a
    restart. ``batch`` is the batch that stores the queue itself, or that it had a consumer.
    ``clock`` returns the nanoseconds since 1970; None where messages do not expire.
    """

    new_ready: type[ReadyEntries] = ReadyEntries

    def __init__(
        self,
        name: str,
        routing: RoutingType,
        dispatcher: RoundRobin,
        max_attempts: int,
        dead_letter: Callable[[Queue, Entry], None],
        serving: Serving | None = None,
        clock: Callable[[], Instant] | None = None,
    ) -> None:
        self.name = name
        self.routing = routing
        self.filter: Selector | None = None
        self.id = 0
        self.durable = False
        self.behind: PagedTail | None = None
        self.serving = Serving() if serving is None else serving
        self.unstored: list[Numbered] | None = None
        self.batch = 0
        self.on_consumer: Callable[[], None] | None = None
        """Called before a consumer sees anything."""
        self.clock = clock
        self.unsettled = 0
        """Entries that are with a consumer, or with a transaction, and may come back."""
        self._dispatcher = dispatcher
        self._max_attempts = max_attempts
        self._dead_letter = dead_letter
        self._ready = self.new_ready()
        self._order = 0
        self._on_read: list[Callable[[], None]] = []
        self._discarded = False
        self._selection = Selection(dispatcher)
        self.browsers = Browsers(self, self._ready)

    def __len__(self) -> int:
        return len(self._ready) + (0 if self.behind is None else self.behind.left)

    @property
    def size_waiting(self) -> int:
        """Bytes of the bodies in memory that wait for a consumer; looks at each of them."""
        return sum(len(entry.message.body) for entry in self._ready)

    @property
    def order(self) -> int:
        """The number of the last message that came into memory."""
        return self._order

    @property
    def has_consumers(self) -> bool:
        return len(self._dispatcher) > 0

    @property
    def consumers(self) -> int:
        return len(self._dispatcher)

    @property
    def in_use(self) -> bool:
        """True if anybody consumes, or any message is here or may come back."""
        used = len(self) > 0 or len(self._dispatcher) > 0 or self.unsettled > 0
        return used or bool(self.browsers.joined)

    def enqueue(
        self,
        message: Message,
        source_entry: Entry | None = None,
        charge: ResourceClaim | None = None,
    ) -> None:
        """Add a new message at the end.

        ``source_entry`` is the entry of a dead letter in its old queue. ``charge`` is released when
        the message has left the queue for good.
        """
        self._order += 1
        entry = Entry(message, self._order, charge)
        if source_entry is not None:
            entry.earlier = source_entry.earlier + source_entry.failures
            entry.notes = source_entry.notes
        if self.unstored is not None:
            self.unstored.append(entry)
        if not self._ready and not self._selection.choosy:
            consumer = self._dispatcher.pick()
            if consumer is not None:
                self.hand(consumer, entry)
                return
        self._ready.append(entry)
        if self.browsers.joined or self._selection.choosy:
            self.dispatch()

    def refuses(self, message: Message) -> bool:
        """True if ``message`` is not to be put here, for want of room; asked before."""
        return False

    def append_paged(
        self, message: Message, source_entry: Entry | None, charge: ResourceClaim
    ) -> Entry:
        """A message that has been in this queue comes back into memory, behind all that is there.
        It is not dispatched."""
        self._order += 1
        entry = Entry(message, self._order, charge)
        if source_entry is not None:
            entry.earlier = source_entry.earlier + source_entry.failures
            entry.notes = source_entry.notes
        self._ready.append(entry)
        return entry

    def add_consumer(self, consumer: Consumer, selector: Selector | None = None) -> None:
        """``consumer`` joins and gets what waits, of that what ``selector`` selects."""
        if self.on_consumer is not None:
            self.on_consumer()
        if self.unstored is not None:
            consumer.wait_for(self.batch)
        self._dispatcher.add(consumer)
        if selector is not None:
            self._selection.add(consumer, selector)
        self.dispatch()

    def get(self, consumer: Consumer) -> None:
        """Give ``consumer``, which does not join, the oldest message that waits, if there is
        one."""
        if self.on_consumer is not None:
            self.on_consumer()
        if not self._ready and self.behind is not None and self.behind.left:
            self.behind.read_on()
        if self._ready:
            self.hand(consumer, self._ready.popleft())

    def remove_consumer(self, consumer: Consumer) -> None:
        """``consumer`` gets nothing more. What it holds must be settled separately."""
        self._dispatcher.remove(consumer)
        self._selection.remove(consumer)

    def dispatch(self) -> None:
        """Serves consumers until nothing waits or none has room. To be called whenever room may
        have grown."""
        self._serve()
        self.read_on()
        for browser in tuple(self.browsers.joined):
            self.browsers.offer(browser)

    def read_on(self) -> None:
        """Serves consumers who have room from what is behind memory."""
        if self.behind is not None and self.behind.left:
            while self._dispatcher.with_room():
                if self._interrupted() or not self.behind.read_on():
                    return
                self._serve()

    def hand(self, consumer: Consumer, entry: Entry) -> None:
        """``consumer``, who has room, gets ``entry``: on the wire when both are stored. A message
        whose body is damaged leaves the queue: it would disconnect one consumer after the other. So
        does one whose life is over: that is seen when its turn comes, not before."""
        large = entry.message.large
        if (large is not None and large.damaged) or self._has_expired(entry.message):
            self.discard(entry)
            return
        if self.unstored is not None:
            consumer.wait_for(max(entry.batch, self.batch))
        consumer.deliver(entry)

    def _has_expired(self, message: Message) -> bool:
        if self.clock is None:
            return False
        expires = message.expires
        return expires > 0 and expires * NS_PER_MS <= self.clock()

    def _serve(self) -> None:
        ready, selection = self._ready, self._selection
        while ready and not selection.choosy and not self._interrupted():
            consumer = self._dispatcher.pick()
            if consumer is None:
                break
            self._hand_share(consumer, ready.popleft())
        if ready and selection.choosy:
            self._choose()

    def _hand_share(self, consumer: Consumer, entry: Entry) -> None:
        self.serving.left -= 1 + (entry.message.size() >> 12)
        self.hand(consumer, entry)

    def _interrupted(self) -> bool:
        """True if the rest has to wait: what may be handed out within this input has been."""
        if self.serving.left > 0:
            return False
        self.serving.interrupted[self] = None
        return True

    def _choose(self) -> None:
        """Dispatches where not everybody may have everything. Who delivers may put an entry back,
        in its old place."""
        ready, selection, dispatcher = self._ready, self._selection, self._dispatcher
        looked = (selection.looked.get(consumer, 0) for consumer in dispatcher.with_room())
        place = ready.behind(min(looked, default=self._order))
        while place < len(ready):
            entry = ready[place]
            if self._interrupted():
                selection.note_looked(entry.order - 1)
                return
            consumer = dispatcher.pick_of(partial(selection.may_have, entry))
            if consumer is not None:
                del ready[place]
                selection.looked[consumer] = entry.order
                self._hand_share(consumer, entry)
            elif dispatcher.with_room():
                place += 1
            else:
                return
        selection.note_looked(self._order)

    def available(self, consumer: Consumer) -> int:
        """Return the number of waiting messages that ``consumer`` may have. With a selector this
        is counted among the first :data:`_MOST_COUNTED` in memory."""
        if not self._selection.choosy:
            return len(self)
        may_have = self._selection.may_have
        return sum(may_have(entry, consumer) for entry in islice(self._ready, _MOST_COUNTED))

    @property
    def is_untouched(self) -> bool:
        """True if nothing of what waits was ever delivered."""
        return not self.unsettled and not any(entry.deliveries for entry in self._ready)

    def read(self) -> None:
        """Dispatch again: messages of the paged tail have been read, or the rest has its turn."""
        self.dispatch()
        waiting, self._on_read = self._on_read, []
        for callback in waiting:
            callback()

    def when_read(self, then: Callable[[], None]) -> bool:
        """True if messages are on their way, from the disk or in a later turn; ``then`` is called
        when they are here."""
        from_disk = self.behind is not None and self.behind.left and self.behind.is_coming
        if not from_disk and self not in self.serving.interrupted:
            return False
        self._on_read.append(then)
        return True

    def settle(self, entries: Sequence[Entry], outcome: Outcome) -> None:
        """Ends deliveries. What comes back is *not* dispatched: a caller may have more to give back
        first."""
        self.unsettled -= len(entries)
        if outcome is Outcome.ACCEPTED:
            for entry in entries:
                self.discard(entry)
            return
        back: list[Entry] = []
        for entry in entries:
            if outcome is not Outcome.RELEASED:
                entry.failures += 1
            if outcome is Outcome.REJECTED or 0 < self._max_attempts <= entry.failures:
                self._dead_letter(self, entry)
                self.discard(entry)
            else:
                if outcome is Outcome.MODIFIED and entry.charge is not None:
                    entry.charge.failed(entry.failures)
                back.append(entry)
        if self._discarded:
            for entry in back:
                self.discard(entry)
        else:
            self._take_back(back)

    def discard(self, entry: Entry) -> None:
        """``entry`` has left for good. A consumer calls it itself for what it takes and will not
        settle."""
        if entry.charge is not None:
            entry.charge.release()

    def delete(self) -> None:
        """The queue is of no more use: what waits is gone, and so is whatever still comes back."""
        self._discarded = True
        self.purge()

    def purge(self) -> int:
        """Discard the messages waiting in memory and return how many there were."""
        ready = tuple(self._ready)
        self._ready.clear()
        for entry in ready:
            self.discard(entry)
        return len(ready)

    def _take_back(self, back: list[Entry]) -> None:
        back.sort(key=attrgetter("order"))
        self._selection.came_back(back)
        self._ready.put_back(back)
