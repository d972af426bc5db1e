"""Recordings of a working queue broker and of a faulty one, drawn step by step. All judges should
agree on them."""

from dataclasses import dataclass, field
from random import Random

from hypothesis import strategies as st

from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import seconds
from brokerproof.harness.trace import events as ev
from brokerproof.suites.units.drivers.model_broker import (
    CONSUMERS,
    PRODUCERS,
    QUEUES,
    ModelBroker,
    drawn,
)

MODES = ("auto", "client", "client-individual")
STEPS = (*["send"] * 3, *["deliver"] * 3, "ack", "ack", "nack", "leave", "unsubscribe", "wait")
FAULTS = (
    "lose", "double", "overtake", "invent", "mark", "unmark", "overrun", "revive", "mute",
    "hang up",
)  # fmt: skip


@dataclass
class Message:
    """A message of the model: its body, and whether it was delivered before."""

    body: bytes
    again: bool = False


@dataclass
class Consumer:
    conn: int
    queue: int
    mode: str
    window: int
    held: list[tuple[str, Message, int]] = field(default_factory=list)

    @property
    def room(self) -> bool:
        """True if the consumer's window has room for one more delivery."""
        length = sum(size for _, _, size in self.held)
        return self.window < 0 or (not self.held if self.window == 0 else length < self.window)


@dataclass
class Player(ModelBroker):
    tokens: int = 0

    def frame(
        self,
        conn: int,
        command: str,
        headers: dict[str, str],
        body: bytes = b"",
        *,
        got: bool = False,
    ) -> int:
        size = 40 + len(body) + sum(len(name) + len(value) + 2 for name, value in headers.items())
        kind = ev.FrameReceived if got else ev.FrameSent
        fields = {
            "headers": tuple(headers.items()),
            "body": body,
            "body_size": len(body),
            "size": size,
        }
        self.tell(kind, conn, protocol="STOMP", command=command, **fields)
        return size

    def connect(self) -> int:
        self.conns += 1
        self.tell(ev.ConnectionOpened, self.conns, protocol="STOMP", acceptor="stomp")
        self.frame(self.conns, "CONNECT", {"accept-version": "1.2", "heart-beat": "1000,1000"})
        self.frame(self.conns, "CONNECTED", {"version": "1.2", "heart-beat": "1000,1000"}, got=True)
        return self.conns

    def send(self, producer: int, queue: int) -> None:
        number, body = self.next_body(producer, queue)
        receipt = f"r{queue}-{number}"
        self.frame(
            1 + producer, "SEND", {"destination": f"/queue/{queue}", "receipt": receipt}, body
        )
        if self.random.randrange(10):
            self.frame(1 + producer, "RECEIPT", {"receipt-id": receipt}, got=True)
        self.waiting[queue].append(Message(body))

    def join(self) -> None:
        mode, window = self.random.choice(MODES), self.random.choice([-1, 0, 1, 150, 300, 10_000])
        consumer = Consumer(self.connect(), self.random.randrange(QUEUES), mode, window)
        named = {"id": "s", "destination": f"/queue/{consumer.queue}", "ack": mode}
        self.frame(consumer.conn, "SUBSCRIBE", {**named, "consumer-window-size": str(window)})
        self.consumers.append(consumer)

    def hand(self, consumer: Consumer, message: Message, *, marked: bool | None = None) -> None:
        self.tokens += 1
        token = f"t{self.tokens}"
        named = {
            "subscription": "s",
            "message-id": f"m{self.tokens}",
            "destination": f"/queue/{consumer.queue}",
        }
        if consumer.mode != "auto":
            named["ack"] = token
        if message.again if marked is None else marked:
            named["redelivered"] = "true"
        size = self.frame(consumer.conn, "MESSAGE", named, message.body, got=True)
        if consumer.mode == "auto":
            self.settled.append((consumer.queue, message))
        else:
            consumer.held.append((token, message, size))

    def deliver(self, consumer: Consumer) -> None:
        if self.waiting[consumer.queue] and (consumer.mode == "auto" or consumer.room):
            self.hand(consumer, self.waiting[consumer.queue].pop(0))

    def answer(self, consumer: Consumer, command: str) -> None:
        if not consumer.held:
            return
        at = self.random.randrange(len(consumer.held))
        first = 0 if consumer.mode == "client" else at
        covered = consumer.held[first : at + 1]
        headers = {"id": consumer.held[at][0]}
        receipt = self.random.random() < 0.5
        if receipt:
            headers["receipt"] = f"a{self.tokens}-{self.now}"
        del consumer.held[first : at + 1]
        self.frame(consumer.conn, command, headers)
        if receipt:
            self.frame(consumer.conn, "RECEIPT", {"receipt-id": headers["receipt"]}, got=True)
        if command == "ACK":
            self.settled += [(consumer.queue, message) for _, message, _ in covered]
        else:
            self.give_back(consumer, [message for _, message, _ in covered])

    def leave(self, place: int, how: str) -> None:
        consumer = self.consumers[place]
        if consumer is None:
            return
        if how == "leave":
            self.tell(ev.ConnectionAbandoned, consumer.conn, how=self.random.choice(list(CloseHow)))
        else:
            self.frame(consumer.conn, "UNSUBSCRIBE", {"id": "s", "receipt": f"u{consumer.conn}"})
            self.frame(consumer.conn, "RECEIPT", {"receipt-id": f"u{consumer.conn}"}, got=True)
        self.give_back(consumer, [message for _, message, _ in consumer.held])
        self.consumers[place] = None

    def wrong(self, fault: str) -> bool:
        """Commit the fault. Return False if nothing can be corrupted here yet."""
        consumers = [consumer for consumer in self.consumers if consumer is not None]
        for consumer in consumers:
            waiting = self.waiting[consumer.queue]
            fresh = [message for message in waiting if not message.again]
            match fault:
                case "lose" if fresh:
                    waiting.remove(fresh[0])
                case "double" if consumer.held:
                    self.hand(consumers[-1], consumer.held[0][1])
                case "overtake" if len(waiting) > 1:
                    waiting[0], waiting[1] = waiting[1], waiting[0]
                case "invent":
                    self.hand(consumer, Message(self.invented_body()))
                case "mute":
                    self.now += seconds(9)
                    self.frame(consumer.conn, "RECEIPT", {"receipt-id": "late"}, got=True)
                case "hang up":
                    self.tell(ev.ConnectionClosed, consumer.conn, how=CloseHow.EOF)
                    self.give_back(consumer, [message for _, message, _ in consumer.held])
                    self.consumers[self.consumers.index(consumer)] = None
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
            case "deliver" if consumer is not None:
                self.deliver(consumer)
            case "ack" | "nack" if consumer is not None and consumer.mode != "auto":
                self.answer(consumer, step.upper())
            case "leave" | "unsubscribe":
                self.leave(place, step)
                self.join()
            case "wait":
                self.beat("STOMP", 1)


def recording(seed: int, fault: str | None, steps: int) -> list[ev.Event]:
    """Return a recording of ``steps`` steps; the broker commits ``fault`` as soon as possible after
    the first third."""
    player = Player(Random(seed), stamped=seed % 2 == 0)
    # Consumers leave in only half of them: after a consumer has left, almost any behaviour may be
    # right.
    calm = [step for step in STEPS if step not in ("leave", "unsubscribe", "nack")]
    kinds = STEPS if seed % 4 < 2 else calm
    for _ in range(PRODUCERS):
        player.connect()
    for _ in range(CONSUMERS):
        player.join()
    return player.play(fault, steps, kinds)


def recordings(*, right: bool = False) -> st.SearchStrategy[list[ev.Event]]:
    """Return recordings of a broker, with one fault unless it is ``right``."""
    return drawn(recording, FAULTS, right=right)
