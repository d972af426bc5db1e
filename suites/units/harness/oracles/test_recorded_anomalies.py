"""Recheck of a STOMP recording: consumers that leave, and connections that end before an answer."""

from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.oracles.recorded_anomalies import facts, find_anomalies
from brokerproof.harness.trace import events as ev
from brokerproof.harness.trace.facts import Delivered, Sent

QUEUE = "/queue/a"


def frame(at: int, conn: int, command: str, body: bytes = b"", **headers: str) -> ev.Event:
    kind = (
        ev.FrameReceived
        if command in ("MESSAGE", "RECEIPT", "ERROR", "CONNECTED")
        else ev.FrameSent
    )
    return kind(
        at_ns=at,
        conn=conn,
        protocol="STOMP",
        command=command,
        headers=tuple((name.replace("_", "-"), value) for name, value in headers.items()),
        body=body,
        body_size=len(body),
        size=100,
    )


def consumer(at: int, conn: int, ack_id: str, *, again: bool = False) -> list[ev.Event]:
    marked = {"redelivered": "true"} if again else {}
    return [
        frame(at, conn, "SUBSCRIBE", id="s", destination=QUEUE, ack="client"),
        frame(
            at + 1,
            conn,
            "MESSAGE",
            b"body",
            subscription="s",
            destination=QUEUE,
            ack=ack_id,
            **marked,
        ),
    ]


SENT = frame(1, 9, "SEND", b"body", destination=QUEUE)


def test_a_message_may_come_again_from_the_disconnect_on() -> None:
    """The broker returns a consumer's messages when it reads DISCONNECT, before the connection is
    closed."""
    left = [frame(10, 1, "DISCONNECT", receipt="r"), frame(11, 1, "RECEIPT", receipt_id="r")]
    closed = ev.ConnectionAbandoned(at_ns=20, conn=1, how=CloseHow.EOF)
    events = [SENT, *consumer(2, 1, "x"), *left, *consumer(12, 2, "y", again=True), closed]
    assert find_anomalies(events) == []
    held_by_both = [SENT, *consumer(2, 1, "x"), *consumer(5, 2, "y", again=True), *left, closed]
    assert [anomaly.kind for anomaly in find_anomalies(held_by_both)] == ["shared"]


def test_a_delivery_whose_ack_was_refused_counts_once() -> None:
    refused = [frame(10, 1, "ACK", id="x", receipt="r"), frame(11, 1, "ERROR")]
    events = [SENT, *consumer(2, 1, "x"), *refused, *consumer(20, 2, "y", again=True)]
    assert len([fact for fact in facts(events) if isinstance(fact, Delivered)]) == 2
    assert find_anomalies(events) == []


def test_a_send_whose_receipt_never_came_counts_once() -> None:
    lost = ev.ConnectionAbandoned(at_ns=5, conn=1, how=CloseHow.RESET)
    for how in ({"receipt": "r"}, {"transaction": "t"}):
        events = [frame(1, 1, "SEND", b"body", destination=QUEUE, **how), lost]
        assert len([fact for fact in facts(events) if isinstance(fact, Sent)]) == 1
