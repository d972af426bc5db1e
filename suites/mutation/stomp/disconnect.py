"""Faults at the end of a session."""

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.protocols.stomp import refusal
from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.suites.mutation.mutant import Group, breaks

disconnect = Group("disconnect")


@disconnect.override(COMMANDS, "DISCONNECT")
@breaks("STOMP10-DISCONNECT-01 STOMP11-DISC-01 STOMP12-DISC-01 STOMP12-FH-08")
def answered_with_error(original, reached, session, frame):
    """An orderly DISCONNECT is confirmed and then answered with ERROR."""
    after = original(session, frame)

    def end() -> None:
        reached()
        session.shared.outbox.send(
            session.conn, session.encoder.frame("ERROR", (("message", "bye"),))
        )
        if after is not None:
            after()

    return end


@disconnect.before(COMMANDS, "DISCONNECT", breaks="STOMP10-DISCONNECT-01 STOMP12-FH-08")
def receipt_demanded(reached, session, frame):
    """A DISCONNECT without the header receipt is refused."""
    if reached(frame.get("receipt") is None):
        raise Refusal(refusal.UNKNOWN_COMMAND, session.version, "DISCONNECT needs a receipt")


@disconnect.override(StompConnection, "receive")
@breaks("STOMP10-DISCONNECT-01 STOMP11-DISC-01 STOMP12-DISC-01 STOMP12-RCPT-04")
def what_came_with_it_forgotten(original, reached, self, now, data):
    """DISCONNECT undoes the SENDs that arrived in the same piece."""
    at = data.rfind(b"\0DISCONNECT\n")
    original(self, now, data[at + 1 :] if reached(at >= 0 and data.startswith(b"SEND\n")) else data)


@disconnect.mutant(
    "STOMP10-DISCONNECT-01 STOMP11-DISC-01 STOMP12-DISC-01 STOMP12-RCPT-04 STOMP12-FH-08"
)
def last_sends_undone(patch, reached):
    """DISCONNECT removes the last message that the session sent, if it is still undelivered."""
    sent: dict[int, int] = {}

    @patch.after(COMMANDS, "SEND")
    def send(session, frame):
        sent[session.conn] = session.shared.router._messages

    @patch.before(COMMANDS, "DISCONNECT")
    def handler(session, frame):
        number = sent.get(session.conn)
        for address in session.shared.router.addresses.by_name.values():
            for queue in address.anycast:
                if reached(queue._ready and queue._ready[-1].message.number == number):
                    queue._ready.pop()


@disconnect.before(COMMANDS, "DISCONNECT")
@breaks("STOMP10-DISCONNECT-01 STOMP12-FH-08 ARTEMIS-REDELIVERY-back-1")
def what_is_held_is_consumed(reached, session, frame):
    """DISCONNECT acknowledges everything that the session holds."""
    for subscription in session.subscriptions.values():
        held = list(subscription._unsettled.values())
        if reached(held):
            for delivery in held:
                del subscription._unsettled[delivery.key], subscription._deliveries[delivery.key]
            subscription.queue.settle([delivery.entry for delivery in held], Outcome.ACCEPTED)


@disconnect.override(COMMANDS, "DISCONNECT")
@breaks("STOMP10-DISCONNECT-01 STOMP12-FH-08 ARTEMIS-REDELIVERY-back-1")
def session_goes_on(original, reached, session, frame):
    """DISCONNECT is only confirmed: the session keeps its messages until the client closes."""
    reached()
    return


@disconnect.override(COMMANDS, "DISCONNECT")
@breaks(
    "STOMP10-DISCONNECT-01 STOMP11-DISC-01 STOMP12-DISC-01 STOMP12-FH-08 STOMP10-RECEIPT-02",
    "STOMP11-HDR-13 STOMP12-HDR-17",
)
def closed_before_the_receipt(original, reached, session, frame):
    """DISCONNECT closes the connection before its RECEIPT is written."""
    reached()
    session.close()
    session.encoder = _Silent(session.version)
    return


class _Silent(FrameEncoder):
    def receipt(self, receipt: str) -> bytes:
        return b""
