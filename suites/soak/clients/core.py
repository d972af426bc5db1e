"""A client of Artemis's CORE protocol for the soak test, with the harness's codec."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from brokerproof.harness.protocols.core import codec as core
from brokerproof.harness.protocols.core import messages as core_messages
from brokerproof.harness.protocols.length_prefixed import Unreadable
from brokerproof.suites.soak.clients.client import (
    ARTEMIS,
    Client,
    Counting,
    Delivered,
    Event,
    Naming,
    Refused,
)


class CoreClient(Client):
    """Artemis's CORE protocol: a session on channel 10 that acknowledges and sends immediately, and
    one on channel 11 that commits. Each channel gets its answers in order."""

    protocol = "core"
    _AT_ONCE, _UNITS = core.FIRST, core.FIRST + 1

    def __init__(self, name: str, naming: Naming = ARTEMIS) -> None:
        super().__init__(name, naming)
        self._reader = core.Reader()
        self._counting = Counting()
        self._waiting: dict[int, deque[str]] = {self._AT_ONCE: deque(), self._UNITS: deque()}
        self._sessions = 0
        self.write(core.MAGIC)
        for channel in self._waiting:
            at_once = channel == self._AT_ONCE
            fields = {
                "name": f"{name}-{channel}",
                "session-channel": channel,
                "version": 135,
                "min-large-message-size": 2**31 - 1,
                "auto-commit-sends": at_once,
                "auto-commit-acks": True,
                "window-size": -1,
            }
            self._packet("create-session", fields, core.SESSIONS)

    def _packet(self, name: str, fields: dict[str, Any], channel: int) -> None:
        self.write(core.encode_packet(name, fields, channel=channel, version=135))

    def on_bytes(self, data: bytes) -> Iterator[Event]:
        for packet in self._reader.feed(data):
            if isinstance(packet, Unreadable):
                raise Refused(packet.reason)
            match packet.name:
                case "create-session-response":
                    self._sessions += 1
                    if self._sessions == len(self._waiting):
                        self._packet("session-start", {}, self._AT_ONCE)
                        self.set_ready()
                case "null-response":
                    reference = self._waiting[packet.channel].popleft()
                    if reference:
                        yield from self._counting.part(reference)
                case "receive":
                    message = packet.message
                    yield Delivered((packet["consumer"], message.id), message.body, None)
                    given = {"consumer": packet["consumer"], "credits": message.cost}
                    self._packet("consumer-credits", given, self._AT_ONCE)
                case "exception" | "disconnect":
                    raise Refused(packet.brief())

    def _produce(self, address: str, bodies: Sequence[bytes], reference: str, unit: bool) -> None:
        channel = self._UNITS if unit else self._AT_ONCE
        self._counting.expect(reference, 1 if unit else len(bodies))
        for body in bodies:
            message = core_messages.Message(address, body, durable=True)
            fields = {"message": message, "requires-response": not unit, "correlation": 1}
            self._packet("send", fields, channel)
            if not unit:
                self._waiting[channel].append(reference)
        if unit:
            self._packet("commit", {}, channel)
            self._waiting[channel].append(reference)

    def _consume(self, queue: str, window: int) -> None:
        fields = {"consumer": 0, "queue": queue, "requires-response": False}
        self._packet("create-consumer", fields, self._AT_ONCE)
        credits = -1 if window < 0 else max(1, window)
        self._packet("consumer-credits", {"consumer": 0, "credits": credits}, self._AT_ONCE)

    def _acknowledge(self, handles: Sequence[Any], reference: str, unit: bool) -> None:
        self._counting.expect(reference, len(handles))
        for consumer, id in handles:
            fields = {"consumer": consumer, "message": id, "requires-response": True}
            self._packet("acknowledge-one", fields, self._AT_ONCE)
            self._waiting[self._AT_ONCE].append(reference)
