"""Events of one captured connection, as a recording client would have written them."""

from dataclasses import dataclass

from brokerproof.harness.model.enums import Vantage
from brokerproof.harness.model.time import Instant
from brokerproof.harness.trace import event_factory
from brokerproof.harness.trace.events import Event, Noted, OctetsReceivedUnseen, OctetsSentUnseen

REASONS = {
    "BEGUN": "passed before the capture began",
    "LOST": "were not captured",
    "CUT": "were cut off by the capture",
    "TLS": "what is encrypted cannot be seen",
    "FOREIGN": "what passes is compressed, or was not accepted",
    "CLOCK": "the clock of the capturing machine was set back",
    "FAR": "the capture was not made near the broker, as far as one can see",
    "ENDS": "the capture ends and the connection goes on",
}
"""Reasons why bytes are missing from the trace."""


@dataclass(frozen=True, slots=True)
class CaptureEventFactory(event_factory.EventFactory):
    """Creates a capture's events, including those about its gaps."""

    vantage: Vantage = Vantage.CAPTURE

    def unseen(self, at: Instant, out: bool, protocol: str, why: str, size: int = 0) -> Event:
        """Report missing bytes that were sent no earlier than ``at``. ``why`` is one of
        :data:`REASONS`."""
        kind = OctetsSentUnseen if out else OctetsReceivedUnseen
        detail = f"{size} bytes {REASONS[why]}" if size else REASONS[why]
        return kind(
            at_ns=at,
            conn=self.conn,
            vantage=self.vantage,
            protocol=protocol,
            command=why,
            size=size,
            detail=detail,
        )

    def noted(self, at: Instant, detail: str) -> Event:
        return Noted(at_ns=at, conn=self.conn, vantage=self.vantage, detail=detail)
