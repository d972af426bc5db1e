"""The scribe: converts a driver's wire log to a trace. ``python -m
brokerproof.harness.load.trace_writer FOLDER NICE``; FOLDER is the folder of the log.

As a process, the scribe prints ``ready``, reads the names of log files from standard input, and
finally prints one line of JSON: the numbers of events and segments written, and the processor time
for these and for starting. During a load it runs at low priority. A segment ends where a log file
ends, and files are removed once their segment is complete. Files that are about to be removed are
first listed in :data:`CLOSING`. So if a scribe is killed, nothing is lost, and nothing is
duplicated when another scribe continues (:mod:`brokerproof.harness.load.recovery`)."""

import contextlib
import dataclasses
import fcntl
import json
import os
import pickle
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from brokerproof.harness.load import protocols
from brokerproof.harness.load.wire_log import EVENT, Block, LogSlice, blocks
from brokerproof.harness.model import strict_json
from brokerproof.harness.model.enums import Clock
from brokerproof.harness.model.input_file import BadInput
from brokerproof.harness.model.time import NS_PER_S, Duration, Instant
from brokerproof.harness.trace.events import Event
from brokerproof.harness.trace.recorder import Recorder

ABOUT = "about.json"
"""The file with the log's head in the folder of a wire log (:class:`LogHeader`)."""
CLOSING = "closing.json"
"""The file in the folder of a wire log that names the log files in the next segment, and the
segment's number."""
ROWS_AT_ONCE = 16_384
"""The number of frames that are converted to columns together."""
_NEVER = 2**62
_NAMES = {number: name for name, number in protocols.NUMBERS.items()}


@dataclass(frozen=True)
class LogHeader:
    """The head of a wire log. ``offset_ns`` is how far the conductor's clock is ahead;
    ``segment_s`` is the longest time that one segment covers (0: unlimited)."""

    folder: str
    run: str
    target: str
    case: str
    tag: str
    offset_ns: int
    segment_rows: int
    segment_s: int

    @classmethod
    def read(cls, tape: Path) -> Self:
        """Read the head of the log in a folder. Raises ``OSError`` and ``ValueError``."""
        try:
            return cls(**strict_json.read(tape / ABOUT))
        except (TypeError, BadInput) as problem:
            raise ValueError(
                f"{tape / ABOUT}: {problem}; another release wrote this wire log"
            ) from None

    def write(self) -> None:
        """Create the log's folder and write the head."""
        self.tape.mkdir(parents=True, exist_ok=True)
        (self.tape / ABOUT).write_text(json.dumps(dataclasses.asdict(self)), "utf-8")

    @contextmanager
    def held(self, *, alone: bool = False) -> Iterator[None]:
        """Lock the log while it is being written or read; with ``alone``, exclusively. Raises
        ``BlockingIOError`` if a conflicting lock is held."""
        with (self.tape / ABOUT).open() as file:
            fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            yield

    @property
    def tape(self) -> Path:
        return Path(self.folder) / "tape" / self.tag

    @property
    def segments(self) -> Path:
        return Path(self.folder) / "trace" / f"target={self.target}"


class TraceWriter:
    """Converts the log described by ``about`` to segments, continuing after existing ones."""

    def __init__(self, header: LogHeader) -> None:
        self._about = header
        there = sorted(header.segments.glob(f"part-{header.tag}-*.parquet"))
        self._next = 1 + max((int(path.stem.rpartition("-")[2]) for path in there), default=-1)
        self._recorder = Recorder(
            Path(header.folder),
            header.run,
            header.target,
            Clock.REAL,
            header.tag,
            segment_rows=_NEVER,
        )
        self._recorder.goes_on_behind(
            header.case, sum(pq.read_metadata(path).num_rows for path in there)
        )
        self._longest: Duration = header.segment_s * NS_PER_S or _NEVER
        self._protocol = EVENT
        self._stretch = LogSlice(header.offset_ns)
        self._events: list[Event] = []
        self._since: Instant | None = None
        self._done: list[Path] = []
        self._open = 0
        self.rows = self.segments = 0

    def file(self, path: Path) -> None:
        """Process a log file; remove it once it is in a segment."""
        self.read(memoryview(path.read_bytes()))
        self._done.append(path)
        if self._open + self._pending >= self._about.segment_rows or self._old():
            self.close()

    def read(self, tape: memoryview) -> None:
        for block in blocks(tape):
            if block.protocol != self._protocol or self._pending >= ROWS_AT_ONCE:
                self._write()
            self._protocol = block.protocol
            if self._since is None:
                self._since = int(block.heads[0, 0])
            self._until = int(block.heads[-1, 0])
            if block.protocol == EVENT:
                self._events.append(_event(block, self._about.offset_ns))
            else:
                self._stretch.add(block)

    def close(self) -> None:
        self._write()
        if self._open:
            name = f"part-{self._about.tag}-{self._next:05d}.parquet"
            closing = self._about.tape / CLOSING
            if self._done:
                closing.write_text(
                    json.dumps(
                        {"segment": name, "files": [segment.name for segment in self._done]}
                    ),
                    "utf-8",
                )
            self._recorder.flush()
            self._next, self.segments = self._next + 1, self.segments + 1
        for path in self._done:
            path.unlink()
        self._done, self._open, self._since = [], 0, None

    @property
    def _pending(self) -> int:
        return self._stretch.rows + len(self._events)

    def _old(self) -> bool:
        return self._since is not None and self._until - self._since >= self._longest

    def _write(self) -> None:
        rows = self._pending
        if self._events:
            self._recorder.write(self._about.case, self._events, goes_on=True)
        if self._stretch.rows:
            self._recorder.write_columns(
                self._about.case, protocols.columns(_NAMES[self._protocol])(self._stretch)
            )
        self.rows, self._open = self.rows + rows, self._open + rows
        self._events, self._stretch = [], LogSlice(self._about.offset_ns)


def _event(block: Block, offset: int) -> Event:
    event: Event = pickle.loads(block.data)
    if offset:
        object.__setattr__(event, "at_ns", event.at_ns + offset)  # nothing else refers to this copy
    return event


def cpu_s() -> float:
    """Return this process's processor time so far, in seconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def remove_log_folder(tape: Path) -> None:
    """Remove an empty log's folder and, after the last log, the folder of all logs."""
    for name in (ABOUT, CLOSING):
        (tape / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # another driver's scribe may still need it
        tape.rmdir()
        tape.parent.rmdir()


def main(arguments: list[str]) -> int:
    """The arguments are the log's folder and the niceness, 0 to 19."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupted load still closes its log
    header = LogHeader.read(Path(arguments[0]))
    with header.held():
        scribe = TraceWriter(header)
        pa.array(np.zeros(1))  # everything has been imported
        start = cpu_s()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        os.nice(int(arguments[1]))
        for line in sys.stdin.buffer:
            scribe.file(Path(line.decode().rstrip("\n")))
        scribe.close()
        remove_log_folder(header.tape)
    report: dict[str, Any] = {"events": scribe.rows, "segments": scribe.segments}
    sys.stdout.write(json.dumps({**report, "cpu_s": cpu_s() - start, "start_cpu_s": start}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
