"""The state of an OpenWire client: its login, sessions, producers, consumers and transactions.

Each client command has a method here, found by type in :data:`HANDLERS`. If the method raises
:class:`Refusal`, the answer is ExceptionResponse, or ConnectionError if no response was requested.
Only ShutdownInfo and bytes that are not a command end a connection.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeAlias

from brokerproof.harness.model.enums import Outcome, RoutingType
from brokerproof.harness.model.time import NS_PER_MS, Instant
from brokerproof.reference_broker.families.activemq.producer_flow import (
    NoSpace,
    PendingSend,
    ProducerFlow,
    SendOutcome,
)
from brokerproof.reference_broker.kernel.address_book import NoRoute
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.deadlines import Deadline
from brokerproof.reference_broker.kernel.message import Envelope
from brokerproof.reference_broker.kernel.passwords import admitted
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.kernel.router import Router
from brokerproof.reference_broker.protocols.openwire import codes
from brokerproof.reference_broker.protocols.openwire.consumer import OpenWireConsumer
from brokerproof.reference_broker.protocols.openwire.encoding import Fields
from brokerproof.reference_broker.protocols.openwire.message import MessageFields, OpenWireMessage
from brokerproof.reference_broker.protocols.openwire.producer import Producer
from brokerproof.reference_broker.protocols.openwire.refusal import (
    BAD_CLIENT_ID,
    BAD_DESTINATION,
    BAD_SELECTOR,
    FAILED,
    ILLEGAL_STATE,
    NO_RESOURCE,
    SECURITY,
    Refusal,
)
from brokerproof.reference_broker.protocols.openwire.structures import (
    ConnectionId,
    ConsumerId,
    Destination,
    LocalTransaction,
    MessageId,
    ProducerId,
    SessionId,
    Structure,
    structure,
    structures,
)
from brokerproof.reference_broker.protocols.openwire.transaction import OpenWireTransaction
from brokerproof.reference_broker.selector.selector import Selector, SelectorError, parse

Handler: TypeAlias = Callable[["Client", Fields, "ResponseRequest"], None]

_ADVISORY = "ActiveMQ.Advisory."
"""The prefix of topics on which ActiveMQ reports news about the broker. This broker sends no such
messages."""
_OF_ITS_OWN = -1
"""The session that every connection has without creating one."""
_MOST_ROUTES = 1024


class ResponseRequest:
    """The requested response to a command: the command's number, and ``response`` if one is
    requested. ``withheld``: the response is sent later."""

    __slots__ = ("number", "response", "withheld")

    def __init__(self, number: int, response: bool) -> None:
        self.number = number
        self.response = response
        self.withheld = False


class Connection(Protocol):
    """The connection of a client. ``held`` is true while the peer does not read."""

    conn: int
    shared: BrokerContext
    version: int
    held: bool

    @property
    def is_open(self) -> bool:
        """True if input for this connection is still read."""

    def answer(self, request: ResponseRequest) -> None:
        """Send the requested response, if any."""

    def refuse(self, request: ResponseRequest, problem: Refusal) -> None:
        """Send an exception as the response."""

    def send(self, data: bytes) -> None:
        """Queue bytes for sending."""

    def observe(self, requirement: str, detail: str) -> None:
        """Record that ``requirement`` determined a branch."""

    def close_behind(self) -> None:
        """Close once the current command has been answered."""

    def stall(self, request: ResponseRequest, sending: PendingSend) -> None:
        """Neither read nor execute anything until there is space for ``sending``."""

    def go_on(self, request: ResponseRequest) -> None:
        """Continue after the message of ``request``, which no longer waits for space."""


@dataclass(slots=True)
class _Members:
    """A session's consumers and producers, which are kept apart because a consumer and a producer
    may have equal ids."""

    consumers: OrderedDict[ConsumerId, None] = field(default_factory=OrderedDict)
    producers: OrderedDict[ProducerId, None] = field(default_factory=OrderedDict)


class Client:
    """The state of a client after its login."""

    def __init__(self, connection: Connection, flow: ProducerFlow) -> None:
        self.connection = connection
        self._flow = flow
        self.shared = connection.shared
        self._connection: str | None = None
        self._name = ""
        self._user: str | None = None
        self._sessions: dict[SessionId, _Members] = {}
        self._producers: dict[ProducerId, Producer] = {}
        self._consumers: dict[ConsumerId, OpenWireConsumer | None] = {}
        self._transactions: dict[LocalTransaction, OpenWireTransaction] = {}
        self._temporary: set[Destination] = set()
        self._routes: dict[Destination, Envelope] = {}
        self._pulls: dict[OpenWireConsumer, Deadline] = {}

    @property
    def version(self) -> int:
        """The version of the protocol that both sides speak."""
        return self.connection.version

    @property
    def logged_in(self) -> bool:
        """True from ConnectionInfo until the RemoveInfo of the connection."""
        return self._connection is not None

    @property
    def may_deliver(self) -> bool:
        """True if messages may be sent now."""
        return not self.connection.held

    def send(self, data: bytes) -> None:
        """Queue bytes for sending."""
        self.connection.send(data)

    def wait_for(self, batch: int) -> None:
        """Hold output until ``batch`` is stored."""
        self.shared.outbox.wait_for(self.connection.conn, batch)

    # --- connections and sessions -----------------------------------------------------------------

    def add_connection(self, fields: Fields, request: ResponseRequest) -> None:
        id = structure(fields, self.version)
        name, passcode, login = fields.text(), fields.text(), fields.text()
        if not isinstance(id, ConnectionId):
            raise Refusal(ILLEGAL_STATE, "a connection needs an id")
        settings = self.shared.settings
        known = login is None and self.shared.certified(self.connection.conn) is not None
        same = admitted(
            settings.users, login or "", (passcode or "").encode("utf-8", "surrogatepass")
        )
        if settings.security_enabled and not known and not same:
            self.connection.close_behind()
            raise Refusal(SECURITY, f"User name [{login}] or password is invalid.")
        if name is None:
            self.connection.close_behind()
            raise Refusal(BAD_CLIENT_ID, "No clientID specified for connection request")
        self._connection, self._name, self._user = id.value, name, login
        self._sessions.setdefault(SessionId(id.value, _OF_ITS_OWN), _Members())

    def add_session(self, fields: Fields, request: ResponseRequest) -> None:
        id = structure(fields, self.version)
        if (
            isinstance(id, SessionId)
            and id.connection == self._connection
            and id not in self._sessions
        ):
            self._check_quota("sessions", len(self._sessions))
            self._sessions[id] = _Members()

    def _session(self, what: str, id: SessionId) -> None:
        if id.connection != self._connection:
            raise Refusal(
                ILLEGAL_STATE,
                f"Cannot add a {what} to a connection that had not been registered:"
                f" {id.connection}",
            )
        if id not in self._sessions:
            raise Refusal(
                ILLEGAL_STATE,
                f"Cannot add a {what} to a session that had not been registered: {id}",
            )

    def remove(self, fields: Fields, request: ResponseRequest) -> None:
        """End a connection, a session, a producer or a consumer, and everything in it."""
        id = structure(fields, self.version)
        last: int | None = fields.int64() if self.version >= 5 else codes.UNKNOWN
        last = None if last == codes.UNKNOWN else last
        match id:
            case ProducerId() if id in self._producers:
                del self._producers[id]
                del self._sessions[id.parent].producers[id]
            case ConsumerId() if id in self._consumers:
                self._drop(id, last)
            case SessionId() if id in self._sessions:
                self._end_session(id, last)
            case ConnectionId(value=value) if value == self._connection:
                self.end(last)
                self._connection = None
            case _:
                raise Refusal(ILLEGAL_STATE, f"Cannot remove what had not been registered: {id}")

    def _end_session(self, id: SessionId, last: int | None) -> None:
        members = self._sessions[id]
        for consumer in list(members.consumers):
            self._drop(consumer, last)
        for producer in members.producers:
            del self._producers[producer]
        del self._sessions[id]

    def end(self, last: int | None = None) -> None:
        """End everything. Messages dispatched up to ``last`` (None: all) count as delivery
        attempts."""
        for transaction in list(self._transactions.values()):
            transaction.roll_back()
        self._transactions.clear()
        for session in list(self._sessions):
            self._end_session(session, last)
        for place in self._temporary:
            self.shared.router.addresses.remove(place.address)
        self._temporary.clear()
        for deadline in self._pulls.values():
            deadline.cancel()
        self._pulls.clear()

    def flush(self, fields: Fields, request: ResponseRequest) -> None:
        """Answer after all earlier commands."""

    def add_or_remove_destination(self, fields: Fields, request: ResponseRequest) -> None:
        structure(fields, self.version)
        place = structure(fields, self.version)
        operation = fields.byte()
        if not isinstance(place, Destination):
            raise Refusal(BAD_DESTINATION, "there is no destination")
        if operation == codes.ADD:
            try:
                self.shared.router.get_or_create(place.address, place.routing)
            except NoRoute as problem:
                raise Refusal(BAD_DESTINATION, str(problem)) from None
            if place.type in (codes.TEMP_QUEUE, codes.TEMP_TOPIC):
                self._temporary.add(place)
        else:
            self.shared.router.addresses.remove(place.address)
            self._temporary.discard(place)

    # --- consumers --------------------------------------------------------------------------------

    def add_consumer(self, fields: Fields, request: ResponseRequest) -> None:
        version = self.version
        id, browses, place = structure(fields, version), fields.flag(), structure(fields, version)
        limit = fields.int32()
        fields.int32()
        fields.flag()
        selector = fields.text()
        if version >= 10:
            fields.text()
        durable, no_local = fields.text(), fields.flag()
        if not isinstance(id, ConsumerId) or not isinstance(place, Destination):
            raise Refusal(ILLEGAL_STATE, "a consumer needs an id and a destination")
        self._session("consumer", id.parent)
        if id in self._consumers:
            return
        self._check_quota("subscriptions", len(self._consumers))
        consumer: OpenWireConsumer | None = None
        if not place.name.startswith(_ADVISORY):
            if "," in place.name or no_local:
                raise Refusal(
                    FAILED, "this broker supports neither composite destinations nor noLocal"
                )
            chosen = _selector(selector)
            queue = self._queue(place, durable, chosen)
            consumer = OpenWireConsumer(self, id, place, queue, chosen, limit, browses)
        self._sessions[id.parent].consumers[id] = None
        self._consumers[id] = consumer
        if consumer is not None:
            consumer.attach()

    def _check_quota(self, resource: str, count: int) -> None:
        excess = self.shared.settings.quotas.exceeded(resource, count)
        if excess is not None:
            raise Refusal(NO_RESOURCE, excess)

    def _queue(self, place: Destination, durable: str | None, selector: Selector | None) -> Queue:
        router = self.shared.router
        try:
            if durable is not None and place.routing is RoutingType.MULTICAST:
                return router.durable.open(
                    place.address, place.routing, f"{self._name}.{durable}", selector
                )
            return router.subscription(place.address, place.routing, selector)
        except NoRoute as problem:
            raise Refusal(BAD_DESTINATION, str(problem)) from None

    def remove_subscription(self, fields: Fields, request: ResponseRequest) -> None:
        structure(fields, self.version)
        called, name = fields.text(), fields.text()
        try:
            self.shared.router.durable.delete(f"{name}.{called}")
        except NoRoute as problem:
            raise Refusal(FAILED, str(problem)) from None

    def _drop(self, id: ConsumerId, last: int | None) -> None:
        consumer = self._consumers.pop(id)
        del self._sessions[id.parent].consumers[id]
        if consumer is not None:
            deadline = self._pulls.pop(consumer, None)
            if deadline is not None:
                deadline.cancel()
            consumer.close(last)
            self.shared.router.addresses.tidy(consumer.queue)

    def pull(self, fields: Fields, request: ResponseRequest) -> None:
        """Send a message to a consumer without prefetch. The timeout is in ms; 0 means wait
        indefinitely, and -1 means do not wait."""
        id = structure(fields, self.version)
        structure(fields, self.version)
        timeout_ms = fields.int64()
        consumer = self._consumers.get(id) if isinstance(id, ConsumerId) else None
        if consumer is None or consumer.prefetch.limit > 0:
            return
        consumer.prefetch.pulled = 1
        consumer.offer()
        if not consumer.prefetch.pulled:
            return
        if timeout_ms < 0:
            consumer.nothing()
        elif timeout_ms > 0:

            def on_timeout(now: Instant) -> None:
                del self._pulls[consumer]
                if consumer.prefetch.pulled:
                    consumer.nothing()

            deadline = self._pulls.get(consumer)
            if deadline is None:
                deadline = self.shared.deadlines.timer(on_timeout, self.connection.conn)
                self._pulls[consumer] = deadline
            deadline.move(self.shared.clock.now + timeout_ms * NS_PER_MS)

    def control_consumer(self, fields: Fields, request: ResponseRequest) -> None:
        if self.version >= 6:
            structure(fields, self.version)
        closes, id, limit = fields.flag(), structure(fields, self.version), fields.int32()
        consumer = self._consumers.get(id) if isinstance(id, ConsumerId) else None
        if consumer is not None and not closes:
            consumer.prefetch.limit = max(0, limit)
            consumer.offer()

    def acknowledge(self, fields: Fields, request: ResponseRequest) -> None:
        version = self.version
        structure(fields, version)
        transaction, id, kind = (
            structure(fields, version),
            structure(fields, version),
            fields.byte(),
        )
        first, last, count = structure(fields, version), structure(fields, version), fields.int32()
        consumer = self._consumers.get(id) if isinstance(id, ConsumerId) else None
        if consumer is None:
            return
        first, last = _message(first), _message(last)
        places = consumer.covered(first, last, one=kind == codes.INDIVIDUAL)
        if kind == codes.DELIVERED:
            consumer.prefetch.seen(count)
        elif kind == codes.POISON:
            consumer.settle(places, Outcome.REJECTED)
        elif kind == codes.REDELIVERED:
            return
        elif transaction is not None:
            self._transaction(transaction).settle(consumer, places)
            if kind == codes.INDIVIDUAL:
                consumer.prefetch.seen(1)
        else:
            consumer.settle(places, Outcome.ACCEPTED)
        consumer.offer()

    # --- producers --------------------------------------------------------------------------------

    def add_producer(self, fields: Fields, request: ResponseRequest) -> None:
        version = self.version
        id, place = structure(fields, version), structure(fields, version)
        structures(fields, version)
        if version >= 2:
            fields.flag()
        window = fields.int32() if version >= 3 else 0
        if not isinstance(id, ProducerId):
            raise Refusal(ILLEGAL_STATE, "a producer needs an id")
        self._session("producer", id.parent)
        if id not in self._producers:
            self._check_quota("producers", len(self._producers))
            destination = place if isinstance(place, Destination) else None
            self._producers[id] = Producer(id, destination, window, self.send)
            self._sessions[id.parent].producers[id] = None

    def publish(self, type: int, fields: Fields, request: ResponseRequest) -> None:
        """Publish a message. ``families/activemq/producer_flow.py`` decides if there is space."""
        received = MessageFields.read(type, fields, self.version)
        id = received.producer
        producer = self._producers.get(id) if isinstance(id, ProducerId) else None
        if producer is None:
            raise Refusal(FAILED, f"a message from an unknown producer: {id}")
        place = received.destination = received.destination or producer.destination
        if place is None or received.id is None:
            raise Refusal(BAD_DESTINATION, "a message needs an id and a destination")
        shared = self.shared
        now = shared.clock.unix()
        received.arrival = received.broker_in = now // NS_PER_MS
        received.user = self._user
        named = received.transaction
        transaction = None if named is None else self._transaction(named)
        message = OpenWireMessage(shared.router.next_number(), self._route(place), now, received)
        size = self._flow.cost(message)
        sending = PendingSend(
            message,
            place.address,
            persistent=received.persistent,
            answered=request.response,
            publish=partial(_publish, shared.router, message, transaction),
            settled=partial(self._settled, request, producer, size),
            windowed=producer.windowed,
            is_live=lambda: transaction is None or transaction.is_live,
            transaction=None if transaction is None else transaction.sends,
        )
        try:
            fate = self._flow.send(sending)
        except NoSpace as problem:
            raise Refusal(NO_RESOURCE, str(problem)) from None
        except NoRoute as problem:
            raise Refusal(BAD_DESTINATION, str(problem)) from None
        if fate is SendOutcome.TAKEN:
            producer.taken(size, answered=request.response)
            return
        detail = f"{place.address} has no space for message {message.number}: {fate.name}"
        self.connection.observe("ACTIVEMQ-PFC-2", detail)
        request.withheld = True
        if fate is SendOutcome.STALLED:
            self.connection.stall(request, sending)

    def _settled(
        self, request: ResponseRequest, producer: Producer, size: int, problem: NoSpace | None
    ) -> None:
        """Answer a message that had to wait and was then added, or failed with ``problem``."""
        connection = self.connection
        if not connection.is_open:
            return
        if problem is None:
            producer.taken(size, answered=request.response)
            connection.answer(request)
        else:
            connection.refuse(request, Refusal(NO_RESOURCE, str(problem)))
        connection.go_on(request)

    def _route(self, place: Destination) -> Envelope:
        route = self._routes.get(place)
        if route is None:
            if len(self._routes) >= _MOST_ROUTES:
                self._routes.clear()
            route = self._routes[place] = Envelope(
                place.address, place.address, place.routing, (), text=False
            )
        return route

    # --- transactions -----------------------------------------------------------------------------

    def transact(self, fields: Fields, request: ResponseRequest) -> None:
        structure(fields, self.version)
        id, what = structure(fields, self.version), fields.byte()
        if what == codes.END:
            return
        if not isinstance(id, LocalTransaction):
            raise Refusal(FAILED, "this broker does not support XA transactions")
        if what == codes.BEGIN:
            if id not in self._transactions:
                self._check_quota("transactions", len(self._transactions))
                self._transactions[id] = OpenWireTransaction(self.shared.router)
            return
        transaction = self._transaction(id)
        del self._transactions[id]
        if what == codes.COMMIT and (reason := transaction.sends.doomed) is not None:
            transaction.roll_back()
            raise Refusal(FAILED, f"the transaction was rolled back: {reason}")
        if what == codes.COMMIT:
            try:
                transaction.commit()
            except NoRoute as problem:
                raise Refusal(BAD_DESTINATION, str(problem)) from None
        elif what == codes.ROLLBACK:
            transaction.roll_back()
        else:
            raise Refusal(FAILED, f"type {what} is not a command of local transactions")

    def _transaction(self, id: Structure) -> OpenWireTransaction:
        transaction = self._transactions.get(id) if isinstance(id, LocalTransaction) else None
        if transaction is None:
            raise Refusal(FAILED, f"Transaction '{id}' has not been started.")
        return transaction

    def forget(self, sending: PendingSend) -> None:
        """Forget ``sending``, which stalled the connection, because the connection has ended."""
        self._flow.left(sending)

    def resume(self) -> None:
        """Offer waiting messages to every consumer, because the peer reads again."""
        for consumer in list(self._consumers.values()):
            if consumer is not None:
                consumer.offer()


def _publish(
    router: Router, message: OpenWireMessage, transaction: OpenWireTransaction | None
) -> None:
    if transaction is None:
        router.publish(message)
    else:
        router.get_or_create(message.route.address, message.route.routing)
        transaction.send(message, router.charge_transaction(message))


def _message(id: Structure | None) -> MessageId | None:
    return id if isinstance(id, MessageId) else None


def _selector(text: str | None) -> Selector | None:
    if not text:
        return None
    try:
        return parse(text)
    except SelectorError as problem:
        raise Refusal(BAD_SELECTOR, str(problem)) from None


HANDLERS: dict[int, str] = {
    codes.CONNECTION: "add_connection",
    codes.SESSION: "add_session",
    codes.REMOVE: "remove",
    codes.FLUSH: "flush",
    codes.DESTINATION: "add_or_remove_destination",
    codes.CONSUMER: "add_consumer",
    codes.REMOVE_SUBSCRIPTION: "remove_subscription",
    codes.CONSUMER_CONTROL: "control_consumer",
    codes.PULL: "pull",
    codes.ACK: "acknowledge",
    codes.PRODUCER: "add_producer",
    codes.TRANSACTION: "transact",
}
"""Methods of a client by command type. Messages have a method of their own."""
