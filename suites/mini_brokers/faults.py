"""The planted faults: each overrides one method of the honest broker."""

from dataclasses import dataclass

from brokerproof.suites.mini_brokers import frames
from brokerproof.suites.mini_brokers.broker import (
    Connection,
    Delivery,
    Message,
    Parts,
    Queue,
    Subscription,
)
from brokerproof.suites.mini_brokers.frames import Frame


class NeverBeats(Connection):
    """CONNECTED promises heartbeats, but the server sends none."""

    def beat_every(self, period: float) -> None:
        pass


class BeatsLate(Connection):
    """Heartbeats are sent at three times the agreed interval."""

    def beat_every(self, period: float) -> None:
        super().beat_every(3 * period if not self.timers else period)


class ClosesEarly(Connection):
    """A silent client is disconnected after a quarter of the agreed interval."""

    def agree(self, asked: str) -> tuple[int, int]:
        answer = super().agree(asked)
        if self.ttl_s < 60:
            self.ttl_s = answer[1] / 4000
        return answer


class ClosesLate(Connection):
    """A silent client is disconnected after five times its TTL."""

    def is_expired(self, now: float) -> bool:
        return super().is_expired(now - 4 * self.ttl_s)


class ClosesNever(Connection):
    """A silent client is never disconnected."""

    def is_expired(self, now: float) -> bool:
        return False


class WindowIgnored(Connection):
    """All messages are sent immediately, whatever the window."""

    def charge(self, subscription: Subscription, size: int) -> None:
        pass


class WindowNotRefilled(Connection):
    """An acknowledgement of several messages returns the bytes of only one."""

    def settle(self, frame: Frame, *, accepted: bool) -> None:
        subscription, numbers = self.settled_by(frame)
        for number in numbers[:-1]:
            subscription.held[number].size = 0
        super().settle(frame, accepted=accepted)


class OrderLost(Queue):
    """Returned messages go to the end of the queue."""

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
    """An acknowledged message is delivered again when its consumer leaves."""

    def settle(self, frame: Frame, *, accepted: bool) -> None:
        subscription, numbers = self.settled_by(frame)
        held = {number: subscription.held[number] for number in numbers}
        super().settle(frame, accepted=accepted)
        for number, delivery in held.items():
            subscription.held[f"settled {number}"] = Delivery(delivery.message)


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
    """A frame is confirmed before it is processed, even if it is then refused."""

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
    """A publisher that a shortage has blocked stays blocked afterwards."""

    def unblock(self) -> None:
        pass


class LengthInLetters(Connection):
    """The content-length of MESSAGE counts letters instead of bytes."""

    def length_of(self, body: bytes) -> int:
        return len(body.decode(errors="replace"))


class ColonNotEscaped(Connection):
    """A colon in a header of MESSAGE is sent unescaped."""

    def write(self, frame: Frame) -> int:
        data = frames.encode(frame, self.version, plain=":")
        self.transport.write(data)
        return len(data)


class AbortIgnored(Connection):
    """Messages of an aborted transaction are delivered."""

    def end_transaction(self, frame: Frame) -> list[Frame]:
        ended = super().end_transaction(frame)
        if frame.command == "ABORT":
            for held_back in ended:
                if held_back.command == "SEND":
                    self.broker.publish(held_back)
        return ended


@dataclass(frozen=True, slots=True)
class MiniBroker:
    """A mini-broker and the expected output of a run.

    ``first``, ``breaks`` and ``cases`` are regular expressions: for the first cause, for the
    requirements that the fault breaks, and for the cases that find the fault quickly.
    """

    parts: Parts
    cases: str
    first: str = ""
    breaks: str = ""


BEATS = r"heart_beats\.the_server_beats_as_agreed"
TTL_ENDS = r"what_is_said_when_the_ttl_ends"
BROKERS = {
    "honest": MiniBroker(
        Parts(),
        rf"stomp\.(receipts|ack|transactions)|delivery\.order|{BEATS}|{TTL_ENDS}|alarms_stomp.*tcp",
    ),
    "never-beats": MiniBroker(
        Parts(NeverBeats),
        BEATS,
        r"HB-07 .*0 heartbeats or frames in 3 periods",
        r"-HB-0[79]$|-ttl-9$",
    ),
    "beats-late": MiniBroker(
        Parts(BeatsLate), BEATS, r"HB-09 .*longest gap between signs of life", r"-HB-09$|-ttl-9$"
    ),
    "closes-early": MiniBroker(
        Parts(ClosesEarly, check_interval_s=0.05),
        "a_client_that_beats_as_agreed_is_not_dropped",
        r"HB-\d\d .*at intervals of \d+ ms: got ERROR .*no data was received",
        r"-HB-(02|06|08|12)$|-ttl-",
    ),
    "closes-late": MiniBroker(Parts(ClosesLate), TTL_ENDS, r"ttl-3 .*was not closed", r"-ttl-"),
    "closes-never": MiniBroker(Parts(ClosesNever), TTL_ENDS, r"ttl-3 .*was not closed", r"-ttl-"),
    "window-ignored": MiniBroker(
        Parts(WindowIgnored),
        r"consumer_window\.(the_window_is_exact|what_is_sent_while)",
        r"window-[23] .*another message arrived while",
        r"-STOMP-window-|-FLOW-consumer-",
    ),
    "window-not-refilled": MiniBroker(
        Parts(WindowNotRefilled),
        r"consumer_window\.messages_flow_until",
        r"window-3 .*more wait, and none arrives",
        r"-STOMP-window-",
    ),
    "order-lost": MiniBroker(
        Parts(queue=OrderLost),
        r"redelivery\.(what_comes_back_goes|what_several_give_back)",
        r"fifo-1 .*the next consumer got",
        r"-fifo-1$",
    ),
    "forgotten": MiniBroker(
        Parts(queue=Forgotten),
        r"unsettled_messages_come_again.*(EOF|DISCONNECT)",
        r"back-1 .*five were held; the next consumer got no message",
        r"-back-1$|STOMP1.-ACK-0[45]$|SUBSCRIBE-05$|-queue-1$|-fifo-1$",
    ),
    "acknowledged-again": MiniBroker(
        Parts(AcknowledgedComesAgain),
        r"stomp\.ack\.|what_was_acknowledged_is_gone",
        r"ACK-01 .*after its ACK, 'taken' arrived again",
        r"-ACK-0[1-4]$|-FH-06$|-queue-2$",
    ),
    "delivered-twice": MiniBroker(
        Parts(queue=DeliveredTwice),
        "one_and_only_one_consumer_gets_a_message",
        r"queue-1 .*not exactly once",
        r"-queue-1$",
    ),
    "cumulative-ack": MiniBroker(
        Parts(CumulativeAck),
        r"stomp\.(ack|nack)\.in_mode",
        r"(SUB-1[13]|NACK-04) .*ACK names no delivery",
        r"-SUB-1[13]$|-NACK-04$",
    ),
    "receipt-early": MiniBroker(
        Parts(ReceiptEarly),
        r"receipts\.(a_frame_that_failed|every_kind)",
        r"(RCPT|ERR|HDR)-\d+ .*RECEIPT",
        r"-(RCPT|RECEIPT|ERR|HDR|SEND|READING-HEADER)-\d+$",
    ),
    "receipt-never": MiniBroker(
        Parts(ReceiptNever),
        r"receipts\.(every_kind|any_value)",
        r"expected RECEIPT .*nothing",
        r"-(RCPT|RECEIPT|HDR)-\d+$",
    ),
    "blocked-for-ever": MiniBroker(
        Parts(BlockedForEver),
        r"alarms_stomp\.an_alarm_holds_back_stomp_producers\[tcp",
        r"RABBITMQ-FLOW-\w+-1 .*expected RECEIPT .*nothing",
        r"^RABBITMQ-FLOW-(mem|disk|conn)-1$",
    ),
    "length-in-letters": MiniBroker(
        Parts(LengthInLetters),
        "content_length_counts_octets",
        r"(HDR-03|SEND-06) .*that content-length announced",
        r"-HDR-\d+$|^STOMP10-SEND-06$",
    ),
    "colon-not-escaped": MiniBroker(
        Parts(ColonNotEscaped),
        "any_header_text_survives",
        r"decoded as a colon STOMP1.-ENC-0[56][ ,].*'x-:-\d' .*did not arrive",
        r"-ENC-\d+$|FRAME-0\d$",
    ),
    "abort-ignored": MiniBroker(
        Parts(AbortIgnored),
        "settles_and_sends_as_a_whole",
        r"(BEGIN|SEND)-0\d .*second queue: .*within.*end ABORT",
        r"-(ABORT|SEND|TX|BEGIN)-\d+$",
    ),
}
