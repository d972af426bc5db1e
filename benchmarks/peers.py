"""The producer and the consumer of ``throughput.py``: two processes with raw sockets that do as
little as possible.

The peers must not be the bottleneck. Messages are encoded before the clock starts, and each write
contains as many as may be unconfirmed. Of each received frame, the peers read only the code and the
fields that an acknowledgement repeats. Each job ends with a close that the broker must answer after
exactly the expected number of deliveries: a lost, duplicated or refused message makes the run fail
instead of improving the figures.

Both read the same monotonic clock of the host, so the producer's first instant can be subtracted
from the consumer's last. :class:`dialect.Dialect` defines how each protocol is written and read.
"""

import socket
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection

from dialect import Dialect, Failed, Job, Step
from dialect_amqp091 import Amqp091
from dialect_amqp10 import Amqp10
from dialect_core import Core
from dialect_openwire import OpenWire
from dialect_stomp import Stomp

READ = 1 << 20
"""The maximum number of bytes read from the socket in one call."""
BURST = 64
"""The maximum number of messages written in one call."""
DIALECTS: dict[str, type[Dialect]] = {
    "stomp": Stomp,
    "amqp10": Amqp10,
    "amqp091": Amqp091,
    "core": Core,
    "openwire": OpenWire,
}


class _Wire:
    """An open connection. No wait on it is longer than the job's patience."""

    def __init__(self, job: Job, sender: bool) -> None:
        self._patience_s = job.patience_s
        self._socket = socket.create_connection(("127.0.0.1", job.port), timeout=job.patience_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.dialect = DIALECTS[job.protocol](job, sender)
        self._pending = b""
        self._kept: list[bytes] = []
        self.carry_out(self.dialect.opening())

    def write(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise Failed(f"the broker took nothing for {self._patience_s:g} s") from None

    def frames(self) -> list[bytes]:
        """Return the complete frames received so far, possibly none. Raises :class:`Failed` if a
        frame ends the run."""
        if self._kept:
            kept, self._kept = self._kept, []
            return kept
        try:
            data = self._socket.recv(READ)
        except TimeoutError:
            raise Failed(f"nothing came for {self._patience_s:g} s") from None
        if not data:
            raise Failed("the broker closed the connection")
        frames, self._pending = self.dialect.split(self._pending + data)
        for frame in frames:
            if self.dialect.failed(frame):
                raise Failed(f"the broker sent {frame[:300]!r}")
        return frames

    def carry_out(self, steps: Sequence[Step]) -> None:
        """Write each step and wait for its answer."""
        for data, answer in steps:
            self.write(data)
            self.dialect.answered(self._until(answer)[-1])

    def finish(self) -> None:
        """Close the connection; a delivery before the answer makes the run fail."""
        data, answer = self.dialect.closing()
        self.write(data)
        if self.dialect.delivered(self._until(answer))[0]:
            raise Failed("a delivery came behind the last one")
        self._socket.close()

    def _until(self, answer: int | bytes) -> list[bytes]:
        """Return the frames up to the first with this code; keep later ones for the next call."""
        seen: list[bytes] = []
        while True:
            frames = self.frames()
            for number, frame in enumerate(frames, 1):
                if self.dialect.code(frame) == answer:
                    self._kept = frames[number:]
                    return [*seen, *frames[:number]]
            seen += frames


def meet(pipe: Connection) -> None:
    """Wait until both peers are ready."""
    pipe.send("ready")
    if pipe.recv() != "go":
        raise Failed("called off")


def produce(job: Job, pipe: Connection) -> int:
    """Send the messages; return the instant before the first byte."""
    wire = _Wire(job, sender=True)
    dialect = wire.dialect
    wire.carry_out(dialect.producing())
    messages = [dialect.message(number) for number in range(job.messages)]
    due = job.messages if dialect.confirms else 0
    meet(pipe)
    first = time.monotonic_ns()
    sent = confirmed = 0
    try:
        while sent < job.messages or confirmed < due:
            allowed = min(job.messages, dialect.allowed(confirmed))
            while sent < allowed:
                upto = min(allowed, sent + BURST)
                wire.write(b"".join(messages[sent:upto]))
                sent = upto
            if sent < job.messages or confirmed < due:
                confirmed = dialect.confirmed(wire.frames())
    except (Failed, OSError) as problem:
        raise Failed(f"{problem} after {sent} messages, {confirmed} confirmed") from None
    wire.finish()
    return first


def consume(job: Job, pipe: Connection) -> int:
    """Receive the messages; return the instant at which the last was complete."""
    wire = _Wire(job, sender=False)
    dialect = wire.dialect
    if not job.backlog:
        wire.write(dialect.consuming())
    meet(pipe)
    if job.backlog:
        wire.write(dialect.consuming())
    messages = last = 0
    try:
        while messages < job.messages or dialect.owed:
            frames = wire.frames()
            last = time.monotonic_ns()
            count, acks = dialect.delivered(frames)
            messages += count
            wire.write(acks)
    except (Failed, OSError) as problem:
        raise Failed(f"{problem} after {messages} of {job.messages} messages") from None
    if messages > job.messages:
        raise Failed(f"{messages} messages came where {job.messages} were due")
    wire.finish()
    return last


ROLES = {"produce": produce, "consume": consume}


def work(pipe: Connection) -> None:
    """A peer's main loop: take ``(role, job)`` from the pipe; answer with an instant in ns, or with
    the reason why there is none."""
    while (task := pipe.recv()) is not None:
        role, job = task
        try:
            pipe.send(ROLES[role](job, pipe))
        except (Failed, OSError) as problem:
            pipe.send(f"{role}r: {problem}")
