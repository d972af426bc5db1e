"""Sorts the packets of several files (rotated, or captured on several interfaces) by time.

A file is opened only when its time is reached. Packets slightly out of order (several processors or
interfaces) are sorted within :data:`WINDOW`. If the clock was set back, time continues from the
last instant, and :attr:`Moment.reset` marks the elapsed time as unknown."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from brokerproof.harness.capture.pcap_files import LATEST, Captured, CaptureFile
from brokerproof.harness.capture.tcp_packets import Packet, Packets, glanced_at, part_of
from brokerproof.harness.model.time import Duration, Instant, ms, seconds

WINDOW: Duration = ms(100)
MOST_BYTES = 16 << 20
"""The maximum number of bytes held for sorting."""
SET_BACK: Duration = seconds(1)
"""If time goes back by more than this, the clock was set. Otherwise the packet is only late."""


class Moment(NamedTuple):
    """A packet in time order. ``reset`` is true if the clock was set back just before it."""

    packet: Packet
    reset: bool


@dataclass
class Series:
    """Several files as one recording, limited to the connections in part ``part`` of ``parts``.
    Skipping the other packets is cheap."""

    paths: Sequence[Path]
    part: int = 0
    parts: int = 1
    damages: list[str] = field(default_factory=list)
    last: Instant | None = None
    """The instant of the last packet in any part, once every file has been read."""

    def __iter__(self) -> Iterator[Moment]:
        """Yield the packets. Raises :class:`brokerproof.harness.trace.read.UnreadableTrace` for a
        file that is not a capture."""
        self.last = None
        yield from _steady(_sorted(self._wanted()))

    def _wanted(self) -> Iterator[Packet]:
        packets, newest = Packets(), None
        for captured in self._captured():
            newest = captured.at
            if self.parts > 1 and glanced_at(captured, self.parts) not in (None, self.part):
                continue
            packet = packets.read(captured)
            if packet is not None and (self.parts == 1 or part_of(packet, self.parts) == self.part):
                yield packet
        self.last = newest

    def _captured(self) -> Iterator[Captured]:
        files = [CaptureFile(path) for path in self.paths]
        begins = sorted(
            (first, at)
            for at, file in enumerate(files)
            if (first := first_instant(file)) is not None
        )
        waiting = begins[::-1]
        open_: list[tuple[Instant, int, Captured, Iterator[Captured]]] = []
        while waiting or open_:
            while waiting and (not open_ or waiting[-1][0] <= open_[0][0]):
                _, at = waiting.pop()
                _advance(open_, at, iter(files[at]))
            if open_:
                _, at, captured, rest = heapq.heappop(open_)
                yield captured
                _advance(open_, at, rest)
        self.damages += [file.damage for file in files if file.damage]


def _advance(
    open_: list[tuple[Instant, int, Captured, Iterator[Captured]]],
    at: int,
    rest: Iterator[Captured],
) -> None:
    following = next(rest, None)
    if following is not None:
        heapq.heappush(open_, (following.at, at, following, rest))


def first_instant(file: Iterable[Captured]) -> Instant | None:
    """Return the time of a file's first packet; None if it is empty."""
    first = next(iter(file), None)
    return None if first is None else first.at


def _sorted(packets: Iterable[Packet]) -> Iterator[Packet]:
    held: list[tuple[Instant, int, Packet]] = []
    size, newest = 0, 0
    for number, packet in enumerate(packets):
        if held and packet.at < newest - SET_BACK:
            # The clock was set back: packets held so far come first, whatever their times.
            yield from (place for _, _, place in sorted(held))
            held, size, newest = [], 0, packet.at
        newest = max(newest, packet.at)
        heapq.heappush(held, (packet.at, number, packet))
        size += len(packet.payload)
        while held and (held[0][0] < newest - WINDOW or size > MOST_BYTES):
            _, _, first = heapq.heappop(held)
            size -= len(first.payload)
            yield first
    yield from (place for _, _, place in sorted(held))


def _steady(packets: Iterable[Packet]) -> Iterator[Moment]:
    shift: Duration = 0
    latest: Instant | None = None
    for packet in packets:
        at = min(packet.at + shift, LATEST)  # a corrupt time must not push out later packets
        reset = latest is not None and at < latest - SET_BACK
        if reset and latest is not None:
            shift += latest - at
            at = latest
        latest = at if latest is None else max(latest, at)
        yield Moment(packet if at == packet.at else packet._replace(at=at), reset)
