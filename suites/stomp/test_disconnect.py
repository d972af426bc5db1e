"""DISCONNECT: the orderly end of a session, and what must happen before it."""

from brokerproof.suites.api import Bench, case, listed
from brokerproof.suites.api.stomp import ERROR, frame
from brokerproof.suites.steps.queues import (
    QUIET,
    bodies,
    collect,
    expected_arrivals,
    expected_remainder,
    held,
    left_in,
    numbered,
)

ORDERLY_DISCONNECT = {
    "1.0": ("STOMP10-DISCONNECT-01",),
    "1.1": ("STOMP11-DISC-01",),
    "1.2": ("STOMP12-DISC-01", "STOMP12-FH-08"),
}
BARE_DISCONNECT = {"1.0": "STOMP10-DISCONNECT-01", "1.2": "STOMP12-FH-08"}


@case(ORDERLY_DISCONNECT)
def test_disconnect_is_confirmed_before_the_connection_ends(target: Bench, version: str) -> None:
    """DISCONNECT with a receipt after ten SENDs is answered with RECEIPT and no ERROR before the
    connection ends. A consumer gets all ten messages."""
    queue, peer = target.destination(), target.stomp(version)
    for body in numbered(10):
        peer.publish(queue, body, receipt=False)
    peer.send("DISCONNECT", {"receipt": "77"})
    confirmed = peer.watch_for(frame("RECEIPT", {"receipt-id": "77"}))
    detail = f"DISCONNECT was {'confirmed' if confirmed else f'not confirmed: {peer.instead()}'}"
    target.record_finding(ORDERLY_DISCONNECT[version], confirmed is not None, detail)
    target.wait_until(lambda: peer.ended is not None, QUIET)
    error = peer.take(ERROR)
    detail = f"an orderly DISCONNECT got {error.brief() if error else 'no ERROR'}"
    target.record_finding(ORDERLY_DISCONNECT[version], error is None, detail)
    peer.close_socket()
    received = left_in(target, queue, version, 10)
    target.record_finding(
        ORDERLY_DISCONNECT[version],
        sorted(received) == sorted(numbered(10)),
        f"10 messages were sent before DISCONNECT; {len(received)} arrived",
        expectation=expected_remainder(numbered(10), "in any order"),
    )


@case(BARE_DISCONNECT)
def test_disconnect_needs_no_header(target: Bench, version: str) -> None:
    """DISCONNECT without headers, on a connection that holds an unacknowledged message, gets no
    ERROR and ends the session. The next consumer gets the message."""
    queue, peer = target.destination(), target.stomp(version)
    peer.publish(queue, b"held")
    held(target, peer, queue, 1, "client")
    peer.send("DISCONNECT")
    error = peer.watch_for(ERROR, within=QUIET)
    detail = f"DISCONNECT without a header got {error.brief() if error else 'no ERROR'}"
    target.record_finding(BARE_DISCONNECT[version], error is None, detail)
    after = target.stomp(version)
    after.subscribe(queue)  # no sentinel: a session that still exists would take it
    left = bodies(collect(target, after, 1))
    target.record_finding(
        BARE_DISCONNECT[version],
        left == [b"held"],
        f"after DISCONNECT, the next consumer of the queue got {listed(left)}",
        expectation=expected_arrivals(after, left, [b"held"]),
    )
