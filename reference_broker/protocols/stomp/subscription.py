"""A subscription: the consumer of one queue, its window, and its unsettled deliveries.

Each delivery has two keys. The ``message-id`` names the message and the subscription, and is the
same each time that message is delivered to that subscription. The ``ack`` header of 1.2 names the
delivery itself, so an ACK for an earlier delivery of the message is recognised. Clients settle by
``message-id`` in 1.0 and 1.1, and by ``ack`` in 1.2.
"""

from collections import OrderedDict

from brokerproof.harness.model.enums import AckMode
from brokerproof.reference_broker.kernel.credit import ByteWindow
from brokerproof.reference_broker.kernel.message import Entry, Message
from brokerproof.reference_broker.kernel.outbox import Outbox
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder
from brokerproof.reference_broker.protocols.stomp.frame import Version


class Delivery:
    """One unsettled MESSAGE; ``charge`` is what it took from the subscription's window."""

    __slots__ = ("charge", "entry", "key", "subscription")

    def __init__(self, key: str, subscription: "Subscription", entry: Entry, charge: int) -> None:
        self.key = key
        self.subscription = subscription
        self.entry = entry
        self.charge = charge


def _no_room() -> bool:
    return False


class Subscription:
    """One subscription. ``id`` is None for a 1.0 subscription without an id. All subscriptions of a
    connection share ``deliveries``."""

    def __init__(
        self,
        conn: int,
        number: int,
        id: str | None,
        destination: str,
        mode: AckMode,
        window: ByteWindow,
        queue: Queue,
        version: Version,
        encoder: FrameEncoder,
        outbox: Outbox,
        deliveries: dict[str, Delivery],
    ) -> None:
        self.id = id
        self.destination = destination
        self.mode = mode
        self.window = window
        self.queue = queue
        self.has_room = window.has_room
        self._conn = conn
        self._number = number
        self._encoder = encoder
        self._opening = encoder.opening(number, id)
        self._own_acks = version is Version.V1_2
        self._send = outbox.send
        self._outbox = outbox
        self._deliveries = deliveries
        self._unsettled: OrderedDict[str, Delivery] = OrderedDict()
        self._delivered = 0

    def pause_delivery(self, paused: bool) -> None:
        """Claim to have no room while the peer does not read, whatever the window is."""
        self.has_room = _no_room if paused else self.window.has_room

    def wait_for(self, batch: int) -> None:
        """Hold output until ``batch`` is stored."""
        self._outbox.wait_for(self._conn, batch)

    def deliver(self, entry: Entry) -> None:
        """Send one message (see :class:`brokerproof.reference_broker.kernel.queue.Consumer`)."""
        entry.deliveries += 1
        redelivered = entry.deliveries > 1
        message = entry.message
        if self.mode is AckMode.AUTO:
            # Such a message counts as received as soon as it is sent (STOMP11-SUB-07,
            # STOMP12-SUB-08), so nothing is remembered.
            frame = self._encoder.message(self._opening, message, b"", redelivered)
            self.window.charge(
                len(frame) if message.large is None else len(frame) + len(message.body) + 1
            )
            self._put(frame, message)
            self.queue.discard(entry)
            return
        if self._own_acks:
            self._delivered += 1
            key = f"{self._number:06d}-{self._delivered:08d}"
            ack = b"ack:%b\n" % key.encode()
        else:
            key = f"{self._number:06d},{entry.message.number:010d}"
            ack = b""
        frame = self._encoder.message(self._opening, message, ack, redelivered)
        size = self.window.cost(
            len(frame) if message.large is None else len(frame) + len(message.body) + 1
        )
        self.window.charge(size)
        self._unsettled[key] = self._deliveries[key] = Delivery(key, self, entry, size)
        self.queue.unsettled += 1
        self._put(frame, message)

    def _put(self, frame: bytes, message: Message) -> None:
        if message.large is None:
            self._send(self._conn, frame)
        else:
            self._outbox.stream(self._conn, frame, message.body, b"\0")

    def take(self, delivery: Delivery) -> list[Entry]:
        """Return the deliveries that a settlement of ``delivery`` covers, oldest first, and return
        their charge to the window.

        In ``client`` mode these are all deliveries up to this one (STOMP11-SUB-10, STOMP12-SUB-11).
        Version 1.0 does not say (STOMP10-ACK-03) and is treated the same way. In
        ``client-individual`` mode it is only this one (STOMP12-SUB-13).
        """
        if self.mode is AckMode.CLIENT_INDIVIDUAL:
            del self._unsettled[delivery.key], self._deliveries[delivery.key]
            self.window.give_back(delivery.charge)
            return [delivery.entry]
        taken: list[Entry] = []
        charge = 0
        oldest = None
        while oldest is not delivery:
            key, oldest = self._unsettled.popitem(last=False)
            del self._deliveries[key]
            taken.append(oldest.entry)
            charge += oldest.charge
        self.window.give_back(charge)
        return taken

    def unsubscribe(self) -> list[Entry]:
        """Leave the queue and return the unsettled deliveries. No messages are sent afterwards."""
        self.queue.remove_consumer(self)
        entries = [delivery.entry for delivery in self._unsettled.values()]
        for key in self._unsettled:
            del self._deliveries[key]
        self._unsettled.clear()
        return entries
