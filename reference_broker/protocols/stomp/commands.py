"""Handlers of the client frames of a connected session. CONNECT and STOMP are in ``connection.py``.

A handler gets the connection and the frame, and raises :class:`Refusal` if it cannot execute it. It
may return an action to be done *after* the RECEIPT: SUBSCRIBE then attaches its consumer, so that
the RECEIPT precedes the first MESSAGE, and DISCONNECT then closes. All other effects precede the
RECEIPT, which confirms them.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol, TypeAlias

from brokerproof.harness.model.enums import AckMode, Outcome, RoutingType
from brokerproof.reference_broker.kernel.address_book import NoRoute
from brokerproof.reference_broker.kernel.admission import Verdict
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.credit import UNLIMITED, ByteWindow, MessageWindow
from brokerproof.reference_broker.kernel.large_body import LargeBodySlice
from brokerproof.reference_broker.kernel.message import Envelope, LargeMessage, Message
from brokerproof.reference_broker.kernel.queue_and_topic_names import qualified
from brokerproof.reference_broker.kernel.transactions import Transaction
from brokerproof.reference_broker.protocols.stomp import refusal
from brokerproof.reference_broker.protocols.stomp.encoder import OURS, FrameEncoder
from brokerproof.reference_broker.protocols.stomp.frame import Frame, Head, Version
from brokerproof.reference_broker.protocols.stomp.parser import Sink
from brokerproof.reference_broker.protocols.stomp.refusal import Fault, Refusal, shown
from brokerproof.reference_broker.protocols.stomp.subscription import Delivery, Subscription
from brokerproof.reference_broker.selector.selector import Selector, SelectorError, parse
from brokerproof.reference_broker.settings.acceptor import Acceptor


class NoRoom(Exception):
    """Raised by a SEND that must wait until there is room at its address."""


After: TypeAlias = Callable[[], None] | None
Handler: TypeAlias = Callable[["Session", Frame], After]

INT_MAX = 2**31 - 1


class Session(Protocol):
    """A connected session, as frames affect it."""

    conn: int
    acceptor: Acceptor
    shared: BrokerContext
    version: Version
    client_id: str | None
    encoder: FrameEncoder
    held: bool
    subscriptions: dict[tuple[str | None, str | None], Subscription]
    by_destination: dict[str, OrderedDict[tuple[str | None, str | None], None]]
    """The keys of the subscriptions, by destination."""
    deliveries: dict[str, Delivery]
    transactions: dict[str, Transaction]
    sending_transactions: set[str]
    """The names of the transactions that hold messages."""
    on_room: Callable[[], None]
    """Called when a waiting SEND may be retried."""
    spool: Callable[[bool], Sink | None]
    """Returns a file for a large body of text or bytes, or None if the body stays in memory."""

    def submit(self, frame: Frame, envelope: Envelope, transaction: Transaction | None) -> After:
        """Handle a SEND now, or when there is room."""

    def release(
        self, subscriptions: Iterable[Subscription], transactions: Iterable[Transaction] = ()
    ) -> None:
        """End ``subscriptions`` and undo ``transactions``."""

    def close(self) -> None:
        """Close after sending all pending output."""


def withheld() -> None:
    """Marks a handler that will send the RECEIPT itself, later."""


_MESSAGE_ID = "amqMessageId"

_MODES = {
    "auto": AckMode.AUTO,
    "client": AckMode.CLIENT,
    "client-individual": AckMode.CLIENT_INDIVIDUAL,
}
_DURABLE_NAMES = (
    "durable-subscriber-name",
    "durable-subscription-name",
    "activemq.subscriptionName",
)
"""Headers with the name of a durable subscription; the first that is present applies
(ARTEMIS-STOMP-durable-3: the manual until 2.33)."""


# --- SEND -----------------------------------------------------------------------------------------


def send(session: Session, frame: Frame) -> After:
    head = frame.head
    envelope = head.envelope
    if envelope is None:
        envelope = head.envelope = _envelope(session, head)
    transaction = head.first.get("transaction")
    opened = (
        None
        if transaction is None
        else _transaction(session, transaction, refusal.SEND_NO_TRANSACTION)
    )
    return session.submit(frame, envelope, opened)


def submit(
    session: Session, frame: Frame, envelope: Envelope, transaction: Transaction | None
) -> After:
    """Handle a SEND as its address allows. Raises :class:`NoRoom` if it must wait."""
    shared, router = session.shared, session.shared.router
    address = envelope.address
    verdict = shared.admission.judge(address, by_credit=False)
    if verdict is not Verdict.TAKE:
        if verdict is Verdict.DROP:
            return None
        if verdict is Verdict.UNSTORED:
            raise Refusal(refusal.NOT_STORED, session.version, shared.admission.disk_problem())
        if verdict is Verdict.REFUSE:
            detail = f"address {shown(address)} is full, and its policy is to refuse messages"
            raise Refusal(refusal.ADDRESS_FULL, session.version, detail)
        if not may_send(session, address):
            raise NoRoom(f"address {shown(address)} is full")
    message = new_message(session, envelope, frame.body)
    if session.acceptor.stomp.enable_message_id:
        message = _named(message)
    try:
        if transaction is None:
            if not router.publish(message):
                detail = f"a queue of {shown(address)} has reached its limit and refuses more"
                raise Refusal(refusal.ADDRESS_FULL, session.version, detail)
        else:
            router.get_or_create(envelope.address, envelope.routing)
            transaction.send(message, router.charge_transaction(message))
            session.sending_transactions.add(frame.head.first["transaction"])
    except NoRoute as problem:
        raise Refusal(refusal.SEND_FAILED, session.version, str(problem)) from None
    return None


def may_send(session: Session, address: str) -> bool:
    """Return True if a SEND to ``address`` can be handled now; otherwise it is retried later.

    A client whose transaction holds messages never waits. If it waited, it could not end the
    transaction, and the messages of that transaction may be what fills the address.
    """
    if session.sending_transactions:
        return True
    return session.shared.admission.has_room(address, session.on_room)


def new_message(session: Session, envelope: Envelope, body: bytes | LargeBodySlice) -> Message:
    """Return a new message. If the body is large and files are available, it goes to a file."""
    shared = session.shared
    arrived = shared.clock.unix()
    if isinstance(body, bytes):
        smallest = session.acceptor.stomp.min_large_message_size
        sink = session.spool(envelope.text) if 0 <= smallest <= len(body) and body else None
        if sink is None:
            return shared.router.message(envelope, body, arrived)
        sink.write(body)
        body = LargeBodySlice(sink.finish())
    return LargeMessage(shared.router.next_number(), envelope, body, arrived)


def _named(message: Message) -> Message:
    """Return the message with its number in a header (ARTEMIS-STOMP-id-1). The sender's header with
    that name is dropped."""
    plain = message.envelope
    headers = tuple(header for header in plain.headers if header[0] != _MESSAGE_ID)
    headers = (*headers, (_MESSAGE_ID, f"STOMP{message.number}"))
    envelope = Envelope(plain.address, plain.destination, plain.routing, headers, plain.text)
    return type(message)(message.number, envelope, message.body, message.arrived)


def _envelope(session: Session, head: Head) -> Envelope:
    destination = head.first.get("destination")
    if not destination:
        raise Refusal(
            refusal.SEND_NO_DESTINATION,
            session.version,
            "SEND needs a destination header with a value",
        )
    address, routing = _where(
        session, head, destination, "destination-type", refusal.SEND_NO_DESTINATION
    )
    headers = tuple(header for header in head.headers if header[0] not in OURS)
    return Envelope(address, destination, routing, headers, text=head.content_length is None)


def _where(
    session: Session, head: Head, destination: str, type_header: str, nameless: Fault
) -> tuple[str, RoutingType | None]:
    """Return the address and the routing type. The frame's type header decides, or else the
    acceptor's longest matching prefix."""
    acceptor = session.acceptor
    prefixes = [(prefix, RoutingType.ANYCAST) for prefix in acceptor.anycast_prefix]
    prefixes += [(prefix, RoutingType.MULTICAST) for prefix in acceptor.multicast_prefix]
    fitting = [prefix for prefix in prefixes if prefix[0] and destination.startswith(prefix[0])]
    prefix, routing = max(fitting, key=lambda prefix: len(prefix[0]), default=("", None))
    kind = head.first.get(type_header)
    if kind is not None:
        if kind not in RoutingType.__members__:
            detail = f"{type_header} must be ANYCAST or MULTICAST, in capitals, not {shown(kind)}"
            raise Refusal(refusal.BAD_ROUTING_TYPE, session.version, detail)
        routing = RoutingType[kind]
    if len(prefix) == len(destination):
        raise Refusal(
            nameless, session.version, f"destination {shown(destination)} is only a prefix"
        )
    address = destination[len(prefix) :]
    if not session.shared.family.qualified_names:
        return address, routing
    if routing is None:
        known = " ".join((*acceptor.anycast_prefix, *acceptor.multicast_prefix))
        detail = f"destination {shown(destination)} begins with none of {known}"
        raise Refusal(nameless, session.version, detail)
    return qualified(address, routing), routing


# --- SUBSCRIBE, UNSUBSCRIBE -----------------------------------------------------------------------


def subscribe(session: Session, frame: Frame) -> After:
    shared, version = session.shared, session.version
    destination = frame.get("destination")
    if not destination:
        detail = "SUBSCRIBE needs a destination header with a value"
        raise Refusal(refusal.SUB_NO_DESTINATION, version, detail)
    name = frame.get("id")
    if name is None and version is not Version.V1_0:
        raise Refusal(refusal.SUB_NO_ID, version, "SUBSCRIBE needs an id header")
    key = (name, destination if name is None else None)
    if key in session.subscriptions:
        what = (
            f"id {shown(name)}"
            if name is not None
            else f"destination {shown(destination)}, without id,"
        )
        raise Refusal(
            refusal.SUB_ID_IN_USE, version, f"a subscription with {what} exists on this connection"
        )
    excess = shared.settings.quotas.exceeded("subscriptions", len(session.subscriptions))
    if excess is not None:
        raise Refusal(refusal.TOO_MANY_SUBSCRIPTIONS, version, excess)
    mode = _ack_mode(frame.get("ack"), version)
    window = _window_of(session, frame, mode)
    selector = _selector(frame, version)
    durable = _durable(session, frame)
    address, routing = _where(
        session, frame.head, destination, "subscription-type", refusal.SUB_NO_DESTINATION
    )
    try:
        if durable is None:
            queue = shared.router.subscription(address, routing, selector)
        else:
            queue = shared.router.durable.open(address, routing, durable, selector)
    except NoRoute as problem:
        raise Refusal(refusal.SUB_FAILED, version, str(problem)) from None
    subscription = Subscription(
        session.conn,
        shared.next_consumer(),
        name,
        destination,
        mode,
        window,
        queue,
        version,
        session.encoder,
        shared.outbox,
        session.deliveries,
    )
    subscription.pause_delivery(session.held)
    session.subscriptions[key] = subscription
    session.by_destination.setdefault(destination, OrderedDict())[key] = None
    return partial(
        queue.add_consumer, subscription, selector if queue.routing is RoutingType.ANYCAST else None
    )


def _durable(session: Session, frame: Frame) -> str | None:
    """Return the queue name of a durable subscription; None if the frame has none."""
    header = next((name for name in _DURABLE_NAMES if frame.get(name) is not None), None)
    if header is None:
        return None
    name = frame.get(header)
    if not name:
        raise Refusal(
            refusal.BAD_DURABLE_NAME,
            session.version,
            f"{header} is empty; a durable subscription needs a name",
        )
    if not session.client_id:
        detail = f"{header} needs a client-id on CONNECT: the two together name the subscription"
        raise Refusal(refusal.NO_CLIENT_ID, session.version, detail)
    return f"{session.client_id}.{name}"


def _selector(frame: Frame, version: Version) -> Selector | None:
    text = frame.get("selector")
    if text is None:
        return None
    try:
        return parse(text)
    except SelectorError as problem:
        raise Refusal(refusal.BAD_SELECTOR, version, f"selector {shown(text)}, {problem}") from None


def _ack_mode(text: str | None, version: Version) -> AckMode:
    mode = AckMode.AUTO if text is None else _MODES.get(text)
    if mode is None or (mode is AckMode.CLIENT_INDIVIDUAL and version is Version.V1_0):
        valid = "auto or client" if version is Version.V1_0 else "auto, client or client-individual"
        raise Refusal(
            refusal.BAD_ACK_MODE, version, f"ack must be {valid}, not {shown(text or '')}"
        )
    return mode


def _window_of(session: Session, frame: Frame, mode: AckMode) -> ByteWindow:
    """Return the window of a new subscription, in bytes or messages, whichever the acceptor uses.
    Mode auto needs no window of messages."""
    family = session.shared.family
    if not family.prefetch_in_messages:
        return ByteWindow(_window(session, frame, mode))
    if mode is AckMode.AUTO:
        return MessageWindow(UNLIMITED)
    text = frame.get("activemq.prefetchSize")
    if text is None:
        destination = frame.get("destination") or ""
        address, _ = _where(
            session, frame.head, destination, "subscription-type", refusal.SUB_NO_DESTINATION
        )
        return MessageWindow(family.prefetch(address, _durable(session, frame) is not None))
    if text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= INT_MAX:
        return MessageWindow(int(text))
    detail = f"activemq.prefetchSize {shown(text)} is not a number of messages from 0 to {INT_MAX}"
    raise Refusal(refusal.BAD_WINDOW, session.version, detail)


def _window(session: Session, frame: Frame, mode: AckMode) -> int:
    """Return the size of the window: the frame's, or else -1 for auto, or else the acceptor's
    (ARTEMIS-STOMP-window-1, -5)."""
    for name in ("consumer-window-size", "activemq.prefetchSize"):
        text = frame.get(name)
        if text is None:
            continue
        digits = text[1:] if text[:1] in ("-", "+") else text
        if (
            digits.isascii()
            and digits.isdigit()
            and len(digits) <= 4000
            and -1 <= int(text) <= INT_MAX
        ):
            return int(text)
        detail = f"{name} {shown(text)} is not a number of bytes from -1 (no limit) to {INT_MAX}"
        raise Refusal(refusal.BAD_WINDOW, session.version, detail)
    return -1 if mode is AckMode.AUTO else session.acceptor.stomp.consumer_window_size


def unsubscribe(session: Session, frame: Frame) -> After:
    """End a subscription of this connection, delete a durable subscription, or both. A durable
    subscription is deleted only by name."""
    version = session.version
    durable = _durable(session, frame)
    name, destination = frame.get("id"), frame.get("destination")
    if durable is None and name is None and (version is not Version.V1_0 or destination is None):
        needed = "an id" if version is not Version.V1_0 else "an id or destination"
        raise Refusal(refusal.UNSUB_NO_ID, version, f"UNSUBSCRIBE needs {needed} header")
    key = (name, destination if name is None else None)
    if key not in session.subscriptions and name is None:
        key = next(iter(session.by_destination.get(destination or "", ())), key)
    subscription = session.subscriptions.pop(key, None)
    if subscription is not None:
        same = session.by_destination[subscription.destination]
        del same[key]
        if not same:
            del session.by_destination[subscription.destination]
        session.release([subscription])
    elif durable is None:
        what = (
            f"id {shown(name)}" if name is not None else f"destination {shown(destination or '')}"
        )
        raise Refusal(
            refusal.UNSUB_UNKNOWN, version, f"no subscription with {what} exists on this connection"
        )
    if durable is not None:
        try:
            session.shared.router.durable.delete(durable)
        except NoRoute as problem:
            raise Refusal(refusal.UNSUB_FAILED, version, str(problem)) from None
    return None


# --- ACK, NACK ------------------------------------------------------------------------------------


def ack(session: Session, frame: Frame) -> After:
    _settle(session, frame, Outcome.ACCEPTED, refusal.ACK_UNKNOWN, refusal.ACK_NO_TRANSACTION)
    return None


def nack(session: Session, frame: Frame) -> After:
    """Return the message to its queue as a failed delivery (STOMP11-NACK-03, STOMP12-NACK-03), or
    dead-letter it."""
    outcome = Outcome.REJECTED if session.shared.family.nack_is_final else Outcome.MODIFIED
    _settle(session, frame, outcome, refusal.NACK_UNKNOWN, refusal.NACK_NO_TRANSACTION)
    return None


def _settle(
    session: Session, frame: Frame, outcome: Outcome, unknown: Fault, no_transaction: Fault
) -> None:
    first, version = frame.head.first, session.version
    header = "id" if version is Version.V1_2 else "message-id"
    key = first.get(header)
    if key is None:
        raise Refusal(unknown, version, f"{frame.head.command} needs the header {header}")
    if version is Version.V1_1 and "subscription" not in first:
        raise Refusal(
            refusal.ACK_WRONG_SUB, version, f"{frame.head.command} needs the header subscription"
        )
    named = first.get("transaction")
    transaction: Transaction | None = None
    if named is not None:
        transaction = _transaction(session, named, no_transaction)
        if session.shared.settings.stomp_transactional_acks_ignored:
            return
    delivery = session.deliveries.get(key)
    if delivery is None:
        raise Refusal(
            unknown, version, f"{header} {shown(key)} does not name an unacknowledged message"
        )
    subscription: Subscription = delivery.subscription
    if version is Version.V1_1 and first["subscription"] != subscription.id:
        detail = (
            f"message-id {shown(key)} does not belong to subscription"
            f" {shown(first['subscription'])}"
        )
        raise Refusal(refusal.ACK_WRONG_SUB, version, detail)
    entries = subscription.take(delivery)
    queue = subscription.queue
    if transaction is None:
        queue.settle(entries, outcome)
    else:
        transaction.settle(queue, entries, outcome)
    queue.dispatch()


# --- BEGIN, COMMIT, ABORT -------------------------------------------------------------------------


def begin(session: Session, frame: Frame) -> After:
    name = frame.get("transaction")
    if name is None:
        raise Refusal(refusal.BEGIN_BAD, session.version, "BEGIN needs a transaction header")
    if name in session.transactions:
        detail = f"transaction {shown(name)} is already open on this connection"
        raise Refusal(refusal.BEGIN_AGAIN, session.version, detail)
    quotas = session.shared.settings.quotas
    excess = quotas.exceeded("transactions", len(session.transactions))
    if excess is not None:
        raise Refusal(refusal.TOO_MANY_TRANSACTIONS, session.version, excess)
    session.transactions[name] = Transaction()
    return None


def commit(session: Session, frame: Frame) -> After:
    transaction = _end(session, frame, refusal.COMMIT_BAD)
    router = session.shared.router
    if transaction.doomed is not None:
        _undo(session, transaction)
        raise Refusal(refusal.ROLLED_BACK, session.version, transaction.doomed)
    router.begin_atomic_unit()
    try:
        queues = transaction.commit(router.publish)
    except NoRoute as problem:
        raise Refusal(refusal.COMMIT_BAD, session.version, str(problem)) from None
    for queue in queues:
        queue.dispatch()
        router.addresses.tidy(queue)
    return None


def abort(session: Session, frame: Frame) -> After:
    _undo(session, _end(session, frame, refusal.ABORT_BAD))
    return None


def _undo(session: Session, transaction: Transaction) -> None:
    for queue in transaction.undo():
        queue.dispatch()
        session.shared.router.addresses.tidy(queue)


def _end(session: Session, frame: Frame, fault: Fault) -> Transaction:
    name = frame.get("transaction")
    if name is None:
        raise Refusal(fault, session.version, f"{frame.head.command} needs a transaction header")
    transaction = _transaction(session, name, fault)
    del session.transactions[name]
    session.sending_transactions.discard(name)
    return transaction


def _transaction(session: Session, name: str, fault: Fault) -> Transaction:
    transaction = session.transactions.get(name)
    if transaction is None:
        raise Refusal(
            fault, session.version, f"no transaction {shown(name)} has begun on this connection"
        )
    return transaction


# --- DISCONNECT -----------------------------------------------------------------------------------


def disconnect(session: Session, frame: Frame) -> After:
    return session.close


COMMANDS: Mapping[str, Handler] = {
    "SEND": send,
    "SUBSCRIBE": subscribe,
    "UNSUBSCRIBE": unsubscribe,
    "ACK": ack,
    "NACK": nack,
    "BEGIN": begin,
    "COMMIT": commit,
    "ABORT": abort,
    "DISCONNECT": disconnect,
}
"""Handlers by command. The grammar decides which commands exist in a version."""
