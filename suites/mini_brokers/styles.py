"""Legal styles: honest brokers that make the choices that the STOMP specifications leave open.

No case may report a violation of any of them. Each class states its choice, and why the
specification allows it.
"""

import itertools
from collections.abc import Mapping
from dataclasses import replace

from brokerproof.suites.mini_brokers.broker import (
    Broker,
    Connection,
    Message,
    Parts,
    Queue,
    Subscription,
)
from brokerproof.suites.mini_brokers.frames import BadFrame, Frame, encode


class LinesBehindFrames(Connection):
    """Two ends of line follow each frame: a NUL may be followed by several."""

    def encoded(self, frame: Frame) -> bytes:
        return super().encoded(frame) + b"\n\n"


class SingleBytes(Connection):
    """Each of the first thousand bytes is written separately. TCP keeps no boundaries."""

    def send(self, data: bytes) -> None:
        for position in range(min(len(data), 1000)):
            self.transport.write(data[position : position + 1])
        self.transport.write(data[1000:])


class ManyHeaders(Connection):
    """Headers are in another order, one is empty, and some are in no specification. A message
    repeats its headers, as relays may: the first one counts. Each frame has a content-length."""

    def encoded(self, frame: Frame) -> bytes:
        own = "a:b\\c" if self.version != "1.0" else "a:b"  # stomp.py unescapes 1.0 too
        own = f"{id(self)}" if frame.command == "CONNECTED" else own
        headers = [("x-of", own), ("empty", ""), *reversed(frame.headers)]
        if frame.command == "MESSAGE":
            headers += [(name, f"{value}-of-old") for name, value in frame.headers]
        if "content-length" not in dict(headers):
            headers.append(("content-length", str(len(frame.body))))
        return encode(Frame(frame.command, headers, frame.body), self.version)


class CarriageReturns(Connection):
    """In STOMP 1.2 lines end with CR LF, heartbeats too."""

    def encoded(self, frame: Frame) -> bytes:
        data = super().encoded(frame)
        if self.version != "1.2":
            return data
        head, separator, rest = data.partition(b"\n\n")
        return (head + separator).replace(b"\n", b"\r\n") + rest

    def beat(self) -> bytes:
        return b"\r\n" if self.version == "1.2" else b"\n"


class NoLength(Connection):
    """A body without NUL has no content-length, which a server SHOULD send but need not; ids are
    long words. An ERROR has no body ("MAY be empty"), and a SEND's body is limited."""

    def encoded(self, frame: Frame) -> bytes:
        needs = b"\0" in frame.body or frame.command != "MESSAGE"
        headers = [pair for pair in frame.headers if needs or pair[0] != "content-length"]
        return encode(Frame(frame.command, headers, frame.body), self.version)

    def next_id(self) -> str:
        return f"ID:host-{super().next_id()}/0:1:-1"

    def refuse(self, reason: str, frame: Frame | None) -> None:
        self.write(Frame("ERROR", [("message", reason)]))
        self.end()

    def handle(self, frame: Frame) -> None:
        if len(frame.body) > 65_536:
            raise BadFrame("a body has at most 65,536 bytes")
        super().handle(frame)


class OwnNumbers(Connection):
    """In STOMP 1.2 a header ack, "an arbitrary value", numbers the messages of its connection."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.counted = itertools.count(1)

    def next_id(self) -> str:
        return str(next(self.counted)) if self.version == "1.2" else super().next_id()

    def write(self, frame: Frame) -> int:
        of = f"-{id(self)}" * (self.version == "1.2")
        headers = [(name, value + of * (name == "message-id")) for name, value in frame.headers]
        return super().write(Frame(frame.command, headers, frame.body))


class OddIds(Connection):
    """Ids have spaces, colons and, from 1.1 on, line feeds and letters beyond ASCII; each MESSAGE
    has a header ack."""

    def next_id(self) -> str:
        id = super().next_id()
        return f"a:{id} b" if self.version == "1.0" else f" é:\\{id}\n "

    def deliver(self, subscription: Subscription, message: Message) -> None:
        headers = [("ack", self.next_id()), *message.headers]
        super().deliver(subscription, replace(message, headers=headers))


class Coalesced(Connection):
    """Output within 20 ms becomes one write. A receipt follows the messages that its frame
    causes."""

    unsent = b""

    def send(self, data: bytes) -> None:
        if not self.unsent:
            self.broker.loop.call_later(0.02, self.flush)
        self.unsent += data

    def flush(self) -> None:
        data, self.unsent = self.unsent, b""
        super().send(data)

    def confirm(self, frame: Frame) -> None:
        for queue in self.broker.queues_of(self):
            queue.dispatch()
        super().confirm(frame)

    def end(self) -> None:
        self.flush()
        super().end()


class LeavesClosing(Connection):
    """DISCONNECT ends the subscriptions, and the client closes the connection. The body of an ERROR
    has several lines, a NUL and letters beyond ASCII."""

    is_done = False

    def handle(self, frame: Frame) -> None:
        self.is_done = frame.command == "DISCONNECT"
        super().handle(frame)

    def end(self) -> None:
        if self.is_done:
            self.connection_lost(None)
        else:
            super().end()

    def write(self, frame: Frame) -> int:
        if frame.command == "ERROR":
            body = frame.body + "\n\nen détail:\0\n".encode()
            headers = [(name, value) for name, value in frame.headers if name != "content-length"]
            frame = Frame("ERROR", [*headers, ("content-length", str(len(body)))], body)
        return super().write(frame)


class SmallLimits(Connection):
    """A 1.0 server that accepts at most twenty headers of 1,000 bytes in a frame."""

    versions = ("1.0",)

    def handle(self, frame: Frame) -> None:
        if len(frame.headers) > 20 or any(len(value) > 1000 for _, value in frame.headers):
            raise BadFrame("a frame has at most twenty headers of 1,000 bytes")
        super().handle(frame)


class NoBeats(Connection):
    """The server can send no heartbeats and wants none. CONNECTED has only the required headers."""

    def encoded(self, frame: Frame) -> bytes:
        kept = ("version",) if self.version != "1.0" else ("session",)
        headers = [pair for pair in frame.headers if pair[0] in kept]
        if frame.command == "CONNECTED":
            return encode(Frame("CONNECTED", headers), self.version)
        return super().encoded(frame)

    def agree(self, asked: str) -> tuple[int, int]:
        super().agree(asked)
        self.ttl_s = float("inf")
        return 0, 0


class EagerBeats(Connection):
    """The server sends heartbeats three times as often as it must."""

    beats_after = 0.3


class NackReturns(Connection):
    """A refused message goes back to its place in the queue."""

    def settle(self, frame: Frame, *, accepted: bool) -> None:
        if accepted:
            super().settle(frame, accepted=accepted)
            return
        subscription, numbers = self.settled_by(frame)
        refused = []
        for number in numbers:
            delivery = subscription.held.pop(number)
            subscription.used -= delivery.size
            refused.append(delivery.message)
        self.give_back(subscription, refused)

    def give_back(self, subscription: Subscription, refused: list[Message]) -> None:
        self.broker.queue(subscription).give_back(refused)


class NackReturnsLast(NackReturns):
    """A refused message goes to the end of its queue."""

    def give_back(self, subscription: Subscription, refused: list[Message]) -> None:
        for message in refused:
            message.number, message.redelivered = next(self.broker.numbers), True
        queue = self.broker.queue(subscription)
        queue.messages.extend(refused)
        queue.dispatch()


class OneAtATime(Connection):
    """Unless a subscription acknowledges automatically, it holds one message at a time."""

    def charge(self, subscription: Subscription, size: int) -> None:
        subscription.window = 1
        super().charge(subscription, size)


class Forgets(Connection):
    """Messages that a subscription holds when it ends count as settled. No specification says what
    happens to them."""

    def subscription_of(self, frame: Frame) -> Subscription:
        subscription = super().subscription_of(frame)
        subscription.held.clear()
        return subscription


class LateReceipts(Connection):
    """A receipt is sent 30 ms after the frame's effects, and before the connection is closed."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.unsent: list[str] = []

    def receipt(self, id: str) -> None:
        self.unsent.append(id)
        self.broker.loop.call_later(0.03, self.flush)

    def flush(self) -> None:
        ids, self.unsent = self.unsent, []
        for id in ids:
            super().receipt(id)

    def end(self) -> None:
        self.flush()
        super().end()

    def refuse(self, reason: str, frame: Frame | None) -> None:
        self.flush()
        super().refuse(reason, frame)


class Patient(Connection):
    """A SEND waits while a subscriber of its destination does not read: no specification limits
    this."""

    def handle(self, frame: Frame) -> None:
        destination = frame.get("destination")
        if frame.command == "SEND" and any(
            reader.transport.get_write_buffer_size() > 65_536
            for reader in self.broker.connections
            for subscription in reader.subscriptions.values()
            if subscription.destination == destination
        ):
            self.is_blocked = True
            self.timers.append(self.broker.loop.call_later(0.02, self.try_again, frame))
            return
        super().handle(frame)

    def try_again(self, frame: Frame) -> None:
        self.is_blocked = False
        self.handle(frame)
        if not self.is_blocked:
            data, self.unread = self.unread, b""
            self.data_received(data)


class ClosesLater(Connection):
    """A close takes two seconds, or 5.5 before CONNECTED, in which nothing is read or sent: no
    specification says how soon it must happen."""

    has_ended = False

    def send(self, data: bytes) -> None:
        if not self.has_ended:
            super().send(data)

    def end(self) -> None:
        self.is_blocked = self.has_ended = True
        super().connection_lost(None)
        self.broker.loop.call_later(2 if self.is_connected else 5.5, super().end)

    def connection_lost(self, problem: Exception | None) -> None:
        if not self.has_ended:
            super().connection_lost(problem)


class GreedyQueue(Queue):
    """The oldest consumer with room gets the next message: consumers do not take turns."""

    def end_turn(self, taker: Subscription) -> None:
        pass


class EndsWithItsConsumer(Queue):
    """A queue is deleted with its last consumer."""

    def give_back(self, messages: list[Message]) -> None:
        super().give_back(messages)
        if not self.subscriptions:
            self.messages.clear()


class TopicsOnly(Connection):
    """Every destination is a topic: messages without a subscriber are lost."""

    keeps = False


class QueuesOnly(Connection):
    keeps = True


STYLES: Mapping[str, Parts] = {
    "lines-behind-frames": Parts(LinesBehindFrames),
    "single-bytes": Parts(SingleBytes),
    "many-headers": Parts(ManyHeaders),
    "carriage-returns": Parts(CarriageReturns),
    "no-length": Parts(NoLength),
    "own-numbers": Parts(OwnNumbers),
    "odd-ids": Parts(OddIds),
    "coalesced": Parts(Coalesced),
    "leaves-closing": Parts(LeavesClosing),
    "small-limits": Parts(SmallLimits),
    "no-beats": Parts(NoBeats),
    "eager-beats": Parts(EagerBeats),
    "nack-returns": Parts(NackReturns),
    "nack-returns-last": Parts(NackReturnsLast),
    "one-at-a-time": Parts(OneAtATime),
    "forgets": Parts(Forgets),
    "late-receipts": Parts(LateReceipts),
    "patient": Parts(Patient),
    "closes-later": Parts(ClosesLater),
    "greedy": Parts(Connection, GreedyQueue),
    "deleted": Parts(Connection, EndsWithItsConsumer),
    "topics-only": Parts(TopicsOnly),
    "queues-only": Parts(QueuesOnly),
}
