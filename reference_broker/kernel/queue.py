"""An ordered store of messages, and the rules for delivering them to consumers.

Every entry has a fixed number, and the ready entries are always sorted by it. Returned entries are
merged into their old places, so the next consumer receives the oldest message first. Invariant
between calls: no consumer that may receive a ready entry has room. So a new message goes either
straight to a consumer or to the end. An entry waits despite a consumer with room only if the
consumer's selector rejects it, or if it was returned as undeliverable to that consumer.

A queue is selective ("choosy") if some consumer may not receive every message. Then each entry goes
to the next consumer in turn that has room and may receive it, and a new entry is treated like
waiting ones. The queue remembers which entries each consumer has examined, so that none is examined
again unless it is returned.

A delivery ends in one of four ways (:class:`brokerproof.harness.model.enums.Outcome`): ACCEPTED
removes the message; RELEASED returns it without counting a failure; MODIFIED returns it as a failed
delivery; REJECTED dead-letters it at once. A message with ``max_attempts`` failures (if above 0) is
also dead-lettered.

A browser sees each waiting entry once, oldest first, and removes nothing."""

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
"""Up to this many entries are put back one by one; more are merged with the waiting ones."""
_MOST_COUNTED = 32
"""The maximum number of entries examined to count a selector's matches. Every flow requests such a
count."""


MOST_SERVED = 1000
"""The maximum number of messages that queues deliver while one input is handled: about 10 ms of
processor time. A message counts once more for each 4 KiB of its size, not of its body, which an
AMQP message would have to decode."""


class Serving:
    """Limits how many messages queues deliver per input. A consumer may have room for all of a deep
    queue; messages beyond the limit follow in separate turns at the same instant."""

    def __init__(self, most: int = sys.maxsize) -> None:
        self._most = most
        self.left = most
        self.interrupted: dict[Queue, None] = {}
        """Queues that may have more to deliver."""

    def begin(self) -> None:
        """Start the next input with a full share."""
        self.left = self._most

    def go_on(self) -> None:
        """Let interrupted queues continue to deliver, in turn."""
        while self.interrupted and self.left > 0:
            queue = next(iter(self.interrupted))
            del self.interrupted[queue]
            queue.read()


class Consumer(Protocol):
    def has_room(self) -> bool:
        """Return True if one more message can be taken now."""

    def deliver(self, entry: Entry) -> None:
        """Deliver a message. Called only right after ``has_room()`` returned True."""

    def wait_for(self, batch: int) -> None:
        """Send nothing more before ``batch`` is stored (see :meth:`Outbox.wait_for`)."""


class Browser(Protocol):
    """Reads a queue without removing messages. ``cursor`` is the order of the last entry seen, 0
    before the first."""

    cursor: int

    def has_room(self) -> bool:
        """Return True if one more message can be shown now."""

    def show(self, entry: Entry) -> None:
        """Show a message. Called only right after ``has_room()`` returned True."""

    def wait_for(self, batch: int) -> None:
        """Send nothing more before ``batch`` is stored (see :meth:`Outbox.wait_for`)."""


class PagedTail(Protocol):
    """The part of a queue on pages, after everything in memory
    (:class:`brokerproof.reference_broker.persistence.cursor.PageCursor`)."""

    left: int
    """The number of messages on pages."""

    @property
    def is_coming(self) -> bool:
        """Return True if the next messages are being read."""

    def read_on(self, most: int = 128) -> bool:
        """Append up to ``most`` messages to the queue. Return False if none are available now."""

    def browse(self, browser: Browser) -> None:
        """Show ``browser`` the paged messages after it has seen all those in memory."""

    def stop_browsing(self, browser: Browser) -> None:
        """Stop showing messages to ``browser``."""


class Numbered(Protocol):
    """Something that is on disk once ``batch`` has been stored."""

    batch: int


class RoundRobin:
    """Chooses the next consumer: the first with room after the last one served."""

    def __init__(self) -> None:
        # Not a list: a peer that leaves may remove up to 20,000 consumers from any position.
        self._turns: OrderedDict[Consumer, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._turns)

    def add(self, consumer: Consumer) -> None:
        """Add ``consumer`` as the last in turn."""
        self._turns[consumer] = None

    def remove(self, consumer: Consumer) -> None:
        """Remove ``consumer``; the order of the others does not change."""
        del self._turns[consumer]

    def pick(self) -> Consumer | None:
        """Return the consumer to serve now; None if none has room."""
        for consumer in self._turns:
            if consumer.has_room():
                self._end_turn(consumer)
                return consumer
        return None

    def pick_of(self, may_have: Callable[[Consumer], bool]) -> Consumer | None:
        """Return the next consumer with room among those that ``may_have`` the message, or None."""
        for consumer in self._turns:
            if consumer.has_room() and may_have(consumer):
                self._end_turn(consumer)
                return consumer
        return None

    def _end_turn(self, consumer: Consumer) -> None:
        """Move ``consumer`` and those skipped in its favour to the end."""
        first = None
        while first is not consumer:
            first = next(iter(self._turns))
            self._turns.move_to_end(first)

    def with_room(self) -> list[Consumer]:
        return [consumer for consumer in self._turns if consumer.has_room()]


class ReadyEntries(deque[Entry]):
    """The waiting entries in memory, sorted by order."""

    __slots__ = ()

    def behind(self, order: int) -> int:
        return bisect.bisect_right(self, order, key=attrgetter("order"))

    def put_back(self, back: list[Entry]) -> None:
        """Merge in ``back``, which is sorted."""
        if not back or not self or back[-1].order < self[0].order:
            self.extendleft(reversed(back))
        elif len(back) <= _FEW:
            # Merging each returned entry separately would take time proportional to the length of
            # the queue.
            for entry in back:
                self.insert(self.behind(entry.order), entry)
        else:
            merged = list(heapq.merge(back, self, key=attrgetter("order")))
            self.clear()
            self.extend(merged)


class Selection:
    """Which consumers may receive which entries. ``choosy``: some consumer may not receive every
    entry; ``looked`` has the order up to which each consumer has then examined waiting entries."""

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
        """Record that consumers with room have examined all waiting entries up to ``order``."""
        for consumer in self._dispatcher.with_room():
            self.looked[consumer] = order

    def look_again(self, order: int) -> None:
        """Make consumers examine waiting entries after ``order`` again."""
        for consumer, looked in self.looked.items():
            self.looked[consumer] = min(looked, order)

    def came_back(self, back: list[Entry]) -> None:
        """Record that the entries ``back``, which are in order, wait again."""
        if not self._barring and any(entry.barred is not None for entry in back):
            self._barring = self.choosy = True
        if back and self.choosy:
            self.look_again(back[0].order - 1)


class Browsers:
    """The browsers of ``queue``, whose waiting entries in memory are ``ready``."""

    def __init__(self, queue: "Queue", ready: ReadyEntries) -> None:
        self.joined: dict[Browser, None] = {}
        self._queue = queue
        self._ready = ready

    def add(self, browser: Browser) -> None:
        """Add ``browser`` and show it waiting messages."""
        self.joined[browser] = None
        self.offer(browser)

    def remove(self, browser: Browser) -> None:
        """Stop showing messages to ``browser``."""
        del self.joined[browser]
        if self._queue.behind is not None:
            self._queue.behind.stop_browsing(browser)

    def unseen(self, browser: Browser, selector: Selector | None = None) -> int:
        """Return the number of waiting messages that ``selector`` selects and ``browser`` has not
        seen. Messages on pages are counted as in :meth:`Queue.available`."""
        place = self._ready.behind(browser.cursor)
        if selector is None:
            return max(0, len(self._queue) - place - max(0, browser.cursor - self._queue.order))
        unseen = islice(self._ready, place, place + _MOST_COUNTED)
        return sum(selector.matches(entry.message) for entry in unseen)

    def offer(self, browser: Browser) -> None:
        """Show ``browser`` unseen messages while it has room."""
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
    """One queue. ``dead_letter`` gets messages that failed ``max_attempts`` times (0 or less:
    never).

    ``filter`` decides which messages may enter; callers check it first. ``durable`` queues survive
    a restart. ``id`` is the store's number for the queue (0: no store); ``behind`` is its part on
    pages. ``unstored`` collects what an input created, for the store to number with the input's
    batch; None if nothing survives a restart. ``batch`` is the batch that stores the queue itself,
    or that it had a consumer. ``clock`` returns nanoseconds since 1970; None if messages do not
    expire."""

    new_ready: type[ReadyEntries] = ReadyEntries

    def __init__(
        self,
        name: str,
        routing: RoutingType,
        dispatcher: RoundRobin,
        max_attempts: int,
        dead_letter: "Callable[[Queue, Entry], None]",
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
        """Called before a consumer sees any message."""
        self.clock = clock
        self.unsettled = 0
        """Entries held by a consumer or a transaction, which may return."""
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
        """The total bytes of the waiting bodies in memory, found by iterating over all."""
        return sum(len(entry.message.body) for entry in self._ready)

    @property
    def order(self) -> int:
        """The number of the last message added to memory."""
        return self._order

    @property
    def has_consumers(self) -> bool:
        return len(self._dispatcher) > 0

    @property
    def consumers(self) -> int:
        return len(self._dispatcher)

    @property
    def in_use(self) -> bool:
        """True if there are consumers, or messages that are here or may return here."""
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
        the message leaves the queue permanently."""
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
        """Return True if there is no room for ``message``, which has not been added yet."""
        return False

    def append_paged(
        self, message: Message, source_entry: Entry | None, charge: ResourceClaim
    ) -> Entry:
        """Append a message read back into memory, without dispatching it."""
        self._order += 1
        entry = Entry(message, self._order, charge)
        if source_entry is not None:
            entry.earlier = source_entry.earlier + source_entry.failures
            entry.notes = source_entry.notes
        self._ready.append(entry)
        return entry

    def add_consumer(self, consumer: Consumer, selector: Selector | None = None) -> None:
        """Add ``consumer`` and deliver the waiting messages that ``selector`` selects."""
        if self.on_consumer is not None:
            self.on_consumer()
        if self.unstored is not None:
            consumer.wait_for(self.batch)
        self._dispatcher.add(consumer)
        if selector is not None:
            self._selection.add(consumer, selector)
        self.dispatch()

    def get(self, consumer: Consumer) -> None:
        """Deliver the oldest waiting message, if any, to ``consumer`` without adding it."""
        if self.on_consumer is not None:
            self.on_consumer()
        if not self._ready and self.behind is not None and self.behind.left:
            self.behind.read_on()
        if self._ready:
            self.hand(consumer, self._ready.popleft())

    def remove_consumer(self, consumer: Consumer) -> None:
        """Remove ``consumer``. Messages that it holds must be settled separately."""
        self._dispatcher.remove(consumer)
        self._selection.remove(consumer)

    def dispatch(self) -> None:
        """Serve consumers until nothing waits or none has room. Call this when room may have
        grown."""
        self._serve()
        self.read_on()
        for browser in tuple(self.browsers.joined):
            self.browsers.offer(browser)

    def read_on(self) -> None:
        """Serve consumers with room from messages outside memory."""
        if self.behind is not None and self.behind.left:
            while self._dispatcher.with_room():
                if self._interrupted() or not self.behind.read_on():
                    return
                self._serve()

    def hand(self, consumer: Consumer, entry: Entry) -> None:
        """Deliver ``entry`` to ``consumer``, which has room. It is sent once the entry and the
        queue are stored. A message with a damaged body leaves the queue, since it would disconnect
        every consumer in turn. So does an expired message, which is noticed only when its turn
        comes."""
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
        """Return True if this input's share is used up and the rest must wait."""
        if self.serving.left > 0:
            return False
        self.serving.interrupted[self] = None
        return True

    def _choose(self) -> None:
        """Dispatch for a choosy queue. A consumer may return an entry while it is delivered."""
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
        """Return how many waiting messages ``consumer`` may receive. With a selector only the first
        :data:`_MOST_COUNTED` in memory are counted."""
        if not self._selection.choosy:
            return len(self)
        may_have = self._selection.may_have
        return sum(may_have(entry, consumer) for entry in islice(self._ready, _MOST_COUNTED))

    @property
    def is_untouched(self) -> bool:
        """Return True if no waiting message was ever delivered."""
        return not self.unsettled and not any(entry.deliveries for entry in self._ready)

    def read(self) -> None:
        """Dispatch again, because paged messages were read or it is the turn of the remaining
        messages."""
        self.dispatch()
        waiting, self._on_read = self._on_read, []
        for callback in waiting:
            callback()

    def when_read(self, then: Callable[[], None]) -> bool:
        """True if messages will follow from disk or in a later turn; ``then`` is called once they
        do.
        """
        from_disk = self.behind is not None and self.behind.left and self.behind.is_coming
        if not from_disk and self not in self.serving.interrupted:
            return False
        self._on_read.append(then)
        return True

    def settle(self, entries: Sequence[Entry], outcome: Outcome) -> None:
        """End deliveries. Returned messages are *not* dispatched, as the caller may return more."""
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
        """Remove ``entry`` permanently, for consumers that take a message without settling it."""
        if entry.charge is not None:
            entry.charge.release()

    def delete(self) -> None:
        """Delete the queue: waiting messages are discarded, and so are messages returned later."""
        self._discarded = True
        self.purge()

    def purge(self) -> int:
        """Discard the messages waiting in memory; return their number."""
        ready = tuple(self._ready)
        self._ready.clear()
        for entry in ready:
            self.discard(entry)
        return len(ready)

    def _take_back(self, back: list[Entry]) -> None:
        back.sort(key=attrgetter("order"))
        self._selection.came_back(back)
        self._ready.put_back(back)
