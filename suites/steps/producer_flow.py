"""Small destinations of ActiveMQ (fixtures/brokers/activemq), and producers that fill them.

Brokers charge different amounts for a message, so the charge is measured first, by querying the
broker. Then a case can hit a limit exactly.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from brokerproof.harness.clients.activemq_statistics import DestinationUsage, Statistics
from brokerproof.harness.protocols.conversation import Conversation
from brokerproof.harness.protocols.openwire.raw_peer import answer
from brokerproof.harness.targets.activemq import config as activemq_config
from brokerproof.harness.targets.activemq.config import Policy
from brokerproof.suites.api import (
    PATIENCE,
    Bench,
    Duration,
    FrameReceived,
    Instant,
    Requirements,
    RoutingType,
    ms,
)
from brokerproof.suites.api.amqp10 import AmqpPeer, Link, Node
from brokerproof.suites.api.openwire import OpenWirePeer, Structure
from brokerproof.suites.api.openwire import queue as openwire_queue
from brokerproof.suites.api.stomp import Destination, StompPeer, frame
from brokerproof.suites.steps.small_addresses import SMALLEST, body, number_of

QUIET: Duration = ms(400)
"""Wait this long for an answer that should not arrive."""
PLAIN = ""
"""The kind of place that the configuration does not mention: the broker's limits apply."""

PROMPTLY: Duration = ms(500)
"""A broker must answer within this time if nothing makes it wait."""
POLLING: Duration = ms(100)
"""Real brokers may check for expired time-outs only this often."""

Answer = Literal["taken", "refused"]


@dataclass(frozen=True, slots=True)
class Place:
    """An unused queue or topic: its name and its configuration."""

    name: str
    routing: RoutingType
    policy: Policy
    to: Destination
    node: Node


def place(target: Bench, kind: str, routing: RoutingType = RoutingType.ANYCAST) -> Place:
    """Return an unused vm, file, off (fixtures/brokers/activemq) or :data:`PLAIN` place."""
    name = f"{target.full_address(kind) if kind else ''}{target.fresh_name()}"
    config = getattr(target.target, "config", None)
    if isinstance(config, Path):
        settings = activemq_config.policy(config, routing, name)
    else:
        settings = _stated(target, kind)
    return Place(
        name,
        routing,
        settings,
        target.destination(routing, name=name),
        target.node(routing, name=name),
    )


def _stated(target: Bench, kind: str) -> Policy:
    """Return the policy that a target file states for a broker that we did not configure."""
    if not kind:
        return Policy()
    cursor = kind if kind in ("vm", "file") else ""
    limit = target.target.identity.addresses.memory_limit
    return Policy(limit, flow_control=kind != "off", cursor=cursor)


def waits_for(target: Bench) -> Duration:
    """Return sendFailIfNoSpaceAfterTimeout in the target's configuration."""
    wait = target.parameters()["send_fail_if_no_space_after_timeout_ms"]
    assert isinstance(wait, int)
    return ms(wait)


def slack(target: Bench, wait: Duration) -> Duration:
    """Return how late a broker may react to the end of this duration (0 in virtual time)."""
    return 0 if target.virtual else POLLING + target.punctuality(wait)


def broker_limit(target: Bench, kind: str) -> int:
    """Return the broker's limit of memory, store or temp store; at most its disk's size."""
    parameters = target.parameters()
    limit, disk = parameters[f"{kind}_usage_limit"], parameters.get("disk_space")
    assert isinstance(limit, int)
    return min(limit, disk) if isinstance(disk, int) and kind != "memory" else limit


class Producer:
    """One connection that sends to any number of places and receives the answers."""

    protocol: ClassVar[str]
    peer: Conversation[Any]

    def __init__(self, target: Bench) -> None:
        self.target = target

    @abstractmethod
    def offer(self, to: Place, data: bytes, *, persistent: bool = False) -> Any:
        """Send a message and request an answer, without waiting. Return the argument for
        :meth:`answer`."""

    @abstractmethod
    def answer(self, offered: Any) -> Answer | None:
        """Return the answer to a send; None if it has not arrived."""

    @abstractmethod
    def answers(self, offered: Any, command: str, fields: Mapping[str, str]) -> bool:
        """True if this frame of the trace, received by this connection, answers the send."""

    @property
    def conn(self) -> int:
        return self.peer.conn

    def answered_at(self, offered: Any) -> Instant:
        """Return when the answer arrived, perhaps long ago. It must have arrived."""
        return next(
            event.at_ns
            for event in reversed(self.target.events)
            if isinstance(event, FrameReceived)
            and event.conn == self.conn
            and self.answers(offered, event.command, dict(event.headers))
        )

    def instead(self) -> str:
        return self.peer.instead()

    def ended(self) -> bool:
        return self.peer.ended is not None

    def heard(self, offered: Any, within: Duration = PATIENCE) -> Answer | None:
        self.target.wait_until(lambda: self.answer(offered) is not None or self.ended(), within)
        return self.answer(offered)

    def send(
        self,
        to: Place,
        data: bytes,
        *,
        persistent: bool = False,
        proves: Requirements | None = None,
    ) -> None:
        self.expect(
            self.offer(to, data, persistent=persistent), "taken", f"a message to {to.name}", proves
        )

    def expect(
        self, offered: Any, expected: Answer, what: str, proves: Requirements | None = None
    ) -> None:
        received = self.heard(offered)
        detail = (
            f"{what} was {received}"
            if received is not None
            else f"{what} was not answered; {self.instead()}"
        )
        if proves is None:
            self.target.control(received == expected, f"{detail}; expected {expected}")
        else:
            self.target.require(proves, received == expected, f"{detail}; expected {expected}")

    def taken_in_time(
        self, offered: Any, proves: Requirements, early: Duration, since: Instant
    ) -> bool:
        """Judge whether the message sent at ``since`` is accepted, because its place had room
        ``early`` before the time-out. If the host was late by a large part of ``early``, the
        finding is uncertain."""
        received = self.heard(offered)
        busy = self.target.world.lateness(since) > early // 4
        detail = (
            f"a message for which there was room {early // ms(1)} ms before its time"
            f" was {received}; {self.instead()}"
        )
        return self.target.record_finding(
            proves, received == "taken", detail, uncertain="the host was late" if busy else None
        )

    def waits(self, offered: Any, proves: Requirements, why: str) -> bool:
        """Judge whether no answer arrives and the connection stays open."""
        received = self.heard(offered, QUIET)
        held = received is None and not self.ended()
        what = "was not answered" if received is None else f"was {received}"
        return self.target.record_finding(
            proves, held, f"{why}: a message {what}; {self.instead()}"
        )


class StompProducer(Producer):
    protocol = "stomp"

    def __init__(self, target: Bench) -> None:
        super().__init__(target)
        self.peer: StompPeer = target.stomp()
        self._answers: dict[str, Answer] = {}

    def offer(self, to: Place, data: bytes, *, persistent: bool = False) -> str:
        receipt = self.peer.next_receipt()
        headers = {"receipt": receipt, "persistent": str(persistent).lower()}
        self.peer.publish(to.to, data, headers, receipt=False)
        return receipt

    def push(self, to: Place, data: bytes) -> None:
        """Send a SEND without a receipt."""
        self.peer.publish(to.to, data, receipt=False)

    def answer(self, offered: str) -> Answer | None:
        if self.peer.take(frame("RECEIPT", {"receipt-id": offered})) is not None:
            self._answers[offered] = "taken"
        elif self.peer.take(frame("ERROR", {"receipt-id": offered})) is not None:
            self._answers[offered] = "refused"
        return self._answers.get(offered)

    def answers(self, offered: str, command: str, fields: Mapping[str, str]) -> bool:
        return fields.get("receipt-id") == offered


class AmqpProducer(Producer):
    """Sends unsettled transfers over one link for each place."""

    protocol = "amqp"

    def __init__(self, target: Bench) -> None:
        super().__init__(target)
        self.peer: AmqpPeer = target.amqp()
        self._links: dict[str, Link] = {}

    def link(self, to: Place) -> Link:
        if to.name not in self._links:
            self._links[to.name] = self.peer.sender(to.node)
        return self._links[to.name]

    def offer(self, to: Place, data: bytes, *, persistent: bool = False) -> tuple[Link, int]:
        link = self.link(to)
        self.target.wait_until(lambda: link.credit > 0 or self.ended(), PATIENCE)
        self.target.control(link.credit > 0, f"no credit for {to.name}; {self.peer.instead()}")
        return link, self.peer.post(link, data, sections={"header": {"durable": persistent}})

    def answer(self, offered: tuple[Link, int]) -> Answer | None:
        link, delivery = offered
        outcome = link.session.outcomes.get(delivery)
        if outcome is None:
            return None
        return "taken" if outcome.kind("state") == "accepted" else "refused"

    def answers(self, offered: tuple[Link, int], command: str, fields: Mapping[str, str]) -> bool:
        if command != "disposition" or fields["role"] != "receiver":
            return False
        return int(fields["first"]) <= offered[1] <= int(fields.get("last", fields["first"]))


class OpenWireProducer(Producer):
    """Requests a Response to each message. ``window`` is that of each producer (0 means none)."""

    protocol = "openwire"

    def __init__(self, target: Bench, *, window: int = 0) -> None:
        super().__init__(target)
        self.peer: OpenWirePeer = target.openwire()
        self.window = window
        self._producers: dict[str, Structure] = {}
        self._answers: dict[int, Structure] = {}

    def producer(self, to: Place) -> Structure:
        if to.name not in self._producers:
            self._producers[to.name] = self.peer.open_producer(
                openwire_queue(to.name), window=self.window
            )
        return self._producers[to.name]

    def message(self, to: Place, data: bytes, *, persistent: bool = False) -> Structure:
        """Return the producer's next message for ``to``, which has not been sent."""
        return self.peer.message(
            self.producer(to), openwire_queue(to.name), data, persistent=persistent
        )

    def offer(self, to: Place, data: bytes, *, persistent: bool = False) -> int:
        return self.peer.publish(self.message(to, data, persistent=persistent), response=True)

    def push(self, to: Place, data: bytes) -> None:
        """Send a message without requesting a Response."""
        self.peer.publish(self.message(to, data))

    def answer(self, offered: int) -> Answer | None:
        if (
            offered not in self._answers
            and (frame_received := self.peer.take(answer(offered))) is not None
        ):
            self._answers[offered] = frame_received
        result = self._answers.get(offered)
        return None if result is None else "taken" if result.name == "Response" else "refused"

    def answers(self, offered: int, command: str, fields: Mapping[str, str]) -> bool:
        return fields.get("correlationId") == str(offered)

    def reason(self, offered: int) -> str:
        """Return the exception with which the message was refused."""
        return str(self._answers[offered]["exception"].name)


PRODUCERS: dict[str, type[Producer]] = {
    "stomp": StompProducer,
    "amqp": AmqpProducer,
    "openwire": OpenWireProducer,
}
"""Producers by protocol."""


class Consumer:
    """Consumes a place's messages and acknowledges each on arrival."""

    def __init__(self, target: Bench) -> None:
        self.target = target
        self.numbers: list[int] = []
        """The numbers of the messages that arrived so far, in order."""

    @abstractmethod
    def next(self, within: Duration = PATIENCE) -> int | None:
        """Return the number of the next message; None if none arrives."""

    def take(self, count: int, within: Duration = PATIENCE) -> list[int]:
        """Return the next ``count`` messages; fewer if some do not arrive."""
        received: list[int] = []
        while len(received) < count and (number := self.next(within)) is not None:
            received.append(number)
        self.numbers += received
        return received

    def rest(self, count: int) -> list[int]:
        """Return all remaining messages (``count`` are expected), and any surplus."""
        self.take(count - len(self.numbers))
        self.take(1, QUIET)
        return self.numbers


class StompConsumer(Consumer):
    """A subscription with up to ``prefetch`` unacknowledged messages."""

    def __init__(self, target: Bench, at: Place, *, prefetch: int = 1000) -> None:
        super().__init__(target)
        self.peer = target.stomp()
        headers = {str(target.profile.parameters["prefetch_header"]): str(prefetch)}
        self.peer.subscribe(at.to, ack="client-individual", headers=headers)

    def next(self, within: Duration = PATIENCE) -> int | None:
        message = self.peer.watch_for(frame("MESSAGE"), within=within)
        if message is None:
            return None
        self.peer.ack(message)
        return number_of(message.body)


class AmqpConsumer(Consumer):
    """A link of ``peer`` or of a new AMQP connection. It grants one credit at a time."""

    def __init__(self, target: Bench, at: Place, *, peer: AmqpPeer | None = None) -> None:
        super().__init__(target)
        self.peer = target.amqp() if peer is None else peer
        self.link = self.peer.receiver(at.node)

    def next(self, within: Duration = PATIENCE) -> int | None:
        if self.link.credit == 0:
            self.peer.flow(self.link, link_credit=1)
        here = self.peer.deliveries
        self.target.wait_until(
            lambda: (
                any(delivery.link is self.link for delivery in here) or self.peer.ended is not None
            ),
            within,
        )
        received = self.peer.take_deliveries(self.link)
        for delivery in received:
            self.peer.disposition(delivery)
        return number_of(received[0].message.body) if received else None


CONSUMERS: dict[str, type[StompConsumer | AmqpConsumer]] = {
    "stomp": StompConsumer,
    "amqp": AmqpConsumer,
}
"""Consumers by protocol. Messages are only read over the protocol that sent them."""


def _uses_at_least(size: int) -> Callable[[DestinationUsage], bool]:
    return lambda queue: queue.memory.used >= size


class Scale:
    """The charge for a message beyond the bytes of its body, measured with two sizes."""

    SIZES = (300, 1000)

    def __init__(
        self, target: Bench, producer: Producer, statistics: Statistics, kind: str = "vm"
    ) -> None:
        scratch, result, before = place(target, kind), set(), 0
        for size in self.SIZES:
            producer.send(scratch, body(0, size))
            held, fine = statistics.until(scratch.name, _uses_at_least(before + size))
            detail = f"a message of {size} bytes is charged {held.memory.used - before} bytes"
            target.control(fine, detail)
            result.add(held.memory.used - before - size)
            before = held.memory.used
        detail = f"messages of {self.SIZES} bytes are charged {sorted(result)} bytes more"
        target.control(len(result) == 1, detail)
        self.extra = result.pop()
        target.record_note(
            f"a message over {producer.protocol} is charged the bytes of its body and {self.extra}"
            " more"
        )

    def weight(self, size: int) -> int:
        """Return the charge for a body of ``size`` bytes."""
        return size + self.extra

    def bodies(self, total: int, sizes: Sequence[int]) -> list[bytes]:
        """Return bodies of these sizes (at least ``SMALLEST``) and one more, charged ``total``."""
        last = total - self.extra - sum(map(self.weight, sizes))
        if last < SMALLEST:
            raise ValueError(f"{list(sizes)} leave no room for a last body within {total} bytes")
        return [body(number, size) for number, size in enumerate([*sizes, last])]


def filled(target: Bench, producer: Producer, statistics: Statistics, to: Place, size: int) -> int:
    """Send messages of ``size`` bytes, each of which must be accepted, until the broker reports
    that the place is full. Return the number of messages. Control: the place becomes full."""
    count, most = 0, 2 + to.policy.memory_limit // size
    while count == 0 or not statistics.destination(to.name, to.routing).memory.full:
        target.control(count < most, f"{count} messages of {size} bytes did not fill {to.name}")
        producer.send(to, body(count, size))
        count += 1
    return count
