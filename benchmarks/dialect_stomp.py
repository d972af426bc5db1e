"""STOMP 1.2 as the benchmarks speak it: frames are separated at their NULs, since no body contains
one."""

import re
from collections.abc import Sequence

from dialect import Dialect, Job, Step

_ACK = re.compile(rb"\nack:([^\n]+)\n")
_EACH = "ack:client-individual\n"


class Stomp(Dialect):
    """One session. In ``stream`` and ``backlog`` only the close is confirmed, and nothing is
    acknowledged; in ``receipts`` every ACK also requests a receipt."""

    failures = frozenset((b"ERROR",))

    def __init__(self, job: Job, sender: bool) -> None:
        super().__init__(job, sender)
        self.confirms = self._acks = job.scenario in ("window", "receipts")
        self._ack_tail = b"receipt:settled\n\n\0" if job.scenario == "receipts" else b"\n\0"
        self._where = job.speech.where.format(job.queue)
        self._confirmed = self._message_size = 0

    def split(self, data: bytes) -> tuple[list[bytes], bytes]:
        *frames, rest = data.split(b"\0")
        return frames, rest

    def code(self, frame: bytes) -> bytes:
        return frame.lstrip(b"\r\n").partition(b"\n")[0]

    def opening(self) -> Sequence[Step]:
        speech = self._job.speech
        login = f"login:{speech.login}\npasscode:{speech.passcode}\n" if speech.login else ""
        connect = f"CONNECT\naccept-version:1.2\nhost:/\n{login}\n\0".encode()
        steps: list[Step] = [(connect, b"CONNECTED")]
        if self._acks and not self._sender and "{bytes}" in speech.prefetch:
            # A window in bytes requires the size of a MESSAGE, so measure one, from a separate
            # queue.
            where = f"{self._where}~"
            steps.append((self._subscribe(where, _EACH) + self._send(where), b"MESSAGE"))
            steps.append((b"UNSUBSCRIBE\nid:0\nreceipt:probed\n\n\0", b"RECEIPT"))
        return steps

    def answered(self, frame: bytes) -> None:
        if self.code(frame) == b"MESSAGE":
            self._message_size = len(frame) + 1

    def consuming(self) -> bytes:
        if not self._acks:
            return self._subscribe(self._where, "ack:auto\n")
        window = self._job.window
        size = window * self._message_size
        prefetch = self._job.speech.prefetch.format(messages=window, bytes=size)
        return self._subscribe(self._where, _EACH + prefetch)

    def _subscribe(self, where: str, more: str) -> bytes:
        head = f"id:0\ndestination:{where}\n{self._job.speech.subscribe}{more}"
        return f"SUBSCRIBE\n{head}\n\0".encode()

    def _send(self, where: str, receipt: str = "") -> bytes:
        kept = "persistent:true\n" if self._job.durable else ""
        length = f"content-length:{self._job.size}\n"
        head = f"destination:{where}\n{self._job.speech.send}{kept}{length}{receipt}"
        return f"SEND\n{head}\n".encode() + self._job.body + b"\0"

    def message(self, number: int) -> bytes:
        return self._send(self._where, f"receipt:r{number}\n" if self.confirms else "")

    def allowed(self, confirmed: int) -> int:
        return super().allowed(confirmed) if self.confirms else self._job.messages

    def confirmed(self, frames: Sequence[bytes]) -> int:
        self._confirmed += sum(self.code(frame) == b"RECEIPT" for frame in frames)
        return self._confirmed

    def delivered(self, frames: Sequence[bytes]) -> tuple[int, bytes]:
        messages = [frame for frame in frames if self.code(frame) == b"MESSAGE"]
        if not self._acks:
            return len(messages), b""
        tokens = [token for frame in messages for token in _ACK.findall(frame)[:1]]
        if self._job.scenario == "receipts":
            self.owed += len(tokens) - (len(frames) - len(messages))
        acks = b"".join(b"ACK\nid:%b\n%b" % (token, self._ack_tail) for token in tokens)
        return len(messages), acks

    def closing(self) -> Step:
        return b"DISCONNECT\nreceipt:the-end\n\n\0", b"RECEIPT"
