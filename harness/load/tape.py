"""The tape: what crossed the wire, as octets, on its way from a driver to the process that makes a recording of it.

A driver must not wait for its recording, nor pay for it: for each piece that it read or wrote it keeps when, on which
connection, in which direction, and the frames as they were. Everything else is done by the scribe
(:mod:`harness.load.scribe`). Frames longer than :data:`KEPT` octets are cut, and their sizes told.

A stretch on the tape: a head (:data:`HEAD`), the sizes of its frames, then as many kept lengths, then the kept octets. A
stretch of the protocol :data:`EVENT` is one pickled event.
"""

from __future__ import annotations

import os
import pickle
import queue
import struct
import threading
from array import array
from collections.abc import Sequence

from harness.trace.events import Event

HEAD = struct.Struct("<BBHIqqI")
"""Protocol, direction, nothing, how many frames, instant, connection, how many octets."""
SENT, RECEIVED = 0, 1
EVENT = 255
EOL = 1 << 31
"""Added to the size of a STOMP frame: an end of line came directly behind its NUL."""
KEPT = 512
"""Octets of a frame that are kept."""
AT_ONCE = 256 * 1024
"""Octets that are handed over together."""
MOST_WAITING = 64 * 1024 * 1024
"""Octets that may wait for the scribe before the driver does."""


class Tape:
    """Written by one thread. ``pipe`` is the scribe's end of a pipe; it is closed with the tape."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._parts: list[bytes] = []
        self._size = 0
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._waiting = 0
        self._room = threading.Condition()
        self._broken: OSError | None = None
        self._thread = threading.Thread(target=self._carry, name="brokerproof-tape", daemon=True)
        self._thread.start()

    def frames(
        self,
        protocol: int,
        direction: int,
        at: int,
        conn: int,
        frames: Sequence[bytes],
        sizes: Sequence[int] | None = None,
    ) -> None:
        """Notes frames that passed at one instant. ``sizes``: what they took on the wire, where that is not what is given."""
        lengths = array("I", map(len, frames))
        told = lengths if sizes is None else array("I", sizes)
        octets = b"".join(frames)
        if len(octets) > KEPT * len(frames):
            frames = [each[:KEPT] for each in frames]
            octets, lengths = b"".join(frames), array("I", map(len, frames))
        head = HEAD.pack(protocol, direction, 0, len(frames), at, conn, len(octets))
        self._parts += (head, told.tobytes(), lengths.tobytes(), octets)
        self._size += len(octets) + 8 * len(frames)
        if self._size >= AT_ONCE:
            self.hand_over()

    def event(self, event: Event) -> None:
        """Notes anything else."""
        octets = pickle.dumps(event)
        self._parts += (HEAD.pack(EVENT, 0, 0, 0, event.at_ns, event.conn or 0, len(octets)), octets)
        self._size += len(octets)

    def hand_over(self) -> None:
        """Gives the scribe what there is. Waits while too much waits; raises ``OSError`` when the scribe is gone."""
        if not self._parts:
            return
        data = b"".join(self._parts)
        self._parts, self._size = [], 0
        with self._room:
            self._room.wait_for(lambda: self._waiting < MOST_WAITING or self._broken is not None)
            if self._broken is not None:
                raise self._broken
            self._waiting += len(data)
        self._queue.put(data)

    def close(self) -> None:
        """Hands over the rest and ends the tape."""
        try:
            self.hand_over()
        finally:
            self._queue.put(None)
            self._thread.join()

    def _carry(self) -> None:
        with open(self._pipe, "wb", buffering=0) as pipe:  # noqa: PTH123  (a descriptor)
            while (data := self._queue.get()) is not None:
                try:
                    left = memoryview(data)
                    while left:
                        left = left[pipe.write(left) or 0 :]
                except OSError as problem:
                    with self._room:
                        self._broken = problem
                        self._room.notify()
                    return
                with self._room:
                    self._waiting -= len(data)
                    self._room.notify()


class Stretch:
    """Frames of one protocol in the order in which they passed, as the scribe reads them."""

    def __init__(self) -> None:
        self.at: list[int] = []
        self.conn: list[int] = []
        self.direction: list[int] = []
        self.count: list[int] = []
        self.sizes = bytearray()
        self.lengths = bytearray()
        self.octets = bytearray()
        self.rows = 0

    def add(self, direction: int, at: int, conn: int, count: int, rest: memoryview) -> None:
        """Adds one stretch of the tape; ``rest`` is what follows its head."""
        self.at.append(at)
        self.conn.append(conn)
        self.direction.append(direction)
        self.count.append(count)
        self.sizes += rest[: 4 * count]
        self.lengths += rest[4 * count : 8 * count]
        self.octets += rest[8 * count :]
        self.rows += count


def pipe() -> tuple[int, int]:
    """The two ends of a pipe for a tape, as wide as the system lets it be."""
    import fcntl

    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 1 << 20)
    return reading, writing
