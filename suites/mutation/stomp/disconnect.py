"""Faults at the end of a session."""

from __future__ import annotations

from dataclasses import replace

from brokerproof.harness.model.enums import Outcome
from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.protocols.stomp import refusal
from brokerproof.reference_broker.protocols.stomp.commands import After
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder
from brokerproof.reference_broker.protocols.stomp.frame import Frame
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.suites.mutation.mutant import Group, Reached
from brokerproof.suites.mutation.stomp.acks import commanded

disconnect = Group("disconnect")

ORDERLY = "STOMP10-DISCONNECT-01 STOMP11-DISC-01 STOMP12-DISC-01"


@disconnect.mutant(f"{ORDERLY} STOMP12-FH-08")
def answered_with_error(parts: Parts, reached: Reached) -> Parts:
    """An orderly DISCONNECT is confirmed and then answered with ERROR."""

    def handler(session: StompConnection, frame: Frame) -> After:
        after = parts.commands["DISCONNECT"](session, frame)

        def end() -> None:
            reached()
            session.shared.outbox.send(
                session.conn, session.encoder.frame("ERROR", (("message", "bye"),))
            )
            if after is not None:
                after()

        return end

    return commanded(parts, DISCONNECT=handler)


@disconnect.mutant("STOMP10-DISCONNECT-01 STOMP12-FH-08")
def receipt_demanded(parts: Parts, reached: Reached) -> Parts:
    """A DISCONNECT without the header receipt is refused."""

    def handler(session: StompConnection, frame: Frame) -> After:
        if frame.get("receipt") is None:
            reached()
            raise Refusal(refusal.UNKNOWN_COMMAND, session.version, "DISCONNECT needs a receipt")
        return parts.commands["DISCONNECT"](session, frame)

    return commanded(parts, DISCONNECT=handler)


@disconnect.mutant(f"{ORDERLY} STOMP12-RCPT-04")
def what_came_with_it_forgotten(parts: Parts, reached: Reached) -> Parts:
    """A DISCONNECT undoes the SENDs that arrived in the same piece."""

    class Faulty(StompConnection):
        def receive(self, now: Instant, data: bytes) -> None:
            at = data.rfind(b"\0DISCONNECT\n")
            if at >= 0 and data.startswith(b"SEND\n"):
                reached()
                data = data[at + 1 :]
            super().receive(now, data)

    return replace(parts, stomp=Faulty)


@disconnect.mutant(f"{ORDERLY} STOMP12-RCPT-04 STOMP12-FH-08")
def last_sends_undone(parts: Parts, reached: Reached) -> Parts:
    """DISCONNECT takes back the last message that the session sent and nobody has got yet."""
    sent: dict[int, int] = {}

    def send(session: StompConnection, frame: Frame) -> After:
        after = parts.commands["SEND"](session, frame)
        sent[session.conn] = session.shared.router._messages
        return after

    def handler(session: StompConnection, frame: Frame) -> After:
        number = sent.get(session.conn)
        for address in session.shared.router._addresses.values():
            for queue in address.anycast:
                if queue._ready and queue._ready[-1].message.number == number:
                    reached()
                    queue._ready.pop()
        return parts.commands["DISCONNECT"](session, frame)

    return commanded(parts, SEND=send, DISCONNECT=handler)


@disconnect.mutant("STOMP10-DISCONNECT-01 STOMP12-FH-08 ARTEMIS-REDELIVERY-back-1")
def what_is_held_is_consumed(parts: Parts, reached: Reached) -> Parts:
    """DISCONNECT acknowledges everything that the session holds."""

    def handler(session: StompConnection, frame: Frame) -> After:
        for each in session.subscriptions.values():
            held = list(each._unsettled.values())
            if held:
                reached()
                for delivery in held:
                    del each._unsettled[delivery.key], each._deliveries[delivery.key]
                each.queue.settle([delivery.entry for delivery in held], Outcome.ACCEPTED)
        return parts.commands["DISCONNECT"](session, frame)

    return commanded(parts, DISCONNECT=handler)


@disconnect.mutant("STOMP10-DISCONNECT-01 STOMP12-FH-08 ARTEMIS-REDELIVERY-back-1")
def session_goes_on(parts: Parts, reached: Reached) -> Parts:
    """DISCONNECT is confirmed and nothing else: the session keeps what it holds until the client
    closes."""

    def handler(session: StompConnection, frame: Frame) -> After:
        reached()
        return None

    return commanded(parts, DISCONNECT=handler)


@disconnect.mutant(f"{ORDERLY} STOMP12-FH-08 STOMP10-RECEIPT-02 STOMP11-HDR-13 STOMP12-HDR-17")
def closed_before_the_receipt(parts: Parts, reached: Reached) -> Parts:
    """DISCONNECT closes the connection before its RECEIPT is written."""

    def handler(session: StompConnection, frame: Frame) -> After:
        reached()
        session.close()
        session.encoder = _Silent(session.version)
        return None

    return commanded(parts, DISCONNECT=handler)


class _Silent(FrameEncoder):
    def receipt(self, receipt: str) -> bytes:
        return b""
