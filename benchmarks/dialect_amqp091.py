"""AMQP 0-9-1 as the benchmarks speak it: publisher confirms, a prefetch, and a basic.ack for each
delivery."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from dialect import Dialect, Job, Step

from brokerproof.harness.protocols.amqp091 import codec
from brokerproof.harness.protocols.amqp091.tables import BY_NAME


def _code(name: str) -> int:
    table = BY_NAME[name]
    return table.class_id << 16 | table.method_id


def _method(name: str, fields: dict[str, Any] | None = None, channel: int = 1) -> bytes:
    return codec.encode_frame(codec.METHOD, channel, codec.encode_method(name, fields))


ACK = _code("basic.ack")


class Amqp091(Dialect):
    prefix = size_end = 7
    tail = 1
    failures = frozenset(map(_code, ("connection.close", "channel.close", "basic.nack")))

    def __init__(self, job: Job, sender: bool) -> None:
        super().__init__(job, sender)
        self._up_to = 0
        self._alone: set[int] = set()
        self._tags: Iterator[int] = itertools.count(1)

    def code(self, frame: bytes) -> int:
        return int.from_bytes(frame[7:11]) if frame[0] == codec.METHOD else -1

    def opening(self) -> Sequence[Step]:
        job = self._job
        response = f"\0{job.speech.login}\0{job.speech.passcode}".encode()
        login = {"mechanism": "PLAIN", "response": response, "locale": "en_US"}
        tune = {"channel-max": 2047, "frame-max": 131072, "heartbeat": 0}
        return [
            (codec.protocol_header(), _code("connection.start")),
            (_method("connection.start-ok", login, 0), _code("connection.tune")),
            (
                _method("connection.tune-ok", tune, 0)
                + _method("connection.open", {"virtual-host": "/"}, 0),
                _code("connection.open-ok"),
            ),
            (_method("channel.open"), _code("channel.open-ok")),
            (
                _method("queue.declare", {"queue": job.queue, "durable": job.durable}),
                _code("queue.declare-ok"),
            ),
        ]

    def producing(self) -> Sequence[Step]:
        return [(_method("confirm.select"), _code("confirm.select-ok"))]

    def consuming(self) -> bytes:
        return _method("basic.qos", {"prefetch-count": self._job.window}) + _method(
            "basic.consume", {"queue": self._job.queue}
        )

    def message(self, number: int) -> bytes:
        properties = {"delivery-mode": 2 if self._job.durable else 1}
        return _method("basic.publish", {"routing-key": self._job.queue}) + codec.encode_content(
            1, self._job.body, properties
        )

    def confirmed(self, frames: Sequence[bytes]) -> int:
        for frame in frames:
            if self.code(frame) == ACK:
                tag = int.from_bytes(frame[11:19])
                if frame[19]:  # multiple
                    self._up_to = max(self._up_to, tag)
                    self._alone = {alone for alone in self._alone if alone > self._up_to}
                else:
                    self._alone.add(tag)
        return self._up_to + len(self._alone)

    def delivered(self, frames: Sequence[bytes]) -> tuple[int, bytes]:
        # A body of this size fits into one frame.
        count = sum(frame[0] == codec.BODY for frame in frames)
        acks = (
            _ACK_HEAD + tag.to_bytes(8) + b"\0\xce" for tag in itertools.islice(self._tags, count)
        )
        return count, b"".join(acks)

    def closing(self) -> Step:
        close = {"reply-code": 200, "reply-text": "done"}
        return _method("connection.close", close, 0), _code("connection.close-ok")


_ACK_HEAD = _method("basic.ack", {"delivery-tag": 0})[:11]
