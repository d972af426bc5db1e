"""Clients of one queue, with the same interface for every protocol.

The clients send confirmed messages, receive, settle and leave. Cases about whole histories use them
to run one history over every protocol of a target and between any two protocols.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from brokerproof.harness.protocols.amqp10 import messages
from brokerproof.harness.protocols.core.messages import Message
from brokerproof.harness.protocols.openwire.raw_peer import STANDARD
from brokerproof.suites.amqp091.steps import CONFIRMS, offers
from brokerproof.suites.amqp10.steps import granted
from brokerproof.suites.amqp10.transaction_steps import Control, control, within
from brokerproof.suites.api import PATIENCE, Bench, CloseHow, Match
from brokerproof.suites.api.amqp091 import method
from brokerproof.suites.api.amqp10 import Link, Node
from brokerproof.suites.api.core import delivery as core_delivery
from brokerproof.suites.api.core import packet
from brokerproof.suites.api.openwire import Structure, command, dispatch
from brokerproof.suites.api.openwire import queue as openwire_queue
from brokerproof.suites.api.stomp import frame
from brokerproof.suites.openwire.steps import COMMIT, ROLLBACK, begin, transact

MOST_PREFETCHED = 32_766
"""A prefetch in messages that ActiveMQ and RabbitMQ accept."""
FRAME = 200
"""Approximate bytes of a small MESSAGE, for brokers whose STOMP windows count bytes."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message that has arrived at a consumer. The client settles it with ``handle``."""

    handle: Any
    body: bytes
    marked: bool | None = None
    """True if it is marked as a redelivery; None if the broker has no such mark."""


def wait_while_frames_come(target: Bench, peer: Any, enough: Callable[[], bool]) -> None:
    """Wait until ``enough()`` is true, as long as frames keep arriving at ``peer`` within PATIENCE.
    A slow broker is not a silent one."""
    before = -1
    while not target.wait_until(lambda: peer.ended is not None or enough(), PATIENCE) and (
        len(peer.inbox) > before
    ):
        before = len(peer.inbox)


class QueueClient(ABC):
    """A connection that sends to the queue ``name`` and consumes from it."""

    transacts = True
    """True if the client can send in transactions."""
    confirmed_by: str | None = None
    """The requirement that every message is confirmed; None: the confirmation is only a control."""
    fields: Mapping[str, Any] = {}
    """Headers, sections or properties of the messages that the client sends."""
    peer: Any

    def __init__(self, target: Bench, name: str, **options: Any) -> None:
        self.target = target
        self.name = name
        self.held: list[Arrived] = []
        """Messages that arrived and are unsettled, oldest first."""

    @abstractmethod
    def send(self, bodies: Sequence[bytes]) -> None:
        """Send ``bodies`` in one write, as credit allows, and wait until all are confirmed."""

    @abstractmethod
    def transact(self, bodies: Sequence[bytes], commit: bool) -> None:
        """Send ``bodies`` in a transaction and end the transaction; wait until it has ended."""

    @abstractmethod
    def join(self, window: int | None = None) -> None:
        """Consume with at most ``window`` unsettled messages; None means no limit."""

    @abstractmethod
    def taken(self) -> list[Arrived]:
        """Remove and return the messages that have arrived since the last call."""

    @abstractmethod
    def waiting_here(self) -> int:
        """Return the number of messages in the inbox."""

    @abstractmethod
    def settle(self, count: int) -> None:
        """Settle the oldest ``count`` held messages together; wait until the broker has done so."""

    def _confirmed(self, confirmed: int, sent: int) -> None:
        detail = f"{confirmed} of {sent} messages were confirmed; {self.peer.instead()}"
        if self.confirmed_by is None:
            self.target.control(confirmed >= sent, detail)
        else:
            self.target.require(self.confirmed_by, confirmed >= sent, detail)

    def receive(self, count: int) -> list[bytes]:
        """Wait at most PATIENCE for ``count`` more messages; return the bodies that arrived."""
        self._await(count, self.waiting_here)
        arrived = self.taken()
        self.held += arrived
        return [message.body for message in arrived]

    def _await(self, count: int, here: Callable[[], int]) -> None:
        """Wait until ``here()`` is ``count``, as long as frames keep arriving within PATIENCE. Call
        ``here()`` only once that many frames are in the inbox."""
        peer = self.peer
        wait_while_frames_come(
            self.target, peer, lambda: len(peer.inbox) >= count and here() >= count
        )

    @abstractmethod
    def stop(self) -> None:
        """Stop consuming and return held messages; wait for the confirmation."""

    def leave(self, lost: bool) -> list[Arrived]:
        """Reset the connection, or stop and close it. Return the held messages."""
        if not lost:
            self.stop()
            self.held += self.taken()
        self.peer.close_socket(CloseHow.RESET if lost else CloseHow.EOF)
        held, self.held = self.held, []
        return held

    def _last_of(self, count: int) -> Arrived:
        last = self.held[count - 1]
        del self.held[:count]
        return last

    def _take(self, match: Match[Any]) -> list[Any]:
        peer = self.peer
        taken = [item for item in peer.inbox if match.accepts(item)]
        if taken:
            peer.inbox = [item for item in peer.inbox if not match.accepts(item)]
        return taken

    def _here(self, match: Match[Any]) -> int:
        return sum(match.accepts(item) for item in self.peer.inbox)


class StompQueueClient(QueueClient):
    """STOMP 1.2."""

    mode = "client"
    commits = False
    """True if it also acknowledges in transactions."""

    def __init__(self, target: Bench, name: str, **options: Any) -> None:
        super().__init__(target, name, **options)
        self.peer = target.stomp(**options)
        self.to = target.destination(name=name)
        self._transactions = 0
        self._seen = 0

    def send(self, bodies: Sequence[bytes]) -> None:
        if not bodies:
            return
        receipt = self.peer.next_receipt()
        with self.peer.in_one_write():
            for body in bodies[:-1]:
                self.peer.publish(self.to, body, receipt=False)
            last = {"receipt": receipt, **self.fields}
            self.peer.publish(self.to, bodies[-1], last, receipt=False)
        self.peer.expect(frame("RECEIPT", {"receipt-id": receipt}), proves=self.confirmed_by)

    def transact(self, bodies: Sequence[bytes], commit: bool) -> None:
        self._transactions += 1
        named = {"transaction": f"{self.peer.transaction}-{self._transactions}"}
        self.peer.request("BEGIN", named)
        # A broker may process the frames of a transaction, and send their receipts, when it ends.
        with self.peer.in_one_write():
            for body in bodies:
                self.peer.publish(self.to, body, named, receipt=False)
        self.peer.request("COMMIT" if commit else "ABORT", named)

    def join(self, window: int | None = None) -> None:
        parameters = self.target.profile.parameters
        header = str(parameters.get("prefetch_header", "consumer-window-size"))
        if "prefetch_header" in parameters:
            headers = {header: str(MOST_PREFETCHED if window is None else window)}
        elif "consumer-window" in self.target.target.identity.capabilities:
            headers = {header: str(-1 if window is None else window * FRAME)}
        else:
            headers = {}
        self.peer.subscribe(self.to, ack=self.mode, headers=headers)

    def taken(self) -> list[Arrived]:
        messages = self.peer.take_messages()
        self._seen += len(messages)
        marks = "redelivered-header" in self.target.target.identity.capabilities
        return [
            Arrived(one, one.body, one.get("redelivered") == "true" if marks else None)
            for one in messages
        ]

    def waiting_here(self) -> int:
        return int(self.peer.messages_seen - self._seen)

    def settle(self, count: int) -> None:
        settled, self.held = self.held[:count], self.held[count:]
        self._transactions += 1
        named = {"transaction": f"{self.peer.transaction}-{self._transactions}"}
        if self.commits:
            self.peer.request("BEGIN", named)
        for message in settled[-1:] if self.mode == "client" else settled:
            self.peer.ack(message.handle, named if self.commits else {}, receipt=True)
        if self.commits:
            self.peer.request("COMMIT", named)

    def stop(self) -> None:
        self.peer.request("UNSUBSCRIBE", {"id": "0"})


class AmqpQueueClient(QueueClient):
    """AMQP 1.0, which settles by ranges of delivery-ids."""

    def __init__(self, target: Bench, name: str, node: Node | None = None, **options: Any) -> None:
        super().__init__(target, name, **options)
        self.transacts = "amqp-transactions" in target.capabilities
        self.peer = target.amqp(**options)
        self.node = node or target.node(name=name)
        self._sender: Link | None = None
        self._receiver: Link | None = None
        self._coordinator: Control | None = None
        self._most: int | None = None

    def _post_all(self, bodies: Sequence[bytes], id: bytes | None = None) -> None:
        if self._sender is None:
            self._sender = self.peer.sender(self.node)
        link = self._sender
        sent: list[int] = []
        while len(sent) < len(bodies):
            granted(self.target, self.peer, link)
            with self.peer.in_one_write() if id is None else nullcontext():
                for body in bodies[len(sent) : len(sent) + link.credit]:
                    if id is None:
                        sent.append(self.peer.post(link, body, sections=self.fields))
                    else:
                        payload = messages.message(body)
                        sent.append(self.peer.transfer(link, payload, state=within(id)))
        for delivery in sent:
            state = "accepted" if id is None else None
            self.peer.confirmed(link.session, delivery, state)

    def send(self, bodies: Sequence[bytes]) -> None:
        self._post_all(bodies)

    def transact(self, bodies: Sequence[bytes], commit: bool) -> None:
        if self._coordinator is None:
            self._coordinator = control(self.target, self.peer)
        id = self._coordinator.declare()
        self._post_all(bodies, id)
        self._coordinator.discharge(id, fail=not commit)

    def join(self, window: int | None = None) -> None:
        self._most = window
        self._receiver = self.peer.receiver(self.node)
        self._grant()

    def _grant(self) -> None:
        most = 2**31 - 1 if self._most is None else self._most - len(self.held)
        self.peer.flow(self._receiver, link_credit=max(0, most))

    def taken(self) -> list[Arrived]:
        deliveries = self.peer.take_deliveries(self._receiver)
        return [Arrived(delivery, bytes(delivery.message.body)) for delivery in deliveries]

    def waiting_here(self) -> int:
        return len(self.peer.deliveries)

    def settle(self, count: int) -> None:
        if count:
            first = self.held[0].handle
            self.peer.disposition(first, "accepted", last=self._last_of(count).handle.id)
            self._grant()
            self.peer.settle()

    def stop(self) -> None:
        assert self._receiver is not None
        self.peer.detach(self._receiver)


class Amqp091QueueClient(QueueClient):
    """AMQP 0-9-1: confirms (if offered) and deliveries on channel 1, transactions on channel 2."""

    def __init__(self, target: Bench, name: str, **options: Any) -> None:
        super().__init__(target, name, **options)
        kind = options.pop("kind", "classic")
        self.peer = target.amqp091(channels=2, **options)
        quorum = {"x-queue-type": kind, "x-expires": 600_000}
        self.peer.declare(name, durable=True, arguments={} if kind == "classic" else quorum)
        self._confirms = offers(target.target, CONFIRMS)
        if self._confirms:
            self.peer.call("confirm.select")
        self.peer.call("tx.select", channel=2)
        self._published = self._told = 0
        self._answered: set[int] = set()

    def send(self, bodies: Sequence[bytes]) -> None:
        if not bodies:
            return
        with self.peer.in_one_write():
            for body in bodies:
                self.peer.publish(body, self.name, properties=self.fields)
        if not self._confirms:
            self.peer.settle()
            return
        self._published += len(bodies)
        self.target.wait_until(
            lambda: self.peer.ended is not None or self._all_confirmed(), PATIENCE
        )
        self._confirmed(self._told, self._published)

    def _all_confirmed(self) -> bool:
        for ack in self._take(method("basic.ack", channel=1)):
            tag = ack["delivery-tag"]
            tags = range(self._told + 1, tag + 1) if ack["multiple"] else (tag,)
            self._answered.update(tags)
        while self._told + 1 in self._answered:
            self._told += 1
            self._answered.discard(self._told)
        return self._told == self._published

    def transact(self, bodies: Sequence[bytes], commit: bool) -> None:
        with self.peer.in_one_write():
            for body in bodies:
                self.peer.publish(body, self.name, channel=2)
        self.peer.call("tx.commit" if commit else "tx.rollback", channel=2)

    def join(self, window: int | None = None) -> None:
        if window is not None:
            self.peer.call("basic.qos", {"prefetch-count": window})
        self.peer.consume(self.name)

    def taken(self) -> list[Arrived]:
        deliveries = self._take(method("basic.deliver", channel=1))
        return [Arrived(one["delivery-tag"], one.body, one["redelivered"]) for one in deliveries]

    def waiting_here(self) -> int:
        return self._here(method("basic.deliver", channel=1))

    def settle(self, count: int) -> None:
        if count:
            self.peer.ack(self._last_of(count).handle, multiple=True)
            self.peer.settle()

    def stop(self) -> None:
        self.peer.close_channel()


class CoreQueueClient(QueueClient):
    """CORE, which sends immediately and uses a separate connection for transactions."""

    def __init__(self, target: Bench, name: str, **options: Any) -> None:
        super().__init__(target, name, **options)
        self.peer = target.core(**options)
        self._units: Any = None
        if self.peer.query(name)["exists"] is False:
            self.peer.create_queue(name)
        self._most: int | None = None

    def _publish(self, peer: Any, bodies: Sequence[bytes]) -> None:
        if not bodies:
            return
        with peer.in_one_write():
            for number, body in enumerate(bodies):
                last = number == len(bodies) - 1
                fields = {"message": Message(self.name, body), "requires-response": last}
                peer.send("send", {**fields, "correlation": number})
        peer.expect(packet("null-response"))

    def send(self, bodies: Sequence[bytes]) -> None:
        self._publish(self.peer, bodies)

    def transact(self, bodies: Sequence[bytes], commit: bool) -> None:
        if self._units is None:
            self._units = self.target.core(auto_commit_sends=False)
        self._publish(self._units, bodies)
        self._units.call("commit" if commit else "rollback", {})

    def join(self, window: int | None = None) -> None:
        # Settling grants no more credit.
        self.peer.create_consumer(self.name)
        self.peer.credit(-1 if window is None else window * FRAME)

    def taken(self) -> list[Arrived]:
        packets = self._take(core_delivery(0))
        return [Arrived(one, one.message.body, one["delivery-count"] > 1) for one in packets]

    def waiting_here(self) -> int:
        return self._here(core_delivery(0))

    def settle(self, count: int) -> None:
        if count:
            self.peer.acknowledge(self._last_of(count).handle)

    def stop(self) -> None:
        self.peer.close_consumer()


class OpenWireQueueClient(QueueClient):
    """OpenWire, which acknowledges by ranges of messages."""

    def __init__(self, target: Bench, name: str, **options: Any) -> None:
        super().__init__(target, name, **options)
        self.peer = target.openwire(**options)
        self.place = openwire_queue(name)
        self._producer: Structure | None = None
        self._consumer: Structure | None = None
        self._transactions = 0

    def send(self, bodies: Sequence[bytes], transaction: Structure | None = None) -> None:
        if not bodies:
            return
        if self._producer is None:
            self._producer = self.peer.open_producer(self.place)
        options = {"properties": self.fields, "transactionId": transaction}
        with self.peer.in_one_write():
            numbers = [
                self.peer.publish(
                    self.peer.message(self._producer, self.place, body, **options), response=True
                )
                for body in bodies
            ]
        answers = command("Response")
        self._await(len(numbers), lambda: self._here(answers))
        answered = {answer["correlationId"] for answer in self._take(answers)}
        self._confirmed(len(answered & set(numbers)), len(numbers))

    def transact(self, bodies: Sequence[bytes], commit: bool) -> None:
        self._transactions += 1
        transaction = begin(self.peer, self._transactions)
        self.send(bodies, transaction)
        transact(self.peer, transaction, COMMIT if commit else ROLLBACK)

    def join(self, window: int | None = None) -> None:
        prefetch = MOST_PREFETCHED if window is None else window
        self._consumer = self.peer.open_consumer(self.place, prefetch=prefetch)

    def taken(self) -> list[Arrived]:
        dispatches = self._take(dispatch(self._consumer))
        return [
            Arrived(one, bytes(one["message"]["content"]), one["redeliveryCounter"] > 0)
            for one in dispatches
        ]

    def waiting_here(self) -> int:
        return self._here(dispatch(self._consumer))

    def settle(self, count: int) -> None:
        if count:
            first = self.held[0].handle
            last = self._last_of(count).handle
            self.peer.ack(last, type=STANDARD, first=first, count=count)

    def stop(self) -> None:
        assert self._consumer is not None
        self.peer.remove(self._consumer)


CLIENTS: Mapping[str, type[QueueClient]] = {
    "stomp": StompQueueClient,
    "amqp": AmqpQueueClient,
    "amqp091": Amqp091QueueClient,
    "core": CoreQueueClient,
    "openwire": OpenWireQueueClient,
}
"""Clients by the capability that a target needs for them."""
