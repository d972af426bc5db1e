"""The backlog: the wire log's files that are not yet segments, and the scribe that converts them.

During a load the wire log is the recording. To avoid disturbing the load, the scribe starts after
it, or runs at low priority once too many bytes wait. If a reader follows along (a soak), the scribe
runs from the beginning, at a slightly lower priority, because only segments can be judged."""

import json
import subprocess
import sys
from collections import deque
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from brokerproof.harness.load.trace_writer import LogHeader
from brokerproof.harness.load.wire_log import MOST_BYTES, WireLog

AFTERWARDS, ALONG, BESIDE = 0, 5, 19
"""The niceness of a scribe in three situations: after the load, while a reader follows along, and
otherwise during a load."""
LOOK_EVERY_S = 0.05
"""The interval in seconds at which a driver that waits checks for room."""


class SegmentBacklog:
    """The backlog of a driver. ``most`` is the maximum number of bytes that may wait during the
    load; 0 if a reader follows along."""

    def __init__(self, header: LogHeader, most: int) -> None:
        self._about, self._most = header, most
        header.write()
        self._held = ExitStack()
        self._held.enter_context(header.held())
        self._waiting: deque[tuple[Path, int]] = deque()
        self._size = 0
        self._announced = 0
        """The number of waiting files already announced to the trace writer."""
        self._scribe: subprocess.Popen[bytes] | None = None
        if not most:
            self._call(ALONG)
        self.tape = WireLog(header.tape, self._full, read_along=not most, room=self._make_room)

    def _full(self, path: Path) -> None:
        """Record that a file is complete. The wire log's thread calls this."""
        size = path.stat().st_size
        self._waiting.append((path, size))
        self._size += size
        if self._scribe is None and self._size > self._most:
            self._call(BESIDE)
        if self._scribe is not None:
            self._tell()

    def _make_room(self) -> None:
        """Wait while too many bytes are waiting for the scribe."""
        while self._size > max(MOST_BYTES, 2 * self._most):
            self._forget()
            assert self._scribe is not None
            try:
                self._scribe.wait(LOOK_EVERY_S)
            except subprocess.TimeoutExpired:
                continue
            raise OSError(
                f"the process that writes segments ended; {self._size} bytes were waiting"
            )

    def _forget(self) -> None:
        while self._waiting and not self._waiting[0][0].exists():
            self._size -= self._waiting.popleft()[1]
            self._announced -= 1

    def finish(self) -> dict[str, Any]:
        """Convert everything to segments once the wire log is closed. Return the scribe's report,
        with the size of the log, the bytes not yet converted when the load ended, and the writer
        thread's processor time. Raises ``OSError`` if the scribe cannot start or fails; the log is
        then kept."""
        self._forget()
        left = self._size
        if self._scribe is None:
            self._call(AFTERWARDS)
        self._tell()
        assert self._scribe is not None
        output, _ = self._scribe.communicate()
        self._held.close()
        if self._scribe.returncode or not output.strip():
            raise OSError(
                f"the process that writes segments ended with exit code {self._scribe.returncode};"
                f" the wire log is in {self._about.tape}"
            )
        return {
            **json.loads(output),
            "tape_octets": self.tape.size,
            "left_octets": left,
            "tape_cpu_s": self.tape.cpu_s,
        }

    def _call(self, nice: int) -> None:
        command = [
            sys.executable,
            "-P",
            "-m",
            "brokerproof.harness.load.trace_writer",
            str(self._about.tape),
            str(nice),
        ]
        self._scribe = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._scribe.stdout is not None
        self._scribe.stdout.readline()

    def _tell(self) -> None:
        assert self._scribe is not None
        assert self._scribe.stdin is not None
        for path, _ in list(self._waiting)[self._announced :]:
            self._scribe.stdin.write(f"{path}\n".encode())
        self._announced = len(self._waiting)
        self._scribe.stdin.flush()
