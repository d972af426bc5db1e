"""STOMP and AMQP 1.0 consumers and producers over raw peers that keep windows and rates.

:mod:`brokerproof.harness.clients.rate_and_window` makes their decisions, which show on the wire
like this:

===================  ===================================================  ================================================
                     STOMP                                                AMQP
===================  ===================================================  ================================================
consumer's window    header ``consumer-window-size``; ACK when consumed   credit for as many messages as fit, by the
                                                                          largest seen; accepted when consumed
at 0                 ACK when the next could be consumed at once          credit for one when it could be consumed at once
at -1                header of -1                                         :data:`MUCH` credit, filled up at half
producer's window    bytes of SEND frames without their RECEIPT          bytes of messages that are not settled
===================  ===================================================  ================================================

So over STOMP the broker enforces the window exactly. Over AMQP, a message larger than all earlier
ones may exceed the window, because granted credit cannot be recounted in bytes.

Each client has its own connection. :func:`drive` runs one or several clients, in virtual or real
time."""  # noqa: E501

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from brokerproof.harness.clients.flow_uri_options import FlowOptions
from brokerproof.harness.clients.rate_and_window import ConsumerFlow, ProducerFlow
from brokerproof.harness.model.time import Duration, Instant
from brokerproof.harness.protocols.amqp10 import codec as amqp10_codec
from brokerproof.harness.protocols.amqp10 import messages
from brokerproof.harness.protocols.amqp10.endpoint_state import Delivery, Link
from brokerproof.harness.protocols.amqp10.raw_peer import AmqpPeer, Node
from brokerproof.harness.protocols.conversation import Conversation
from brokerproof.harness.protocols.stomp import codec as stomp_codec
from brokerproof.harness.protocols.stomp.codec import Frame
from brokerproof.harness.protocols.stomp.raw_peer import Destination, StompPeer
from brokerproof.harness.worlds.world import World

MUCH = 1000
"""The credit of an AMQP consumer without a window."""


class FlowClient(Protocol):
    @property
    def peer(self) -> Conversation[Any]: ...

    def step(self) -> Instant | None:
        """Do everything that is possible now. Return the next instant at which more becomes
        possible even if nothing arrives (None: never)."""

    def stirs(self) -> bool:
        """True if something has arrived that :meth:`step` has not seen."""


def drive(
    world: World, clients: Sequence[FlowClient], done: Callable[[], bool], within: Duration
) -> bool:
    """Run ``clients`` until ``done()``, the close of one of their connections, or the time limit;
    return ``done()``."""
    until = world.now() + within
    while True:
        due = [instant for client in clients if (instant := client.step()) is not None]
        if (
            done()
            or world.now() >= until
            or any(client.peer.ended is not None for client in clients)
        ):
            return done()
        world.wait_until(
            lambda: any(client.stirs() or client.peer.ended is not None for client in clients),
            min([until, *due]),
        )


class StompConsumer:
    """A client-individual subscription. ``consumed`` lists the consumed messages in order."""

    def __init__(
        self, peer: StompPeer, source: Destination, options: FlowOptions, id: str = "0"
    ) -> None:
        self.peer = peer
        self.flow: ConsumerFlow[Frame] = ConsumerFlow(
            options.consumer_window_size, options.consumer_max_rate
        )
        self.consumed: list[Frame] = []
        self._unasked: Frame | None = None
        """With a window of 0, the consumed message. It stays unacknowledged so that no other
        message arrives."""
        headers = {"consumer-window-size": str(options.consumer_window_size)}
        peer.subscribe(source, id, ack="client-individual", headers=headers)

    def stirs(self) -> bool:
        return any(frame.command == "MESSAGE" for frame in self.peer.inbox)

    def step(self) -> Instant | None:
        world, flow = self.peer.world, self.flow
        for message in self.peer.take_messages():
            flow.arrived(message, message.size)
        while (at := flow.next_at(world.now())) is not None and at <= world.now():
            message = flow.waiting[0][0]
            if flow.window == 0:
                self._unasked = message
            else:
                self.peer.ack(message)
            self.consumed.append(flow.consume(world.now()))
        if self._unasked is not None:
            at = flow.asks_at(world.now())
            if at is not None and at <= world.now():
                self.peer.ack(self._unasked)
                self._unasked = at = None
        return at

    @property
    def settled(self) -> bool:
        """True if every consumed message is acknowledged."""
        return self._unasked is None


class AmqpConsumer:
    """A receiver. ``consumed`` lists the consumed deliveries in order."""

    def __init__(self, peer: AmqpPeer, source: Node, options: FlowOptions) -> None:
        self.peer = peer
        self.flow: ConsumerFlow[Delivery] = ConsumerFlow(
            options.consumer_window_size, options.consumer_max_rate
        )
        self.consumed: list[Delivery] = []
        self.link: Link = peer.receiver(source)
        self._largest = 0

    def stirs(self) -> bool:
        return any(delivery.link is self.link for delivery in self.peer.deliveries)

    def step(self) -> Instant | None:
        world, flow = self.peer.world, self.flow
        for delivery in self.peer.take_deliveries(self.link):
            flow.arrived(delivery, delivery.size)
            self._largest = max(self._largest, delivery.size)
        while (at := flow.next_at(world.now())) is not None and at <= world.now():
            self.peer.disposition(flow.waiting[0][0])
            self.consumed.append(flow.consume(world.now()))
        if flow.window == 0:
            asks = flow.asks_at(world.now())
            if asks is not None and asks > world.now():
                return asks
            more = 1 - self.link.credit if asks is not None else 0
        elif flow.window < 0:
            more = MUCH - self.link.credit if self.link.credit <= MUCH // 2 else 0
        else:
            more = flow.credit(self._largest, self.link.credit)
        if more > 0:
            self.peer.flow(self.link, link_credit=self.link.credit + more)
        return at


class StompProducer:
    """Sends SEND frames with receipts. ``sent`` is the number of frames, ``confirmed`` that of
    receipts."""

    def __init__(self, peer: StompPeer, target: Destination, options: FlowOptions) -> None:
        self.peer, self._target = peer, target
        self.flow: ProducerFlow[bytes] = ProducerFlow(
            options.producer_window_size, options.producer_max_rate
        )
        self.sent = self.confirmed = 0
        self._sizes: dict[str, int] = {}

    def offer(self, body: bytes) -> None:
        """Queue ``body`` after all earlier bodies."""
        self.flow.offer(
            body,
            len(
                stomp_codec.encode(
                    "SEND", self._headers(body, "r" * 8), body, version=self.peer.version
                )
            ),
        )

    def _headers(self, body: bytes, receipt: str) -> tuple[tuple[str, str], ...]:
        length = ("content-length", str(len(body)))
        return (
            ("destination", self._target.name),
            *self._target.send_headers,
            length,
            ("receipt", receipt),
        )

    def stirs(self) -> bool:
        return bool(self._receipts())

    def _receipts(self) -> list[Frame]:
        return [
            frame
            for frame in self.peer.inbox
            if frame.command == "RECEIPT" and frame.get("receipt-id") in self._sizes
        ]

    def step(self) -> Instant | None:
        world, flow = self.peer.world, self.flow
        for frame in self._receipts():
            self.peer.inbox.remove(frame)
            flow.confirmed(self._sizes.pop(frame["receipt-id"]))
            self.confirmed += 1
        while (at := flow.next_at(world.now())) is not None and at <= world.now():
            body, size = flow.waiting[0]
            receipt = f"p{self.sent:07d}"
            self._sizes[receipt] = size
            self.peer.send("SEND", self._headers(body, receipt), body)
            flow.sent(world.now())
            self.sent += 1
        return at


class AmqpProducer:
    """A sender of unsettled messages. ``sent`` is their number, ``confirmed`` that of the accepted
    ones."""

    def __init__(self, peer: AmqpPeer, target: Node, options: FlowOptions) -> None:
        self.peer = peer
        self.flow: ProducerFlow[bytes] = ProducerFlow(
            options.producer_window_size, options.producer_max_rate
        )
        self.link: Link = peer.sender(target)
        self.sent = self.confirmed = 0
        self._sizes: dict[int, int] = {}
        self._had_credit = False

    def offer(self, body: bytes) -> None:
        """Queue ``body`` after all earlier bodies."""
        self.flow.offer(body, len(messages.message(body)))

    def _answered(self) -> list[tuple[int, amqp10_codec.Frame]]:
        outcomes = self.link.session.outcomes
        return [(siz, outcome) for siz in self._sizes if (outcome := outcomes.get(siz)) is not None]

    def stirs(self) -> bool:
        return bool(self._answered()) or (self.link.credit > 0 and not self._had_credit)

    def step(self) -> Instant | None:
        world, flow = self.peer.world, self.flow
        for delivery, answer in self._answered():
            flow.confirmed(self._sizes.pop(delivery))
            self.confirmed += answer.kind("state") == "accepted"
        at = None
        while (
            self.link.credit > 0
            and (at := flow.next_at(world.now())) is not None
            and at <= world.now()
        ):
            body, size = flow.waiting[0]
            self._sizes[self.peer.post(self.link, body)] = size
            flow.sent(world.now())
            self.sent += 1
        self._had_credit = self.link.credit > 0
        return at if self._had_credit else None
