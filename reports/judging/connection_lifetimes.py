"""The life of a connection: signs of life in both directions, the longest silences, and how it
ended.

The summary of a part is first and last instants, greatest gaps, and the few frames that say what
was agreed. Between two neighbouring parts lies one more gap.
"""

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

NEVER = -(2**62)


@dataclass(frozen=True)
class Gap:
    """Signs of one kind: the first, the last, and the longest time between two neighbours, which
    ended at ``until``."""

    first: int = NEVER
    last: int = NEVER
    longest: int = 0
    until: int = NEVER

    def then(self, later: Gap) -> Gap:
        """These and later ones."""
        if later.first == NEVER:
            return self
        if self.first == NEVER:
            return later
        between = Gap(self.first, later.last, later.first - self.last, later.first)
        longest = max((self, between, later), key=lambda each: each.longest)
        return replace(between, longest=longest.longest, until=longest.until)


@dataclass(frozen=True)
class Life:
    """One part of a connection's life, in the trace's clock (ns; NEVER: not seen).

    ``served`` are the broker's answers to producers (receipts): how long one was silent before
    each, which is how a blocked producer shows. ``ended_by`` is ``broker``, ``harness`` or empty.
    """

    opened: int = NEVER
    heard: Gap = field(default_factory=Gap)
    spoken: Gap = field(default_factory=Gap)
    work: tuple[int, bool, int] = (NEVER, False, NEVER)
    """The first sign that is no heart-beat, whether it was a receipt, and the last one."""
    stalled: tuple[int, int] = (0, NEVER)
    """The longest wait that a receipt ended, and when."""
    ended: int = NEVER
    ended_by: str = ""
    asked: Mapping[str, str] = field(default_factory=dict)
    """The headers of CONNECT."""
    agreed: Mapping[str, str] = field(default_factory=dict)
    """The headers of CONNECTED."""
    error: str | None = None
    goodbye: bool = False
    opaque: bool = False
    unseen: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """What the recording does not hold, by reason: since when, and how many octets at least."""

    def then(self, later: Life) -> Life:
        """This part and the one behind it."""
        stalled = max(self.stalled, later.stalled)
        if self.work[2] != NEVER and later.work[1]:
            stalled = max(stalled, (later.work[0] - self.work[2], later.work[0]))
        first = self.work[:2] if self.work[0] != NEVER else later.work[:2]
        return Life(
            self.opened if self.opened != NEVER else later.opened,
            self.heard.then(later.heard),
            self.spoken.then(later.spoken),
            (*first, later.work[2] if later.work[2] != NEVER else self.work[2]),
            stalled,
            self.ended if self.ended != NEVER else later.ended,
            self.ended_by or later.ended_by,
            self.asked or later.asked,
            self.agreed or later.agreed,
            self.error if self.error is not None else later.error,
            self.goodbye or later.goodbye,
            self.opaque or later.opaque,
            unseen_of(self.unseen, later.unseen),
        )


_SIGNS = {"heard": IN, "spoken": OUT}


def members(kinds: Iterable[int]) -> npt.NDArray[np.bool_]:
    """A table that says of each meaning of an event whether it is one of these."""
    table = np.zeros(128, np.bool_)
    table[list(kinds)] = True
    return table


_IS = {name: members(kinds) for name, kinds in _SIGNS.items()}
_WORK = members(set(IN | OUT) - {BEAT_IN, BEAT_OUT})


def gaps(cells: Cells, line: Ints, at: Ints, sign: npt.NDArray[np.bool_]) -> None:
    """Enters signs into cells with the fields of :class:`Gap`; rows are in groups of lines, and in
    order there."""
    lines, ats = line[sign], at[sign]
    if not len(lines):
        return
    first = starts(lines)
    before = np.empty_like(ats)
    before[1:] = ats[:-1]
    before[first] = cells["last"][lines[first]]
    waits = np.where(before == NEVER, 0, ats - before)
    begin = np.flatnonzero(first)
    seen = lines[begin]
    longest = np.maximum.reduceat(waits, begin)
    is_longest = waits == np.repeat(longest, np.diff([*begin.tolist(), len(lines)]))
    where = np.flatnonzero(is_longest & (waits > cells["longest"][lines]))[::-1]
    cells["until"][lines[where]] = ats[where]
    cells["longest"][seen] = np.maximum(cells["longest"][seen], longest)
    unseen = cells["first"][seen] == NEVER
    cells["first"][seen[unseen]] = ats[begin[unseen]]
    last = np.concatenate([begin[1:], [len(lines)]]) - 1
    cells["last"][seen] = ats[last]


class Lives:
    """All connections of a stretch, by line."""

    def __init__(self) -> None:
        self._lines: Codes[int] = Codes()
        gap = {"first": NEVER, "last": NEVER, "longest": 0, "until": NEVER}
        self._gaps = {name: Cells(**gap) for name in _SIGNS}
        self._cells = Cells(
            opened=NEVER,
            ended=NEVER,
            by=np.int8(0),
            opaque=False,
            work_first=NEVER,
            work_receipt=False,
            work_last=NEVER,
            stalled=0,
            stalled_at=NEVER,
        )
        self._said: dict[int, dict[str, Mapping[str, str]]] = {}
        self._unseen: dict[int, Mapping[str, tuple[int, int]]] = {}

    def note(self, batch: Columns) -> None:
        """Enters a batch."""
        own = np.flatnonzero(batch.what != NOTHING)
        if not len(own):
            return
        line = self._lines.of(pa.array(batch.line[own]))
        for cells in (self._cells, *self._gaps.values()):
            cells.grow(len(self._lines))
        order = in_groups(line, len(self._lines))
        rows, line = own[order], line[order]
        what, at = batch.what[rows], batch.at[rows]
        for name in _SIGNS:
            gaps(self._gaps[name], line, at, _IS[name][what])
        self._work(line, at, what)
        cells = self._cells
        opened, octets = (what == OPENED) | (what == FOREIGN), (what == OCTETS) | (what == UNSEEN)
        cells["opened"][line[opened]] = at[opened]
        cells["opaque"][line[octets]] = True
        ended = np.flatnonzero((what == CLOSED) | (what == ABANDONED))[::-1]
        fresh = ended[
            cells["ended"][line[ended]] == NEVER
        ]  # backwards, so that the first of several stays
        cells["ended"][line[fresh]] = at[fresh]
        cells["by"][line[fresh]] = np.where(what[fresh] == CLOSED, 1, 2)
        for row, command, headers in batch.rare:
            if batch.what[row] in (UNSEEN, ENDS):
                of = self._lines.one(int(batch.line[row]))
                found = {command: (int(batch.at[row]), int(batch.size[row]))}
                self._unseen[of] = unseen_of(self._unseen.get(of, {}), found)
            elif command in ("CONNECT", "STOMP", "CONNECTED", "ERROR", "DISCONNECT"):
                said = self._said.setdefault(self._lines.one(int(batch.line[row])), {})
                said.setdefault("CONNECT" if command == "STOMP" else command, headers)

    def _work(self, line: Ints, at: Ints, what: npt.NDArray[np.int8]) -> None:
        own = _WORK[what]
        lines, ats, kinds = line[own], at[own], what[own]
        if not len(lines):
            return
        cells, first = self._cells, starts(lines)
        before = np.empty_like(ats)
        before[1:] = ats[:-1]
        before[first] = cells["work_last"][lines[first]]
        receipts = np.flatnonzero((kinds == RECEIPT) & (before != NEVER))
        if len(receipts):
            waits, of = ats[receipts] - before[receipts], lines[receipts]
            begin = np.flatnonzero(starts(of))
            longest = np.maximum.reduceat(waits, begin)
            is_longest = waits == np.repeat(longest, np.diff([*begin.tolist(), len(of)]))
            where = np.flatnonzero(is_longest & (waits > cells["stalled"][of]))
            cells["stalled_at"][of[where]] = ats[receipts][where]
            cells["stalled"][of[begin]] = np.maximum(cells["stalled"][of[begin]], longest)
        begin = np.flatnonzero(first)
        seen = lines[begin]
        unseen = cells["work_first"][seen] == NEVER
        cells["work_first"][seen[unseen]] = ats[begin[unseen]]
        cells["work_receipt"][seen[unseen]] = kinds[begin[unseen]] == RECEIPT
        cells["work_last"][seen] = ats[np.concatenate([begin[1:], [len(lines)]]) - 1]

    def summaries(self) -> Iterator[tuple[int, Life]]:
        """Each connection's line and the part of its life."""
        for place, line in enumerate(self._lines.values):
            yield line, self._life(place)

    def _life(self, place: int) -> Life:
        cells, said = self._cells, self._said.get(place, {})
        of = {
            name: Gap(*(int(each[key][place]) for key in ("first", "last", "longest", "until")))
            for name, each in self._gaps.items()
        }
        error = said.get("ERROR")
        return Life(
            int(cells["opened"][place]),
            of["heard"],
            of["spoken"],
            (
                int(cells["work_first"][place]),
                bool(cells["work_receipt"][place]),
                int(cells["work_last"][place]),
            ),
            (int(cells["stalled"][place]), int(cells["stalled_at"][place])),
            int(cells["ended"][place]),
            ("", "broker", "harness")[int(cells["by"][place])],
            said.get("CONNECT", {}),
            said.get("CONNECTED", {}),
            None if error is None else error.get("message", ""),
            "DISCONNECT" in said,
            bool(cells["opaque"][place]),
            self._unseen.get(place, {}),
        )


def unseen_of(
    some: Mapping[str, tuple[int, int]], others: Mapping[str, tuple[int, int]]
) -> Mapping[str, tuple[int, int]]:
    """Both together: by reason the earlier instant, and the sum of the octets."""
    if not (some and others):
        return some or others
    both = dict(some)
    for why, (since, octets) in others.items():
        before = both.get(why, (since, 0))
        both[why] = min(since, before[0]), octets + before[1]
    return both


def merged(parts: Iterable[Life]) -> Life:
    """One life of its parts in their order."""
    whole = Life()
    for part in parts:
        whole = whole.then(part)
    return whole
