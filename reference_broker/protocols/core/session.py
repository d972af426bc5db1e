"""A CORE session: its queues, consumers, producers and transaction. Each session is one channel of
a connection.

Each kind of packet has a method of the session, its queues or its producers, found by number in
:data:`HANDLERS`. If the method raises :class:`Refusal`, the answer is an exception if a response
was requested, and otherwise nothing, as in Artemis (ServerSessionPacketHandler). Only ``close`` and
bytes that are not a packet end the session.
"""

from collections import OrderedDict
from collections.abc import Callable
from operator import attrgetter
from typing import TypeAlias

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.kernel.address_book import NoRoute
from brokerproof.reference_broker.kernel.java_fields import int32, int64
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.kernel.transactions import Transaction
from brokerproof.reference_broker.protocols.core import codes
from brokerproof.reference_broker.protocols.core.consumer import CoreConsumer
from brokerproof.reference_broker.protocols.core.encoding import Fields, optional, packet, words
from brokerproof.reference_broker.protocols.core.message import CoreMessage, marker
from brokerproof.reference_broker.protocols.core.refusal import Refusal
from brokerproof.reference_broker.protocols.core.request import Connection, ResponseRequest
from brokerproof.reference_broker.protocols.core.session_producers import SessionProducers
from brokerproof.reference_broker.protocols.core.session_queues import SessionQueues, selector

Handler: TypeAlias = Callable[[Fields, "ResponseRequest"], None]

FORCED = "_hornetq.forced.delivery.seq"
"""The property by which a client recognises the answer to its force-delivery."""


class Session:
    """One session. ``sends_at_once`` and ``acknowledges_at_once`` are False if a transaction holds
    sends or acknowledgements; ``acknowledged`` is True if messages need no acknowledgement."""

    def __init__(
        self,
        connection: Connection,
        channel: int,
        *,
        sends_at_once: bool,
        acknowledges_at_once: bool,
        acknowledged: bool,
    ) -> None:
        self.connection = connection
        self.shared = connection.shared
        self.channel = channel
        self.started = False
        self._sends_at_once = sends_at_once
        self._acknowledges_at_once = acknowledges_at_once
        self._acknowledged = acknowledged
        self.holding: OrderedDict[CoreConsumer, None] = OrderedDict()
        """Consumers with unsettled deliveries."""
        self.consumers: dict[int, CoreConsumer] = {}
        self.queues = SessionQueues(connection, channel)
        self.producers = SessionProducers(connection, channel, self._send)
        self._transaction: Transaction = Transaction()
        self._refused_send: Refusal | None = None
        """Why the transaction can only be rolled back, since a failed send may get no answer."""

    @property
    def may_deliver(self) -> bool:
        """True if messages may be delivered now."""
        return self.started and not self.connection.held

    def send(self, data: bytes) -> None:
        self.connection.send(data)

    def wait_for(self, batch: int) -> None:
        """Hold output until ``batch`` is stored."""
        self.shared.outbox.wait_for(self.connection.conn, batch)

    def handle(self, type: int, fields: Fields) -> bool:
        """Handle a packet. Return False if the session has ended. Raises Malformed."""
        handler_of = HANDLERS.get(type)
        if handler_of is None:
            return True
        handler: Handler = handler_of(self)
        response = ResponseRequest()
        try:
            handler(fields, response)
        except Refusal as problem:
            if type == codes.SEND and not self._sends_at_once:
                self._refused_send = self._refused_send or problem
            if response.answer:
                self._refuse(problem, response.correlation)
            return True
        if response.answer and not response.answered:
            self._done(response.correlation)
        return type != codes.CLOSE

    def _done(self, correlation: int | None) -> None:
        ids = self.connection.version >= codes.ASYNC_RESPONSES
        number = (int64(-1 if correlation is None else correlation),) if ids else ()
        self.send(packet(codes.NULL_RESPONSE, self.channel, *number))

    def _refuse(self, problem: Refusal, correlation: int | None) -> None:
        number = () if correlation is None else (int64(correlation),)
        self.send(
            packet(
                codes.EXCEPTION,
                self.channel,
                int32(problem.code),
                optional(words, problem.detail),
                *number,
            )
        )

    # --- life -------------------------------------------------------------------------------------

    def start(self, fields: Fields, response: ResponseRequest) -> None:
        if not self.started:
            self.started = True
            self.resume()

    def stop(self, fields: Fields, response: ResponseRequest) -> None:
        response.answer = True
        self.started = False

    def resume(self) -> None:
        for consumer in list(self.consumers.values()):
            consumer.offer()

    def close(self, fields: Fields, response: ResponseRequest) -> None:
        response.answer = True
        self.release(Outcome.RELEASED)

    def release(self, outcome: Outcome) -> None:
        """End the session: undo its transaction and return unacknowledged messages."""
        self.producers.close()
        consumers = list(self.consumers.values())
        self.consumers.clear()
        for consumer in consumers:
            consumer.close()
        queues = self._transaction.undo()
        for consumer in consumers:
            consumer.rolled_back(outcome)
        for queue in dict.fromkeys([*queues, *(consumer.queue for consumer in consumers)]):
            queue.dispatch()
            self.shared.router.addresses.tidy(queue)

    def ignore(self, fields: Fields, response: ResponseRequest) -> None:
        """Ignore the packet, because producers have no state here."""

    def metadata(self, fields: Fields, response: ResponseRequest) -> None:
        """Ignore a client's metadata, but answer."""
        response.answer = True

    def metadata_2(self, fields: Fields, response: ResponseRequest) -> None:
        fields.words(), fields.words()
        response.answer = fields.flag()

    # --- consumers --------------------------------------------------------------------------------

    def create_consumer(self, fields: Fields, response: ResponseRequest) -> None:
        id, name, filter = fields.int64(), fields.text(), fields.optional_text()
        browses = fields.flag()
        response.answer = fields.flag()
        if id in self.consumers:
            raise Refusal(codes.ILLEGAL_STATE, f"this session already has a consumer {id}")
        quotas = self.shared.settings.quotas
        excess = quotas.exceeded("subscriptions", self.connection.consumers)
        if excess is not None:
            raise Refusal(codes.ILLEGAL_STATE, excess)
        _, queue = self.queues.find(name)
        consumer = CoreConsumer(self, id, queue, selector(filter), browses, self._acknowledged)
        self.consumers[id] = consumer
        consumer.attach()
        if response.answer:
            response.answered = True
            self.queues.describe(name)

    def _consumer(self, id: int) -> CoreConsumer:
        consumer = self.consumers.get(id)
        if consumer is None:
            raise Refusal(codes.ILLEGAL_STATE, f"this session has no consumer {id}")
        return consumer

    def credits(self, fields: Fields, response: ResponseRequest) -> None:
        self._consumer(fields.int64()).given(fields.int32())

    def force_delivery(self, fields: Fields, response: ResponseRequest) -> None:
        """Send the answer after all deliverable messages, which have been sent already."""
        consumer, sequence = self._consumer(fields.int64()), fields.int64()
        if consumer.queue.when_read(lambda: self._forced(consumer, sequence)):
            return
        self._forced(consumer, sequence)

    def _forced(self, consumer: CoreConsumer, sequence: int) -> None:
        if self.consumers.get(consumer.id) is consumer:
            consumer.offer()
            data = marker(self.shared.router.next_number(), consumer.queue.name, FORCED, sequence)
            self.send(packet(codes.RECEIVE, self.channel, data, int64(consumer.id), int32(0)))

    def acknowledge(self, fields: Fields, response: ResponseRequest) -> None:
        self._acknowledge(fields, response, one=False)

    def acknowledge_one(self, fields: Fields, response: ResponseRequest) -> None:
        self._acknowledge(fields, response, one=True)

    def _acknowledge(self, fields: Fields, response: ResponseRequest, *, one: bool) -> None:
        id, number = fields.int64(), fields.int64()
        response.answer = fields.flag()
        consumer = self._consumer(id)
        entries = consumer.settle(number, one=one)
        self._settle(consumer.queue, entries)

    def _settle(self, queue: Queue, entries: list[Entry]) -> None:
        if self._acknowledges_at_once:
            queue.settle(entries, Outcome.ACCEPTED)
            queue.dispatch()  # consumed messages make room for more from the pages
        else:
            self._transaction.settle(queue, entries, Outcome.ACCEPTED)

    def expired(self, fields: Fields, response: ResponseRequest) -> None:
        """Drop a message that the client found to have expired."""
        consumer = self._consumer(fields.int64())
        consumer.queue.settle(consumer.settle(fields.int64(), one=True), Outcome.ACCEPTED)
        consumer.queue.dispatch()

    def close_consumer(self, fields: Fields, response: ResponseRequest) -> None:
        response.answer = True
        id = fields.int64()
        consumer = self._consumer(id)
        del self.consumers[id]
        consumer.close()
        consumer.rolled_back(Outcome.RELEASED)
        consumer.queue.dispatch()
        self.shared.router.addresses.tidy(consumer.queue)

    # --- transactions -----------------------------------------------------------------------------

    def _send(self, message: CoreMessage) -> None:
        router, route = self.shared.router, message.route
        try:
            if self._sends_at_once:
                router.publish(message)
            else:
                router.get_or_create(route.address, route.routing)
                self._transaction.send(message, router.charge_transaction(message))
        except NoRoute as problem:
            raise Refusal(codes.NO_ADDRESS, str(problem)) from None

    def commit(self, fields: Fields, response: ResponseRequest) -> None:
        response.answer = True
        if self.connection.version >= codes.COMMIT_IDS and fields.left:
            response.correlation = fields.int64()
        shared, transaction = self.shared, self._transaction
        self._transaction = Transaction()
        refused, self._refused_send = self._refused_send, None
        if refused is not None:
            for queue in transaction.undo():
                queue.dispatch()
            raise refused
        shared.router.begin_atomic_unit()
        try:
            queues = transaction.commit(shared.router.publish)
        except NoRoute as problem:
            raise Refusal(codes.NO_ADDRESS, str(problem)) from None
        for queue in queues:
            queue.dispatch()

    def rollback(self, fields: Fields, response: ResponseRequest) -> None:
        """Undo the transaction. Messages that were only delivered are also returned."""
        response.answer = True
        queues = self._transaction.undo()
        self._transaction = Transaction()
        self._refused_send = None
        consumers = list(self.holding)
        for consumer in consumers:
            consumer.rolled_back(Outcome.RELEASED)
        for queue in dict.fromkeys([*queues, *(consumer.queue for consumer in consumers)]):
            queue.dispatch()


HANDLERS: dict[int, Callable[[Session], Handler]] = {
    codes.START: attrgetter("start"),
    codes.STOP: attrgetter("stop"),
    codes.CLOSE: attrgetter("close"),
    codes.METADATA: attrgetter("metadata"),
    codes.METADATA_2: attrgetter("metadata_2"),
    codes.UNIQUE_METADATA: attrgetter("metadata"),
    codes.CREATE_PRODUCER: attrgetter("ignore"),
    codes.REMOVE_PRODUCER: attrgetter("ignore"),
    codes.CREATE_QUEUE: attrgetter("queues.create_queue"),
    codes.CREATE_QUEUE_2: attrgetter("queues.create_queue_2"),
    codes.CREATE_SHARED_QUEUE: attrgetter("queues.create_shared_queue"),
    codes.CREATE_SHARED_QUEUE_2: attrgetter("queues.create_shared_queue_2"),
    codes.CREATE_ADDRESS: attrgetter("queues.create_address"),
    codes.DELETE_QUEUE: attrgetter("queues.delete_queue"),
    codes.QUEUE_QUERY: attrgetter("queues.queue_query"),
    codes.BINDING_QUERY: attrgetter("queues.binding_query"),
    codes.CREATE_CONSUMER: attrgetter("create_consumer"),
    codes.CONSUMER_CREDITS: attrgetter("credits"),
    codes.FORCE_DELIVERY: attrgetter("force_delivery"),
    codes.ACKNOWLEDGE: attrgetter("acknowledge"),
    codes.ACKNOWLEDGE_ONE: attrgetter("acknowledge_one"),
    codes.EXPIRED: attrgetter("expired"),
    codes.CLOSE_CONSUMER: attrgetter("close_consumer"),
    codes.REQUEST_CREDITS: attrgetter("producers.request_credits"),
    codes.SEND: attrgetter("producers.publish"),
    codes.SEND_LARGE: attrgetter("producers.large"),
    codes.SEND_CONTINUATION: attrgetter("producers.continuation"),
    codes.COMMIT: attrgetter("commit"),
    codes.ROLLBACK: attrgetter("rollback"),
}
"""Methods of a session, or of its queues or producers, by packet type."""
