"""Gaps of a recording, and the conclusions that they forbid.

A live recording is whole. A capture of packets may begin in the middle of a connection, lose
packets, hold bytes that nobody can read (TLS), end before its connections do, and leave out whole
connections. What was not seen may have been just what would clear a broker: so it makes an
irregularity uncertain wherever it could explain it, and never makes one.

* A message that never came may have come among what was not seen, at any time, or on a connection
  that is not in the recording; so may the delivery that put messages out of order.
* A delivery held, settled or refused is known by what was seen on the connections of its queue up
  to then.
* Without everything that was sent a phantom and a first mark cannot be told at all, nor can
  messages by their bodies (:func:`brokerproof.harness.oracles.recorded_anomalies.readable`).
* The window of a connection, and its TTL, are judged up to what was not seen on it; a silence
  surely only near the broker.
"""

from __future__ import annotations

from collections.abc import Iterable

from brokerproof.harness.model.time import Instant
from brokerproof.harness.trace.events import Event, OctetsReceivedUnseen, OctetsSentUnseen
from brokerproof.harness.trace.facts import HIDING_NOTHING, UNTIL_NOW

OF_ALL = frozenset({"lost", "disordered"})
"""Kinds that could have been otherwise on any connection."""
_OF_THE_QUEUE = frozenset({"shared", "revived", "unmarked"})


def hidden(event: Event) -> bool:
    return (
        isinstance(event, (OctetsSentUnseen, OctetsReceivedUnseen))
        and event.command not in HIDING_NOTHING
    )


def since(events: Iterable[Event]) -> dict[int, Instant]:
    """By connection: since when not everything is in the recording. Connections without anything
    unseen are missing."""
    instants: dict[int, Instant] = {}
    for event in events:
        if (hidden(event) or getattr(event, "command", "") == UNTIL_NOW) and event.conn is not None:
            instants[event.conn] = min(event.at_ns, instants.get(event.conn, event.at_ns))
    return instants


def doubtful(
    kind: str, last: Instant, anywhere: Instant | None, of_queue: Instant | None, *, whole: bool
) -> bool:
    """True if what was not seen could explain an irregularity whose witness ends at ``last``.

    ``anywhere`` and ``of_queue``: since when something is unseen on any connection, and on one that
    has to do with the queue; None for never. ``whole``: every connection of the broker is in the
    recording.
    """
    if kind in OF_ALL and not whole:
        return True
    if kind == "lost":
        return anywhere is not None
    if kind in OF_ALL:
        return anywhere is not None and anywhere <= last
    return kind in _OF_THE_QUEUE and of_queue is not None and of_queue <= last
