"""Captured packets as a source: pcap and pcapng files. Each task follows some of the connections.

All files named together are one recording: a connection may continue in the next file. Every task
reads all files and quickly skips the packets of other connections, so each connection belongs to
one task, in order, and memory holds only connections that are open at the same time.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa

from brokerproof.harness.capture.conversion import Converter, Recorded
from brokerproof.harness.capture.packet_order import Series
from brokerproof.harness.capture.pcap_files import is_capture
from brokerproof.harness.model.enums import Clock, Vantage
from brokerproof.harness.trace.columns import batch
from brokerproof.harness.trace.events import Noted
from brokerproof.harness.trace.read import UnreadableTrace
from brokerproof.reports.sources import Piece, Source

ROWS = 8192
RUN, CASE = "capture", "capture"
ONE_BROKER = "broker"
"""The target of every event if the captures belong to one broker."""
UNDIVIDED = 8 << 20
"""Captures with fewer bytes than this form one task."""
TASKS_EACH = 2
"""The number of tasks per parallel slot. There are several, because connections differ in size."""


@dataclass(frozen=True)
class Opening:
    """Reads one of ``parts`` parts of a recording. ``whole`` means that the files hold every
    connection of one broker."""

    paths: tuple[str, ...]
    parts: int
    whole: bool

    def __call__(self, piece: Piece, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the part with the given place."""
        for recorded in self.batches(piece["place"]):
            yield recorded.select(list(columns))

    def batches(self, part: int) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a part, with all columns of the trace."""
        recorded = self._recorded(part)
        first = part
        while chunk := list(islice(recorded, ROWS)):
            yield self._batch(chunk, first)
            first += len(chunk) * self.parts

    def _recorded(self, part: int) -> Iterator[Recorded]:
        series = Series([Path(path) for path in self.paths], part, self.parts)
        converter = Converter(part + 1, self.parts)
        yield from converter.events(series)
        yield from converter.finish(series.last)
        for damage in series.damages if part == 0 else ():
            yield Recorded(
                "", Noted(at_ns=series.last or 0, vantage=Vantage.CAPTURE, detail=damage)
            )

    def _batch(self, chunk: Sequence[Recorded], first: int) -> pa.RecordBatch:
        size = len(chunk)
        brokers = [ONE_BROKER] * size if self.whole else [record.broker for record in chunk]
        same = {"run": RUN, "case": CASE, "clock": Clock.REAL.value}
        envelope = {
            name: pa.repeat(pa.scalar(value, pa.string()), size) for name, value in same.items()
        }
        envelope["target"] = pa.array(brokers, pa.string())
        # Numbers are unique in the whole recording and rise within each part.
        envelope["seq"] = pa.array(range(first, first + size * self.parts, self.parts), pa.int64())
        return batch([record.event for record in chunk], envelope)


def local(names: Iterable[str], parallel: int = 1, *, whole: bool = False) -> Source:
    """Return the captures under these paths (files, folders, patterns), in pieces for ``parallel``
    tasks at once.

    ``whole`` means that they hold every connection of one broker. Raises
    :class:`brokerproof.harness.trace.read.UnreadableTrace` if there are none.
    """
    paths = tuple(str(path.resolve()) for path in files(names))
    parts = divided(paths, parallel)
    pieces = [{"place": place, "paths": list(paths)} for place in range(parts)]
    return Source(pieces, Opening(paths, parts, whole), whole=whole, captured=True)


def divided(paths: Iterable[str], parallel: int) -> int:
    """Return the number of parts into which ``parallel`` simultaneous tasks divide captures."""
    size = sum(Path(path).stat().st_size for path in paths)
    return 1 if size < UNDIVIDED else parallel * TASKS_EACH


def files(names: Iterable[str]) -> list[Path]:
    """Return the captures that these paths, folders and patterns name. Raises
    :class:`UnreadableTrace` for a name that matches none."""
    captures: set[Path] = set()
    for name in names:
        path = Path(name.removeprefix("file://"))
        paths = [path] if path.exists() else _matching(path)
        own = {
            file
            for path in paths
            for file in ([path] if path.is_file() else path.rglob("*"))
            if file.is_file() and is_capture(file)
        }
        if not own:
            raise UnreadableTrace(
                f"{name}: not a capture; give pcap or pcapng files (or gzipped), or their folder"
            )
        captures |= own
    return sorted(captures)


def _matching(pattern: Path) -> list[Path]:
    return sorted(Path(pattern.anchor or ".").glob(str(pattern.relative_to(pattern.anchor))))


def holds_captures(name: str) -> bool:
    """True if a name stands for captures rather than recorded segments."""
    path = Path(name.removeprefix("file://"))
    if not path.exists():
        return any(is_capture(file) for file in _matching(path))
    if path.is_file():
        return is_capture(path)
    return not any(path.rglob("part-*.parquet")) and any(
        is_capture(file) for file in path.rglob("*") if file.is_file()
    )
