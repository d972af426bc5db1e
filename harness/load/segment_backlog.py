"""The backlog: files of a tape that are no segments yet, and the scribe that is called for them.

While a load lasts its tape is its recording. So that nothing else runs beside the load, the scribe
is called when it is over, or as soon as more bytes wait than may, and then it lets everybody else
go first. Where somebody reads along (a soak) it is there from the beginning, and only a little
behind the others: what it does not write nobody can judge.
"""

from __future__ import annotations

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
"""By how much a scribe lets others go first: when the load is over, where somebody reads along, and
beside a load."""
LOOK_EVERY_S = 0.05
"""Interval at which a waiting driver looks for room. Seconds."""


class SegmentBacklog:
    """Of the driver that ``about`` is about. ``most``: bytes that may wait while the load lasts;
    0: somebody reads along."""

    def __init__(self, header: LogHeader, most: int) -> None:
        self._about, self._most = header, most
        header.write()
        self._held = ExitStack()
        self._held.enter_context(header.held())
        self._waiting: deque[tuple[Path, int]] = deque()
        self._size = 0
        self._announced = 0
        """Number of waiting pieces that the trace writer knows."""
        self._scribe: subprocess.Popen[bytes] | None = None
        if not most:
            self._call(ALONG)
        self.tape = WireLog(header.tape, self._full, read_along=not most, room=self._make_room)

    def _full(self, path: Path) -> None:
        """Note a piece. Called by the wire log's thread."""
        size = path.stat().st_size
        self._waiting.append((path, size))
        self._size += size
        if self._scribe is None and self._size > self._most:
            self._call(BESIDE)
        if self._scribe is not None:
            self._tell()

    def _make_room(self) -> None:
        """Wait while more waits for the scribe than may."""
        while self._size > max(MOST_BYTES, 2 * self._most):
            self._forget()
            assert self._scribe is not None
            try:
                self._scribe.wait(LOOK_EVERY_S)
            except subprocess.TimeoutExpired:
                continue
            raise OSError(f"the scribe ended while {self._size} bytes waited for it")

    def _forget(self) -> None:
        while self._waiting and not self._waiting[0][0].exists():
            self._size -= self._waiting.popleft()[1]
            self._announced -= 1

    def finish(self) -> dict[str, Any]:
        """Make segments of everything, once the tape is closed. What the scribe said, with the
        bytes of the tape, how many of them were no segments when the load was over, and the
        processor time of the thread that wrote them. Raises ``OSError`` when there is no scribe to
        be had or it failed; the tape stays."""
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
                f"the scribe ended with exit code {self._scribe.returncode}; its tape is in"
                f" {self._about.tape}"
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
