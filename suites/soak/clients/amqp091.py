"""An AMQP 0-9-1 client for the soak test, with the harness's codec."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from brokerproof.harness.protocols.amqp091 import codec as amqp091
from brokerproof.harness.protocols.length_prefixed import Unreadable
from brokerproof.suites.soak.clients.client import (
    SLASHES,
    Client,
    Confirmed,
    Counting,
    Delivered,
    Event,
    Naming,
    Refused,
)


class Amqp091Client(Client):
    """AMQP 0-9-1, with confirms and deliveries on channel 1 and transactions on channel 2. An
    acknowledgement is never confirmed."""

    protocol = "amqp"
    _CONFIRMS, _UNITS = 1, 2

    def __init__(self, name: str, naming: Naming = SLASHES) -> None:
        super().__init__(name, naming)
        self._reader = amqp091.Reader()
        self._contents = amqp091.Contents()
        self._counting = Counting()
        self._published = 0
        self._unconfirmed: dict[int, str] = {}
        self._work: deque[tuple[str, Sequence[bytes], str, bool]] = deque()
        """Queued sends. Order is promised only within a channel, so each channel waits for the
        other's sends."""
        self._committing = ""
        self._most = 0
        self.write(amqp091.protocol_header())

    def _method(self, name: str, fields: dict[str, Any] | None = None, channel: int = 1) -> None:
        data = amqp091.encode_method(name, fields or {})
        self.write(amqp091.encode_frame(amqp091.METHOD, channel, data))

    def on_bytes(self, data: bytes) -> Iterator[Event]:
        for frame in self._reader.feed(data):
            if isinstance(frame, Unreadable):
                raise Refused(frame.reason)
            for method in self._contents.feed(frame):
                yield from self._on_method(method)

    def _on_method(self, method: amqp091.Method) -> Iterator[Event]:
        match method.name:
            case "connection.start":
                fields: dict[str, Any] = {
                    "mechanism": "PLAIN",
                    "response": b"\0guest\0guest",
                    "locale": "en_US",
                }
                self._method("connection.start-ok", {**fields, "client-properties": {}}, 0)
            case "connection.tune":
                self._most = method["frame-max"]
                fields = {"channel-max": method["channel-max"], "frame-max": self._most}
                self._method("connection.tune-ok", {**fields, "heartbeat": 0}, 0)
                self._method("connection.open", {"virtual-host": "/"}, 0)
            case "connection.open-ok":
                for channel in (self._CONFIRMS, self._UNITS):
                    self._method("channel.open", {}, channel)
                self._method("confirm.select", {}, self._CONFIRMS)
                self._method("tx.select", {}, self._UNITS)
            case "tx.select-ok":
                self.set_ready()
            case "basic.ack":
                last = method["delivery-tag"]
                tags = list(self._unconfirmed) if method["multiple"] else [last]
                for tag in tags:
                    if tag <= last:
                        yield from self._counting.part(self._unconfirmed.pop(tag))
                self._go_on()
            case "tx.commit-ok":
                reference, self._committing = self._committing, ""
                yield Confirmed(reference)
                self._go_on()
            case "basic.deliver":
                yield Delivered(method["delivery-tag"], method.body, bool(method["redelivered"]))
            case "basic.nack" | "channel.close" | "connection.close":
                raise Refused(method.brief())

    def _produce(self, address: str, bodies: Sequence[bytes], reference: str, unit: bool) -> None:
        self._work.append((address, bodies, reference, unit))
        self._go_on()

    def _go_on(self) -> None:
        while self._work and not self._committing:
            address, bodies, reference, unit = self._work[0]
            if unit and self._unconfirmed:
                return
            self._work.popleft()
            channel = self._UNITS if unit else self._CONFIRMS
            if not unit:
                self._counting.expect(reference, len(bodies))
            for body in bodies:
                self._method("basic.publish", {"routing-key": address}, channel)
                durable = {"delivery-mode": 2}
                self.write(amqp091.encode_content(channel, body, durable, frame_max=self._most))
                if not unit:
                    self._published += 1
                    self._unconfirmed[self._published] = reference
            if unit:
                self._committing = reference
                self._method("tx.commit", {}, channel)

    def _consume(self, queue: str, window: int) -> None:
        self._method("queue.declare", {"queue": queue, "durable": True})
        # Without a prefetch-count a quorum queue delivers at most 2,000 messages.
        count = 65535 if window < 0 else max(1, window // 500)
        self._method("basic.qos", {"prefetch-count": count})
        self._method("basic.consume", {"queue": queue})

    def _acknowledge(self, handles: Sequence[Any], reference: str, unit: bool) -> None:
        for handle in handles:
            self._method("basic.ack", {"delivery-tag": handle})
