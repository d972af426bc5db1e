"""Converts a relay's tape to a recording. ``python -m brokerproof.harness.proxy.recording FOLDER
TARGET`` reads the names of the tape's files from standard input and prints a line of JSON for each.

A file is removed once its events are in a segment. So on a full disk, the conversion stops between
two files, and everything recorded until then is complete."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from brokerproof.harness.capture.conversion import FollowedConnection
from brokerproof.harness.capture.reassembly import Bytes, Ended, Stream
from brokerproof.harness.capture.tcp_packets import text
from brokerproof.harness.model.enums import Clock, CloseHow
from brokerproof.harness.model.time import NS_PER_S, Duration, Instant
from brokerproof.harness.oracles.pairs import Pair
from brokerproof.harness.proxy import relay
from brokerproof.harness.trace.events import Event, FrameReceived, FrameSent
from brokerproof.harness.trace.recorder import Recorder

CASE = "proxy"
RESERVE = ".reserve"
"""A file that reserves disk space, so that a recording can be finished properly on a full disk."""
FRAMES = (FrameSent, FrameReceived)
SEGMENT_TIME: Duration = 10 * NS_PER_S


class Recording:
    """Writes the events on a tape to segments in a run folder, and checks each connection."""

    def __init__(self, folder: Path, target: str) -> None:
        self._recorder = Recorder(folder, folder.resolve().name, target, Clock.REAL)
        self._open: dict[int, tuple[FollowedConnection, Pair]] = {}
        self._done: list[Path] = []
        self._since: Instant = 0
        self._now: Instant = 0
        self.frames = [0, 0]
        self.found: list[str] = []

    def file(self, path: Path) -> None:
        """Convert one file of the tape. Raises ``OSError`` if a segment cannot be written."""
        events: list[Event] = []
        for record in relay.records(path):
            self._now = record[0]
            events += self._events(*record)
        self._recorder.write(CASE, events, goes_on=True)
        self._done.append(path)
        self._since = self._since or self._now
        if self._now - self._since > SEGMENT_TIME:
            self.flush()

    def flush(self) -> None:
        """Write the open segment, and remove the files from which it was made. Raises
        ``OSError``."""
        self._recorder.flush()
        for path in self._done:
            path.unlink()
        self._done, self._since = [], 0

    def _events(self, at: Instant, conn: int, kind: int, data: bytes) -> Iterator[Event]:
        what, side = kind - kind % 2, kind % 2
        if what == relay.OPENED:
            self._open[conn] = _opened(conn, at, json.loads(data)), Pair()
        for number in [conn] if conn else [*self._open]:
            if number in self._open:
                for event in self._shown(number, at, what, side, data):
                    self._open[number][1].read(event)
                    self.frames[isinstance(event, FrameReceived)] += isinstance(event, FRAMES)
                    yield event
            if number in self._open and self._open[number][0].stream.over:
                del self._open[number]

    def _shown(
        self, number: int, at: Instant, what: int, side: int, data: bytes
    ) -> Iterator[Event]:
        connection, pair = self._open[number]
        match what:
            case relay.DATA:
                yield from connection.take(Bytes(at, side, data))
            case relay.EOF | relay.RESET:
                for half in connection.stream.halves:
                    half.ended |= half.side == side or what == relay.RESET
                how = CloseHow.EOF if what == relay.EOF else CloseHow.RESET
                yield from connection.take(Ended(at, side, how))
            case relay.HELD if connection.speaker is not None:
                yield connection.factory.unseen(at, not side, connection.protocol, "FAR")
            case relay.TIME:
                who = f"connection {number}, {text(connection.ends[0])}"
                self.found += [f"{who}: {sentence}" for sentence in pair.pass_time(at)]

    def finish(self) -> None:
        """End the recording and all open connections. Raises ``OSError``."""
        for connection, _ in self._open.values():
            left = connection.take(Ended(self._now, 0, CloseHow.EOF))
            self._recorder.write(CASE, [*left], goes_on=True)
        self._open.clear()
        self.flush()


def _opened(conn: int, at: Instant, about: dict[str, Any]) -> FollowedConnection:
    application, broker = ((bytes.fromhex(address), port) for address, port in about["ends"])
    stream = Stream(opener=0, distance=about["rtt"])
    for half in stream.halves:
        half.begun = True
    return FollowedConnection(conn, (application, broker), at, stream)


def main(arguments: list[str]) -> int:
    """Convert a tape. ``arguments`` are the run folder and the name of the target."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the relay signals the end of the tape
    recording = Recording(Path(arguments[0]), arguments[1])
    os.nice(5)  # the application's traffic has priority
    try:
        for line in sys.stdin:
            recording.file(Path(line.rstrip("\n")))
            found, recording.found = recording.found, []
            sys.stdout.write(json.dumps({"frames": recording.frames, "found": found}) + "\n")
            sys.stdout.flush()
        recording.finish()
    except OSError as problem:
        (Path(arguments[0]) / RESERVE).unlink(missing_ok=True)
        with suppress(OSError):
            recording.finish()
        sys.stdout.write(json.dumps({"problem": problem.strerror or str(problem)}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
