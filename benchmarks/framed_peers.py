"""Producer and consumer of ``framed_throughput.py``: two processes with raw sockets that do as
little as they can, for protocols whose frames begin with their size.

They must not be what is measured. Messages are encoded before the clock starts, and written as many
at a time as may be unconfirmed; of what arrives only the code of each frame is read, and what an
acknowledgement has to repeat. Each job ends with a close that must be answered, behind exactly as
many deliveries as were due.

What a protocol writes and how it is read is its :class:`Dialect`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol

from amqp091_dialect import Amqp091
from core_dialect import Core
from openwire_dialect import OpenWire
from raw_wire import Cut, Failed, RawWire, meet, work_through


@dataclass(frozen=True)
class Job:
    """One run as both peers see it. ``window`` is how many messages may be unconfirmed, and how
    many may be with the consumer. With ``backlog`` the consumer begins when the producer is
    done."""

    protocol: str
    port: int
    login: str
    passcode: str
    queue: str
    messages: int
    size: int
    durable: bool
    window: int
    backlog: bool
    patience_s: float


Step = tuple[bytes, int]
"""Bytes to write, and the code of the frame that answers them."""


class Dialect(Protocol):
    """One protocol, on one connection."""

    prefix: int
    """Bytes before the content of a frame; the last four of ``size_end`` are its size."""
    size_end: int
    tail: int
    """Bytes behind the content."""
    failures: frozenset[int]
    """Codes of frames that end a run."""

    def __init__(self, job: Any, sender: bool) -> None: ...

    def code(self, frame: bytes) -> int:
        """Return what kind of frame it is."""

    def opening(self) -> Sequence[Step]:
        """Open the connection and make the queue."""

    def producing(self) -> Sequence[Step]:
        """Prepare to send."""

    def consuming(self) -> bytes:
        """Subscribe."""

    def message(self, number: int) -> bytes:
        """Return the message ``number``, from 0."""

    def confirmed(self, frames: Sequence[bytes]) -> int:
        """Return how many messages are confirmed by now, ``frames`` included."""

    def delivered(self, frames: Sequence[bytes]) -> tuple[int, bytes]:
        """Return how many messages ``frames`` brought, and what acknowledges each of them."""

    def closing(self) -> Step:
        """End the connection."""


DIALECTS: dict[str, type[Dialect]] = {"amqp091": Amqp091, "core": Core, "openwire": OpenWire}


class _Wire(RawWire):
    """An open connection, and the frames on it."""

    def __init__(self, job: Job, sender: bool) -> None:
        super().__init__(job.port, job.patience_s)
        self.dialect = DIALECTS[job.protocol](job, sender)
        self._pending = b""
        self.carry_out(self.dialect.opening())

    def frames(self) -> list[bytes]:
        """Return frames that have arrived whole, none perhaps. Raises :class:`Failed` for one that
        ends a run."""
        data = self._pending + self.read()
        dialect = self.dialect
        prefix, size_at, around = (
            dialect.prefix,
            dialect.size_end - 4,
            dialect.prefix + dialect.tail,
        )
        frames = []
        at, end = 0, len(data)
        while at + prefix <= end:
            next_at = at + around + int.from_bytes(data[at + size_at : at + size_at + 4])
            if next_at > end:
                break
            frame = data[at:next_at]
            if dialect.code(frame) in dialect.failures:
                raise Failed(f"the broker sent {frame[:300]!r}")
            frames.append(frame)
            at = next_at
        self._pending = data[at:]
        return frames

    def carry_out(self, steps: Sequence[Step]) -> None:
        """Write each step, and wait for its answer."""
        for data, answer in steps:
            self.write(data)
            while all(self.dialect.code(frame) != answer for frame in self.frames()):
                pass

    def finish(self) -> None:
        """Close; a delivery before the answer fails the run."""
        data, answer = self.dialect.closing()
        self.write(data)
        while True:
            frames = self.frames()
            if self.dialect.delivered(frames)[0]:
                raise Failed("a delivery came behind the last one")
            if any(self.dialect.code(frame) == answer for frame in frames):
                self.socket.close()
                return


def produce(job: Job, pipe: Connection) -> dict[str, int]:
    """Send the messages; ``first`` is the instant before the first byte, ``confirmed`` when all
    were confirmed."""
    wire = _Wire(job, sender=True)
    dialect = wire.dialect
    wire.carry_out(dialect.producing())
    messages = [dialect.message(number) for number in range(job.messages)]
    meet(pipe)
    first = time.monotonic_ns()
    sent = confirmed = 0
    while confirmed < job.messages:
        allowed = min(job.messages, confirmed + job.window)
        if allowed > sent:
            wire.write(b"".join(messages[sent:allowed]))
            sent = allowed
        confirmed = dialect.confirmed(wire.frames())
    done = time.monotonic_ns()
    wire.finish()
    return {"first": first, "confirmed": done}


def consume(job: Job, pipe: Connection) -> dict[str, int]:
    """Receives the messages; ``last`` is the instant at which the last one was there whole."""
    wire = _Wire(job, sender=False)
    if not job.backlog:
        wire.write(wire.dialect.consuming())
    meet(pipe)
    if job.backlog:
        wire.write(wire.dialect.consuming())
    began = time.monotonic_ns()
    messages = 0
    try:
        while messages < job.messages:
            frames = wire.frames()
            count, acks = wire.dialect.delivered(frames)
            last = time.monotonic_ns()
            messages += count
            wire.write(acks)
    except (Failed, OSError) as problem:
        cut = Cut(problem, messages)
        raise Failed(f"{cut} after {cut.messages} of {job.messages} messages") from None
    if messages > job.messages:
        raise Failed(f"{messages} messages came where {job.messages} were due")
    wire.finish()
    return {"began": began, "last": last}


def work(pipe: Connection) -> None:
    """A peer's life (:func:`raw_wire.work_through`)."""
    work_through(pipe, {"produce": produce, "consume": consume})
