"""Converts the bytes that a broker sends on a STOMP connection to trace events."""

from collections.abc import Iterator

from brokerproof.harness.model.time import Instant
from brokerproof.harness.protocols.conversation import Conversation, Judge
from brokerproof.harness.protocols.stomp import codec
from brokerproof.harness.protocols.stomp.codec import Frame
from brokerproof.harness.trace.event_factory import EventFactory

PROTOCOL = "STOMP"
UNREADABLE = "UNREADABLE"
"""The command that stands for unreadable bytes; the header ``reason`` is a sentence."""


class StompTraceRecorder:
    """Records the bytes received on connection ``conn``, read with the harness's own codec.

    Clients record what they send themselves, in the form that they intended.
    """

    def __init__(self, judge: Judge, conn: int, protocol: str = PROTOCOL) -> None:
        self._judge = judge
        self._protocol = protocol
        self._factory = EventFactory(conn)
        self._reader = codec.Reader()

    def read_as(self, version: str) -> None:
        """Use the header escapes of ``version`` from now on."""
        self._reader.version = version

    def on_bytes_received(self, at: Instant, data: bytes) -> Iterator[Frame]:
        """Record bytes from the broker; yield each completed frame once it is recorded.

        Unreadable bytes become :data:`UNREADABLE`.
        """
        for item in self._reader.feed(data):
            match item:
                case Frame():
                    if item.command == "CONNECTED":
                        # From now on the session's version defines how headers are escaped; 1.0
                        # servers name no version.
                        self._reader.version = item.get("version") or "1.0"
                    self._judge.record(
                        self._factory.frame(
                            at,
                            False,
                            self._protocol,
                            item.command,
                            item.headers,
                            item.body,
                            item.size,
                        )
                    )
                    yield item
                case codec.Eol(size):
                    self._judge.record(self._factory.heartbeat(at, False, self._protocol, size))
                case codec.Unreadable(raw, reason):
                    self._judge.record(self._factory.unreadable(at, False, raw, reason))
                    yield Frame(UNREADABLE, (("reason", reason),), raw, len(raw))


class StompConversation(Conversation[Frame]):
    """One STOMP connection, in ``version`` once connected. Subclasses process frames in
    :meth:`on_frame`."""

    protocol = PROTOCOL

    def __init__(self, judge: Judge, conn: int, acceptor: str, version: str) -> None:
        super().__init__(judge, conn, acceptor)
        self.version = version
        self.connected: Frame | None = None
        """The CONNECTED frame, once it has arrived."""
        self._recorder = StompTraceRecorder(judge, conn, self.protocol)
        self._receipts = 0

    def on_frame(self, item: Frame) -> None:
        """Process ``item``, which has been received and recorded."""
        self.inbox.append(item)

    def decode(self, at: Instant, data: bytes) -> None:
        for item in self._recorder.on_bytes_received(at, data):
            if item.command == UNREADABLE:
                self.inbox.append(item)
            else:
                self.on_frame(item)

    def fatal(self, frame: Frame) -> bool:
        return frame.command in ("ERROR", UNREADABLE)

    def words(self, frame: Frame) -> str:
        return frame.brief()
