"""Turns the events of one connection into facts, according to the protocol of its first frame."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from brokerproof.harness.oracles import capture_gaps
from brokerproof.harness.oracles.expectations import NOTHING, Expectations
from brokerproof.harness.protocols.amqp091 import fact_reader as amqp091_fact_reader
from brokerproof.harness.protocols.amqp091.fact_reader import Amqp091FactReader
from brokerproof.harness.protocols.core import fact_reader as core_fact_reader
from brokerproof.harness.protocols.core.fact_reader import CoreFactReader
from brokerproof.harness.protocols.stomp.fact_reader import StompFactReader
from brokerproof.harness.trace.events import Event, FrameReceived, FrameSent
from brokerproof.harness.trace.facts import Fact, Row, key_of

STOMP, AMQP091, CORE = "STOMP", "AMQP091", "CORE"
READABLE = (STOMP, AMQP091, CORE)
"""Protocols whose messages are followed. A recording (one example of a case) is known completely
only if all its connections use the same one of these protocols, because each protocol has its own
queue names."""
WITH_BODY = frozenset(
    {"SEND", "MESSAGE", *amqp091_fact_reader.WITH_BODY, *core_fact_reader.WITH_BODY}
)
"""Frames that carry a message."""


class FactReader(Protocol):
    def read(self, row: Row) -> Iterator[Fact]:
        """Read one event; yield the facts that it establishes."""
        ...

    def end(self) -> Iterator[Fact]:
        """End the recording: yield all open facts in their current state."""
        ...


@dataclass
class ConnectionReader:
    """Reads a connection whose protocol is known from its first frame."""

    conn: int
    expectations: Expectations = NOTHING
    _reader: FactReader | None = None

    def read(self, row: Row) -> Iterator[Fact]:
        if self._reader is None:
            if row.kind == "ConnectionOpened":
                return
            self._reader = self._reader_of(row.protocol)
        yield from self._reader.read(row)

    def end(self) -> Iterator[Fact]:
        if self._reader is not None:
            yield from self._reader.end()

    def _reader_of(self, protocol: str) -> FactReader:
        match protocol:
            case "AMQP091":
                return Amqp091FactReader(self.conn)
            case "CORE":
                return CoreFactReader(self.conn)
            case _:
                return StompFactReader(
                    self.conn, self.expectations.windows, self.expectations.window
                )


def row(place: int, event: Event) -> Row:
    """Return the event at ``place`` in the recording as a row."""
    when, kind = (event.at_ns, place), type(event).__name__
    protocol = getattr(event, "protocol", "")
    if isinstance(event, (FrameSent, FrameReceived)):
        headers = dict(reversed(event.headers))  # the first of repeated headers counts
        known = protocol in READABLE
        key = key_of(event.body, event.body_size) if known and event.command in WITH_BODY else None
        return Row(when, kind, event.command if known else "", headers, key, event.size, protocol)
    return Row(when, kind, getattr(event, "command", ""), {}, None, 0, protocol)


def readable(protocols: set[str]) -> bool:
    """Return True if connections that use ``protocols`` show every message sent."""
    return len(protocols) <= 1 and protocols <= set(READABLE)


def hides(event: Event) -> bool:
    """Return True if the recording contains bytes that the reader cannot interpret."""
    return capture_gaps.hidden(event) or type(event).__name__ == "OctetsSent"
