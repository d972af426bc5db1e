"""CORE clients that manage windows like the manual's own client, and common steps for their cases.

The raw client requests and grants nothing by itself. Here a consumer with a window grants credit
for consumed messages, and a producer with a window requests more as its credit runs low (manual,
chapter on flow control).
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager

from brokerproof.harness.protocols.core.messages import Message
from brokerproof.suites.api import PATIENCE, Bench, Duration, RoutingType, ms
from brokerproof.suites.api.core import CorePeer, Packet, delivery, packet
from brokerproof.suites.steps.positive_control import beside

QUIET: Duration = ms(300)
"""Wait this long for a surplus packet after the last expected one."""
CORE, FIXTURES = "core", "core-fixtures"
"""Capabilities: an acceptor ``core``; and the addresses of our broker.xml."""


def queue(
    target: Bench, peer: CorePeer, prefix: str = "", routing: RoutingType = RoutingType.ANYCAST
) -> str:
    """Create an unused queue at a separate address whose name begins with ``prefix``."""
    name = prefix + target.fresh_name()
    peer.create_queue(name, routing=routing)
    return name


def sized(address: str, number: int, cost: int = 0) -> Message:
    """Return a message that contains its number and costs ``cost`` bytes, or as few as possible."""
    label = b"%d." % number
    least = Message(address, label).cost
    return Message(address, label + b"." * max(0, cost - least))


def number_of(delivered: Packet) -> int:
    return int(delivered.message.body.partition(b".")[0])


def numbers(delivered: Sequence[Packet]) -> list[int]:
    return [number_of(message) for message in delivered]


def publish(peer: CorePeer, address: str, costs: Sequence[int]) -> None:
    """Send numbered messages of these costs, one after another. All must be accepted."""
    for number, cost in enumerate(costs):
        peer.publish(sized(address, number, cost), wait=number == len(costs) - 1)


def take(target: Bench, peer: CorePeer, count: int, consumer: int = 0) -> list[Packet]:
    """Return the next ``count`` messages (fewer if some do not arrive), and any surplus."""

    def here() -> int:
        return sum(delivery(consumer).accepts(received) for received in peer.inbox)

    target.wait_until(
        lambda: here() >= count or peer.ended is not None or any(map(peer.fatal, peer.inbox)),
        PATIENCE,
    )
    peer.flush(consumer)
    return peer.delivered(consumer)


def bystander(target: Bench) -> AbstractContextManager[CorePeer]:
    """Control for a negative case: another connection works before and after it."""
    return beside(target.core)


class Window:
    """A consumer with a window of ``size`` bytes, managed as by the manual's client (-1 and 0 too).

    Above 0, credit for consumed messages is granted once they amount to half a window. At 0, each
    call of :meth:`wants` requests one message.
    """

    def __init__(self, peer: CorePeer, name: str, size: int, consumer: int = 0) -> None:
        self.peer, self.size, self.consumer = peer, size, consumer
        self._consumed = 0
        peer.create_consumer(name, consumer)
        if size:
            peer.credit(size, consumer)

    def wants(self) -> None:
        """Request a message, as each ``receive`` call does that waits without a buffer."""
        if self.size == 0:
            self.peer.credit(1, self.consumer)

    def consumed(self, delivered: Packet) -> None:
        """Acknowledge a message from the buffer, and grant its bytes when due.

        Grant the bytes even without a buffer: otherwise this message's overdraft would use up the
        next credit of 1.
        """
        self.peer.acknowledge(delivered, one=True)
        self._consumed += delivered.size - (self.size == 0)
        if self.size >= 0 and self._consumed >= max(1, self.size // 2):
            self.peer.credit(self._consumed, self.consumer)
            self._consumed = 0


class Producer:
    """A producer with a window of ``size`` bytes at one address, like the manual's client."""

    def __init__(self, peer: CorePeer, address: str, size: int) -> None:
        self.peer, self.address, self.size = peer, address, size
        self.balance = self.arriving = self.sent = 0
        self.refused = False

    def look(self) -> None:
        """Process grants and refusals."""
        for name in ("producer-credits", "producer-credits-refused"):
            while (answer := self.peer.take(packet(name, address=self.address))) is not None:
                self.balance += answer["credits"]
                self.arriving -= answer["credits"]
                self.refused = self.refused or name != "producer-credits"

    def ask(self, cost: int) -> None:
        """Request credit for a message of this cost, or half a window if that is more."""
        needed = max(cost, self.size // 2)
        if self.balance + self.arriving < needed:
            missing = needed - self.balance - self.arriving
            self.arriving += missing
            self.peer.request_credits(self.address, missing)

    def offer(self, message: Message, *, wait: bool = True) -> bool:
        """Send ``message`` if there is credit for it; request more if the credit runs low."""
        cost = message.cost
        self.look()
        self.ask(cost)
        if self.balance < cost:
            return False
        self.balance -= cost
        self.sent += 1
        self.peer.publish(message, wait=wait)
        return True

    def can_offer(self, cost: int) -> bool:
        self.look()
        return self.balance >= cost
