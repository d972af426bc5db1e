"""Artemis's CORE as the benchmarks speak it: every send is answered, credit is in bytes, and each
message is acknowledged individually."""

from collections.abc import Sequence
from typing import Any

from dialect import Dialect, Job, Step

from brokerproof.harness.protocols.core import codec
from brokerproof.harness.protocols.core.messages import PACKET_HEADER, Message
from brokerproof.harness.protocols.core.tables import BY_NAME, NEWEST

_DONE, RECEIVE = BY_NAME["null-response"].code, BY_NAME["receive"].code


def _packet(name: str, channel: int = codec.FIRST, /, **fields: Any) -> bytes:
    return codec.encode_packet(name, fields, channel=channel)


class Core(Dialect):
    failures = frozenset(
        BY_NAME[name].code for name in ("exception", "disconnect", "disconnect-v2")
    )

    def __init__(self, job: Job, sender: bool) -> None:
        super().__init__(job, sender)
        self._confirmed = 0

    def code(self, frame: bytes) -> int:
        return frame[4]

    def opening(self) -> Sequence[Step]:
        job = self._job
        session = _packet(
            "create-session",
            codec.SESSIONS,
            name=f"{job.queue}-{self._sender}",
            session_channel=codec.FIRST,
            version=NEWEST,
            username=job.speech.login or None,
            password=job.speech.passcode or None,
            min_large_message_size=100 * 1024,
            auto_commit_sends=True,
            auto_commit_acks=True,
            window_size=-1,
        )
        opened = (codec.MAGIC + session, BY_NAME["create-session-response"].code)
        if self._sender:
            return [opened]
        queue = _packet(
            "create-queue-v2",
            address=job.queue,
            queue=job.queue,
            durable=job.durable,
            requires_response=True,
            routing_type=1,
            max_consumers=-1,
            auto_delete=False,
        )
        return [opened, (_packet("session-start") + queue, _DONE)]

    def consuming(self) -> bytes:
        # One of our messages, followed by its consumer and its delivery count.
        size = len(self.message(0))
        return _packet(
            "create-consumer", consumer=0, queue=self._job.queue, requires_response=False
        ) + _packet("consumer-credits", consumer=0, credits=self._job.window * size)

    def message(self, number: int) -> bytes:
        message = Message(self._job.queue, self._job.body, durable=self._job.durable)
        return _packet("send", message=message, requires_response=True, correlation=number)

    def confirmed(self, frames: Sequence[bytes]) -> int:
        self._confirmed += sum(frame[4] == _DONE for frame in frames)
        return self._confirmed

    def delivered(self, frames: Sequence[bytes]) -> tuple[int, bytes]:
        acks: list[bytes] = []
        size = 0
        for frame in frames:
            if frame[4] == RECEIVE:
                id_at = int.from_bytes(frame[PACKET_HEADER : PACKET_HEADER + 4]) + 4
                acks.append(_ACK_HEAD + frame[id_at : id_at + 8] + b"\0")
                size += len(frame)
        if not acks:
            return 0, b""
        credit = _packet("consumer-credits", consumer=0, credits=size)
        return len(acks), b"".join(acks) + credit

    def closing(self) -> Step:
        return _packet("session-close"), _DONE


_ACK_HEAD = _packet("acknowledge-one", consumer=0, message=0, requires_response=False)[:-9]
