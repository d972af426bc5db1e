"""What every STOMP peer does with what a broker sends: read it with the harness's codec, and put it
into the trace."""

from __future__ import annotations

from brokerproof.harness.model.time import Instant
from brokerproof.harness.protocols.conversation import Conversation, Judge
from brokerproof.harness.protocols.stomp import codec
from brokerproof.harness.protocols.stomp.codec import Frame
from brokerproof.harness.trace.events import (
    RECORDED_OCTETS,
    FrameReceived,
    HeartBeatReceived,
    OctetsRefused,
)


class StompReading(Conversation[Frame]):
    """One STOMP connection, in ``version`` once connected. Subclasses say what becomes of a frame:
    :meth:`came`."""

    protocol = "STOMP"

    def __init__(self, judge: Judge, conn: int, acceptor: str, version: str) -> None:
        super().__init__(judge, conn, acceptor)
        self.version = version
        self.connected: Frame | None = None
        """The CONNECTED frame, once it came."""
        self._reader = codec.Reader()
        self._receipts = 0

    def came(self, item: Frame) -> None:
        """``item`` has arrived and stands in the trace."""
        self.inbox.append(item)

    def decode(self, at: Instant, data: bytes) -> None:
        for item in self._reader.feed(data):
            match item:
                case Frame():
                    self._arrived(at, item)
                case codec.Eol(size):
                    self.judge.record(
                        HeartBeatReceived(
                            at_ns=at, conn=self.conn, protocol=self.protocol, size=size
                        )
                    )
                case codec.Unreadable(octets, reason):
                    self.judge.record(
                        OctetsRefused(
                            at_ns=at, conn=self.conn, data=octets[:RECORDED_OCTETS], detail=reason
                        )
                    )
                    self.inbox.append(
                        Frame("UNREADABLE", (("reason", reason),), octets, len(octets))
                    )

    def _arrived(self, at: Instant, item: Frame) -> None:
        if item.command == "CONNECTED":
            # From here on the session's version says how headers are escaped; 1.0 servers name
            # none.
            self._reader.version = item.get("version") or "1.0"
        self.judge.record(
            FrameReceived(
                at_ns=at,
                conn=self.conn,
                protocol=self.protocol,
                command=item.command,
                headers=item.headers,
                body=item.body[:RECORDED_OCTETS],
                body_size=len(item.body),
                size=item.size,
            )
        )
        self.came(item)

    def fatal(self, frame: Frame) -> bool:
        return frame.command in ("ERROR", "UNREADABLE")

    def words(self, frame: Frame) -> str:
        return frame.brief()
