"""OpenWire as the benchmarks speak it: every message is answered, there is a prefetch, and each
message is acknowledged individually."""

from collections.abc import Sequence
from typing import Any

from dialect import Dialect, Job, Step

from brokerproof.harness.protocols.openwire.codec import Structure, encode_command
from brokerproof.harness.protocols.openwire.raw_peer import OPTIONS, STANDARD, queue
from brokerproof.harness.protocols.openwire.tables import BY_NAME, NEWEST

_RESPONSE, DISPATCH = BY_NAME["Response"].code, BY_NAME["MessageDispatch"].code
_SEQUENCE_AT = -21
"""Position of the producerSequenceId in an ack. A broker's number (8), a count (4) and a null
follow."""


class OpenWire(Dialect):
    failures = frozenset(BY_NAME[name].code for name in ("ExceptionResponse", "ConnectionError"))

    def __init__(self, job: Job, sender: bool) -> None:
        super().__init__(job, sender)
        self._name = f"ID:{job.queue}-{'send' if sender else 'take'}"
        self._to = queue(job.queue)
        self._commands = self._confirmed = self._answered = self._taken = 0
        one = {"value": 1, "sessionId": 1}
        self._producer = Structure("ProducerId", {"connectionId": f"ID:{job.queue}-send", **one})
        self._consumer = Structure("ConsumerId", {"connectionId": self._name, **one})
        self._ack = self._command(
            "MessageAck",
            answered=False,
            destination=self._to,
            consumerId=self._consumer,
            ackType=STANDARD,
            lastMessageId=self._message_id(0),
            messageCount=1,
        )

    def _message_id(self, sequence: int) -> Structure:
        return Structure(
            "MessageId", {"producerId": self._producer, "producerSequenceId": sequence}
        )

    def _command(self, name: str, *, answered: bool = True, **fields: Any) -> bytes:
        self._commands += 1
        head = {"commandId": self._commands, "responseRequired": answered}
        return encode_command(name, head | fields, version=NEWEST)

    def code(self, frame: bytes) -> int:
        return frame[4]

    def opening(self) -> Sequence[Step]:
        job = self._job
        connection = self._command(
            "ConnectionInfo",
            connectionId=Structure("ConnectionId", {"value": self._name}),
            clientId=self._name,
            userName=job.speech.login or None,
            password=job.speech.passcode or None,
        )
        session = self._command(
            "SessionInfo",
            sessionId=Structure("SessionId", {"connectionId": self._name, "value": 1}),
        )
        options = {"version": NEWEST, "marshalledProperties": OPTIONS}
        return [
            (encode_command("WireFormatInfo", options), BY_NAME["WireFormatInfo"].code),
            (connection, _RESPONSE),
            (session, _RESPONSE),
        ]

    def producing(self) -> Sequence[Step]:
        producer = self._command(
            "ProducerInfo", producerId=self._producer, destination=self._to, windowSize=0
        )
        return [(producer, _RESPONSE)]

    def consuming(self) -> bytes:
        return self._command(
            "ConsumerInfo",
            answered=False,
            consumerId=self._consumer,
            destination=self._to,
            prefetchSize=self._job.window,
            dispatchAsync=True,
        )

    def message(self, number: int) -> bytes:
        return self._command(
            "ActiveMQBytesMessage",
            producerId=self._producer,
            destination=self._to,
            messageId=self._message_id(number + 1),
            persistent=self._job.durable,
            priority=4,
            content=self._job.body,
        )

    def confirmed(self, frames: Sequence[bytes]) -> int:
        # Artemis answers each message twice. Counting both would close the connection too early.
        for frame in frames:
            number = int.from_bytes(frame[10:14])
            if frame[4] == _RESPONSE and number > self._answered:
                self._answered = number
                self._confirmed += 1
        return self._confirmed

    def delivered(self, frames: Sequence[bytes]) -> tuple[int, bytes]:
        # One producer's messages arrive in order; in any other order, an error ends the run.
        count = sum(frame[4] == DISPATCH for frame in frames)
        acks = [
            self._ack[:_SEQUENCE_AT] + sequence.to_bytes(8) + self._ack[_SEQUENCE_AT + 8 :]
            for sequence in range(self._taken + 1, self._taken + count + 1)
        ]
        self._taken += count
        return count, b"".join(acks)

    def closing(self) -> Step:
        connection = Structure("ConnectionId", {"value": self._name})
        return self._command("RemoveInfo", objectId=connection), _RESPONSE
