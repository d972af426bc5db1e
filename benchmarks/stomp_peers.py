"""Producer and consumer of ``stomp_throughput.py``: two processes with raw sockets that do as
little as they can.

They must not be what is measured. Frames are encoded before the clock starts and written many at a
time. Frames that arrive are counted by their NUL, which no body and no header of ours contains, and
nothing is parsed but the one header that an ACK must repeat. Each job ends with a DISCONNECT whose
receipt must come, behind exactly as many frames as were due: a lost, doubled or refused message
fails the run instead of flattering it.

Both read the same monotonic clock of the host, so the producer's first instant and the consumer's
last can be subtracted.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection

from raw_wire import BURST, Cut, Failed, RawWire, meet, work_through


@dataclass(frozen=True)
class Speech:
    """Headers that one broker needs.

    ``host`` goes into CONNECT. ``where`` makes a destination of a name. ``send`` and ``subscribe``
    are header lines that ask for an anycast queue where the name alone does not. ``window`` is the
    header line that asks for a window, in which ``{messages}`` or ``{bytes}`` stands for its size.
    ``mode`` is the acknowledgement that settles one message.
    """

    version: str = "1.2"
    host: str = "/"
    login: str = ""
    passcode: str = ""
    where: str = "/queue/{}"
    send: str = ""
    subscribe: str = ""
    window: str = ""
    mode: str = "client-individual"


@dataclass(frozen=True)
class Job:
    """One run as both peers see it.

    ``in_flight`` is how many SENDs may wait for their receipt, 0 for SENDs without receipts.
    ``acks`` says whether the consumer acknowledges, ``ack_receipts`` whether it asks for a receipt
    each time, ``durable`` whether messages are persistent, ``window`` how many messages its
    broker may have outstanding then (0: do not ask). With ``backlog`` the consumer subscribes only
    when the broker has confirmed the last message. ``patience_s`` is how long nothing may happen
    before the run counts as failed.
    """

    port: int
    speech: Speech
    queue: str
    messages: int
    size: int
    in_flight: int
    acks: bool
    ack_receipts: bool
    durable: bool
    window: int
    backlog: bool
    patience_s: float


class _Wire(RawWire):
    """A connected session."""

    def __init__(self, job: Job) -> None:
        super().__init__(job.port, job.patience_s)
        self.job = job
        speech = job.speech
        login = f"login:{speech.login}\npasscode:{speech.passcode}\n" if speech.login else ""
        head = f"accept-version:{speech.version}\nhost:{speech.host}\n{login}"
        self.ask(f"CONNECT\n{head}\n\0".encode(), b"CONNECTED\n")

    def ask(self, frame: bytes, answer: bytes) -> bytes:
        """Send a frame and return its one-frame answer, which must begin like ``answer``."""
        self.write(frame)
        data = b""
        while b"\0" not in data:
            data += self.read()
        if not data.lstrip(b"\r\n").startswith(answer):
            raise Failed(f"expected {answer.decode().strip()}, got {data[:200]!r}")
        return data

    def finish(self, more: bytes = b"") -> None:
        """End the session; ``more`` has been read already and must be nothing but this one
        receipt's beginning."""
        self.write(b"DISCONNECT\nreceipt:the-end\n\n\0")
        data = more
        while b"\0" not in data:
            data += self.read()
        if not data.lstrip(b"\r\n").startswith(b"RECEIPT\n") or b"the-end" not in data:
            raise Failed(f"expected nothing but the last RECEIPT, got {data[:200]!r}")
        self.socket.close()


def _subscribe(wire: _Wire, frame_size: int) -> None:
    job, speech = wire.job, wire.job.speech
    mode = f"ack:{speech.mode}\n" if job.acks else "ack:auto\n"
    window = (
        speech.window.format(messages=job.window, bytes=job.window * frame_size)
        if job.window
        else ""
    )
    where = speech.where.format(job.queue)
    head = f"id:0\ndestination:{where}\n{speech.subscribe}{mode}{window}"
    frame = f"SUBSCRIBE\n{head}receipt:subscribed\n\n\0".encode()
    if not job.backlog:
        wire.ask(frame, b"RECEIPT\n")
    else:  # messages may come at once, so the receipt is left out
        wire.write(frame.replace(b"receipt:subscribed\n", b""))


def _send_frame(job: Job, receipt: str) -> bytes:
    where = job.speech.where.format(job.queue)
    kept = "persistent:true\n" if job.durable else ""
    head = f"destination:{where}\n{job.speech.send}{kept}content-length:{job.size}\n{receipt}"
    return f"SEND\n{head}\n".encode() + b"x" * job.size + b"\0"


def _frame_size(job: Job) -> int:
    """Measure the length of a MESSAGE to this subscription, for windows in bytes."""
    probe = Job(
        **{
            **vars(job),
            "queue": job.queue[:-1] + "~",
            "window": 1,
            "messages": 1,
            "backlog": False,
            "ack_receipts": False,
        }
    )
    wire = _Wire(probe)
    _subscribe(wire, 1)
    message = wire.ask(_send_frame(probe, ""), b"MESSAGE\n")
    wire.write(b"".join(_ack(probe, message)))
    wire.finish()
    return len(message)


def _ack(job: Job, frames: bytes) -> list[bytes]:
    receipt = b"receipt:settled\n" if job.ack_receipts else b""
    if job.speech.version == "1.2":
        return [b"ACK\nid:%b\n%b\n\0" % (ack_id, receipt) for ack_id in _ACK.findall(frames)]
    return [
        b"ACK\nsubscription:0\nmessage-id:%b\n%b\n\0" % (message_id, receipt)
        for message_id in _MESSAGE_ID.findall(frames)
    ]


_ACK = re.compile(rb"\nack:([^\n]+)\n")
_MESSAGE_ID = re.compile(rb"\nmessage-id:([^\n]+)\n")


def produce(job: Job, pipe: Connection) -> dict[str, int]:
    """Send the messages; ``first`` is the instant before the first byte, ``confirmed`` when all
    were confirmed."""
    wire = _Wire(job)
    if job.in_flight:
        frames = [_send_frame(job, f"receipt:r{number}\n") for number in range(job.messages)]
    else:
        frame = _send_frame(job, "")
        burst = frame * BURST
    meet(pipe)
    first = time.monotonic_ns()
    if job.in_flight:
        sent = receipts = 0
        while receipts < job.messages:
            allowed = min(job.messages, receipts + job.in_flight)
            if allowed > sent:
                wire.write(b"".join(frames[sent:allowed]))
                sent = allowed
            data = wire.read()
            receipts += data.count(b"\0")
        confirmed = time.monotonic_ns()
        wire.finish()
    else:
        whole, rest = divmod(job.messages, BURST)
        for _ in range(whole):
            wire.write(burst)
        wire.write(frame * rest)
        wire.finish()
        confirmed = time.monotonic_ns()
    return {"first": first, "confirmed": confirmed}


def consume(job: Job, pipe: Connection) -> dict[str, int]:
    """Receives the messages; ``last`` is the instant at which the last one was there whole."""
    size = _frame_size(job) if "{bytes}" in job.speech.window and job.window else 1
    wire = _Wire(job)
    if not job.backlog:
        _subscribe(wire, size)
    meet(pipe)
    if job.backlog:
        _subscribe(wire, size)
    began = time.monotonic_ns()
    try:
        last, seen = _acknowledged(wire) if job.acks else _counted(wire)
    except Cut as cut:
        raise Failed(f"{cut} after {cut.messages} of {job.messages} messages") from None
    if seen < job.messages * job.size:
        raise Failed(f"{job.messages} frames had {seen} bytes, which is less than their bodies")
    return {"began": began, "last": last, "octets": seen}


def _counted(wire: _Wire) -> tuple[int, int]:
    frames = size = 0
    due = wire.job.messages
    data = b""
    try:
        while frames < due:
            data = wire.read()
            size += len(data)
            frames += data.count(b"\0")
    except (Failed, OSError) as problem:
        raise Cut(problem, frames) from None
    last = time.monotonic_ns()
    if frames > due or b"\nERROR\n" in data or b"\0ERROR\n" in data:
        raise Failed(f"something else than {due} messages came: {data[-200:]!r}")
    wire.finish(data[data.rindex(b"\0") + 1 :])
    return last, size


def _acknowledged(wire: _Wire) -> tuple[int, int]:
    job = wire.job
    frames = size = receipts = 0
    receipts_due = job.messages if job.ack_receipts else 0
    tail = b""
    last = 0
    try:
        while frames < job.messages or receipts < receipts_due:
            data = wire.read()
            size += len(data)
            if frames < job.messages or receipts_due:
                last = time.monotonic_ns()
            if tail:
                data = tail + data
            end = data.rfind(b"\0") + 1
            tail = data[end:]
            if end:
                whole = data[:end]
                acks = _ack(job, whole)
                confirmed = whole.count(b"RECEIPT\n") if job.ack_receipts else 0
                if len(acks) + confirmed != whole.count(b"\0"):
                    raise Failed(f"expected messages, got {whole[-200:]!r}")
                frames += len(acks)
                receipts += confirmed
                wire.write(b"".join(acks))
    except (Failed, OSError) as problem:
        raise Cut(problem, frames) from None
    wire.finish(tail)
    return last, size


def work(pipe: Connection) -> None:
    """A peer's life (:func:`raw_wire.work_through`)."""
    work_through(pipe, {"produce": produce, "consume": consume})
