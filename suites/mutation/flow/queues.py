"""Faults of queues: order, loss, doubles, and who is served."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.kernel.large_body import Extract
from brokerproof.reference_broker.kernel.message import Entry, LargeMessage, Message
from brokerproof.reference_broker.kernel.queue import Consumer, Queue, RoundRobin
from brokerproof.reference_broker.kernel.router import Router
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group, Reached

queues = Group("queues")

ORDER = "ARTEMIS-GROUPING-fifo-1"
ONE = "ARTEMIS-CONCEPTS-queue-1"
COPIES = "ARTEMIS-CONCEPTS-topic-1"
KEPT = "STOMP11-RCPT-01 STOMP12-RCPT-01 STOMP12-RCPT-03"


@queues.mutant(ORDER)
def last_in_first_out(parts: Parts, reached: Reached) -> Parts:
    """The newest message is handed out first."""

    class Faulty(Queue):
        def put(self, message: Message, *rest: Any) -> None:
            waiting = len(self._ready)
            super().put(message, *rest)
            if waiting and len(self._ready) > waiting:
                reached()
                self._ready.appendleft(self._ready.pop())

    return replace(parts, queue=Faulty)


@queues.mutant(ORDER)
def short_ones_first(parts: Parts, reached: Reached) -> Parts:
    """A short message overtakes long ones that wait."""

    class Faulty(Queue):
        def put(self, message: Message, *rest: Any) -> None:
            waiting = len(self._ready)
            super().put(message, *rest)
            if (
                waiting
                and len(self._ready) > waiting
                and len(self._ready[-2].message.body) > 500 > len(message.body)
            ):
                reached()
                self._ready.insert(waiting - 1, self._ready.pop())

    return replace(parts, queue=Faulty)


@queues.mutant(ORDER)
def overtaken_by_what_arrives(parts: Parts, reached: Reached) -> Parts:
    """A message that arrives while others wait goes second in the queue, not last."""

    class Faulty(Queue):
        def put(self, message: Message, *rest: Any) -> None:
            waiting = len(self._ready)
            super().put(message, *rest)
            if waiting > 1 and len(self._ready) > waiting:
                reached()
                self._ready.insert(1, self._ready.pop())

    return replace(parts, queue=Faulty)


@queues.mutant(ONE)
def two_consumers_get_it(parts: Parts, reached: Reached) -> Parts:
    """Where a queue has several consumers a message goes to two of them."""

    class Faulty(Queue):
        def put(self, message: Message, *rest: Any) -> None:
            super().put(message, *rest)
            if len(self._dispatcher) > 1:
                reached()
                super().put(message, *rest)

    return replace(parts, queue=Faulty)


@queues.mutant(f"{ONE} {KEPT}")
def every_eighth_lost(parts: Parts, reached: Reached) -> Parts:
    """Every eighth message to a queue is lost."""

    class Faulty(Queue):
        def put(self, message: Message, *rest: Any) -> None:
            if self._order % 8 == 7:
                self._order += 1
                reached()
                return
            super().put(message, *rest)

    return replace(parts, queue=Faulty)


@queues.mutant(f"{ONE} STOMP11-RCPT-01 STOMP12-RCPT-01 ARTEMIS-STOMP-routing-5")
def lost_without_consumers(parts: Parts, reached: Reached) -> Parts:
    """A message to a queue that nobody consumes is lost."""

    class Faulty(Queue):
        def put(self, message: Message, *rest: Any) -> None:
            if self.routing.value == "ANYCAST" and not len(self._dispatcher):
                reached()
                return
            super().put(message, *rest)

    return replace(parts, queue=Faulty)


@queues.mutant(ONE)
def a_full_consumer_stops_all(parts: Parts, reached: Reached) -> Parts:
    """The consumer whose turn it is blocks the queue while it has no room, though others have."""

    class Faulty(RoundRobin):
        def pick(self) -> Consumer | None:
            if not self._consumers:
                return None
            consumer = self._consumers[self._next % len(self._consumers)]
            if consumer.has_room():
                return super().pick()
            if any(each.has_room() for each in self._consumers):
                reached()
            return None

    return replace(parts, dispatcher=Faulty)


@queues.mutant(f"{ONE} ARTEMIS-REDELIVERY-back-1")
def deleted_with_its_last_consumer(parts: Parts, reached: Reached) -> Parts:
    """A queue made on demand is deleted with its last consumer, whatever is still in it."""

    class Faulty(Router):
        def tidy(self, queue: Queue) -> None:
            if not len(queue._dispatcher) and queue in self._on_demand and queue.in_use:
                reached()
                queue._ready.clear()
                queue.unsettled = 0
            super().tidy(queue)

    return replace(parts, router=Faulty)


@queues.mutant(f"{COPIES} ARTEMIS-STOMP-routing-1 ARTEMIS-STOMP-routing-4 ARTEMIS-STOMP-routing-2")
def topics_share(parts: Parts, reached: Reached) -> Parts:
    """A topic's message goes to one of its subscriptions, in turn."""

    class Faulty(Router):
        def publish(self, message: Message) -> bool:
            envelope = message.envelope
            address = self._addresses.get(envelope.address)
            if address is not None and len(address.multicast) > 1:
                reached()
                address.multicast.append(address.multicast.pop(0))
                rest, address.multicast = address.multicast, address.multicast[:1]
                try:
                    return super().publish(message)
                finally:
                    address.multicast = rest
            return super().publish(message)

    return replace(parts, router=Faulty)


@queues.mutant(f"{ONE} ARTEMIS-STOMP-routing-1 ARTEMIS-STOMP-routing-2 ARTEMIS-STOMP-routing-4")
def every_consumer_gets_a_copy(parts: Parts, reached: Reached) -> Parts:
    """Every consumer of a queue gets each message."""

    class Faulty(Queue):
        def put(self, message: Message, *rest: Any) -> None:
            super().put(message, *rest)
            for _ in range(len(self._dispatcher) - 1):
                reached()
                super().put(message, *rest)

    return replace(parts, queue=Faulty)


@queues.mutant("ARTEMIS-CONCEPTS-topic-2 ARTEMIS-STOMP-routing-5 ARTEMIS-CONCEPTS-topic-1")
def topics_remember(parts: Parts, reached: Reached) -> Parts:
    """A new subscription of a topic gets the last message that was sent before it came."""
    last: dict[str, Message] = {}

    class Faulty(Router):
        def publish(self, message: Message) -> bool:
            taken = super().publish(message)
            last[message.envelope.address] = message
            return taken

        def subscription(self, name: str, *rest: Any) -> Queue:
            queue = super().subscription(name, *rest)
            if queue.routing.value == "MULTICAST" and name in last:
                reached()
                queue.put(last[name])
            return queue

    return replace(parts, router=Faulty)


@queues.mutant("ARTEMIS-CONCEPTS-topic-2")
def subscriptions_outlive_connections(parts: Parts, reached: Reached) -> Parts:
    """The next subscription of a topic takes over what was sent while its predecessor was gone."""
    orphans: dict[str, list[Queue]] = {}

    class Faulty(Router):
        def tidy(self, queue: Queue) -> None:
            if queue.routing.value == "MULTICAST" and not len(queue._dispatcher):
                reached()
                orphans.setdefault(self._on_demand[queue].name, []).append(queue)
            else:
                super().tidy(queue)

        def subscription(self, name: str, *rest: Any) -> Queue:
            if orphans.get(name):
                return orphans[name].pop()
            return super().subscription(name, *rest)

    return replace(parts, router=Faulty)


def _spoilt(message: Message) -> Message:
    """The message with other octets at its end."""
    body: Any = message.body
    if isinstance(
        body, Extract
    ):  # it is not in memory: what comes at the end is what comes at the beginning
        last, end = body.ranges[-1]
        ranges = (
            *body.ranges[:-1],
            (last, end - 1000),
            (body.ranges[0][0], body.ranges[0][0] + 1000),
        )
        return LargeMessage(message.number, message.envelope, Extract(body.whole, ranges))
    return Message(message.number, message.envelope, body[:-1024] + bytes(1024))


@queues.mutant(COPIES, recreates="ARTEMIS-5054")
def large_copies_spoilt(parts: Parts, reached: Reached) -> Parts:
    """A body of 100 KiB and more that several subscriptions read is spoilt in all copies but the
    first."""
    read: set[int] = set()

    class Faulty(Subscription):
        def deliver(self, entry: Entry) -> None:
            message = entry.message
            if len(message.body) >= 102_400:
                if message.number in read:
                    reached()
                    entry.message = _spoilt(message)
                read.add(message.number)
            super().deliver(entry)

    return replace(parts, subscription=Faulty)


@queues.mutant("ARTEMIS-STOMP-routing-3", recreates="ARTEMIS-5717")
def lost_where_both_kinds_meet(parts: Parts, reached: Reached) -> Parts:
    """Where an address is used in both ways, what is sent to it as MULTICAST is lost."""

    class Faulty(Router):
        def publish(self, message: Message) -> bool:
            envelope = message.envelope
            address = self._addresses.get(envelope.address)
            routing = envelope.routing
            if (
                address is not None
                and address.anycast
                and routing is not None
                and routing.value == "MULTICAST"
            ):
                reached()
                return True
            return super().publish(message)

    return replace(parts, router=Faulty)


@queues.mutant(f"{ONE} {KEPT} ARTEMIS-GROUPING-fifo-1 STOMP11-SUB-07 STOMP12-SUB-08")
def every_hundredth_lost(parts: Parts, reached: Reached) -> Parts:
    """Every hundredth message to a queue is lost."""

    class Faulty(Queue):
        def put(self, message: Message, *rest: Any) -> None:
            if self._order % 100 == 99:
                self._order += 1
                reached()
                return
            super().put(message, *rest)

    return replace(parts, queue=Faulty)


@queues.mutant(ORDER)
def order_lost_when_many_wait(parts: Parts, reached: Reached) -> Parts:
    """Beyond thirty-two waiting messages the last two change places."""

    class Faulty(Queue):
        def put(self, message: Message, *rest: Any) -> None:
            waiting = len(self._ready)
            super().put(message, *rest)
            if len(self._ready) > waiting >= 32:
                reached()
                last = self._ready.pop()
                self._ready.insert(len(self._ready) - 1, last)

    return replace(parts, queue=Faulty)
