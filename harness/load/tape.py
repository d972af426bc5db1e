"""The tape: what crossed the wire, as octets, on its way from a driver to the process that makes a recording of it.

A driver must not wait for its recording, nor pay for it: for each piece that it read or wrote it keeps when, on which
connection, in which direction, and the beginnings of the frames as they were. These go to files, and the scribe
(:mod:`harness.load.scribe`) makes segments of the files whenever the machine has time to spare.

A stretch on the tape: a head (:data:`HEAD`), the sizes that its frames had on the wire, then as many kept lengths, then the
kept octets. A stretch of the protocol :data:`EVENT` is one pickled event.
"""

from __future__ import annotations

import pickle
import queue
import struct
import threading
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.trace.events import Event

HEAD = struct.Struct("<BBHIqqI")
"""Protocol, direction, nothing, how many frames, instant, connection, how many octets."""
SENT, RECEIVED = 0, 1
EVENT = 255
EOL = 1 << 31
"""Added to the size of a STOMP frame: an end of line came directly behind its NUL."""
RECORDED_OCTETS = 96
"""Bodies of a load are recorded up to this length: it holds their stamp, in AMQP behind some sections. The rest is filler."""
AT_ONCE = 256 * 1024
"""Octets that are handed over together."""
MOST_WAITING = 64 * 1024 * 1024
"""Octets that may wait for the disk before the driver does."""
FILE_OCTETS = 8 * 1024 * 1024
MOST_FILES = 512
"""Files that may wait for the scribe before the driver does: four gigabytes."""


class Tape:
    """Written by one thread, into ``folder``, which is made. ``full`` is called with the path of each file that is whole."""

    def __init__(self, folder: Path, full: Callable[[Path], None]) -> None:
        self._folder, self._full = folder, full
        folder.mkdir(parents=True, exist_ok=True)
        self._parts: list[bytes] = []
        self._size = 0
        self._queue: queue.SimpleQueue[tuple[bytes, bool] | None] = queue.SimpleQueue()
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
        """Notes frames that passed at one instant. ``sizes``: what they had on the wire, where what is given was cut."""
        lengths = array("I", map(len, frames)).tobytes()
        octets = b"".join(frames)
        head = HEAD.pack(protocol, direction, 0, len(frames), at, conn, len(octets))
        self._parts += (head, lengths if sizes is None else array("I", sizes).tobytes(), lengths, octets)
        self._size += len(octets) + 2 * len(lengths)
        if self._size >= AT_ONCE:
            self.hand_over()

    def event(self, event: Event) -> None:
        """Notes anything else."""
        octets = pickle.dumps(event)
        self._parts += (HEAD.pack(EVENT, 0, 0, 0, event.at_ns, event.conn or 0, len(octets)), octets)
        self._size += len(octets)

    def hand_over(self, *, whole: bool = False) -> None:
        """Gives the disk what there is; ``whole``: and the scribe. Waits while too much waits; raises ``OSError`` when what was
        given could not be written."""
        data = b"".join(self._parts)
        self._parts, self._size = [], 0
        with self._room:
            self._room.wait_for(lambda: self._waiting < MOST_WAITING or self._broken is not None)
            if self._broken is not None:
                raise self._broken
            self._waiting += len(data)
        self._queue.put((data, whole))

    def close(self) -> None:
        """Hands over the rest and ends the tape."""
        try:
            self.hand_over(whole=True)
        finally:
            self._queue.put(None)
            self._thread.join()

    def _carry(self) -> None:
        pending: list[Path] = []
        number = written = 0
        try:
            while (item := self._queue.get()) is not None:
                data, whole = item
                path = self._folder / f"{number:08d}"
                if data:
                    with path.open("ab") as file:
                        file.write(data)
                written += len(data)
                if written >= FILE_OCTETS or (whole and written):
                    self._full(path)
                    pending.append(path)
                    number, written = number + 1, 0
                    pending = self._made_room(pending)
                with self._room:
                    self._waiting -= len(data)
                    self._room.notify()
        except OSError as problem:
            with self._room:
                self._broken = problem
                self._room.notify()

    def _made_room(self, pending: list[Path]) -> list[Path]:
        """The files that still wait for the scribe, of which it removes one after the other."""
        while len(pending) > MOST_FILES:
            pending = [each for each in pending if each.exists()]
            threading.Event().wait(0.05)
        return pending


class Stretch:
    """Frames of one protocol in the order in which they passed, as the scribe reads them."""

    def __init__(self) -> None:
        self.at: list[int] = []
        self.conn: list[int] = []
        self.direction: list[int] = []
        self.count: list[int] = []
        self.sizes: list[memoryview] = []
        self.lengths: list[memoryview] = []
        self.octets: list[memoryview] = []
        self.rows = 0

    def add(self, direction: int, at: int, conn: int, count: int, rest: memoryview) -> None:
        """Adds one stretch of the tape; ``rest`` is what follows its head."""
        self.at.append(at)
        self.conn.append(conn)
        self.direction.append(direction)
        self.count.append(count)
        self.sizes.append(rest[: 4 * count])
        self.lengths.append(rest[4 * count : 8 * count])
        self.octets.append(rest[8 * count :])
        self.rows += count
