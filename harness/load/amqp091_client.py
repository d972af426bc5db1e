"""A load connection over AMQP 0-9-1, with a channel for each producer and consumer, publisher
confirms and prefetch.

The wire log stores a method and its content as one record: the frame of the method, that of the
content header, then the first bytes of the body. The record's size is that of all frames of the
content. If other frames interrupted the content, :data:`brokerproof.harness.load.wire_log.EOL` is
added to the size."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from brokerproof.harness.load.client_connection import (
    ClientConnection,
    DriverContext,
    ProducerState,
)
from brokerproof.harness.load.plan import Consumer
from brokerproof.harness.load.wire_log import EOL, RECEIVED, RECORDED_BYTES, SENT
from brokerproof.harness.model.time import NS_PER_S, Instant
from brokerproof.harness.protocols.amqp091 import codec
from brokerproof.harness.protocols.amqp091.tables import BY_NAME
from brokerproof.harness.trace.stamp import LENGTH, MARK

PREFETCH = 200
"""The default prefetch of a consumer."""


def _numbers(name: str) -> bytes:
    """Return the first bytes of a method's payload."""
    table = BY_NAME[name]
    return table.class_id.to_bytes(2) + table.method_id.to_bytes(2)


_HEAD = struct.Struct(">BHI")
_CONTENT = struct.Struct(">BHIHHQHB")
_ACK = struct.Struct(">BHIHHQBB")
_DELIVER, _CONFIRM, _REFUSE = (_numbers(f"basic.{name}") for name in ("deliver", "ack", "nack"))
_WITH_CONTENT = tuple(_numbers(name) for name, about in BY_NAME.items() if about.content)
_CAPABILITIES = {
    "publisher_confirms": True,
    "basic.nack": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
}


@dataclass(slots=True)
class _Content:
    """A method whose content is incomplete. ``due`` is the number of missing bytes of the body, or
    -1 before the content header."""

    method: bytes
    head: bytes = b""
    body: bytes = b""
    due: int = -1
    body_size: int = 0
    size: int = 0


@dataclass(slots=True)
class _Confirms:
    """The unconfirmed publishes on a producer's channel: their instants by tag, the next tag, and
    the lowest tag that may be unconfirmed."""

    sender: ProducerState
    waiting: dict[int, Instant]
    next: int = 1
    least: int = 1

    def taken(self, tag: int, multiple: bool) -> list[Instant]:
        """Return when the messages that this ack confirms were published."""
        if not multiple:
            delivery = self.waiting.pop(tag, None)
            return [] if delivery is None else [delivery]
        tags = range(self.least, (tag or self.next - 1) + 1)  # tag 0 means all
        self.least = max(self.least, tags.stop)
        return [at for tag in tags if (at := self.waiting.pop(tag, None)) is not None]


class Amqp091LoadConnection(ClientConnection):
    """A :class:`ClientConnection`. The channels from 1 on belong to the senders, the next ones to
    the consumers."""

    protocol = "amqp091"
    acronym = "AMQP091"

    def __init__(
        self,
        host: DriverContext,
        number: int,
        senders: list[ProducerState],
        consumers: list[Consumer],
    ) -> None:
        super().__init__(host, number, senders, consumers)
        self._publish = {
            channel: _method(
                "basic.publish", channel, routing_key=host.plan.places[sender.about.place].name
            )
            for channel, sender in enumerate(senders, 1)
        }
        self._channels = {sender.about.number: channel for channel, sender in enumerate(senders, 1)}

    # connecting

    def greet(self) -> None:
        self._pending = b""
        self._contents: dict[int, _Content] = {}
        self._confirms = {
            channel: _Confirms(sender, {}) for channel, sender in enumerate(self.senders, 1)
        }
        self._asked: set[tuple[int, str]] = set()
        self._blocked = False
        self._most = codec.LEAST_FRAME_MAX
        self._say([codec.protocol_header()], self.host.world.now())

    def _say(self, frames: list[bytes], now: Instant, kept: list[bytes] | None = None) -> None:
        """Write ``frames``. If ``kept`` is given, record it in their place."""
        if self.host.tape is not None:
            self.host.tape.frames(
                self._number, SENT, now, self.conn, kept or frames, list(map(len, frames))
            )
        self.write(b"".join(frames), now)

    def _started(self, offered: bytes, now: Instant) -> None:
        plan = self.host.plan
        fields = {
            "client-properties": {"product": "brokerproof", "capabilities": _CAPABILITIES},
            **codec.start_ok(offered, plan.login, plan.passcode),
        }
        frames = [_method("connection.start-ok", 0, **fields)]
        shown = _method("connection.start-ok", 0, **{**fields, "response": b"***"})
        self._say(frames, now, [shown])

    def _tuned(self, tune: codec.Frame, now: Instant) -> None:
        fields = dict(tune.fields)
        ours = self.host.plan.heart_beat // NS_PER_S
        beat = min(ours, fields["heartbeat"] or ours)
        self.silence = beat * NS_PER_S
        self._most = fields["frame-max"] or 2**17
        fields["heartbeat"] = beat
        frames = [_method("connection.tune-ok", 0, **fields)]
        frames.append(_method("connection.open", 0, virtual_host=self.host.plan.host))
        self._say(frames, now)

    def _opened(self, now: Instant) -> None:
        plan = self.host.plan
        frames = []
        for channel, sender in enumerate(self.senders, 1):
            frames += self._channel(channel, plan.places[sender.about.place].name)
            if plan.confirmed:
                frames.append(_method("confirm.select", channel))
            self._asked.add(
                (channel, "confirm.select-ok" if plan.confirmed else "queue.declare-ok")
            )
        for channel, consumer in enumerate(self.consumers, len(self.senders) + 1):
            name = plan.places[consumer.place].name
            frames += self._channel(channel, name)
            settled = plan.ack == "auto"
            if not settled:
                frames.append(
                    _method(
                        "basic.qos", channel, prefetch_count=min(plan.window or PREFETCH, 0xFFFF)
                    )
                )
            tag = f"c{consumer.number}"
            frames.append(
                _method("basic.consume", channel, queue=name, consumer_tag=tag, no_ack=settled)
            )
            self._asked.add((channel, "basic.consume-ok"))
        self._say(frames, now)

    def _channel(self, channel: int, queue: str) -> list[bytes]:
        return [
            _method("channel.open", channel),
            _method("queue.declare", channel, queue=queue, durable=True),
        ]

    # sending

    def post(self, sender: ProducerState, count: int, now: Instant) -> int:
        if self._blocked:
            return 0
        host, channel = self.host, self._channels[sender.about.number]
        confirms, publish, taped = (
            self._confirms[channel],
            self._publish[channel],
            host.tape is not None,
        )
        most = self._most - codec.OVERHEAD
        parts: list[bytes] = []
        kept: list[bytes] = []
        sizes: list[int] = []
        length = 0
        for number in range(sender.next, sender.next + count):
            body = host.body(sender.about.number, number, now)
            size = len(body)
            head = _CONTENT.pack(codec.HEADER, channel, 14, 60, 0, size, 0, codec.END)
            if size <= most:
                parts += (publish, head, _HEAD.pack(codec.BODY, channel, size), body, b"\xce")
                frames = 1
            else:
                pieces = [body[at : at + most] for at in range(0, size, most)]
                parts += (
                    publish,
                    head,
                    *(codec.encode_frame(codec.BODY, channel, piece) for piece in pieces),
                )
                frames = len(pieces)
            length += size
            if taped:
                kept.append(publish + head + body[:RECORDED_BYTES])
                sizes.append(len(publish) + len(head) + size + frames * codec.OVERHEAD)
        tally = host.tally
        if host.plan.confirmed:
            confirms.waiting.update(dict.fromkeys(range(confirms.next, confirms.next + count), now))
            confirms.next += count
            sender.waiting += count
        sender.next += count
        tally.sent += count
        tally.sent_octets += length
        tally.sent_until = now + host.offset
        if host.tape is not None:
            host.tape.frames(self._number, SENT, now, self.conn, kept, sizes)
        self.write(b"".join(parts), now)
        return count

    # receiving

    def on_bytes_received(self, at: Instant, data: bytes) -> None:
        if self._pending:
            data = self._pending + data
        place, size = 0, len(data)
        took = _Took([], [], [], {})
        while size - place >= codec.OVERHEAD and not self.over:
            kind, channel, length = _HEAD.unpack_from(data, place)
            end = place + codec.OVERHEAD + length
            if data.startswith(codec.PREFIX, place):  # the version it supports, before it closes
                end = place + codec.OVERHEAD
                kind = channel = 0
            if end > size:
                break
            self._frame(kind, channel, data[place:end], at, took)
            place = end
        self._pending = data[place:]
        self._end_read(took, at)

    def _end_read(self, took: _Took, at: Instant) -> None:
        self._record(took, at)
        tally = self.host.tally
        if took.waits:
            tally.delivery.record(took.waits)
            tally.received_until = at + self.host.offset
        if self.over:
            return
        if took.tags:
            answers = [
                _ACK.pack(codec.METHOD, channel, 13, 60, 80, tag, several, codec.END)
                for channel, tags in took.tags.items()
                for tag, several in self._settled(tags)
            ]
            tally.settled += sum(map(len, took.tags.values()))
            self._say(answers, at)
        self.pump(at)

    def _settled(self, tags: list[int]) -> list[tuple[int, int]]:
        """Return the tag and ``multiple`` of each basic.ack: one ack for all deliveries, or one for
        each."""
        return [(tags[-1], 1)] if self.host.plan.ack == "client" else [(tag, 0) for tag in tags]

    def _record(self, took: _Took, at: Instant) -> None:
        if took.kept and self.host.tape is not None:
            self.host.tape.frames(self._number, RECEIVED, at, self.conn, took.kept, took.sizes)
        took.kept, took.sizes = [], []

    def _frame(self, kind: int, channel: int, frame: bytes, at: Instant, took: _Took) -> None:
        content = self._contents.get(channel) if self._contents else None
        if content is not None:
            if kind == codec.BODY and content.due > 0:
                size = len(frame) - codec.OVERHEAD
                if not content.body_size:
                    content.body = frame[7 : min(7 + RECORDED_BYTES, len(frame) - 1)]
                elif content.body_size < RECORDED_BYTES:
                    content.body = (content.body + frame[7:-1])[:RECORDED_BYTES]
                content.body_size += size
                content.due -= size
            elif kind == codec.HEADER and content.due < 0:
                content.head, content.due = frame, int.from_bytes(frame[11:19])
            else:
                del self._contents[channel]
                self.host.tally.errors["another frame interrupted a message's content"] += 1
                took.add(content.method + content.head + content.body, content.size + EOL)
                content = None
            if content is not None:
                content.size += len(frame)
                if content.due <= 0:
                    del self._contents[channel]
                    took.add(content.method + content.head + content.body, content.size)
                    self._came(channel, content, at, took)
                return
        number = frame[7:11] if kind == codec.METHOD else b""
        if number in _WITH_CONTENT:
            self._contents[channel] = _Content(frame, size=len(frame))
            return
        took.add(frame, len(frame))
        if number in (_CONFIRM, _REFUSE):
            self._confirmed(channel, frame, at, number == _CONFIRM)
        elif kind != codec.HEARTBEAT:
            self._record(took, at)
            self._rare(frame, at)

    def _came(self, channel: int, content: _Content, at: Instant, took: _Took) -> None:
        tally, frame = self.host.tally, content.method
        if not frame.startswith(_DELIVER, 7):
            tally.errors["unrequested content arrived"] += 1
            return
        tag = 12 + frame[11]
        tally.received += 1
        tally.received_octets += content.body_size
        tally.redelivered += frame[tag + 8] & 1
        body = content.body
        if body.startswith(MARK):
            took.waits.append(at + self.host.offset - int(body[LENGTH : LENGTH + 19]))
        if self.host.plan.ack != "auto":
            took.tags.setdefault(channel, []).append(int.from_bytes(frame[tag : tag + 8]))

    def _confirmed(self, channel: int, frame: bytes, at: Instant, well: bool) -> None:
        confirms = self._confirms.get(channel)
        taken = (
            []
            if confirms is None
            else confirms.taken(int.from_bytes(frame[11:19]), bool(frame[19] & 1))
        )
        tally = self.host.tally
        if confirms is None or not taken:
            tally.errors["a confirmation names no published message"] += 1
            return
        confirms.sender.waiting -= len(taken)
        tally.confirmation.record([at - since for since in taken])
        if well:
            tally.confirmed += len(taken)
        else:
            tally.refused += len(taken)

    def _rare(self, data: bytes, now: Instant) -> None:
        frame = next(iter(codec.Reader().feed(data)), None)
        if not isinstance(frame, codec.Frame):
            self.host.tally.errors[f"unknown frame: {data[:40].hex()}"] += 1
            return
        match frame.name:
            case "connection.start":
                self._started(frame.fields["mechanisms"], now)
            case "connection.tune":
                self._tuned(frame, now)
            case "connection.open-ok":
                self._opened(now)
            case "connection.blocked" | "connection.unblocked":
                self._blocked = frame.name == "connection.blocked"
            case "connection.close" | "channel.close" | "basic.cancel" | codec.PROTOCOL_HEADER:
                self._refused(frame, now)
            case "connection.close-ok" if self.leaving:
                self.end()
            case name if (frame.channel, name) in self._asked:
                self._asked.discard((frame.channel, name))
                self.up = not self._asked

    def _refused(self, frame: codec.Frame, now: Instant) -> None:
        refusal = " ".join(codec.Method(frame.name, frame.fields).brief().split())
        self.failed = f"the broker sent {refusal[:200]}"
        self.host.tally.errors[self.failed] += 1
        self.host.tally.left += 1
        if frame.name.endswith(".close"):
            self._say([_method(f"{frame.name}-ok", frame.channel)], now)
        self.end()

    def disconnect(self) -> None:
        self.leaving = True
        now = self.host.world.now()
        self._say([_method("connection.close", 0, reply_code=200, reply_text="done")], now)

    def beat(self, now: Instant) -> None:
        self._say([codec.encode_frame(codec.HEARTBEAT, 0)], now)


@dataclass(slots=True)
class _Took:
    """The result of one read: frames to record with their sizes, latencies, and deliveries to
    settle by channel."""

    kept: list[bytes]
    sizes: list[int]
    waits: list[int]
    tags: dict[int, list[int]]

    def add(self, kept: bytes, size: int) -> None:
        self.kept.append(kept)
        self.sizes.append(size)


def _method(name: str, channel: int, /, **fields: object) -> bytes:
    return codec.encode_frame(codec.METHOD, channel, codec.encode_method(name, fields))
