"""The scribe: a process that reads a driver's tape and writes the trace. ``python -m harness.load.scribe``.

It prints ``ready`` when it is, is told the files of the tape on standard input, removes each when it has read it, and at the
end prints one line of JSON: how many events and segments it wrote, and the processor time of that and of its own start. It
lets others go first: a load is not slowed by what can be done later. A kill loses what is in no file yet and the open segment.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from harness.load import protocols
from harness.load.tape import EVENT, HEAD, Stretch
from harness.trace.events import Event
from harness.trace.recorder import Recorder
from harness.words import NS_PER_S, Clock, Duration, Instant

ROWS_AT_ONCE = 16_384
"""Frames that are made columns of together."""
_NAMES = {number: name for name, number in protocols.NUMBERS.items()}


class Scribe:
    """Makes segments of a tape. ``offset`` is added to every instant: by how much the conductor's clock is ahead.

    ``longest``: a segment holds no more of the load than this.
    """

    def __init__(self, recorder: Recorder, case: str, offset: Duration, longest: Duration) -> None:
        self._recorder, self._case, self._offset, self._longest = recorder, case, offset, longest
        self._protocol = EVENT
        self._stretch = Stretch()
        self._events: list[Event] = []
        self._since: Instant | None = None
        self.rows = 0

    def read(self, tape: memoryview) -> None:
        """Notes everything on a piece of tape."""
        begin, end = 0, len(tape)
        while end - begin >= HEAD.size:
            protocol, direction, _, count, at, conn, size = HEAD.unpack_from(tape, begin)
            begin += HEAD.size
            rest = tape[begin : begin + 8 * count + size]
            begin += len(rest)
            self._since = at if self._since is None else self._since
            if at - self._since >= self._longest:
                self._write()
                self._recorder.flush()
                self._since = at
            elif protocol != self._protocol or self._stretch.rows + len(self._events) >= ROWS_AT_ONCE:
                self._write()
            self._protocol = protocol
            if protocol == EVENT:
                self._events.append(pickle.loads(rest))
            else:
                self._stretch.add(direction, at + self._offset, conn, count, rest)

    def close(self) -> None:
        """Writes what is left."""
        self._write()
        self._recorder.flush()

    def _write(self) -> None:
        if self._events:
            events = [_later(each, self._offset) for each in self._events]
            self._recorder.write(self._case, events, goes_on=True)
            self.rows += len(events)
        if self._stretch.rows:
            self._recorder.write_columns(self._case, protocols.columns(_NAMES[self._protocol])(self._stretch))
            self.rows += self._stretch.rows
        self._events, self._stretch = [], Stretch()


def _later(event: Event, offset: int) -> Event:
    if offset:
        object.__setattr__(event, "at_ns", event.at_ns + offset)  # nobody else has this copy of it
    return event


def cpu_s() -> float:
    """The processor time of this process until now. Seconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(arguments: list[str]) -> int:
    """Arguments: one JSON object with folder, run, target, tag, case, offset_ns, nice, segment_rows and segment_s."""
    about: dict[str, Any] = json.loads(arguments[0])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupted load still ends its tape
    recorder = Recorder(
        Path(about["folder"]),
        about["run"],
        about["target"],
        Clock.REAL,
        about["tag"],
        segment_rows=about["segment_rows"],
    )
    scribe = Scribe(recorder, about["case"], about["offset_ns"], about["segment_s"] * NS_PER_S)
    pa.array(np.zeros(1))  # from now on everything is imported
    start = cpu_s()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    os.nice(about["nice"])
    for line in sys.stdin.buffer:
        path = Path(line.decode().rstrip("\n"))
        scribe.read(memoryview(path.read_bytes()))
        path.unlink()
    scribe.close()
    with contextlib.suppress(OSError):  # another driver's scribe may still need it
        path = Path(about["folder"]) / "tape"
        (path / about["tag"]).rmdir()
        path.rmdir()
    said = {"events": scribe.rows, "segments": recorder.segments, "cpu_s": cpu_s() - start, "start_cpu_s": start}
    sys.stdout.write(json.dumps(said) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
