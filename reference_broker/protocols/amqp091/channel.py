"""One channel: a state machine for its frames, and its state (2.2.5, 4.2.6, 4.5).

=============  ======================  =====================================  =========================
input          OPEN                    in the middle of a content             CLOSING
=============  ======================  =====================================  =========================
a method       carried out             505, of the connection                 ignored
content        505, of the connection  added; the method is carried out when  ignored
                                       it is complete
channel.open   504, of the connection  505, of the connection                 ignored
channel.close  close-ok, gone          505, of the connection                 close-ok, still CLOSING
close-ok       503, of the connection  505, of the connection                 gone
=============  ======================  =====================================  =========================

CLOSING is the time from our channel.close to the peer's close-ok. When we close a channel, its
consumers are detached, then unacknowledged messages return to their old places, then the queues are
dispatched.
"""  # noqa: E501

from collections.abc import Iterable

from pamqp import base, commands

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.families.rabbitmq.limited_queue import REJECTED
from brokerproof.reference_broker.kernel.message import Message
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.amqp091 import (
    consuming,
    declaring,
    message,
    methods,
    publishing,
)
from brokerproof.reference_broker.protocols.amqp091.confirms import Confirms
from brokerproof.reference_broker.protocols.amqp091.consumer import (
    Consumer,
    Prefetch,
    Unacked,
    UnackedDeliveries,
)
from brokerproof.reference_broker.protocols.amqp091.errors import (
    CHANNEL_ERROR,
    COMMAND_INVALID,
    PRECONDITION_FAILED,
    UNEXPECTED_FRAME,
    Refusal,
)
from brokerproof.reference_broker.protocols.amqp091.framing import HEADER, METHOD, content
from brokerproof.reference_broker.protocols.amqp091.ports import Connection
from brokerproof.reference_broker.protocols.amqp091.throttle import ChannelFlow
from brokerproof.reference_broker.protocols.amqp091.transaction import Transaction

HANDLERS = {**declaring.HANDLERS, **publishing.HANDLERS, **consuming.HANDLERS}
"""Handlers of the methods that a client may send on an open channel."""


QUOTA_EVERY = 64 * 1024
"""Bytes of content after which the quota of unfinished bytes is checked again."""


class Channel:
    """One channel. ``active`` reflects the client's channel.flow; ``prefetch`` applies to each new
    consumer, ``limit`` to the whole channel. ``last_queue`` is used by methods that name no
    queue."""

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection = connection
        self.number = number
        self.topology = connection.topology
        self.is_closing = self.is_closed = False
        self.active = True
        self.consumers: dict[str, Consumer] = {}
        self.unacked = UnackedDeliveries()
        self.prefetch = 0
        self.limit: Prefetch = Prefetch(0)
        self.last_queue = ""
        self.confirms: Confirms | None = None
        self.transaction: Transaction | None = None
        self.flow = ChannelFlow(self)
        self._tags = 0
        self._publish: commands.Basic.Publish | None = None
        self._properties: bytes | None = None
        self._body: list[bytes] = []
        self.unfinished_bytes = 0
        """Bytes of a content that is not yet complete."""
        self._missing = 0

    # --- input ------------------------------------------------------------------------------------

    def frame(self, type: int, payload: bytes, method: base.Frame | None) -> None:
        """Handle a frame of this channel; ``method`` is the content of a method frame. Raises
        :class:`Refusal`."""
        if self.is_closing:
            self._after_close(method, payload)
        elif self._publish is not None:
            self._content(type, payload, self._publish)
        elif type != METHOD or method is None:
            raise Refusal(UNEXPECTED_FRAME, "expected a method, not content")
        elif isinstance(method, commands.Basic.Publish):
            self._publish = method
        elif isinstance(method, commands.Channel.Close):
            self.flush()
            self._give_all_back()
            self.is_closed = True
            self.tell(commands.Channel.CloseOk())
        elif isinstance(method, commands.Channel.Open):
            raise Refusal(CHANNEL_ERROR, f"channel {self.number} is already open")
        else:
            handler = HANDLERS.get(method.__class__)
            if handler is None:
                raise Refusal(
                    COMMAND_INVALID,
                    f"{methods.name_of(method)} is not a method that clients send on a channel",
                )
            handler(self, method)

    def _after_close(self, method: base.Frame | None, payload: bytes) -> None:
        if isinstance(method, commands.Channel.CloseOk):
            self.is_closed = True
        elif isinstance(method, commands.Channel.Close):
            self.tell(commands.Channel.CloseOk())

    def _content(self, type: int, payload: bytes, publish: commands.Basic.Publish) -> None:
        if type == METHOD or (type == HEADER) is (self._properties is not None):
            due = "content header" if self._properties is None else "content body"
            raise Refusal(UNEXPECTED_FRAME, f"a {due} is expected after basic.publish")
        if self._properties is None:
            self._missing, self._properties = methods.content_header(payload, methods.BASIC)
            self.connection.throttle.published()
            most = self.connection.acceptor.amqp091.max_message_size
            if self._missing > most:
                self._forget_content()
                raise Refusal(PRECONDITION_FAILED, f"the body has more than {most} bytes")
        elif payload:  # an empty body frame is legal, and need not be kept
            self._missing -= len(payload)
            self._body.append(payload)
            before = self.unfinished_bytes
            self.unfinished_bytes += len(payload)
            if before // QUOTA_EVERY != self.unfinished_bytes // QUOTA_EVERY:
                connection = self.connection
                count = sum(channel.unfinished_bytes for channel in connection.channels.values())
                connection.check_quota("unfinished_bytes", count - 1)
            if self._missing < 0:
                raise Refusal(
                    UNEXPECTED_FRAME, "the content has more bytes than its header announced"
                )
        if self._missing:
            return
        properties = self._properties
        body = b"".join(self._body)
        self._forget_content()
        publishing.publish(self, publish, properties, body)

    def _forget_content(self) -> None:
        self._publish = None
        self._properties = None
        self._body = []
        self.unfinished_bytes = 0

    # --- output -----------------------------------------------------------------------------------

    def tell(self, method: base.Frame) -> None:
        self.connection.send(methods.write(self.number, method))

    def next_tag(self) -> int:
        """Return the tag of the next delivery, from 1."""
        self._tags += 1
        return self._tags

    def wait_for(self, batch: int) -> None:
        """Hold output until ``batch`` is stored."""
        self.connection.shared.outbox.wait_for(self.connection.conn, batch)

    def send_delivery(self, consumer: str, tag: int, redelivered: bool, what: Message) -> None:
        exchange, key = message.exchange_and_key(what)
        self.send_content(
            methods.make(commands.Basic.Deliver, consumer, tag, redelivered, exchange, key), what
        )

    def send_content(self, method: base.Frame, what: Message) -> None:
        shared = self.connection.shared
        properties = message.properties_of(what, shared.clock.unix())
        header = methods.header_payload(len(what.body), properties)
        number, largest = self.number, self.connection.frame_max
        if what.large is not None:
            outbox = self.connection.shared.outbox
            outbox.gather(
                self.connection.conn,
                what.body,
                lambda body: methods.write(number, method) + content(number, header, body, largest),
            )
            return
        self.connection.send(
            methods.write(number, method) + content(number, header, what.body, largest)
        )

    def flush(self) -> None:
        if self.confirms is not None and not (self.is_closing or self.is_closed):
            for method in self.confirms.take_answers():
                self.tell(method)

    # --- settling ---------------------------------------------------------------------------------

    def collect(self, tag: int, multiple: bool) -> list[Unacked]:
        """Remove and return the deliveries covered by an acknowledgement. Raises :class:`Refusal`
        (basic.ack, exists)."""
        if multiple and not tag:
            return self.unacked.take_all()
        if tag not in self.unacked:
            raise Refusal(PRECONDITION_FAILED, f"unknown delivery tag {tag}")
        return self.unacked.take_to(tag) if multiple else [self.unacked.pop(tag)]

    def settle(self, settled: Iterable[Unacked], outcome: Outcome) -> None:
        """Settle deliveries (REJECTED messages are dead-lettered) and offer messages to consumers
        that now have room."""
        queues: dict[Queue, None] = {}
        by_queue: dict[Queue, list[Unacked]] = {}
        was_full = not self.limit.has_room()
        for delivery in settled:
            by_queue.setdefault(delivery.declared.queue, []).append(delivery)
            if delivery.consumer is not None:
                delivery.consumer.prefetch.give_back()
                self.limit.give_back()
        if was_full and self.limit.has_room():
            queues = self._consumed()
        for queue, group in by_queue.items():
            queue.settle(
                [delivery.entry for delivery in group],
                Outcome.RELEASED if outcome is Outcome.RELEASED else Outcome.ACCEPTED,
            )
            if outcome is Outcome.REJECTED:
                for delivery in group:
                    self.topology.dead_letter(queue, delivery.entry.message, REJECTED)
            queues[queue] = None
        for queue in queues:
            queue.dispatch()

    def _consumed(self) -> dict[Queue, None]:
        return dict.fromkeys(consumer.declared.queue for consumer in self.consumers.values())

    def dispatch(self) -> None:
        """Offer waiting messages to every consumer, whose room may have grown."""
        for queue in self._consumed():
            queue.dispatch()

    # --- consumers --------------------------------------------------------------------------------

    def cancelled(self, consumer: Consumer) -> None:
        """Notify the client that ``consumer`` has ended because its queue was deleted."""
        self.consumers.pop(consumer.tag, None)
        if self.connection.capabilities.get("consumer_cancel_notify") is True:
            self.tell(methods.make(commands.Basic.Cancel, consumer.tag, True))

    def cancel(self, consumer: Consumer) -> None:
        self.consumers.pop(consumer.tag, None)
        consumer.detach()
        self.topology.left(consumer.declared)
        self.connection.shared.router.addresses.tidy(consumer.declared.queue)

    # --- the end ----------------------------------------------------------------------------------

    def refuse(self, problem: Refusal, method: base.Frame | None) -> None:
        method = self._publish_of(method)
        self.flush()
        self._give_all_back()
        self.is_closing = True
        self._forget_content()
        self.tell(commands.Channel.Close(problem.code, problem.text, *methods.numbers_of(method)))

    @staticmethod
    def _publish_of(method: base.Frame | None) -> base.Frame:
        """Return the method that failed; content belongs to basic.publish."""
        return commands.Basic.Publish() if method is None else method

    def _give_all_back(self) -> None:
        self.stop()
        for queue in self.give_back():
            queue.dispatch()

    def stop(self) -> None:
        """Detach all consumers. :meth:`give_back` must follow."""
        self.flow.close()
        for consumer in list(self.consumers.values()):
            consumer.detach()

    def give_back(self) -> list[Queue]:
        """Return unacknowledged messages to their queues; return the queues to dispatch."""
        waiting = self.unacked.take_all()
        if self.transaction is not None:
            waiting += self.transaction.undo()
        by_queue: dict[Queue, list[Unacked]] = {}
        for delivery in waiting:
            by_queue.setdefault(delivery.declared.queue, []).append(delivery)
        for queue, group in by_queue.items():
            queue.settle([delivery.entry for delivery in group], Outcome.RELEASED)
        consumers, self.consumers = list(self.consumers.values()), {}
        for consumer in consumers:
            self.topology.left(consumer.declared)
            self.connection.shared.router.addresses.tidy(consumer.declared.queue)
        return list(by_queue)
