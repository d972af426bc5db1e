"""A CORE session: its queues, consumers, producers and transaction. One channel of a connection.

Each packet that a session can be asked is a method here, found by its number in :data:`HANDLERS`.
One that raises :class:`Refusal` is answered by an exception where an answer is response, and else
not at all, as Artemis has it (ServerSessionPacketHandler); nothing that a peer sends ends the
session but ``close`` and what is no packet.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeAlias

from brokerproof.harness.model.enums import Outcome, RoutingType
from brokerproof.reference_broker.kernel.address_book import NoRoute
from brokerproof.reference_broker.kernel.admission import Verdict
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.java_fields import int32, int64
from brokerproof.reference_broker.kernel.message import Entry, Envelope
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.kernel.transactions import Transaction
from brokerproof.reference_broker.protocols.core import codes, queries
from brokerproof.reference_broker.protocols.core.consumer import CoreConsumer
from brokerproof.reference_broker.protocols.core.encoding import (
    Fields,
    optional,
    packet,
    text,
    words,
)
from brokerproof.reference_broker.protocols.core.message import Arrival, CoreMessage, marker
from brokerproof.reference_broker.protocols.core.producer_credit import Grants
from brokerproof.reference_broker.protocols.core.refusal import Refusal
from brokerproof.reference_broker.selector.selector import Selector, SelectorError, parse

Handler: TypeAlias = Callable[[Fields, "ResponseRequest"], None]

FORCED = "_hornetq.forced.delivery.seq"
"""Property by which a client recognises the answer to its force-delivery."""
_ROUTINGS = {0: RoutingType.MULTICAST, 1: RoutingType.ANYCAST}
_MOST_ROUTES = 1024


class Connection(Protocol):
    """A session's connection. ``held`` while the peer does not read."""

    conn: int
    shared: BrokerContext
    version: int
    held: bool

    @property
    def consumers(self) -> int:
        """Number of consumers of all sessions."""

    def send(self, data: bytes) -> None:
        """Send bytes behind all others."""

    def observe(self, requirement: str, detail: str) -> None:
        """Record that a branch was taken because of ``requirement``."""


class Session:
    """One session. ``sends_at_once`` and ``acknowledges_at_once`` are false if a transaction holds
    sends or acknowledgements; ``acknowledged`` is true if messages need no acknowledgement."""

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
        """Consumers with deliveries that are not settled."""
        self.consumers: dict[int, CoreConsumer] = {}
        self._grants: dict[str, Grants] = {}
        self._routes: dict[tuple[str, RoutingType | None], Envelope] = {}
        self._transaction: Transaction = Transaction()

    @property
    def may_deliver(self) -> bool:
        """True if messages may be delivered now."""
        return self.started and not self.connection.held

    def send(self, data: bytes) -> None:
        """Send a packet."""
        self.connection.send(data)

    def wait_for(self, batch: int) -> None:
        """Send nothing more before ``batch`` is stored."""
        self.shared.outbox.wait_for(self.connection.conn, batch)

    def handle(self, type: int, fields: Fields) -> bool:
        """Carry out a packet. Return False when the session is over. Raises Malformed."""
        name = HANDLERS.get(type)
        if name is None:
            return True
        handler: Handler = getattr(self, name)
        response = ResponseRequest()
        try:
            handler(fields, response)
        except Refusal as problem:
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
        """Offer every consumer what waits."""
        for consumer in list(self.consumers.values()):
            consumer.offer()

    def close(self, fields: Fields, response: ResponseRequest) -> None:
        response.answer = True
        self.release(Outcome.RELEASED)

    def release(self, outcome: Outcome) -> None:
        """End the session: undo its transaction and give unacknowledged messages back."""
        for grants in self._grants.values():
            grants.close()
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
        """Ignore the packet: nothing is kept of producers."""

    def metadata(self, fields: Fields, response: ResponseRequest) -> None:
        """Ignore a client's metadata, and answer."""
        response.answer = True

    def metadata_2(self, fields: Fields, response: ResponseRequest) -> None:
        fields.words(), fields.words()
        response.answer = fields.flag()

    # --- queues -----------------------------------------------------------------------------------

    def create_queue(self, fields: Fields, response: ResponseRequest) -> None:
        address, name, filter, durable = (
            fields.text(),
            fields.text(),
            fields.optional_text(),
            fields.flag(),
        )
        fields.flag()
        response.answer = fields.flag()
        self._make(address, name, filter, durable, RoutingType.MULTICAST, on_demand=False)

    def create_queue_2(self, fields: Fields, response: ResponseRequest) -> None:
        address, name, filter, durable = (
            fields.text(),
            fields.text(),
            fields.optional_text(),
            fields.flag(),
        )
        temporary = fields.flag()
        response.answer = fields.flag()
        on_demand = fields.flag()
        routing = _ROUTINGS.get(fields.byte())
        (
            fields.int32(),
            fields.flag(),
            fields.perhaps(fields.flag),
            fields.perhaps(fields.flag),
            fields.optional_text(),
        )
        fields.perhaps(fields.flag), fields.perhaps(fields.int32), fields.perhaps(fields.int64)
        auto_delete = None
        if fields.left:
            fields.perhaps(fields.flag), fields.perhaps(fields.int32)
            auto_delete = fields.perhaps(fields.flag)
        rule = self.shared.router.addresses.settings_for(address)
        self._make(
            address,
            name,
            filter,
            durable and not temporary,
            routing or rule.default_queue_routing_type,
            on_demand=auto_delete if auto_delete is not None else on_demand,
        )

    def create_shared_queue(self, fields: Fields, response: ResponseRequest) -> None:
        address, name, filter, durable = (
            fields.text(),
            fields.text(),
            fields.optional_text(),
            fields.flag(),
        )
        response.answer = fields.flag()
        self._share(address, name, filter, durable, RoutingType.MULTICAST)

    def create_shared_queue_2(self, fields: Fields, response: ResponseRequest) -> None:
        address, name, filter, durable = (
            fields.text(),
            fields.text(),
            fields.optional_text(),
            fields.flag(),
        )
        routing = _ROUTINGS.get(fields.byte())
        response.answer = fields.flag()
        self._share(address, name, filter, durable, routing or RoutingType.MULTICAST)

    def _share(
        self, address: str, name: str, filter: str | None, durable: bool, routing: RoutingType
    ) -> None:
        if self.shared.router.addresses.queue_by_name(name) is None:
            self._make(address, name, filter, durable, routing, on_demand=not durable)

    def _make(
        self,
        address: str,
        name: str,
        filter: str | None,
        durable: bool,
        routing: RoutingType,
        *,
        on_demand: bool,
    ) -> None:
        if self.shared.router.addresses.queue_by_name(name) is not None:
            raise Refusal(codes.QUEUE_EXISTS, f"Queue {name} already exists")
        try:
            self.shared.router.create(
                address, name, routing, _selector(filter), durable=durable, on_demand=on_demand
            )
        except NoRoute as problem:
            raise Refusal(codes.NO_ADDRESS, str(problem)) from None

    def create_address(self, fields: Fields, response: ResponseRequest) -> None:
        name = fields.text()
        routings = [_ROUTINGS.get(fields.byte()) for _ in range(max(0, min(2, fields.int32())))]
        response.answer = fields.flag()
        try:
            self.shared.router.addresses.create(
                name, {routing for routing in routings if routing is not None}
            )
        except NoRoute as problem:
            raise Refusal(codes.NO_ADDRESS, str(problem)) from None

    def delete_queue(self, fields: Fields, response: ResponseRequest) -> None:
        response.answer = True
        name = fields.text()
        address, queue = self._queue(name)
        if queue.has_consumers:
            raise Refusal(codes.ILLEGAL_STATE, f"Cannot delete queue {name}: it has consumers")
        self.shared.router.delete(address, queue)

    def queue_query(self, fields: Fields, response: ResponseRequest) -> None:
        response.answer = response.answered = True
        self._describe(fields.text())

    def binding_query(self, fields: Fields, response: ResponseRequest) -> None:
        response.answer = response.answered = True
        name, router = fields.text(), self.shared.router
        self.send(
            queries.of_address(
                self.channel,
                router.addresses.settings_for(name),
                router.addresses.get(name),
                self.connection.version,
            )
        )

    def _describe(self, name: str) -> None:
        router = self.shared.router
        binding = router.addresses.queue_by_name(name)
        rule = router.addresses.settings_for(name if binding is None else binding[0].name)
        on_demand = binding is not None and router.addresses.is_on_demand(binding[1])
        self.send(queries.of_queue(self.channel, name, rule, binding, on_demand))

    def _queue(self, name: str) -> tuple[str, Queue]:
        binding = self.shared.router.addresses.queue_by_name(name)
        if binding is None:
            raise Refusal(codes.NO_QUEUE, f"Queue {name} does not exist")
        return binding[0].name, binding[1]

    # --- consumers --------------------------------------------------------------------------------

    def create_consumer(self, fields: Fields, response: ResponseRequest) -> None:
        id, name, filter = fields.int64(), fields.text(), fields.optional_text()
        browses = fields.flag()
        response.answer = fields.flag()
        if id in self.consumers:
            raise Refusal(codes.ILLEGAL_STATE, f"there is a consumer {id} in this session already")
        quotas = self.shared.settings.quotas
        excess = quotas.exceeded("subscriptions", self.connection.consumers)
        if excess is not None:
            raise Refusal(codes.ILLEGAL_STATE, excess)
        _, queue = self._queue(name)
        consumer = CoreConsumer(self, id, queue, _selector(filter), browses, self._acknowledged)
        self.consumers[id] = consumer
        consumer.attach()
        if response.answer:
            response.answered = True
            self._describe(name)

    def _consumer(self, id: int) -> CoreConsumer:
        consumer = self.consumers.get(id)
        if consumer is None:
            raise Refusal(codes.ILLEGAL_STATE, f"there is no consumer {id} in this session")
        return consumer

    def credits(self, fields: Fields, response: ResponseRequest) -> None:
        self._consumer(fields.int64()).given(fields.int32())

    def force_delivery(self, fields: Fields, response: ResponseRequest) -> None:
        """Answer behind all messages that can be delivered, which have been."""
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
            queue.dispatch()  # what is gone makes room for more from its pages
        else:
            self._transaction.settle(queue, entries, Outcome.ACCEPTED)

    def expired(self, fields: Fields, response: ResponseRequest) -> None:
        """Drop a message that the client found expired."""
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

    # --- producers --------------------------------------------------------------------------------

    def request_credits(self, fields: Fields, response: ResponseRequest) -> None:
        credits, address = fields.int32(), fields.text()
        if address not in self._grants:
            excess = self.shared.settings.quotas.exceeded("producers", len(self._grants))
            if excess is not None:
                self._refuse_credits(address, credits)
                return
        self._grants_at(address).request(credits)

    def _refuse_credits(self, address: str, credits: int) -> None:
        self.send(packet(codes.CREDITS_REFUSED, self.channel, int32(credits), text(address)))

    def _grants_at(self, address: str) -> Grants:
        grants = self._grants.get(address)
        if grants is None:
            shared, channel = self.shared, self.channel
            grants = self._grants[address] = Grants(
                address,
                shared.accounting,
                shared.admission,
                shared.settings.core_grants_within_room,
                lambda credits: self.send(
                    packet(codes.CREDITS, channel, int32(credits), text(address))
                ),
                partial(self._refuse_credits, address),
                self.connection.observe,
            )
        return grants

    def publish(self, fields: Fields, response: ResponseRequest) -> None:
        arrival = Arrival(fields)
        response.answer = fields.flag()
        if self.connection.version >= codes.ASYNC_RESPONSES and fields.left:
            response.correlation = fields.int64()
        address = arrival.fields.address
        if not address:
            raise Refusal(codes.NO_ADDRESS, "a message has no address")
        grants = self._grants.get(address)
        if grants is not None:
            grants.spent(arrival.cost)
        shared = self.shared
        match shared.admission.judge(address, by_credit=False):
            case Verdict.DROP:
                return
            case Verdict.UNSTORED:
                raise Refusal(codes.IO_ERROR, shared.admission.disk_problem())
            case Verdict.REFUSE:
                raise Refusal(codes.ADDRESS_FULL, f'Address "{address}" is full.')
            case Verdict.WAIT:
                self.connection.observe(
                    "ARTEMIS-FLOW-block-5", f"{address} is full, and takes one more message"
                )
            case Verdict.TAKE:
                pass
        route = self._route(address, arrival.fields.routing)
        now = shared.clock.unix()
        message = CoreMessage(
            shared.router.next_number(), route, now, arrival.data, arrival.tail, arrival.fields
        )
        try:
            if self._sends_at_once:
                shared.router.publish(message)
            else:
                shared.router.get_or_create(route.address, route.routing)
                self._transaction.send(message, shared.router.charge_transaction(message))
        except NoRoute as problem:
            raise Refusal(codes.NO_ADDRESS, str(problem)) from None

    def _route(self, address: str, routing: RoutingType | None) -> Envelope:
        key = address, routing
        route = self._routes.get(key)
        if route is None:
            if len(self._routes) >= _MOST_ROUTES:
                self._routes.clear()
            route = self._routes[key] = Envelope(address, address, routing, (), text=False)
        return route

    def large(self, fields: Fields, response: ResponseRequest) -> None:
        """Refuse a large message. The part that asks for a response gets the error."""
        raise Refusal(
            codes.NOT_IMPLEMENTED,
            "this broker takes no large messages over CORE; send them as regular ones",
        )

    def continuation(self, fields: Fields, response: ResponseRequest) -> None:
        fields.take(fields.int32())
        if not fields.flag():
            fields.int64()
        response.answer = fields.flag()
        if self.connection.version >= codes.ASYNC_RESPONSES and fields.left:
            response.correlation = fields.int64()
        self.large(fields, response)

    # --- transactions -----------------------------------------------------------------------------

    def commit(self, fields: Fields, response: ResponseRequest) -> None:
        response.answer = True
        if self.connection.version >= codes.COMMIT_IDS and fields.left:
            response.correlation = fields.int64()
        shared, transaction = self.shared, self._transaction
        self._transaction = Transaction()
        shared.router.begin_atomic_unit()
        try:
            queues = transaction.commit(shared.router.publish)
        except NoRoute as problem:
            raise Refusal(codes.NO_ADDRESS, str(problem)) from None
        for queue in queues:
            queue.dispatch()

    def rollback(self, fields: Fields, response: ResponseRequest) -> None:
        """Undo the transaction. Messages that were only delivered go back too."""
        response.answer = True
        queues = self._transaction.undo()
        self._transaction = Transaction()
        consumers = list(self.holding)
        for consumer in consumers:
            consumer.rolled_back(Outcome.RELEASED)
        for queue in dict.fromkeys([*queues, *(consumer.queue for consumer in consumers)]):
            queue.dispatch()


class ResponseRequest:
    """The response that a packet asks for: ``answer``, and its correlation id. ``answered`` if its
    handler sent another one."""

    __slots__ = ("answer", "answered", "correlation")

    def __init__(self) -> None:
        self.answer = self.answered = False
        self.correlation: int | None = None


def _selector(text: str | None) -> Selector | None:
    if not text:
        return None
    try:
        return parse(text)
    except SelectorError as problem:
        raise Refusal(codes.BAD_FILTER, str(problem)) from None


HANDLERS: dict[int, str] = {
    codes.START: "start",
    codes.STOP: "stop",
    codes.CLOSE: "close",
    codes.METADATA: "metadata",
    codes.METADATA_2: "metadata_2",
    codes.UNIQUE_METADATA: "metadata",
    codes.CREATE_PRODUCER: "ignore",
    codes.REMOVE_PRODUCER: "ignore",
    codes.CREATE_QUEUE: "create_queue",
    codes.CREATE_QUEUE_2: "create_queue_2",
    codes.CREATE_SHARED_QUEUE: "create_shared_queue",
    codes.CREATE_SHARED_QUEUE_2: "create_shared_queue_2",
    codes.CREATE_ADDRESS: "create_address",
    codes.DELETE_QUEUE: "delete_queue",
    codes.QUEUE_QUERY: "queue_query",
    codes.BINDING_QUERY: "binding_query",
    codes.CREATE_CONSUMER: "create_consumer",
    codes.CONSUMER_CREDITS: "credits",
    codes.FORCE_DELIVERY: "force_delivery",
    codes.ACKNOWLEDGE: "acknowledge",
    codes.ACKNOWLEDGE_ONE: "acknowledge_one",
    codes.EXPIRED: "expired",
    codes.CLOSE_CONSUMER: "close_consumer",
    codes.REQUEST_CREDITS: "request_credits",
    codes.SEND: "publish",
    codes.SEND_LARGE: "large",
    codes.SEND_CONTINUATION: "continuation",
    codes.COMMIT: "commit",
    codes.ROLLBACK: "rollback",
}
"""Methods of a session by packet type."""
