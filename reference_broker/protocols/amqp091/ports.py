"""Protocol classes: a channel as methods use it, and a connection as channels use it."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from pamqp import base

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.families.rabbitmq.topology import Topology
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.message import Message
from brokerproof.reference_broker.protocols.amqp091.confirms import Confirms
from brokerproof.reference_broker.protocols.amqp091.consumer import (
    Consumer,
    Prefetch,
    Unacked,
    UnackedDeliveries,
)
from brokerproof.reference_broker.protocols.amqp091.throttle import ChannelFlow, Throttle
from brokerproof.reference_broker.protocols.amqp091.transaction import Transaction
from brokerproof.reference_broker.settings.acceptor import Acceptor


class Connection(Protocol):
    """The connection of a channel. ``held`` is true while the peer does not read."""

    conn: int
    acceptor: Acceptor
    shared: BrokerContext
    topology: Topology
    throttle: Throttle
    user: str
    held: bool
    frame_max: int
    capabilities: dict[str, Any]

    def send(self, data: bytes) -> None:
        """Queue bytes for sending."""

    @property
    def channels(self) -> "Mapping[int, Channel]": ...

    def check_quota(self, resource: str, count: int) -> None:
        """Refuse another ``resource`` if ``count`` has reached the connection's quota for it."""

    def touch(self, channel: "Channel") -> None:
        """Flush ``channel`` at the end of this input."""


class Channel(Protocol):
    """A channel, as methods act on it."""

    connection: Connection
    number: int
    topology: Topology
    active: bool
    consumers: dict[str, Consumer]
    unfinished_bytes: int
    """Bytes of contents that are not yet complete."""

    unacked: UnackedDeliveries
    prefetch: int
    limit: Prefetch
    last_queue: str
    confirms: Confirms | None
    transaction: Transaction | None
    flow: ChannelFlow

    def tell(self, method: base.Frame) -> None: ...

    def wait_for(self, batch: int) -> None:
        """Hold output until ``batch`` is stored."""

    def next_tag(self) -> int: ...

    def send_delivery(self, consumer: str, tag: int, redelivered: bool, what: Message) -> None:
        """Send basic.deliver with its content."""

    def send_content(self, method: base.Frame, what: Message) -> None: ...

    def flush(self) -> None:
        """Send the confirms that are due."""

    def collect(self, tag: int, multiple: bool) -> list[Unacked]:
        """Remove and return the deliveries covered by an acknowledgement."""

    def settle(self, settled: Iterable[Unacked], outcome: Outcome) -> None:
        """End deliveries."""

    def dispatch(self) -> None:
        """Offer waiting messages to every consumer."""

    def cancelled(self, consumer: Consumer) -> None: ...

    def cancel(self, consumer: Consumer) -> None:
        """End a consumer, as its client asked."""
