"""Splits a stream into units with their bytes, so that they can be rewritten in transit. Unlike the
peers' readers, the splitter loses nothing: the raw bytes of all units, in order, are the stream.
Bytes that it cannot split (another protocol, malformed frames) are passed on unchanged."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from brokerproof.harness.model.wire_numbers import whole_number
from brokerproof.harness.protocols.amqp10 import codec
from brokerproof.harness.protocols.amqp10.types import Item, encode

_LONGEST = 1 << 26
"""The maximum size of a unit in bytes. A longer one is passed on without being split."""


@dataclass(frozen=True, slots=True)
class UnreadBytes:
    """Bytes that are not parsed."""

    raw: bytes


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A mere sign of life: line ends between STOMP frames, or an empty AMQP frame."""

    raw: bytes


@dataclass(frozen=True, slots=True)
class StompUnit:
    """One STOMP frame. The names and values of headers are as on the wire, with escapes."""

    raw: bytes
    command: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def get(self, name: str) -> str | None:
        return next((value for header, value in self.headers if header == name), None)

    def rewritten(
        self,
        *,
        command: str | None = None,
        change: Mapping[str, str | None] | None = None,
        body: bytes | None = None,
    ) -> bytes:
        """Return the frame with another command, other headers (None removes a header) or another
        body; content-length is unchanged."""
        changed = change or {}
        headers = [(name, changed.get(name, value)) for name, value in self.headers]
        headers += [(name, value) for name, value in changed.items() if self.get(name) is None]
        lines = [
            command or self.command,
            *(f"{name}:{value}" for name, value in headers if value is not None),
            "",
            "",
        ]
        return "\n".join(lines).encode() + (self.body if body is None else body) + b"\0"


@dataclass(frozen=True, slots=True)
class AmqpUnit:
    """One AMQP frame or protocol header."""

    raw: bytes
    frame: codec.Frame

    @property
    def name(self) -> str:
        return self.frame.name

    def rewritten(
        self, change: Mapping[str, Any], *, name: str | None = None, payload: bytes | None = None
    ) -> bytes:
        """Return the frame with other fields (None removes a field), another performative or
        another payload."""
        fields: dict[str, Item | Any] = {**self.frame.fields, **change}
        body = encode(codec.composite(name or self.frame.name, fields))
        data = self.frame.payload if payload is None else payload
        return codec.encode_frame(body + data, channel=self.frame.channel, type=self.frame.type)


Unit: TypeAlias = UnreadBytes | Heartbeat | StompUnit | AmqpUnit


class StreamSplitter:
    """Splits one direction of one connection, whose first bytes reveal the protocol."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._amqp: bool | None = None
        self._opaque = False

    def feed(self, data: bytes) -> Iterator[Unit]:
        """Return the units that ``data`` completes."""
        if self._opaque:
            yield UnreadBytes(data)
            return
        self._pending += data
        if self._amqp is None:
            if len(self._pending) < 4:
                return
            head = bytes(self._pending[:4])
            self._amqp = head == b"AMQP"
            # STOMP over WebSocket begins as HTTP and continues masked: nothing can be split there.
            self._opaque = head in (b"GET ", b"HTTP") or head[:1] == b"\x16"
        while self._pending and not self._opaque:
            unit = self._next_amqp() if self._amqp else self._next_stomp()
            if unit is None:
                self._opaque = self._opaque or len(self._pending) > _LONGEST
                break
            yield unit
        if self._opaque and self._pending:
            yield UnreadBytes(self.rest())

    def rest(self) -> bytes:
        """Return and remove the remaining bytes."""
        left = bytes(self._pending)
        self._pending.clear()
        return left

    def _take(self, size: int) -> bytes:
        raw = bytes(self._pending[:size])
        del self._pending[:size]
        return raw

    def _next_stomp(self) -> Unit | None:
        lines = len(self._pending) - len(self._pending.lstrip(b"\r\n"))
        if lines:
            return Heartbeat(self._take(lines))
        ends = [
            at + len(mark) for mark in (b"\n\n", b"\n\r\n") if (at := self._pending.find(mark)) >= 0
        ]
        if not ends:
            return None
        head = bytes(self._pending[: min(ends)])
        try:
            command, *rest = head.decode().replace("\r\n", "\n").rstrip("\n").split("\n")
        except UnicodeDecodeError:
            self._opaque = True
            return None
        headers = tuple(
            (name, value) for name, _, value in (piece.partition(":") for piece in rest)
        )
        length = whole_number(
            next((value for name, value in headers if name == "content-length"), "")
        )
        end = self._pending.find(b"\0", len(head)) if length is None else len(head) + length
        if end < 0 or len(self._pending) <= end:
            return None
        raw = self._take(end + 1)
        return StompUnit(raw, command, headers, raw[len(head) : end])

    def _next_amqp(self) -> Unit | None:
        if len(self._pending) < codec.HEADER_SIZE:
            return None
        size = (
            codec.HEADER_SIZE
            if self._pending[:4] == codec.PREFIX
            else int.from_bytes(self._pending[:4])
        )
        if size < codec.HEADER_SIZE:
            self._opaque = True
            return None
        if len(self._pending) < size:
            return None
        raw = self._take(size)
        read = next(codec.Reader().feed(raw), None)
        if isinstance(read, codec.Frame):
            return AmqpUnit(raw, read)
        return Heartbeat(raw) if isinstance(read, codec.Empty) else UnreadBytes(raw)
