"""Events of the trace for one connection."""

from dataclasses import dataclass

from brokerproof.harness.model.enums import Vantage
from brokerproof.harness.model.time import Instant
from brokerproof.harness.trace.events import (
    RECORDED_BYTES,
    Event,
    FrameReceived,
    FrameSent,
    Headers,
    HeartBeatReceived,
    HeartBeatSent,
    OctetsRefused,
    OctetsSent,
)


@dataclass(frozen=True, slots=True)
class EventFactory:
    """Creates the events of connection ``conn``. ``out`` is true if the client wrote the bytes."""

    conn: int
    vantage: Vantage = Vantage.PEER

    def frame(
        self,
        at: Instant,
        out: bool,
        protocol: str,
        command: str,
        headers: Headers,
        body: bytes,
        size: int,
    ) -> Event:
        kind = FrameSent if out else FrameReceived
        return kind(
            at_ns=at,
            conn=self.conn,
            vantage=self.vantage,
            protocol=protocol,
            command=command,
            headers=headers,
            body=body[:RECORDED_BYTES],
            body_size=len(body),
            size=size,
        )

    def heartbeat(self, at: Instant, out: bool, protocol: str, size: int) -> Event:
        kind = HeartBeatSent if out else HeartBeatReceived
        return kind(at_ns=at, conn=self.conn, vantage=self.vantage, protocol=protocol, size=size)

    def unreadable(self, at: Instant, out: bool, data: bytes, reason: str) -> Event:
        """Return the event for bytes that are not a frame."""
        kept = data[:RECORDED_BYTES]
        if out:
            return OctetsSent(
                at_ns=at, conn=self.conn, vantage=self.vantage, data=kept, size=len(data)
            )
        return OctetsRefused(
            at_ns=at, conn=self.conn, vantage=self.vantage, data=kept, detail=reason
        )
