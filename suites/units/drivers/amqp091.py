"""Drives a reference broker with AMQP 0-9-1 in unit tests, with the harness's codec and a clock
that only the test advances."""

from collections.abc import Mapping
from typing import Any

from brokerproof.harness.model.broker_io import (
    BytesReceived,
    Close,
    Connected,
    Effect,
    Input,
    LoadFile,
    ResumeReading,
    SendBytes,
    StopReading,
    StoreFiles,
    TimerFired,
)
from brokerproof.harness.model.time import Instant
from brokerproof.harness.protocols.amqp091 import codec
from brokerproof.harness.protocols.amqp091.codec import Method
from brokerproof.harness.protocols.amqp091.trace_recorder import Stream
from brokerproof.reference_broker.assembly import create_broker
from brokerproof.reference_broker.config.rabbitmq import rabbitmq_conf
from brokerproof.reference_broker.persistence.memory import MemoryDisk
from brokerproof.reference_broker.persistence.store_from_settings import store
from brokerproof.reference_broker.settings.settings import Settings

CAPABILITIES = {"connection.blocked": True, "consumer_cancel_notify": True}


class Driver:
    def __init__(self, settings: Settings | None = None, *, disk: bool = False) -> None:
        chosen = settings or rabbitmq_conf.default()
        self.broker = create_broker(chosen, store=store(chosen) if disk else None)
        self.disk = MemoryDisk()
        """A disk that answers immediately."""
        self.now: Instant = 0
        self.unread: set[int] = set()
        """Connections from which the broker does not read."""
        self.closed: set[int] = set()
        self.sent: dict[int, bytes] = {}
        """Effects on connections of other protocols."""
        self._streams: dict[int, Stream] = {}
        self._got: dict[int, list[Method]] = {}
        self._conns = 0

    def feed(self, event: Input) -> None:
        for effect in self.broker.handle(self.now, event):
            self._effect(effect)

    def _effect(self, each: Effect) -> None:
        match each:
            case SendBytes(conn, data):
                self.sent[conn] = self.sent.get(conn, b"") + data
                if conn in self._streams:
                    self._got[conn] += self._streams[conn].feed(data)
            case StopReading(conn):
                self.unread.add(conn)
            case ResumeReading(conn):
                self.unread.discard(conn)
            case Close(conn):
                self.closed.add(conn)
            case StoreFiles() | LoadFile():
                self.feed(self.disk.carry(self.now, each)[1])

    def advance_to(self, instant: Instant) -> None:
        while (due := self.broker.next_deadline()) is not None and due <= instant:
            self.now = max(self.now, due)
            self.feed(TimerFired())
        self.now = instant

    def open(self, acceptor: str = "amqp") -> int:
        self._conns += 1
        self.feed(Connected(self._conns, acceptor, "test"))
        return self._conns

    def watch(self, conn: int) -> None:
        """Decode the broker's output on ``conn`` as AMQP 0-9-1."""
        self._streams[conn] = Stream()
        self._got[conn] = []

    def connect(
        self,
        *,
        heartbeat: int = 0,
        channels: int = 1,
        capabilities: Mapping[str, Any] = CAPABILITIES,
    ) -> int:
        conn = self.open()
        self.watch(conn)
        self.write(conn, codec.protocol_header())
        about = {
            "mechanism": "PLAIN",
            "response": b"\0guest\0guest",
            "client-properties": {"capabilities": dict(capabilities)},
        }
        self.send(conn, "connection.start-ok", about, channel=0)
        tune = {"channel-max": 2047, "frame-max": 131072, "heartbeat": heartbeat}
        self.send(conn, "connection.tune-ok", tune, channel=0)
        self.send(conn, "connection.open", {"virtual-host": "/"}, channel=0)
        for channel in range(1, channels + 1):
            self.send(conn, "channel.open", channel=channel)
        self.got(conn)
        return conn

    def write(self, conn: int, data: bytes) -> None:
        self.feed(BytesReceived(conn, data))

    def send(
        self, conn: int, name: str, fields: Mapping[str, Any] | None = None, *, channel: int = 1
    ) -> None:
        self.write(
            conn, codec.encode_frame(codec.METHOD, channel, codec.encode_method(name, fields))
        )

    def publish(
        self, conn: int, key: str, body: bytes, exchange: str = "", **properties: Any
    ) -> None:
        method = codec.encode_method("basic.publish", {"exchange": exchange, "routing-key": key})
        self.write(
            conn,
            codec.encode_frame(codec.METHOD, 1, method) + codec.encode_content(1, body, properties),
        )

    def got(self, conn: int) -> list[Method]:
        found, self._got[conn] = self._got[conn], []
        return found

    def declare(self, conn: int, queue: str, **arguments: Any) -> tuple[int, int]:
        """Declare a queue; return the numbers of waiting messages and of consumers."""
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        self.send(conn, "queue.declare", {"queue": queue, "arguments": named})
        (answer,) = self.got(conn)
        return answer["message-count"], answer["consumer-count"]

    def count(self, conn: int, queue: str) -> int | None:
        """Return the number of waiting messages; None if there is no such queue. That closes the
        channel, so reopen it."""
        self.send(conn, "queue.declare", {"queue": queue, "passive": True})
        answer = self.got(conn)[-1]
        if answer.name == "channel.close":
            self.send(conn, "channel.close-ok")
            self.send(conn, "channel.open")
            self.got(conn)
            return None
        return int(answer["message-count"])

    def bodies(self, conn: int, queue: str) -> list[bytes]:
        """Consume and return the waiting messages."""
        found = []
        while True:
            self.send(conn, "basic.get", {"queue": queue, "no-ack": True})
            (answer,) = self.got(conn)
            if answer.name == "basic.get-empty":
                return found
            found.append(answer.body)


def with_queue(settings: Settings | None = None, **arguments: Any) -> tuple[Driver, int]:
    """Return a broker, and a connection that has declared the queue q."""
    driver = Driver(settings)
    conn = driver.connect()
    driver.declare(conn, "q", **arguments)
    return driver, conn
