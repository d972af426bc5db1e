"""The lifetime of a connection: signs of life in both directions, the longest silences, and the
close.

The summary of a piece has the first and last instants, the longest gaps, and the few frames that
negotiated heartbeats. Merging two neighbouring pieces adds the gap between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from brokerproof.reports.judging.columns import (
    ABANDONED,
    BEAT_IN,
    BEAT_OUT,
    CLOSED,
    ENDS,
    FOREIGN,
    IN,
    NOTHING,
    OCTETS,
    OPENED,
    OUT,
    RECEIPT,
    UNSEEN,
    Columns,
)
from brokerproof.reports.judging.dense_ids import Cells, Codes, Ints, in_groups, starts
from brokerproof.reports.judging.summary import Summary

NEVER = -(2**62)


Unseen = Mapping[str, tuple[int, int]]
"""Gaps in the recording by reason: since when, and at least how many bytes."""


@dataclass(frozen=True)
class SilenceStats:
    """Signs of life in one direction: the first, the last, and the longest time between two
    consecutive signs, which ended at ``until``."""

    first: int = NEVER
    last: int = NEVER
    longest: int = 0
    until: int = NEVER

    @classmethod
    def of(cls, cells: Cells, place: int) -> SilenceStats:
        """Return the stats that :func:`add_signs` keeps in ``cells``."""
        return cls(
            int(cells["first"][place]),
            int(cells["last"][place]),
            int(cells["longest"][place]),
            int(cells["until"][place]),
        )

    def merge(self, later: SilenceStats) -> SilenceStats:
        if later.first == NEVER:
            return self
        if self.first == NEVER:
            return later
        between = SilenceStats(self.first, later.last, later.first - self.last, later.first)
        longest = max((self, between, later), key=lambda stats: stats.longest)
        return replace(between, longest=longest.longest, until=longest.until)


@dataclass(frozen=True)
class ConnectionSummary(Summary["ConnectionSummary"]):
    """One connection, in nanoseconds of the trace's clock (NEVER: not seen)."""

    opened: int = NEVER
    received: SilenceStats = field(default_factory=SilenceStats)
    sent: SilenceStats = field(default_factory=SilenceStats)
    work: tuple[int, bool, int] = (NEVER, False, NEVER)
    """The first sign that is not a heartbeat, whether that sign was a receipt, and the last such
    sign."""
    stalled: tuple[int, int] = (0, NEVER)
    """The longest silence that was ended by a receipt, and when it ended. A blocked producer causes
    such a silence."""
    closed: int = NEVER
    closed_by: str = ""
    """``broker``, ``harness`` or empty."""
    connect_headers: Mapping[str, str] = field(default_factory=dict)
    connected_headers: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None
    disconnected: bool = False
    """True if DISCONNECT was sent."""
    opaque: bool = False
    """True if something could not be read."""
    unseen: Unseen = field(default_factory=dict)

    always_kept = True

    def merge(self, later: ConnectionSummary) -> ConnectionSummary:
        stalled = max(self.stalled, later.stalled)
        if self.work[2] != NEVER and later.work[1]:
            stalled = max(stalled, (later.work[0] - self.work[2], later.work[0]))
        first = self.work[:2] if self.work[0] != NEVER else later.work[:2]
        return ConnectionSummary(
            self.opened if self.opened != NEVER else later.opened,
            self.received.merge(later.received),
            self.sent.merge(later.sent),
            (*first, later.work[2] if later.work[2] != NEVER else self.work[2]),
            stalled,
            self.closed if self.closed != NEVER else later.closed,
            self.closed_by or later.closed_by,
            self.connect_headers or later.connect_headers,
            self.connected_headers or later.connected_headers,
            self.error if self.error is not None else later.error,
            self.disconnected or later.disconnected,
            self.opaque or later.opaque,
            merge_unseen(self.unseen, later.unseen),
        )

    @property
    def needs_recheck(self) -> bool:
        """True if the recording is incomplete, so that anomalies are uncertain."""
        return bool(self.unseen)


_SIGNS = {"received": IN, "sent": OUT}


def members(kinds: Iterable[int]) -> npt.NDArray[np.bool_]:
    table = np.zeros(128, np.bool_)
    table[list(kinds)] = True
    return table


_IS = {name: members(kinds) for name, kinds in _SIGNS.items()}
_WORK = members(set(IN | OUT) - {BEAT_IN, BEAT_OUT})


def add_signs(cells: Cells, connection: Ints, at: Ints, sign: npt.NDArray[np.bool_]) -> None:
    """Add signs of life to cells with the fields of :class:`SilenceStats`. Rows are grouped by
    connection, in order."""
    connections, ats = connection[sign], at[sign]
    if not len(connections):
        return
    first = starts(connections)
    before = np.empty_like(ats)
    before[1:] = ats[:-1]
    before[first] = cells["last"][connections[first]]
    waits = np.where(before == NEVER, 0, ats - before)
    begin = np.flatnonzero(first)
    seen = connections[begin]
    longest = np.maximum.reduceat(waits, begin)
    is_longest = waits == np.repeat(longest, np.diff([*begin.tolist(), len(connections)]))
    where = np.flatnonzero(is_longest & (waits > cells["longest"][connections]))[::-1]
    cells["until"][connections[where]] = ats[where]
    cells["longest"][seen] = np.maximum(cells["longest"][seen], longest)
    unseen = cells["first"][seen] == NEVER
    cells["first"][seen[unseen]] = ats[begin[unseen]]
    last = np.concatenate([begin[1:], [len(connections)]]) - 1
    cells["last"][seen] = ats[last]


class ConnectionSummaries:
    def __init__(self) -> None:
        self._connections: Codes[int] = Codes()
        stats = {"first": NEVER, "last": NEVER, "longest": 0, "until": NEVER}
        self._silences = {name: Cells(**stats) for name in _SIGNS}
        self._cells = Cells(
            opened=NEVER,
            closed=NEVER,
            closed_by=np.int8(0),
            opaque=False,
            work_first=NEVER,
            work_receipt=False,
            work_last=NEVER,
            stalled=0,
            stalled_at=NEVER,
        )
        self._frames: dict[int, dict[str, Mapping[str, str]]] = {}
        self._unseen: dict[int, Unseen] = {}

    def update(self, batch: Columns) -> None:
        own = np.flatnonzero(batch.what != NOTHING)
        if not len(own):
            return
        connection = self._connections.of(pa.array(batch.connection[own]))
        for cells in (self._cells, *self._silences.values()):
            cells.grow(len(self._connections))
        order = in_groups(connection, len(self._connections))
        rows, connection = own[order], connection[order]
        what, at = batch.what[rows], batch.at[rows]
        for name in _SIGNS:
            add_signs(self._silences[name], connection, at, _IS[name][what])
        self._work(connection, at, what)
        cells = self._cells
        opened, undecoded = (
            (what == OPENED) | (what == FOREIGN),
            (what == OCTETS) | (what == UNSEEN),
        )
        cells["opened"][connection[opened]] = at[opened]
        cells["opaque"][connection[undecoded]] = True
        ended = np.flatnonzero((what == CLOSED) | (what == ABANDONED))[::-1]
        fresh = ended[
            cells["closed"][connection[ended]] == NEVER
        ]  # in reverse order, so that the first of several is kept
        cells["closed"][connection[fresh]] = at[fresh]
        cells["closed_by"][connection[fresh]] = np.where(what[fresh] == CLOSED, 1, 2)
        for row, command, headers in batch.rare:
            if batch.what[row] in (UNSEEN, ENDS):
                of = self._connections.one(int(batch.connection[row]))
                unseen = {command: (int(batch.at[row]), int(batch.size[row]))}
                self._unseen[of] = merge_unseen(self._unseen.get(of, {}), unseen)
            elif command in ("CONNECT", "STOMP", "CONNECTED", "ERROR", "DISCONNECT"):
                of = self._connections.one(int(batch.connection[row]))
                frames = self._frames.setdefault(of, {})
                frames.setdefault("CONNECT" if command == "STOMP" else command, headers)

    def _work(self, connection: Ints, at: Ints, what: npt.NDArray[np.int8]) -> None:
        own = _WORK[what]
        connections, ats, kinds = connection[own], at[own], what[own]
        if not len(connections):
            return
        cells, first = self._cells, starts(connections)
        before = np.empty_like(ats)
        before[1:] = ats[:-1]
        before[first] = cells["work_last"][connections[first]]
        receipts = np.flatnonzero((kinds == RECEIPT) & (before != NEVER))
        if len(receipts):
            waits, of = ats[receipts] - before[receipts], connections[receipts]
            begin = np.flatnonzero(starts(of))
            longest = np.maximum.reduceat(waits, begin)
            is_longest = waits == np.repeat(longest, np.diff([*begin.tolist(), len(of)]))
            where = np.flatnonzero(is_longest & (waits > cells["stalled"][of]))
            cells["stalled_at"][of[where]] = ats[receipts][where]
            cells["stalled"][of[begin]] = np.maximum(cells["stalled"][of[begin]], longest)
        begin = np.flatnonzero(first)
        seen = connections[begin]
        unseen = cells["work_first"][seen] == NEVER
        cells["work_first"][seen[unseen]] = ats[begin[unseen]]
        cells["work_receipt"][seen[unseen]] = kinds[begin[unseen]] == RECEIPT
        cells["work_last"][seen] = ats[np.concatenate([begin[1:], [len(connections)]]) - 1]

    def summaries(self) -> Iterator[tuple[int, ConnectionSummary]]:
        for place, connection in enumerate(self._connections.values):
            yield connection, self._summary(place)

    def _summary(self, place: int) -> ConnectionSummary:
        cells, frames = self._cells, self._frames.get(place, {})
        error = frames.get("ERROR")
        return ConnectionSummary(
            int(cells["opened"][place]),
            SilenceStats.of(self._silences["received"], place),
            SilenceStats.of(self._silences["sent"], place),
            (
                int(cells["work_first"][place]),
                bool(cells["work_receipt"][place]),
                int(cells["work_last"][place]),
            ),
            (int(cells["stalled"][place]), int(cells["stalled_at"][place])),
            int(cells["closed"][place]),
            ("", "broker", "harness")[int(cells["closed_by"][place])],
            frames.get("CONNECT", {}),
            frames.get("CONNECTED", {}),
            None if error is None else error.get("message", ""),
            "DISCONNECT" in frames,
            bool(cells["opaque"][place]),
            self._unseen.get(place, {}),
        )


def merge_unseen(earlier: Unseen, later: Unseen) -> Unseen:
    """Merge both summaries of gaps: for each reason, the earlier instant and the total bytes."""
    if not (earlier and later):
        return earlier or later
    both = dict(earlier)
    for reason, (since, size) in later.items():
        first, known = both.get(reason, (since, 0))
        both[reason] = min(since, first), size + known
    return both
