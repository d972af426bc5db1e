"""Recordings of a working AMQP 0-9-1 broker and of a faulty one, like
:mod:`brokerproof.suites.units.drivers.model_recordings`."""

from dataclasses import dataclass, field
from random import Random

from hypothesis import strategies as st

from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import seconds
from brokerproof.harness.protocols.amqp091 import values
from brokerproof.harness.trace import events as ev
from brokerproof.suites.units.drivers.model_broker import (
    CONSUMERS,
    PRODUCERS,
    QUEUES,
    ModelBroker,
    drawn,
)

CONFIRMED = (b"bp1:00000000:", b"0/")
"""The beginning of the bodies of the producer with confirms."""
WAYS = ("one by one", "multiple", "none")
STEPS = (
    *(*["send"] * 3, *["deliver"] * 3),
    *("ack", "ack", "nack", "reject", "leave", "close", "get", "wait"),
)
FAULTS = (
    "lose", "double", "overtake", "invent", "mark", "unmark", "overrun", "revive", "mute",
    "same tag", "acknowledged twice", "unblock",
)  # fmt: skip


@dataclass
class Message:
    body: bytes
    exchange: str
    key: str
    again: bool = False


@dataclass
class Consumer:
    """One consumer on channel 1 of a separate connection; it holds messages by delivery-tag."""

    conn: int
    queue: int
    way: str
    prefetch: int
    tag: int = 0
    held: dict[int, Message] = field(default_factory=dict)

    @property
    def room(self) -> bool:
        """True if the consumer's prefetch allows one more delivery."""
        return self.way == "none" or not self.prefetch or len(self.held) < self.prefetch


@dataclass
class Player(ModelBroker):
    exchange: str = ""
    """The exchange of all messages; each of its keys has one queue."""
    confirms: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By producer: the numbers of messages published and confirmed."""

    def method(
        self,
        conn: int,
        command: str,
        body: bytes = b"",
        *,
        got: bool = False,
        on: int = 1,
        **fields: object,
    ) -> None:
        named = [(name.replace("_", "-"), values.words(each)) for name, each in fields.items()]
        headers = (("channel", str(on)), *named)
        kind = ev.FrameReceived if got else ev.FrameSent
        size = {"body": body, "body_size": len(body), "size": 40 + len(body)}
        self.tell(kind, conn, protocol="AMQP091", command=command, headers=headers, **size)

    def connect(self) -> int:
        self.conns += 1
        conn = self.conns
        self.tell(ev.ConnectionOpened, conn, protocol="AMQP091", acceptor="amqp091")
        self.method(conn, "protocol-header", on=0, id=0)
        self.method(conn, "connection.start", on=0, got=True)
        able = "{'capabilities': {'connection.blocked': True}}" if conn % 2 else "{}"
        self.method(conn, "connection.start-ok", on=0, client_properties=able)
        self.method(conn, "connection.tune", on=0, got=True, heartbeat=2)
        self.method(conn, "connection.tune-ok", on=0, heartbeat=2)
        self.method(conn, "channel.open")
        self.method(conn, "channel.open-ok", got=True)
        return conn

    def producer(self, number: int) -> None:
        conn = self.connect()
        for queue in range(QUEUES):
            self.method(conn, "queue.declare", queue=f"q{queue}", arguments="{}")
            self.method(conn, "queue.declare-ok", got=True, queue=f"q{queue}")
        if number == 0:
            self.method(conn, "confirm.select")
            self.method(conn, "confirm.select-ok", got=True)
            self.confirms[0] = (0, 0)

    def send(self, producer: int, queue: int) -> None:
        _, body = self.next_body(producer, queue)
        message = Message(body, self.exchange, f"q{queue}")
        self.method(
            1 + producer,
            "basic.publish",
            body,
            exchange=message.exchange,
            routing_key=message.key,
            mandatory=False,
        )
        if producer in self.confirms:
            count, confirmed = self.confirms[producer]
            if self.random.randrange(3):
                fields = {"delivery_tag": count + 1, "multiple": count > confirmed}
                self.method(1 + producer, "basic.ack", got=True, **fields)
                confirmed = count + 1
            self.confirms[producer] = (count + 1, confirmed)
        self.waiting[queue].append(message)

    def join(self) -> None:
        way, prefetch = self.random.choice(WAYS), self.random.choice([0, 1, 2, 5])
        consumer = Consumer(self.connect(), self.random.randrange(QUEUES), way, prefetch)
        self.method(consumer.conn, "basic.qos", prefetch_size=0, prefetch_count=prefetch)
        self.method(consumer.conn, "basic.qos-ok", got=True)
        named = {"queue": f"q{consumer.queue}", "consumer_tag": "c", "no_ack": way == "none"}
        self.method(consumer.conn, "basic.consume", **named)
        self.method(consumer.conn, "basic.consume-ok", got=True, consumer_tag="c")
        self.consumers.append(consumer)

    def hand(
        self,
        consumer: Consumer,
        message: Message,
        *,
        marked: bool | None = None,
        fresh: bool = True,
    ) -> None:
        consumer.tag += fresh
        again = message.again if marked is None else marked
        fields = {
            "delivery_tag": consumer.tag,
            "redelivered": again,
            "exchange": message.exchange,
            "routing_key": message.key,
        }
        self.method(
            consumer.conn, "basic.deliver", message.body, got=True, consumer_tag="c", **fields
        )
        if consumer.way == "none":
            self.settled.append((consumer.queue, message))
        else:
            consumer.held[consumer.tag] = message

    def deliver(self, consumer: Consumer) -> None:
        if self.waiting[consumer.queue] and consumer.room:
            self.hand(consumer, self.waiting[consumer.queue].pop(0))

    def get(self, consumer: Consumer) -> None:
        self.method(consumer.conn, "basic.get", queue=f"q{consumer.queue}", no_ack=True)
        if not self.waiting[consumer.queue]:
            self.method(consumer.conn, "basic.get-empty", got=True)
            return
        message = self.waiting[consumer.queue].pop(0)
        consumer.tag += 1
        about = {
            "delivery_tag": consumer.tag,
            "redelivered": message.again,
            "exchange": message.exchange,
        }
        self.method(
            consumer.conn, "basic.get-ok", message.body, got=True, routing_key=message.key, **about
        )
        self.settled.append((consumer.queue, message))

    def answer(self, consumer: Consumer, command: str) -> None:
        if not consumer.held:
            return
        tag = (
            self.random.choice(list(consumer.held))
            if self.random.randrange(3)
            else min(consumer.held)
        )
        multiple = command != "reject" and consumer.way == "multiple"
        covered = [other for other in consumer.held if other == tag or (multiple and other < tag)]
        fields = {"delivery_tag": tag} | ({} if command == "reject" else {"multiple": multiple})
        back = command == "nack"
        if command != "ack":
            fields["requeue"] = back
        self.method(consumer.conn, f"basic.{command}", **fields)
        messages = [consumer.held.pop(other) for other in covered]
        if back:
            self.give_back(consumer, messages)
        elif command == "ack":
            self.settled += [(consumer.queue, message) for message in messages]

    def leave(self, place: int, how: str) -> None:
        consumer = self.consumers.pop(place)
        if how == "leave":
            self.tell(ev.ConnectionAbandoned, consumer.conn, how=self.random.choice(list(CloseHow)))
        else:
            self.method(consumer.conn, "channel.close", reply_code=200)
            self.method(consumer.conn, "channel.close-ok", got=True)
        self.give_back(consumer, list(consumer.held.values()))

    def behind(self, waiting: list[Message]) -> int:
        """Return the position of the next message by the producer of the first one; 0 if there is
        none."""
        digits = 12 if self.stamped else 1
        first = waiting[0].body[:digits] if waiting else b""
        return next(
            (at for at, frame in enumerate(waiting) if at and frame.body[:digits] == first), 0
        )

    def wrong(self, fault: str) -> bool:
        """Commit the fault. Return False if nothing can be corrupted here yet."""
        for consumer in self.consumers:
            waiting = self.waiting[consumer.queue]
            fresh = [message for message in waiting if not message.again]
            acknowledged = consumer.way != "none"
            match fault:
                case "lose" if of_confirmed := [
                    message for message in fresh if message.body.startswith(CONFIRMED)
                ]:
                    waiting.remove(of_confirmed[0])
                case "double" if consumer.held:
                    self.hand(consumer, next(iter(consumer.held.values())))
                case "overtake" if (behind := self.behind(waiting)) > 0:
                    waiting[0], waiting[behind] = waiting[behind], waiting[0]
                case "invent":
                    self.hand(
                        consumer, Message(self.invented_body(), self.exchange, f"q{consumer.queue}")
                    )
                case "mute":
                    self.now += seconds(20)
                    self.method(consumer.conn, "basic.qos-ok", got=True)
                case "same tag" if waiting and consumer.tag and acknowledged:
                    self.hand(consumer, waiting.pop(0), fresh=False)
                case "acknowledged twice" if consumer.tag and acknowledged and not consumer.held:
                    self.method(
                        consumer.conn, "basic.ack", delivery_tag=consumer.tag, multiple=False
                    )
                    self.method(
                        consumer.conn,
                        "basic.qos",
                        prefetch_size=0,
                        prefetch_count=consumer.prefetch,
                    )
                    self.method(consumer.conn, "basic.qos-ok", got=True)
                case "unblock":
                    self.method(consumer.conn, "connection.unblocked", on=0, got=True)
                case _:
                    if not self.misdeliver(fault, consumer):
                        continue
            return True
        return False

    def step(self, step: str) -> None:
        place = self.random.randrange(len(self.consumers))
        consumer = self.consumers[place]
        match step:
            case "send":
                self.send(self.random.randrange(PRODUCERS), self.random.randrange(QUEUES))
            case "deliver":
                self.deliver(consumer)
            case "ack" | "nack" | "reject" if consumer.way != "none":
                self.answer(consumer, step)
            case "leave" | "close":
                self.leave(place, step)
                self.join()
            case "get":
                self.get(consumer)
            case "wait":
                self.beat("AMQP091", 8)


def recording(seed: int, fault: str | None, steps: int) -> list[ev.Event]:
    """Return a recording of ``steps`` steps; the broker commits ``fault`` as soon as possible after
    the first third."""
    player = Player(Random(seed), stamped=seed % 2 == 0, exchange="x" if seed % 8 in (2, 3) else "")
    calm = [step for step in STEPS if step not in ("leave", "close", "nack", "reject", "get")]
    kinds = STEPS if seed % 4 < 2 else calm
    for number in range(PRODUCERS):
        player.producer(number)
    for _ in range(CONSUMERS):
        player.join()
    return player.play(fault, steps, kinds)


def recordings(*, right: bool = False) -> st.SearchStrategy[list[ev.Event]]:
    """Return recordings of a broker, with one fault unless it is ``right``."""
    return drawn(recording, FAULTS, right=right)
