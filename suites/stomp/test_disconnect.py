"""DISCONNECT: the orderly end of a session, and what must have happened by then."""

from __future__ import annotations

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import case
from brokerproof.harness.protocols.stomp.raw_peer import ERROR, frame
from brokerproof.suites.steps.queues import QUIET, bodies, collect, held, left_in, numbered


@case(
    {
        "1.0": "STOMP10-DISCONNECT-01",
        "1.1": "STOMP11-DISC-01",
        "1.2": ("STOMP12-DISC-01", "STOMP12-FH-08"),
    }
)
def test_disconnect_is_confirmed_before_the_connection_ends(target: Bench, version: str) -> None:
    """A client that works with a queue sends DISCONNECT with a receipt. The RECEIPT comes, before
    the server closes and without an ERROR, and everything sent before it has arrived: a consumer
    finds it all."""
    queue, peer = target.destination(), target.stomp(version)
    for body in numbered(10):
        peer.publish(queue, body, receipt=False)
    peer.send("DISCONNECT", {"receipt": "77"})
    confirmed = peer.watch_for(frame("RECEIPT", {"receipt-id": "77"}))
    target.record_finding(
        target.cited,
        confirmed is not None,
        f"DISCONNECT was {'confirmed' if confirmed else f'not confirmed: {peer.instead()}'}",
    )
    target.wait_until(lambda: peer.ended is not None, QUIET)
    error = peer.take(ERROR)
    target.record_finding(
        target.cited,
        error is None,
        f"an orderly DISCONNECT got {error.brief() if error else 'no ERROR'}",
    )
    peer.leave()
    came = left_in(target, queue, version, 10)
    target.record_finding(
        target.cited,
        sorted(came) == sorted(numbered(10)),
        f"10 messages before DISCONNECT, {len(came)} came",
    )


@case({"1.0": "STOMP10-DISCONNECT-01", "1.2": "STOMP12-FH-08"})
def test_disconnect_needs_no_header(target: Bench, version: str) -> None:
    """DISCONNECT comes without any header, on a connection that holds an unacknowledged message. No
    ERROR answers it, other connections go on, and the session has ended: the message goes to the
    next consumer."""
    queue, peer = target.destination(), target.stomp(version)
    peer.publish(queue, b"held")
    held(target, peer, queue, 1, "client")
    peer.send("DISCONNECT")
    error = peer.watch_for(ERROR, within=QUIET)
    target.record_finding(
        target.cited,
        error is None,
        f"DISCONNECT without a header got {error.brief() if error else 'no ERROR'}",
    )
    after = target.stomp(version)
    after.subscribe(queue)  # no sentinel: a session that lives on would take it
    left = bodies(collect(target, after, 1))
    target.record_finding(
        target.cited,
        left == [b"held"],
        f"after DISCONNECT the next consumer of the queue got {left!r}",
    )
