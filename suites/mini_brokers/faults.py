"""The planted faults: each overrides one method of the honest broker."""

from __future__ import annotations

from dataclasses import dataclass

from brokerproof.suites.mini_brokers import frames
from brokerproof.suites.mini_brokers.broker import (
    Connection,
    Message,
    Parts,
    Queue,
    Subscription,
)
from brokerproof.suites.mini_brokers.frames import Frame


class NeverBeats(Connection):
    """CONNECTED promises heartbeats, and none is sent."""

    def beat_every(self, period: float) -> None:
        pass


class BeatsLate(Connection):
    """Heartbeats are sent at three times the agreed interval."""

    def beat_every(self, period: float) -> None:
        super().beat_every(3 * period if not self.timers else period)


class ClosesEarly(Connection):
    """A silent client is given up after half of the interval that was agreed."""

    def agree(self, asked: str) -> tuple[int, int]:
        answer = super().agree(asked)
        if self.ttl_s < 60:
            self.ttl_s = answer[1] / 2000
        return answer


class ClosesLate(Connection):
    """A silent client is given up after five times its TTL."""

    def is_expired(self, now: float) -> bool:
        return super().is_expired(now - 4 * self.ttl_s)


class ClosesNever(Connection):
    """A silent client is never given up."""

    def is_expired(self, now: float) -> bool:
        return False


class WindowIgnored(Connection):
    """Whatever the window, all messages are sent at once."""

    def charge(self, subscription: Subscription, size: int) -> None:
        pass


class WindowNotRefilled(Connection):
    """An acknowledgement of several messages gives back the bytes of one only."""

    def settle(self, frame: Frame, *, accepted: bool) -> None:
        subscription, numbers = self.settled_by(frame)
        for number in numbers[:-1]:
            subscription.held[number].size = 0
        super().settle(frame, accepted=accepted)


class OrderLost(Queue):
    """Messages that were not settled are put behind those that wait."""

    def give_back(self, messages: list[Message]) -> None:
        for message in messages:
            message.redelivered = True
        self.messages.extend(messages)
        self.dispatch()


class Forgotten(Queue):
    """Messages that a lost client did not settle are lost with it."""

    def give_back(self, messages: list[Message]) -> None:
        self.dispatch()


class AcknowledgedComesAgain(Connection):
    """A message that was acknowledged is delivered again when its consumer leaves."""

    def settle(self, frame: Frame, *, accepted: bool) -> None:
        subscription, numbers = self.settled_by(frame)
        held = {number: subscription.held[number] for number in numbers}
        super().settle(frame, accepted=accepted)
        for number, delivery in held.items():
            subscription.held[number] = delivery


class DeliveredTwice(Queue):
    """Each message of a queue is delivered to two consumers, if there are two."""

    def dispatch(self) -> None:
        waiting = list(self.messages)
        super().dispatch()
        delivered = waiting[: len(waiting) - len(self.messages)]
        if len(self.subscriptions) > 1:
            for message in delivered:
                taker = self.subscriptions[0]
                taker.connection.deliver(taker, message)


class CumulativeAck(Connection):
    """An ACK in mode client-individual settles the messages before it as well."""

    def settled_by(self, frame: Frame) -> tuple[Subscription, list[str]]:
        subscription, numbers = super().settled_by(frame)
        held = list(subscription.held)
        return subscription, held[: held.index(numbers[-1]) + 1]


class ReceiptEarly(Connection):
    """A frame is confirmed before it is processed, and whatever becomes of it."""

    def handle(self, frame: Frame) -> None:
        receipt = frame.get("receipt")
        if receipt is None or not self.is_connected:
            super().handle(frame)
            return
        self.write(Frame("RECEIPT", [("receipt-id", receipt)]))
        rest = [(name, value) for name, value in frame.headers if name != "receipt"]
        super().handle(Frame(frame.command, rest, frame.body))


class ReceiptNever(Connection):
    """No frame is ever confirmed."""

    def confirm(self, frame: Frame) -> None:
        rest = [(name, value) for name, value in frame.headers if name != "receipt"]
        super().confirm(Frame(frame.command, rest))


class BlockedForEver(Connection):
    """A publisher that a shortage has blocked stays blocked after it."""

    def unblock(self) -> None:
        pass


class LengthInLetters(Connection):
    """The content-length of MESSAGE counts letters instead of bytes."""

    def length_of(self, body: bytes) -> int:
        return len(body.decode(errors="replace"))


class ColonNotEscaped(Connection):
    """A colon in a header of MESSAGE is sent as it is."""

    def write(self, frame: Frame) -> int:
        data = frames.encode(frame, self.version)
        if self.version != "1.0" and frame.command == "MESSAGE":
            head, blank, body = data.partition(b"\n\n")
            data = head.replace(b"\\c", b":") + blank + body
        self.transport.write(data)
        return len(data)


class AbortIgnored(Connection):
    """What was sent in a transaction is delivered although the transaction was aborted."""

    def end_transaction(self, frame: Frame) -> list[Frame]:
        ended = super().end_transaction(frame)
        if frame.command == "ABORT":
            for held_back in ended:
                if held_back.command == "SEND":
                    self.broker.publish(held_back)
        return ended


@dataclass(frozen=True, slots=True)
class MiniBroker:
    """A mini-broker, the first cause that a run should print, and a case that finds it quickly.

    ``first`` is a part of the sentence. Of several in one text each stands in it.
    """

    parts: Parts
    first: tuple[str, ...] = ()
    case: str = ""


BROKERS = {
    "honest": MiniBroker(Parts()),
    "never-beats": MiniBroker(Parts(connection=NeverBeats)),
    "beats-late": MiniBroker(Parts(connection=BeatsLate)),
    "closes-early": MiniBroker(Parts(connection=ClosesEarly, check_interval_s=0.05)),
    "closes-late": MiniBroker(Parts(connection=ClosesLate)),
    "closes-never": MiniBroker(Parts(connection=ClosesNever)),
    "window-ignored": MiniBroker(Parts(connection=WindowIgnored)),
    "window-not-refilled": MiniBroker(Parts(connection=WindowNotRefilled)),
    "order-lost": MiniBroker(Parts(queue=OrderLost)),
    "forgotten": MiniBroker(Parts(queue=Forgotten)),
    "acknowledged-again": MiniBroker(Parts(connection=AcknowledgedComesAgain)),
    "delivered-twice": MiniBroker(Parts(queue=DeliveredTwice)),
    "cumulative-ack": MiniBroker(Parts(connection=CumulativeAck)),
    "receipt-early": MiniBroker(Parts(connection=ReceiptEarly)),
    "receipt-never": MiniBroker(Parts(connection=ReceiptNever)),
    "blocked-for-ever": MiniBroker(Parts(connection=BlockedForEver)),
    "length-in-letters": MiniBroker(Parts(connection=LengthInLetters)),
    "colon-not-escaped": MiniBroker(Parts(connection=ColonNotEscaped)),
    "abort-ignored": MiniBroker(Parts(connection=AbortIgnored)),
}
