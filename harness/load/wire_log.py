"""The wire log: traffic as bytes, passed from a driver to the process that records it.

Recording must neither delay a driver nor cost it much. So only the time, the connection, the
direction and the raw beginnings of frames are kept for each read and write, and a few hundred
frames at a time are written to files. These files are the recording until the scribe
(:mod:`brokerproof.harness.load.trace_writer`) converts them to segments, during the load or after
it.

A block consists of a head (:data:`BLOCK`), four numbers per stretch (:data:`STRETCH`), the frames'
sizes on the wire, their stored lengths, and the stored bytes. A block of protocol :data:`EVENT`
contains one pickled event."""

import pickle
import queue
import resource
import struct
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from brokerproof.harness.trace.events import Event

BLOCK = struct.Struct("<4sIIIQ")
"""The mark, the protocol, and how many stretches, frames and bytes the block has."""
MARK = b"bpT2"
STRETCH = 4
"""For frames that were read or written together: the instant, the connection, the direction and
their number, 64 bits each."""
SENT, RECEIVED = 0, 1
EVENT = 255
EOL = 1 << 31
"""This is added to the size of a STOMP frame if an end of line directly followed its NUL."""
RECORDED_BYTES = 96
"""The maximum number of recorded bytes of a load's body. They contain the stamp (in AMQP, after
some sections); the rest is filler."""
PACKED = 512
"""The number of frames packed together: few enough to stay in a cache, yet enough to make packing
cheap per frame."""
AT_ONCE = 256 * 1024
"""The number of bytes that are handed over together."""
MOST_WAITING = 64 * 1024 * 1024
"""If more bytes than this wait for the disk, the driver waits too."""
FILE_BYTES = 8 * 1024 * 1024
MOST_BYTES = 4 * 1024**3
"""If more bytes than this wait in files for a running scribe, the driver waits too."""

Ints = npt.NDArray[np.int64]
Sizes = npt.NDArray[np.uint32]


class WireLog:
    """A log that one thread writes into ``folder``, which is created. ``full`` is called with the
    path of each complete file.

    With ``read_along`` a reader follows along, so each :meth:`hand_over` completes a file.
    ``room``, called after ``full``, may block."""

    def __init__(
        self,
        folder: Path,
        full: Callable[[Path], None],
        *,
        read_along: bool = False,
        room: Callable[[], None] = lambda: None,
    ) -> None:
        self._folder, self._full, self._read_along, self._room_on_disk = (
            folder,
            full,
            read_along,
            room,
        )
        folder.mkdir(parents=True, exist_ok=True)
        self._protocol = EVENT
        self._frames: list[bytes] = []
        self._sizes: list[int] = []
        self._heads: list[int] = []
        self._parts: list[bytes] = []
        self._size = 0
        self._queue: queue.SimpleQueue[tuple[bytes, bool] | None] = queue.SimpleQueue()
        self._waiting = 0
        self._room = threading.Condition()
        self._broken: OSError | None = None
        self.size = 0
        """The number of bytes in the files."""
        self.cpu_s = 0.0
        """The processor time of the thread that writes the files, once it has ended."""
        self._thread = threading.Thread(target=self._carry, name="brokerproof-tape", daemon=True)
        self._thread.start()

    def frames(
        self,
        protocol: int,
        direction: int,
        at: int,
        conn: int,
        frames: Sequence[bytes],
        sizes: Iterable[int] | None = None,
    ) -> None:
        """Record frames of one instant. ``sizes`` are their sizes on the wire, if they are
        truncated here."""
        if protocol != self._protocol:
            self._pack()
            self._protocol = protocol
        self._frames += frames
        self._sizes += map(len, frames) if sizes is None else sizes
        self._heads += (at, conn, direction, len(frames))
        if len(self._frames) >= PACKED:
            self._pack()

    def event(self, event: Event) -> None:
        """Record any other event."""
        self._pack()
        self.frames(EVENT, 0, event.at_ns, event.conn or 0, [pickle.dumps(event)])
        self._pack()

    def hand_over(self, *, whole: bool = False) -> None:
        """Write buffered data to disk. With ``whole``, complete the file for the scribe. Blocks
        while too much is pending. Raises ``OSError`` if earlier data could not be written."""
        self._pack(give=False)
        self._give(whole or self._read_along)

    def close(self) -> None:
        """Hand over the rest and close the log."""
        try:
            self.hand_over(whole=True)
        finally:
            self._queue.put(None)
            self._thread.join()

    def _pack(self, *, give: bool = True) -> None:
        frames = self._frames
        if not frames:
            return
        data = b"".join(frames)
        head = BLOCK.pack(MARK, self._protocol, len(self._heads) // STRETCH, len(frames), len(data))
        lengths = array("I", map(len, frames)).tobytes()
        self._parts += (
            head,
            array("q", self._heads).tobytes(),
            array("I", self._sizes).tobytes(),
            lengths,
            data,
        )
        self._size += len(data) + 2 * len(lengths)
        self._frames, self._sizes, self._heads = [], [], []
        if give and self._size >= AT_ONCE:
            self._give(whole=False)

    def _give(self, whole: bool) -> None:
        data = b"".join(self._parts)
        self._parts, self._size = [], 0
        with self._room:
            self._room.wait_for(lambda: self._waiting < MOST_WAITING or self._broken is not None)
            if self._broken is not None:
                raise self._broken
            self._waiting += len(data)
        self._queue.put((data, whole))

    def _carry(self) -> None:
        number = written = 0
        try:
            while (item := self._queue.get()) is not None:
                data, whole = item
                path = self._folder / f"{number:08d}"
                if data:
                    with path.open("ab", buffering=0) as file:
                        file.write(data)
                written += len(data)
                self.size += len(data)
                if written >= FILE_BYTES or (whole and written):
                    self._full(path)
                    number, written = number + 1, 0
                    self._room_on_disk()
                with self._room:
                    self._waiting -= len(data)
                    self._room.notify()
        except OSError as problem:
            with self._room:
                self._broken = problem
                self._room.notify()
        used = resource.getrusage(resource.RUSAGE_THREAD)
        self.cpu_s = used.ru_utime + used.ru_stime


class Block(NamedTuple):
    """Frames of one protocol in order, as the scribe reads them; ``heads`` has one row per
    stretch."""

    protocol: int
    heads: Ints
    sizes: Sizes
    lengths: Sizes
    data: memoryview


def blocks(tape: memoryview) -> Iterator[Block]:
    """Yield the blocks of a log file. An incomplete last block was being written when the writer
    was killed."""
    begin, end = 0, len(tape)
    while end - begin >= BLOCK.size:
        mark, protocol, stretches, frames, size = BLOCK.unpack_from(tape, begin)
        heads = begin + BLOCK.size
        sizes = heads + 8 * STRETCH * stretches
        length = sizes + 8 * frames
        begin = length + size
        if mark != MARK or begin > end:
            return
        yield Block(
            protocol,
            np.frombuffer(tape, np.int64, STRETCH * stretches, heads).reshape(-1, STRETCH),
            np.frombuffer(tape, np.uint32, frames, sizes),
            np.frombuffer(tape, np.uint32, frames, sizes + 4 * frames),
            tape[length:begin],
        )


class LogSlice:
    """Blocks of one protocol that are converted together. ``offset`` is added to their instants."""

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset
        self.blocks: list[Block] = []
        self.rows = 0

    def add(self, block: Block) -> None:
        self.blocks.append(block)
        self.rows += len(block.sizes)
