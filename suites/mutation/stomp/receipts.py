"""Faults of receipts."""

from __future__ import annotations

from dataclasses import replace

from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.protocols.stomp.commands import After
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder
from brokerproof.reference_broker.protocols.stomp.frame import Frame
from brokerproof.reference_broker.protocols.stomp.parser import FrameParser
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.suites.mutation.mutant import Group, Reached, without
from brokerproof.suites.mutation.stomp.acks import commanded

receipts = Group("receipts")

EVERY = "STOMP10-RECEIPT-02 STOMP11-HDR-13 STOMP12-HDR-17"
VALUE = "STOMP10-RECEIPT-02 STOMP11-RCPT-02 STOMP12-RCPT-02"
SUCCESS = "STOMP11-RCPT-01 STOMP12-RCPT-01"


def _missing(parts: Parts, reached: Reached, command: str) -> Parts:
    class Faulty(StompConnection):
        def _command(self, frame: Frame) -> None:
            if frame.head.command == command and frame.get("receipt") is not None:
                reached()
                frame = without(frame, "receipt")
            super()._command(frame)

    return replace(parts, stomp=Faulty)


@receipts.mutant(EVERY)
def none_for_ack(parts: Parts, reached: Reached) -> Parts:
    """An ACK that asks for a receipt gets none."""
    return _missing(parts, reached, "ACK")


@receipts.mutant("STOMP11-HDR-13 STOMP12-HDR-17")
def none_for_nack(parts: Parts, reached: Reached) -> Parts:
    """A NACK that asks for a receipt gets none."""
    return _missing(parts, reached, "NACK")


@receipts.mutant(EVERY)
def none_for_unsubscribe(parts: Parts, reached: Reached) -> Parts:
    """An UNSUBSCRIBE that asks for a receipt gets none."""
    return _missing(parts, reached, "UNSUBSCRIBE")


@receipts.mutant(EVERY)
def none_for_commit(parts: Parts, reached: Reached) -> Parts:
    """A COMMIT that asks for a receipt gets none."""
    return _missing(parts, reached, "COMMIT")


@receipts.mutant(f"{EVERY} STOMP10-DISCONNECT-01 STOMP11-DISC-01 STOMP12-DISC-01 STOMP12-FH-08")
def none_for_disconnect(parts: Parts, reached: Reached) -> Parts:
    """A DISCONNECT that asks for a receipt is closed without one."""
    return _missing(parts, reached, "DISCONNECT")


@receipts.mutant(EVERY)
def none_in_transactions(parts: Parts, reached: Reached) -> Parts:
    """A SEND in a transaction gets no receipt."""

    class Faulty(StompConnection):
        def _command(self, frame: Frame) -> None:
            if frame.head.command == "SEND" and frame.get("transaction") and frame.get("receipt"):
                reached()
                frame = without(frame, "receipt")
            super()._command(frame)

    return replace(parts, stomp=Faulty)


@receipts.mutant(EVERY, recreates="ARTEMIS-2289")
def two_for_subscribe(parts: Parts, reached: Reached) -> Parts:
    """A SUBSCRIBE that asks for a receipt gets two."""

    def subscribe(session: StompConnection, frame: Frame) -> After:
        after = parts.commands["SUBSCRIBE"](session, frame)
        receipt = frame.get("receipt")
        if receipt is not None:
            reached()
            session.shared.outbox.send(session.conn, session.encoder.receipt(receipt))
        return after

    return commanded(parts, SUBSCRIBE=subscribe)


@receipts.mutant(VALUE)
def cut_at_twelve(parts: Parts, reached: Reached) -> Parts:
    """A receipt-id has at most twelve characters; longer ones are cut."""

    class Faulty(FrameEncoder):
        def receipt(self, receipt: str) -> bytes:
            return super().receipt(reached.instead(receipt, receipt[:12]))

    return replace(parts, encoder=Faulty)


@receipts.mutant(VALUE)
def in_small_letters(parts: Parts, reached: Reached) -> Parts:
    """A receipt-id comes back in small letters."""

    class Faulty(FrameEncoder):
        def receipt(self, receipt: str) -> bytes:
            return super().receipt(reached.instead(receipt, receipt.lower()))

    return replace(parts, encoder=Faulty)


@receipts.mutant(VALUE)
def of_the_frame_before(parts: Parts, reached: Reached) -> Parts:
    """When the head of a SEND is like one that was read before, its RECEIPT has the value of that
    one."""

    class Faulty(FrameParser):
        first: str | None = None

        def _receipt(self, value: bytes, number: int) -> str:
            right = super()._receipt(value, number)
            if self.first is None:
                self.first = right
            return reached.instead(right, self.first)

    return replace(parts, parser=Faulty)


@receipts.mutant(f"{VALUE} {EVERY} STOMP12-FH-10")
def under_another_name(parts: Parts, reached: Reached) -> Parts:
    """RECEIPT has its value in a header receipt instead of receipt-id."""

    class Faulty(FrameEncoder):
        def receipt(self, receipt: str) -> bytes:
            right = super().receipt(receipt)
            return reached.instead(right, right.replace(b"receipt-id:", b"receipt:", 1))

    return replace(parts, encoder=Faulty)


@receipts.mutant("STOMP10-RECEIPT-03 STOMP11-RCPT-03 STOMP11-BODY-02 STOMP12-BODY-02")
def with_a_body(parts: Parts, reached: Reached) -> Parts:
    """RECEIPT has a body."""

    class Faulty(FrameEncoder):
        def receipt(self, receipt: str) -> bytes:
            right = super().receipt(receipt)
            return reached.instead(right, right[:-1] + b"ok\0")

    return replace(parts, encoder=Faulty)


@receipts.mutant(SUCCESS)
def for_failed_frames(parts: Parts, reached: Reached) -> Parts:
    """A frame that failed gets its RECEIPT before the ERROR."""

    class Faulty(StompConnection):
        def _refuse(self, problem: Refusal, frame: Frame | None = None) -> None:
            receipt = None if frame is None else frame.get("receipt")
            if receipt is not None:
                reached()
                self.shared.outbox.send(self.conn, self.encoder.receipt(receipt))
            super()._refuse(problem, frame)

    return replace(parts, stomp=Faulty)


@receipts.mutant(SUCCESS)
def unasked_for_send(parts: Parts, reached: Reached) -> Parts:
    """A SEND that asks for no receipt gets one."""

    def send(session: StompConnection, frame: Frame) -> After:
        after = parts.commands["SEND"](session, frame)
        if frame.get("receipt") is None:
            reached()
            session.shared.outbox.send(session.conn, session.encoder.receipt("send"))
        return after

    return commanded(parts, SEND=send)


@receipts.mutant(f"{SUCCESS} STOMP12-RCPT-04")
def before_the_deed(parts: Parts, reached: Reached) -> Parts:
    """The RECEIPT of a SEND comes before the message is in its queue: lost if the connection ends
    meanwhile."""
    waiting: dict[int, list[Frame]] = {}

    class Faulty(StompConnection):
        def receive(self, now: Instant, data: bytes) -> None:
            for frame in waiting.pop(self.conn, []):
                parts.commands["SEND"](self, without(frame, "receipt"))
            super().receive(now, data)

    def send(session: StompConnection, frame: Frame) -> After:
        simple = frame.get("transaction") is None and frame.get("destination")
        routed = frame.get("destination-type") in ("ANYCAST", "MULTICAST")
        if frame.get("receipt") is None or not simple or not routed:
            return parts.commands["SEND"](session, frame)
        reached()
        waiting.setdefault(session.conn, []).append(frame)
        return None

    return replace(commanded(parts, SEND=send), stomp=Faulty)


@receipts.mutant(f"{EVERY} STOMP12-RCPT-02 STOMP11-RCPT-02")
def one_for_a_batch(parts: Parts, reached: Reached) -> Parts:
    """Of several frames that arrive together only the last gets its receipt."""

    class Faulty(StompConnection):
        last: str | None = None

        def receive(self, now: Instant, data: bytes) -> None:
            self.last = None
            super().receive(now, data)
            if self.last is not None and self.is_open:
                self.shared.outbox.send(self.conn, self.encoder.receipt(self.last))

        def _command(self, frame: Frame) -> None:
            receipt = frame.get("receipt")
            if receipt is None or frame.head.command == "DISCONNECT":
                super()._command(frame)
                return
            super()._command(without(frame, "receipt"))
            if self.last is not None:
                reached()
            self.last = receipt

    return replace(parts, stomp=Faulty)


@receipts.mutant(SUCCESS)
def before_the_subscription(parts: Parts, reached: Reached) -> Parts:
    """The RECEIPT of a SUBSCRIBE to a topic comes before the subscription stands: it begins with
    the next frame."""
    waiting: dict[int, list[Frame]] = {}

    class Faulty(StompConnection):
        def receive(self, now: Instant, data: bytes) -> None:
            for frame in waiting.pop(self.conn, []):
                after = parts.commands["SUBSCRIBE"](self, frame)
                if after is not None:
                    after()
            super().receive(now, data)

    def subscribe(session: StompConnection, frame: Frame) -> After:
        if frame.get("subscription-type") != "MULTICAST" or frame.get("id") is None:
            return parts.commands["SUBSCRIBE"](session, frame)
        reached()
        waiting.setdefault(session.conn, []).append(frame)
        return None

    return replace(commanded(parts, SUBSCRIBE=subscribe), stomp=Faulty)


@receipts.mutant(f"{EVERY} {VALUE}")
def none_after_fifty(parts: Parts, reached: Reached) -> Parts:
    """After fifty receipts a connection gets no more of them."""

    class Faulty(FrameEncoder):
        sent = 0

        def receipt(self, receipt: str) -> bytes:
            self.sent += 1
            if self.sent > 50:
                reached()
                return b""
            return super().receipt(receipt)

    return replace(parts, encoder=Faulty)
