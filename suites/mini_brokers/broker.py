"""An honest mini-broker: STOMP 1.0 to 1.2, queues and topics, transactions, heartbeats.

It does what the STOMP specifications require. As Artemis's manual promises, it also has a
connection TTL, a consumer window in bytes and ordered queues. As RabbitMQ's documentation promises,
publishers wait while memory or disk space is short. Every fault of ``faults.py`` overrides one
method of the classes here.
"""

import asyncio
import itertools
from collections import deque
from dataclasses import dataclass, field

from brokerproof.suites.mini_brokers.frames import (
    VERSIONS,
    BadFrame,
    Frame,
    Headers,
    Parser,
    encode,
)

UNLIMITED = -1
NOT_OF_A_MESSAGE = ("destination", "receipt", "transaction", "content-length", "redelivered")


@dataclass(slots=True)
class Message:
    """A message that a SEND put into a queue."""

    number: int
    destination: str
    headers: Headers
    body: bytes
    redelivered: bool = False


@dataclass(slots=True)
class Delivery:
    """A message that a subscription has not settled, and the size of its frame in bytes."""

    message: Message
    size: int = 0


@dataclass
class Subscription:
    """A subscription of a connection, and the subscription's unsettled deliveries."""

    connection: "Connection"
    id: str
    destination: str
    ack: str
    window: int
    used: int = 0
    held: dict[str, Delivery] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """True if the window has room for another message."""
        return self.window == UNLIMITED or self.used < max(1, self.window)


@dataclass
class Queue:
    """The messages in order, and the subscriptions that take turns.

    A topic has a queue for each subscription.
    """

    messages: deque[Message] = field(default_factory=deque)
    subscriptions: deque[Subscription] = field(default_factory=deque)

    def dispatch(self) -> None:
        """Deliver messages while a subscription has room."""
        while self.messages:
            open_ones = [
                subscription for subscription in self.subscriptions if subscription.is_open
            ]
            if not open_ones:
                return
            taker = open_ones[0]
            self.end_turn(taker)
            taker.connection.deliver(taker, self.messages.popleft())

    def end_turn(self, taker: Subscription) -> None:
        """Move ``taker`` to the end of the turn order."""
        self.subscriptions.remove(taker)
        self.subscriptions.append(taker)

    def give_back(self, messages: list[Message]) -> None:
        """Return unsettled messages to their positions."""
        for message in messages:
            message.redelivered = True
        self.messages = deque(
            sorted([*messages, *self.messages], key=lambda message: message.number)
        )
        self.dispatch()


class Connection(asyncio.Protocol):
    keeps: bool | None = None
    """True if every destination is a queue, False if every one is a topic."""
    beats_after = 0.95
    """The server sends a heartbeat after this share of the agreed interval."""
    versions: tuple[str, ...] = VERSIONS

    def __init__(self, broker: "Broker") -> None:
        self.broker = broker
        self.parser = Parser()
        self.version = "1.0"
        self.is_connected = False
        self.subscriptions: dict[str, Subscription] = {}
        self.transactions: dict[str, list[Frame]] = {}
        self.heard_at = 0.0
        self.ttl_s = 60.0
        self.is_blocked = False
        self.unread = b""
        self.timers: list[asyncio.TimerHandle] = []

    # the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.heard_at = self.broker.loop.time()
        self.broker.connections.add(self)

    def data_received(self, data: bytes) -> None:
        self.heard_at = self.broker.loop.time()
        if self.is_blocked:
            self.unread += data
            return
        frame = None
        try:
            for frame in self.parser.feed(data):
                if self.transport.is_closing():
                    return
                self.handle(frame)
                if self.is_blocked:
                    return
                frame = None
        except BadFrame as problem:
            self.refuse(str(problem), frame)

    def connection_lost(self, problem: Exception | None) -> None:
        self.broker.connections.discard(self)
        for timer in self.timers:
            timer.cancel()
        for subscription in list(self.subscriptions.values()):
            self.broker.unsubscribe(subscription)

    def write(self, frame: Frame) -> int:
        """Send a frame and return its size in bytes."""
        data = self.encoded(frame)
        self.send(data)
        return len(data)

    def encoded(self, frame: Frame) -> bytes:
        return encode(frame, self.version)

    def send(self, data: bytes) -> None:
        self.transport.write(data)

    def beat(self) -> bytes:
        return b"\n"

    def next_id(self) -> str:
        return str(next(self.broker.numbers))

    def end(self) -> None:
        """Close the connection once everything is sent."""
        self.transport.close()

    def receipt(self, id: str) -> None:
        self.write(Frame("RECEIPT", [("receipt-id", id)]))

    def refuse(self, reason: str, frame: Frame | None) -> None:
        """Send an ERROR and close."""
        headers = [("message", reason), ("content-type", "text/plain")]
        receipt = None if frame is None else frame.get("receipt")
        if receipt is not None:
            headers.append(("receipt-id", receipt))
        body = reason.encode()
        headers.append(("content-length", str(len(body))))
        self.write(Frame("ERROR", headers, body))
        self.end()

    # frames

    def handle(self, frame: Frame) -> None:
        """Carry out a frame and confirm it. Raises :class:`BadFrame`."""
        if frame.command in ("CONNECT", "STOMP"):
            self.connect(frame)
            return
        if not self.is_connected:
            raise BadFrame("the first frame should be CONNECT")
        if frame.command == "NACK" and self.version == "1.0":
            raise BadFrame("NACK is not a command of STOMP 1.0")
        transaction = frame.get("transaction")
        if frame.command in ("SEND", "ACK", "NACK") and transaction is not None:
            if transaction not in self.transactions:
                raise BadFrame(f"there is no transaction {transaction}")
            if frame.command == "SEND":
                frame.need("destination")
            else:
                self.settled_by(frame)
            self.transactions[transaction].append(frame)
        else:
            self.apply(frame)
        self.confirm(frame)
        self.is_blocked = frame.command == "SEND" and bool(self.broker.shortages)
        if frame.command == "DISCONNECT":
            self.end()

    def unblock(self) -> None:
        """Continue with the frames that a shortage left unread."""
        if self.is_blocked:
            self.is_blocked = False
            data, self.unread = self.unread, b""
            self.data_received(data)

    def confirm(self, frame: Frame) -> None:
        receipt = frame.get("receipt")
        if receipt is not None:
            self.receipt(receipt)
        for queue in self.broker.queues_of(self):
            queue.dispatch()

    def apply(self, frame: Frame) -> None:
        """Carry out a frame that is not part of a transaction."""
        match frame.command:
            case "SEND":
                self.broker.publish(frame)
            case "SUBSCRIBE":
                self.subscribe(frame)
            case "UNSUBSCRIBE":
                self.broker.unsubscribe(self.subscription_of(frame))
            case "ACK":
                self.settle(frame, accepted=True)
            case "NACK":
                self.settle(frame, accepted=False)
            case "BEGIN":
                self.begin(frame.need("transaction"))
            case "COMMIT":
                for held_back in self.end_transaction(frame):
                    self.apply(held_back)
            case "ABORT":
                self.end_transaction(frame)
            case "DISCONNECT":
                pass
            case unknown:
                raise BadFrame(f"{unknown!r} is not a command")

    def begin(self, name: str) -> None:
        if name in self.transactions:
            raise BadFrame(f"the transaction {name} is already open")
        self.transactions[name] = []

    def end_transaction(self, frame: Frame) -> list[Frame]:
        name = frame.need("transaction")
        if name not in self.transactions:
            raise BadFrame(f"there is no transaction {name}")
        return self.transactions.pop(name)

    # the session

    def connect(self, frame: Frame) -> None:
        """Agree on a version and on heartbeats."""
        if self.is_connected:
            raise BadFrame("the session is already open")
        offered = (frame.get("accept-version") or "1.0").split(",")
        common = [version for version in self.versions if version in offered]
        if not common:
            self.write(
                Frame(
                    "ERROR",
                    [("version", ",".join(self.versions)), ("message", "no common version")],
                )
            )
            self.end()
            return
        self.version = self.parser.version = common[-1]
        self.is_connected = True
        headers = [("version", self.version), ("server", "mini-broker/1.0")]
        headers.append(("session", str(next(self.broker.numbers))))
        asked = frame.get("heart-beat")
        if asked is not None and self.version != "1.0":
            sx, sy = self.agree(asked)
            headers.append(("heart-beat", f"{sx},{sy}"))
            if sx:
                self.beat_every(sx / 1000)
        self.write(Frame("CONNECTED", headers))

    def agree(self, asked: str) -> tuple[int, int]:
        """The heartbeat intervals that the server offers and requests, in ms."""
        words = asked.split(",")
        if len(words) != 2 or not all(word.isascii() and word.isdecimal() for word in words):
            raise BadFrame(f"heart-beat:{asked} is not a pair of numbers")
        cx, cy = map(int, words)
        sx = max(500, cy) if cy else 0
        if cx == 0:
            return sx, 30_000
        self.ttl_s = max(1000, cx * 2) / 1000
        return sx, max(500, cx)

    def beat_every(self, period: float) -> None:
        """Send an end of line every ``period`` seconds."""

        def beat() -> None:
            self.send(self.beat())
            self.beat_every(period)

        self.timers[:] = [self.broker.loop.call_later(period * self.beats_after, beat)]

    def is_expired(self, now: float) -> bool:
        """True if the client has been silent for its TTL."""
        return not self.is_blocked and now - self.heard_at >= self.ttl_s

    # subscriptions

    def subscribe(self, frame: Frame) -> None:
        destination = frame.need("destination")
        name = frame.get("id") if self.version == "1.0" else frame.need("id")
        name = name or destination
        if name in self.subscriptions:
            raise BadFrame(f"the subscription {name} exists already")
        ack = frame.get("ack") or "auto"
        modes = (
            ("auto", "client") if self.version == "1.0" else ("auto", "client", "client-individual")
        )
        if ack not in modes:
            raise BadFrame(f"ack:{ack} is not a mode of STOMP {self.version}")
        window = frame.get("consumer-window-size") or frame.get("activemq.prefetchSize")
        if window is None:
            size = UNLIMITED if ack == "auto" else 10_240
        else:
            if not window.removeprefix("-").isdecimal():
                raise BadFrame(f"consumer-window-size:{window} is not a number")
            size = int(window)
        subscription = Subscription(self, name, destination, ack, size)
        self.subscriptions[name] = subscription
        self.broker.queue(subscription).subscriptions.append(subscription)

    def subscription_of(self, frame: Frame) -> Subscription:
        name = frame.get("id") or (self.version == "1.0" and frame.get("destination"))
        if not name or name not in self.subscriptions:
            raise BadFrame(f"{frame.command} names no subscription")
        return self.subscriptions[name]

    def deliver(self, subscription: Subscription, message: Message) -> None:
        number = self.next_id()
        headers = [
            ("destination", message.destination),
            ("message-id", number),
            ("subscription", subscription.id),
            ("content-length", str(self.length_of(message.body))),
        ]
        if subscription.ack != "auto" and self.version == "1.2":
            headers.append(("ack", number))
        if message.redelivered:
            headers.append(("redelivered", "true"))
        named = {name for name, _ in headers}
        headers += [(name, value) for name, value in message.headers if name not in named]
        size = self.write(Frame("MESSAGE", headers, message.body))
        if subscription.ack != "auto":
            subscription.held[number] = Delivery(message, size)
            self.charge(subscription, size)

    def length_of(self, body: bytes) -> int:
        return len(body)

    def charge(self, subscription: Subscription, size: int) -> None:
        """Charge a delivery's bytes to the window."""
        subscription.used += size

    # settlement

    def settled_by(self, frame: Frame) -> tuple[Subscription, list[str]]:
        """Return the subscription and the deliveries that an ACK or NACK settles."""
        number = frame.need("id" if self.version == "1.2" else "message-id")
        subscriptions = list(self.subscriptions.values())
        if self.version == "1.1":
            name = frame.need("subscription")
            subscriptions = [
                subscription for subscription in subscriptions if subscription.id == name
            ]
        for subscription in subscriptions:
            if number in subscription.held:
                if subscription.ack == "client-individual":
                    return subscription, [number]
                numbers = list(subscription.held)
                return subscription, numbers[: numbers.index(number) + 1]
        raise BadFrame(f"{frame.command} names no delivery: {number}")

    def settle(self, frame: Frame, *, accepted: bool) -> None:
        subscription, numbers = self.settled_by(frame)
        for number in numbers:
            subscription.used -= subscription.held.pop(number).size
        self.broker.queue(subscription).dispatch()


@dataclass(frozen=True, slots=True)
class Parts:
    """The classes that make up a broker, and how often the broker checks for silent connections."""

    connection: type[Connection] = Connection
    queue: type[Queue] = Queue
    check_interval_s: float = 2.0


class Broker:
    """Queues, topics and connections."""

    def __init__(self, loop: asyncio.AbstractEventLoop, parts: Parts) -> None:
        self.loop = loop
        self.parts = parts
        self.numbers = itertools.count(1)
        self.connections: set[Connection] = set()
        self.queues: dict[str, Queue] = {}
        self.topics: dict[str, dict[tuple[int, str], Queue]] = {}
        self.shortages: set[str] = set()
        loop.call_later(self.parts.check_interval_s, self.end_silent_connections)

    def set_short(self, resource: str, is_short: bool) -> None:
        """Begin or end a shortage of a resource, which blocks connections that publish."""
        (self.shortages.add if is_short else self.shortages.discard)(resource)
        if not self.shortages:
            for connection in list(self.connections):
                connection.unblock()

    def end_silent_connections(self) -> None:
        """Close the connections whose TTL has passed."""
        now = self.loop.time()
        for connection in list(self.connections):
            if connection.is_expired(now):
                connection.refuse("no data was received within the TTL", None)
        self.loop.call_later(self.parts.check_interval_s, self.end_silent_connections)

    def is_topic(self, destination: str) -> bool:
        """True if each subscription of the destination gets a copy."""
        keeps = self.parts.connection.keeps
        return destination.startswith("/topic/") if keeps is None else not keeps

    def queue(self, subscription: Subscription) -> Queue:
        if not self.is_topic(subscription.destination):
            return self.queues.setdefault(subscription.destination, self.parts.queue())
        key = (id(subscription.connection), subscription.id)
        return self.topics.setdefault(subscription.destination, {}).setdefault(
            key, self.parts.queue()
        )

    def queues_of(self, connection: Connection) -> list[Queue]:
        return [self.queue(destination) for destination in connection.subscriptions.values()]

    def publish(self, frame: Frame) -> None:
        """Put a SEND into its queue, or into the queue of each subscription of its topic."""
        destination = frame.need("destination")
        headers = [header for header in frame.headers if header[0] not in NOT_OF_A_MESSAGE]
        if self.is_topic(destination):
            queues = list(self.topics.get(destination, {}).values())
        else:
            queues = [self.queues.setdefault(destination, self.parts.queue())]
        for queue in queues:
            queue.messages.append(Message(next(self.numbers), destination, headers, frame.body))
            queue.dispatch()

    def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription; its unsettled messages return to the queue."""
        queue = self.queue(subscription)
        queue.subscriptions.remove(subscription)
        subscription.connection.subscriptions.pop(subscription.id)
        if self.is_topic(subscription.destination):
            del self.topics[subscription.destination][id(subscription.connection), subscription.id]
        else:
            queue.give_back([delivery.message for delivery in subscription.held.values()])
