"""Events of one captured connection: what passed it, told as a recording of the client would tell it."""

from __future__ import annotations

from dataclasses import dataclass

from harness.trace.events import (
    Event,
    FrameReceived,
    FrameSent,
    Headers,
    HeartBeatReceived,
    HeartBeatSent,
    Noted,
    OctetsReceivedUnseen,
    OctetsRefused,
    OctetsSent,
    OctetsSentUnseen,
)
from harness.wire.conversation import RECORDED_OCTETS
from harness.words import Instant, Vantage

_SEEN = Vantage.CAPTURE
REASONS = {
    "BEGUN": "passed before the capture began",
    "LOST": "were not captured",
    "CUT": "were cut off by the capture",
    "TLS": "what is encrypted cannot be seen",
    "FOREIGN": "what passes is compressed, or was not accepted",
    "CLOCK": "the clock of whoever captured was set back",
    "FAR": "the capture was not made near the broker, as far as one can see",
    "ENDS": "the capture ends and the connection goes on",
}
"""Why octets are not in the trace."""


@dataclass(frozen=True, slots=True)
class Telling:
    """Makes the events of connection ``conn``. ``out`` is what the client wrote."""

    conn: int

    def frame(
        self, at: Instant, out: bool, protocol: str, command: str, headers: Headers, body: bytes, size: int
    ) -> Event:
        """A whole frame passed."""
        kind = FrameSent if out else FrameReceived
        return kind(
            at_ns=at,
            conn=self.conn,
            vantage=_SEEN,
            protocol=protocol,
            command=command,
            headers=headers,
            body=body[:RECORDED_OCTETS],
            body_size=len(body),
            size=size,
        )

    def beat(self, at: Instant, out: bool, protocol: str, size: int) -> Event:
        """A sign of life passed."""
        kind = HeartBeatSent if out else HeartBeatReceived
        return kind(at_ns=at, conn=self.conn, vantage=_SEEN, protocol=protocol, size=size)

    def unreadable(self, at: Instant, out: bool, data: bytes, reason: str) -> Event:
        """Octets passed that are no frame."""
        kept = data[:RECORDED_OCTETS]
        if out:
            return OctetsSent(at_ns=at, conn=self.conn, vantage=_SEEN, data=kept, size=len(data))
        return OctetsRefused(at_ns=at, conn=self.conn, vantage=_SEEN, data=kept, detail=reason)

    def unseen(self, at: Instant, out: bool, protocol: str, why: str, size: int = 0) -> Event:
        """Octets passed, not before ``at``, that cannot be seen; ``why`` is one of :data:`REASONS`."""
        kind = OctetsSentUnseen if out else OctetsReceivedUnseen
        detail = f"{size} octets {REASONS[why]}" if size else REASONS[why]
        return kind(at_ns=at, conn=self.conn, vantage=_SEEN, protocol=protocol, command=why, size=size, detail=detail)

    def noted(self, at: Instant, detail: str) -> Event:
        """Something for people to read."""
        return Noted(at_ns=at, conn=self.conn, vantage=_SEEN, detail=detail)
