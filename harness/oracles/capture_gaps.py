"""Gaps in a recording, and the conclusions they rule out.

A live recording is complete. A packet capture may start in the middle of a connection, lose
packets, contain unreadable bytes (TLS), end before its connections do, or miss whole connections.
The missing part may be what would clear a broker. So a gap that could explain an irregularity makes
it uncertain; a gap never creates one.

* A missing message may have been delivered in a gap, at any time, or on an unrecorded connection.
  So may the delivery that broke the order.
* Whether a delivery is held, settled or refused depends on the recording of its queue's connections
  up to that point.
* Unless every send was recorded, phantoms and wrong redelivery marks cannot be detected, and
  messages cannot be identified by their bodies
  (:func:`brokerproof.harness.oracles.recorded_anomalies.readable`).
* A connection's window and TTL are judged up to its first gap. A silence is certain only if
  captured near the broker.
"""

from collections.abc import Iterable

from brokerproof.harness.model.time import Instant
from brokerproof.harness.trace.events import Event, OctetsReceivedUnseen, OctetsSentUnseen
from brokerproof.harness.trace.facts import HIDING_NOTHING, UNTIL_NOW

OF_ALL = frozenset({"lost", "disordered"})
"""The kinds of irregularity that unrecorded bytes of any connection could explain."""
_OF_THE_QUEUE = frozenset({"shared", "revived", "unmarked"})


def hidden(event: Event) -> bool:
    return (
        isinstance(event, (OctetsSentUnseen, OctetsReceivedUnseen))
        and event.command not in HIDING_NOTHING
    )


def since(events: Iterable[Event]) -> dict[int, Instant]:
    """Return the start of the first gap of each connection that has one."""
    instants: dict[int, Instant] = {}
    for event in events:
        if (hidden(event) or getattr(event, "command", "") == UNTIL_NOW) and event.conn is not None:
            instants[event.conn] = min(event.at_ns, instants.get(event.conn, event.at_ns))
    return instants


def doubtful(
    kind: str, last: Instant, anywhere: Instant | None, of_queue: Instant | None, *, whole: bool
) -> bool:
    """True if a gap could explain an irregularity whose evidence ends at ``last``.

    ``anywhere`` and ``of_queue``: when the first gap begins on any connection and on one that uses
    the queue (None: no gap). ``whole``: the recording has every connection of the broker."""
    if kind in OF_ALL and not whole:
        return True
    if kind == "lost":
        return anywhere is not None
    if kind in OF_ALL:
        return anywhere is not None and anywhere <= last
    return kind in _OF_THE_QUEUE and of_queue is not None and of_queue <= last
