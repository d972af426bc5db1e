"""Events of a connection as its readings take them, and which reading that is: the protocol of its
first frame says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from brokerproof.harness.oracles import capture_gaps
from brokerproof.harness.oracles.expectations import NOTHING, Ground
from brokerproof.harness.protocols.amqp091 import fact_reader as amqp091_fact_reader
from brokerproof.harness.protocols.core import fact_reader as core_fact_reader
from brokerproof.harness.protocols.stomp import fact_reader as stomp_fact_reader
from brokerproof.harness.protocols.stomp.fact_reader import Fact, Row, key_of
from brokerproof.harness.trace.events import Event, FrameReceived, FrameSent

STOMP, AMQP091, CORE = "STOMP", "AMQP091", "CORE"
READABLE = (STOMP, AMQP091, CORE)
"""The protocols of whose messages the books are kept. One recording (one example of a case) is
wholly known only where all its connections speak the same of them: what one protocol calls a queue
has another name in the next."""
WITH_BODY = frozenset(
    {"SEND", "MESSAGE", *amqp091_fact_reader.WITH_BODY, *core_fact_reader.WITH_BODY}
)
"""Frames that carry a message."""


class Reading(Protocol):
    """One connection while it is read."""

    def note(self, row: Row) -> Iterator[Fact]:
        """Enters one event; yields what is decided by it."""
        ...

    def end(self) -> Iterator[Fact]:
        """The recording ended: everything open is told as it stands."""
        ...


_READINGS: Mapping[str, Callable[[int, Ground], Reading]] = {
    STOMP: stomp_fact_reader.Reading,
    AMQP091: lambda conn, _: amqp091_fact_reader.Reading(conn),
    CORE: lambda conn, _: core_fact_reader.Reading(conn),
}


@dataclass
class Spoken:
    """The reading of a connection whose protocol shows with its first frame."""

    conn: int
    ground: Ground = NOTHING
    _reading: Reading | None = None

    def note(self, row: Row) -> Iterator[Fact]:
        """Enters one event; yields what is decided by it."""
        if self._reading is None:
            if row.kind == "ConnectionOpened":
                return
            self._reading = _READINGS.get(row.protocol, stomp_fact_reader.Reading)(
                self.conn, self.ground
            )
        yield from self._reading.note(row)

    def end(self) -> Iterator[Fact]:
        """The recording ended."""
        if self._reading is not None:
            yield from self._reading.end()


def row(place: int, event: Event) -> Row:
    """A recorded event at ``place`` of the recording as a row."""
    when, kind = (event.at_ns, place), type(event).__name__
    protocol = getattr(event, "protocol", "")
    if isinstance(event, (FrameSent, FrameReceived)):
        headers = dict(reversed(event.headers))  # of repeated headers the first counts
        known = protocol in READABLE
        key = key_of(event.body, event.body_size) if known and event.command in WITH_BODY else None
        return Row(when, kind, event.command if known else "", headers, key, event.size, protocol)
    return Row(when, kind, getattr(event, "command", ""), {}, None, 0, protocol)


def readable(protocols: set[str]) -> bool:
    """Whether connections that speak these tell together all that was sent."""
    return len(protocols) <= 1 and protocols <= set(READABLE)


def hides(event: Event) -> bool:
    """Whether octets passed of which nobody knows what they say."""
    return capture_gaps.hidden(event) or type(event).__name__ == "OctetsSent"
