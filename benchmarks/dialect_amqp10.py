"""AMQP 1.0 as the benchmarks speak it: as many transfers as the credit and the session window
allow, and each message accepted."""

from collections.abc import Sequence

from dialect import Dialect, Failed, Job, Step

from brokerproof.harness.protocols.amqp10 import codec, hot_path, types
from brokerproof.harness.protocols.amqp10 import messages as amqp10_messages
from brokerproof.harness.protocols.amqp10.endpoint_state import WIDE, WRAP

_OPEN, _CLOSE, _OUTCOME = 0x10, 0x18, 0x44
_ENDS = (0x16, 0x17, _CLOSE)
_ERROR = b"\x00\x53\x1d"


class Amqp10(Dialect):
    """One connection with one session and one link. In the ``settled`` scenario the producer sends
    settled messages, and the consumer requests them."""

    def __init__(self, job: Job, sender: bool) -> None:
        super().__init__(job, sender)
        self._settled = job.scenario == "settled"
        self.confirms = not self._settled
        self._credit = self._window = self._confirmed = 0
        self._incoming = self._count = 0
        """next-incoming-id and delivery-count of the consumer."""
        self._refilled = self._taken = 0
        self._oldest: int | None = None

    def split(self, data: bytes) -> tuple[list[bytes], bytes]:
        return hot_path.split(data)

    def code(self, frame: bytes) -> int:
        if frame[5] == codec.SASL_FRAME and frame[:4] != codec.PREFIX:
            return frame[frame[4] * 4 + 2]
        return hot_path.code_of(frame)[0]

    def failed(self, frame: bytes) -> bool:
        code = self.code(frame)
        refused = code == _OUTCOME and hot_path.numbers(frame, frame[4] * 4 + 3, 1)[0] != 0
        return refused or (code in _ENDS and _ERROR in frame)

    def opening(self) -> Sequence[Step]:
        job, speech = self._job, self._job.speech
        mechanism = "PLAIN" if speech.login else "ANONYMOUS"
        response = f"\0{speech.login}\0{speech.passcode}".encode() if speech.login else b"bench"
        init = codec.composite("sasl-init", {"mechanism": mechanism, "initial-response": response})
        login = codec.encode_frame(types.encode(init), type=codec.SASL_FRAME)
        name = f"bench-{'send' if self._sender else 'take'}"
        terminus = {
            "address": speech.where.format(job.queue),
            "capabilities": (speech.capability,) if speech.capability else None,
        }
        attach = {
            "name": job.queue,
            "handle": 0,
            "role": not self._sender,
            "snd-settle-mode": 1 if self._settled else 0,
            "source": codec.composite("source", {} if self._sender else terminus),
            "target": codec.composite("target", terminus if self._sender else {}),
            "initial-delivery-count": 0 if self._sender else None,
        }
        begin = {"next-outgoing-id": 0, "incoming-window": WIDE, "outgoing-window": WIDE}
        opened = hot_path.performative("open", {"container-id": name, "hostname": "localhost"})
        return [
            (codec.protocol_header(3) + login, _OUTCOME),
            (codec.protocol_header() + opened, _OPEN),
            (hot_path.performative("begin", begin), hot_path.BEGIN),
            (hot_path.performative("attach", attach), hot_path.ATTACH),
        ]

    def answered(self, frame: bytes) -> None:
        code, at = hot_path.code_of(frame)
        if code == hot_path.BEGIN:
            _, self._incoming, self._window = hot_path.numbers(frame, at, 3)
        elif code == hot_path.ATTACH:
            what, _ = types.decode(frame, frame[4] * 4)
            count = codec.fields_of(what).get("initial-delivery-count")
            self._count = 0 if count is None else int(types.plain(count))

    def consuming(self) -> bytes:
        fields = {
            "next-incoming-id": self._incoming % WRAP,
            "incoming-window": WIDE,
            "next-outgoing-id": 0,
            "outgoing-window": WIDE,
            "handle": 0,
            "delivery-count": self._count % WRAP,
            "link-credit": self._job.window,
        }
        return hot_path.performative("flow", fields)

    def message(self, number: int) -> bytes:
        header = {"header": {"durable": True}} if self._job.durable else {}
        message = amqp10_messages.message(self._job.body, **header)
        return b"".join(hot_path.transfers(0, number, message, self._settled, 2**31))

    def allowed(self, confirmed: int) -> int:
        return min(self._credit, self._window)

    def confirmed(self, frames: Sequence[bytes]) -> int:
        for frame in frames:
            code, at = hot_path.code_of(frame)
            if code == hot_path.FLOW:
                seen, room, _, _, handle, count, given = hot_path.numbers(frame, at, 7)
                self._window = max(0, seen) + room
                if handle >= 0:  # otherwise the flow concerns only the session
                    self._credit = max(0, count) + given
            elif code == hot_path.DISPOSITION:
                _, low, high, done = hot_path.numbers(frame, at, 4)
                if not done or hot_path.ACCEPTED not in frame:
                    raise Failed(f"a message was not accepted but {frame.hex()}")
                self._confirmed += max(0, high - low) + 1
        return self._confirmed

    def delivered(self, frames: Sequence[bytes]) -> tuple[int, bytes]:
        newest, unsettled, taken = None, False, 0
        for frame in frames:
            code, at = hot_path.code_of(frame)
            if code != hot_path.TRANSFER:
                continue
            self._incoming += 1
            fields, _ = hot_path.transfer_fields(frame, at)
            if fields[1] >= 0:
                newest = fields[1]
                self._oldest = newest if self._oldest is None else self._oldest
            unsettled = unsettled or fields[4] != 1
            taken += fields[5] != 1
        answer = b""
        if newest is not None and self._oldest is not None:
            answer = hot_path.accepted(self._oldest, newest) if unsettled else b""
            self._oldest = (newest + 1) % WRAP
        self._taken += taken
        self._count += taken
        if self._taken - self._refilled >= self._job.window // 2:
            self._refilled = self._taken
            answer += self.consuming()
        return taken, answer

    def closing(self) -> Step:
        return hot_path.performative("close", {}), _CLOSE
