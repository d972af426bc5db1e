"""A raw peer for Artemis's CORE protocol, which can speak correctly or send arbitrary bytes.

Unlike Artemis's own client, this peer does not manage windows: it requests, grants and uses credit
only when a case says so. :meth:`CorePeer.send` and :meth:`CorePeer.write` send anything else. A
peer has one session, on channel 10.
"""

from collections.abc import Mapping
from typing import Any

from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.model.time import Duration, Instant
from brokerproof.harness.protocols.conversation import (
    PATIENCE,
    Conversation,
    Judge,
    Match,
    Requirements,
)
from brokerproof.harness.protocols.core import codec
from brokerproof.harness.protocols.core.codec import FIRST, LIVENESS, MAGIC, SESSIONS, Packet
from brokerproof.harness.protocols.core.fact_reader import FORCED
from brokerproof.harness.protocols.core.messages import Message
from brokerproof.harness.protocols.core.tables import NEWEST
from brokerproof.harness.protocols.core.trace_recorder import (
    PING,
    PROTOCOL,
    UNREADABLE,
    CoreTraceRecorder,
)

TTL_MS = 60_000
"""The TTL that clients usually request."""
_ROUTING = {RoutingType.MULTICAST: 0, RoutingType.ANYCAST: 1}


def packet(name: str, /, **fields: Any) -> Match[Packet]:
    expected = {key.replace("_", "-"): value for key, value in fields.items()}
    words = " ".join([name, *(f"{key}={value}" for key, value in expected.items())])
    return Match(
        words,
        lambda packet: (
            packet.name == name and all(packet.get(key) == value for key, value in expected.items())
        ),
    )


def is_forced(packet: Packet) -> bool:
    """Return True if ``each`` answers a force-delivery. Such an answer is encoded like a
    message."""
    return packet.name == "receive" and FORCED in packet.message.properties


def delivery(consumer: int | None = None) -> Match[Packet]:
    return Match(
        "message" if consumer is None else f"message for consumer {consumer}",
        lambda packet: (
            packet.name == "receive"
            and not is_forced(packet)
            and (consumer is None or packet["consumer"] == consumer)
        ),
    )


class CorePeer(Conversation[Packet]):
    """One CORE connection of the harness, with at most one session."""

    protocol = PROTOCOL

    def __init__(self, judge: Judge, conn: int, acceptor: str, version: int = NEWEST) -> None:
        super().__init__(judge, conn, acceptor)
        self.version = version
        """The protocol version that the peer speaks and announces."""
        self._recorder = CoreTraceRecorder(judge, conn)
        self._forced = 0
        self._sent = 0

    # Conversation

    def decode(self, at: Instant, data: bytes) -> None:
        self.inbox += [
            packet for packet in self._recorder.on_bytes_received(at, data) if packet.name != PING
        ]

    def fatal(self, frame: Packet) -> bool:
        return frame.name in ("exception", UNREADABLE) or frame.name.startswith("disconnect")

    def words(self, frame: Packet) -> str:
        return frame.brief()

    # sending

    def write(self, data: bytes, *, as_event: bool = True) -> None:
        """Write bytes; record them as packets if they are packets, and otherwise as raw bytes."""
        if as_event:
            self._recorder.on_bytes_sent(self.world.now(), data)
        super().write(data, as_event=False)

    def send(
        self, name: str, fields: Mapping[str, Any] | None = None, *, channel: int = FIRST
    ) -> None:
        """Send a packet with exactly these fields."""
        self.write(codec.encode_packet(name, fields, channel=channel, version=self.version))

    def beat(self, data: bytes = b"") -> None:
        """Send a ping that requests the default TTL; the broker returns it."""
        self.ping()

    def ping(self, ttl_ms: int = TTL_MS) -> None:
        self.send(PING, {"connection-ttl": ttl_ms}, channel=LIVENESS)

    def call(
        self,
        name: str,
        fields: Mapping[str, Any] | None = None,
        *,
        answer: str = "null-response",
        channel: int = FIRST,
        within: Duration = PATIENCE,
        proves: Requirements | None = None,
    ) -> Packet:
        self.send(name, fields, channel=channel)
        return self.expect(packet(answer), within=within, proves=proves)

    # sessions

    def magic(self) -> None:
        """Send the letters that begin a connection."""
        self.write(MAGIC)

    def create_session(
        self,
        login: str | None = None,
        passcode: str | None = None,
        *,
        name: str = "",
        proves: Requirements | None = None,
        **fields: Any,
    ) -> Packet:
        """Create a session on channel 10 whose sends and acknowledgements take effect immediately,
        unless ``fields`` say otherwise."""
        arguments = {
            "name": name or f"session-{self.conn}",
            "session-channel": FIRST,
            "version": self.version,
            "username": login,
            "password": passcode,
            "min-large-message-size": 100 * 1024,
            "auto-commit-sends": True,
            "auto-commit-acks": True,
            "window-size": -1,
        }
        fields = {key.replace("_", "-"): value for key, value in fields.items()}
        return self.call(
            "create-session",
            {**arguments, **fields},
            answer="create-session-response",
            channel=SESSIONS,
            proves=proves,
        )

    def start(self) -> None:
        self.send("session-start")

    def stop(self) -> Packet:
        return self.call("session-stop")

    def close(self, *, proves: Requirements | None = None) -> Packet:
        return self.call("session-close", proves=proves)

    def settle(self) -> None:
        """Wait until the broker has processed everything sent earlier and its answers have arrived
        (a barrier).

        Grants and deliveries may still be in transit: other threads of Artemis send them.
        """
        self.call("queue-query", {"queue": "nowhere-at-all"}, answer="queue-query-response-v3")

    # queues

    def create_queue(
        self,
        name: str,
        address: str | None = None,
        routing: RoutingType = RoutingType.ANYCAST,
        *,
        durable: bool = False,
        proves: Requirements | None = None,
        **fields: Any,
    ) -> Packet:
        """Create a queue at ``address`` (by default with its name) that persists when unused."""
        arguments = {
            "address": address or name,
            "queue": name,
            "durable": durable,
            "requires-response": True,
            "routing-type": _ROUTING[routing],
            "max-consumers": -1,
            "auto-delete": False,
        }
        return self.call("create-queue-v2", {**arguments, **fields}, proves=proves)

    def query(self, queue: str) -> Packet:
        return self.call("queue-query", {"queue": queue}, answer="queue-query-response-v3")

    # consumers

    def create_consumer(
        self,
        queue: str,
        consumer: int = 0,
        *,
        filter: str | None = None,
        browse_only: bool = False,
        proves: Requirements | None = None,
    ) -> Packet:
        """Create a consumer without credit; return the broker's description of the queue."""
        fields = {
            "consumer": consumer,
            "queue": queue,
            "filter": filter,
            "browse-only": browse_only,
            "requires-response": True,
        }
        return self.call("create-consumer", fields, answer="queue-query-response-v3", proves=proves)

    def credit(self, credits: int, consumer: int = 0) -> None:
        """Grant credit to a consumer, in bytes; -1 removes the limit, 0 withdraws what remains."""
        self.send("consumer-credits", {"consumer": consumer, "credits": credits})

    def acknowledge(
        self, delivered: Packet, *, one: bool = False, proves: Requirements | None = None
    ) -> None:
        """Acknowledge all messages of the consumer up to ``delivered``, or with ``one`` only that
        one; wait for the answer."""
        fields = {
            "consumer": delivered["consumer"],
            "message": delivered.message.id,
            "requires-response": True,
        }
        self.call("acknowledge-one" if one else "acknowledge", fields, proves=proves)

    def close_consumer(self, consumer: int = 0) -> None:
        """Close a consumer; its unacknowledged messages return to the queue."""
        self.call("close-consumer", {"consumer": consumer})

    def flush(self, consumer: int = 0, *, within: Duration = PATIENCE) -> None:
        """Wait until everything that can be delivered to ``consumer`` has arrived (a barrier). The
        broker's answer neither uses nor needs credit."""
        self._forced += 1
        forced = self._forced
        self.send("force-delivery", {"consumer": consumer, "sequence": forced})
        self.expect(
            Match(
                f"the answer to force-delivery {forced}",
                lambda packet: is_forced(packet) and packet.message.get(FORCED) == forced,
            ),
            within=within,
        )

    def delivered(self, consumer: int = 0) -> list[Packet]:
        """Return and remove the messages received for ``consumer``, oldest first."""
        deliveries, expected = [], delivery(consumer)
        while (one := self.take(expected)) is not None:
            deliveries.append(one)
        return deliveries

    def all_delivered(self, consumer: int = 0) -> list[Packet]:
        """Return and remove every message that can be delivered to ``consumer`` now."""
        self.flush(consumer)
        return self.delivered(consumer)

    # producers

    def request_credits(self, address: str, credits: int) -> None:
        """Request credit to send to ``address``, in bytes."""
        self.send("request-producer-credits", {"credits": credits, "address": address})

    def granted(
        self, address: str, *, within: Duration = PATIENCE, proves: Requirements | None = None
    ) -> int:
        """Return the next grant for ``address``, in bytes."""
        return int(
            self.expect(packet("producer-credits", address=address), within=within, proves=proves)[
                "credits"
            ]
        )

    def publish(
        self,
        message: Message,
        *,
        wait: bool = True,
        within: Duration = PATIENCE,
        proves: Requirements | None = None,
    ) -> None:
        """Send ``message``, even without credit; by default wait for the answer."""
        self._sent += 1
        fields = {"message": message, "requires-response": wait, "correlation": self._sent}
        self.send("send", fields)
        if wait:
            self.expect(packet("null-response"), within=within, proves=proves)
