"""A consumer of one queue on one channel, and the limit on its unacknowledged messages."""

import heapq
from collections.abc import Callable
from typing import Protocol

from brokerproof.reference_broker.families.rabbitmq.topology import Declared
from brokerproof.reference_broker.kernel.message import Entry, Message


class Prefetch:
    """The limit on unacknowledged deliveries (basic.qos); 0 means no limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def has_room(self) -> bool:
        """Return True if one more delivery may be sent."""
        return not self.limit or self.used < self.limit

    def take(self) -> None:
        self.used += 1

    def give_back(self) -> None:
        self.used -= 1


class Unacked:
    """A delivery awaiting its acknowledgement; ``consumer`` is None for basic.get."""

    __slots__ = ("consumer", "declared", "entry", "tag")

    def __init__(
        self, tag: int, entry: Entry, declared: Declared, consumer: "Consumer | None"
    ) -> None:
        self.tag, self.entry, self.declared, self.consumer = tag, entry, declared, consumer


class UnackedDeliveries(dict[int, Unacked]):
    """A channel's unacknowledged deliveries, by tag. The lowest tags are found without scanning the
    others."""

    def __init__(self) -> None:
        super().__init__()
        self._tags: list[int] = []  # a heap; settled tags stay until they surface

    def __setitem__(self, tag: int, delivery: Unacked) -> None:
        super().__setitem__(tag, delivery)
        if len(self._tags) > 2 * len(self) + 64:
            self._tags = sorted(self)
        else:
            heapq.heappush(self._tags, tag)

    def take_to(self, tag: int) -> list[Unacked]:
        """Remove and return all deliveries up to ``tag``, lowest tag first."""
        taken: list[Unacked] = []
        while self._tags and self._tags[0] <= tag:
            delivery = self.pop(heapq.heappop(self._tags), None)
            if delivery is not None:
                taken.append(delivery)
        return taken

    def take_all(self) -> list[Unacked]:
        """Remove and return all deliveries, lowest tag first."""
        taken = sorted(self.values(), key=lambda delivery: delivery.tag)
        self.clear()
        self._tags.clear()
        return taken


class Connection(Protocol):
    """The connection of a consumer. ``held`` is true while the peer does not read."""

    held: bool


class Channel(Protocol):
    active: bool
    unacked: UnackedDeliveries
    limit: Prefetch

    @property
    def connection(self) -> Connection: ...

    def wait_for(self, batch: int) -> None:
        """Hold output until ``batch`` is stored."""

    def next_tag(self) -> int: ...

    def send_delivery(self, consumer: str, tag: int, redelivered: bool, what: Message) -> None:
        """Send basic.deliver with its content."""

    def cancelled(self, consumer: "Consumer") -> None: ...


class Consumer:
    """One consumer. ``tag`` is its name on ``channel``; ``prefetch`` applies in addition to the
    channel's."""

    def __init__(
        self, channel: Channel, tag: str, declared: Declared, no_ack: bool, prefetch: Prefetch
    ) -> None:
        self.channel, self.tag, self.declared, self.no_ack = channel, tag, declared, no_ack
        self.prefetch = prefetch

    def has_room(self) -> bool:
        """Return True if one more delivery may be sent now (see
        :class:`brokerproof.reference_broker.kernel.queue.Consumer`)."""
        channel = self.channel
        if channel.connection.held or not channel.active:
            return False
        return self.no_ack or (self.prefetch.has_room() and channel.limit.has_room())

    def wait_for(self, batch: int) -> None:
        """Hold output until ``batch`` is stored."""
        self.channel.wait_for(batch)

    def deliver(self, entry: Entry) -> None:
        redelivered = entry.deliveries > 0
        entry.deliveries += 1
        queue = self.declared.queue
        tag = self.channel.next_tag()
        if not self.no_ack:
            self.channel.unacked[tag] = Unacked(tag, entry, self.declared, self)
            self.prefetch.take()
            self.channel.limit.take()
            queue.unsettled += 1
        self.channel.send_delivery(self.tag, tag, redelivered, entry.message)
        if self.no_ack:
            queue.discard(entry)

    def attach(self) -> None:
        """Join the queue, which at once delivers waiting messages."""
        self.declared.on_delete[self.cancelled] = None
        self.declared.queue.add_consumer(self)

    def detach(self) -> None:
        self.declared.on_delete.pop(self.cancelled, None)
        self.declared.queue.remove_consumer(self)

    def cancelled(self) -> None:
        """Leave the queue, because it was deleted."""
        self.detach()
        self.channel.cancelled(self)


class Getter:
    """Takes one message, for basic.get."""

    def __init__(self, wait_for: Callable[[int], None]) -> None:
        self.entry: Entry | None = None
        self.wait_for = wait_for

    def has_room(self) -> bool:
        return self.entry is None

    def deliver(self, entry: Entry) -> None:
        self.entry = entry
