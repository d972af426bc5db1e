"""What a second look is for: which messages, which connections, which parts of them. Small enough
to be told to every task.

Books say by number which messages are odd, falls which ones stand behind others. A message that
never came matters only when a later one of its producer did; then that one is read again too, since
it is what makes the first one lost.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerproof.reports.judging.delivery_bitmaps import BLOCK, LOOSE, Book, numbers_of
from brokerproof.reports.judging.dense_ids import Bools, Ints
from brokerproof.reports.judging.order import Fall
from brokerproof.reports.judging.segment_summary import BOOK, CONSUMES, PART, RISE, TOUCH
from brokerproof.reports.judging.windows import Account, Shut
from brokerproof.reports.read import arrow

SCOPE = ("run", "target", "case", "example")
Scope: TypeAlias = tuple[str, str, str, int]
Group: TypeAlias = tuple[str, str, str, int, str, int]
"""Scope, queue and producer."""
Line: TypeAlias = tuple[str, str, str, int, int]
"""Scope and connection."""
MOST = 100_000
"""Up to so many suspicious groups are looked for by name; of more, everything is read again."""
FEW = 200
"""Up to so many values are part of a plan."""
MOST_NUMBERS = 1_000_000
"""Up to so many messages are looked for by their numbers; of more, their groups are read wholly."""


@dataclass(frozen=True)
class Ranges:
    """Sets of numbers, one for each of some groups that are numbered from 0: bounds of what is in
    them, ascending."""

    low: Ints
    high: Ints
    _LIFT = np.int64(1) << 41

    @classmethod
    def of(cls, sets: Iterable[Iterable[tuple[int, int]]]) -> Ranges:
        """From the first and the last number of each range of each set."""
        bounds = [
            (at * int(cls._LIFT) + low, at * int(cls._LIFT) + high)
            for at, some in enumerate(sets)
            for low, high in some
        ]
        if not bounds:
            return cls(np.empty(0, np.int64), np.empty(0, np.int64))
        low, high = np.array(sorted(bounds), np.int64).T
        # Of ranges that overlap, each is made to reach as far as those before it.
        return cls(np.ascontiguousarray(low), np.maximum.accumulate(high))

    def hold(self, group: Ints, number: Ints) -> Bools:
        """Whether the set of a group (-1: none) has a number."""
        if not len(self.low):
            return np.zeros(len(group), np.bool_)
        at = group * self._LIFT + number
        place = np.searchsorted(self.low, at, "right") - 1
        found: Bools = (group >= 0) & (number >= 0) & (place >= 0) & (at <= self.high[place])
        return found


@dataclass(frozen=True)
class Wanted:
    """What is to be read again.

    ``everything``: all of it, there is too much to name. ``whole`` are groups all of whose messages
    matter, ``numbered`` those of which :attr:`ranges` has some, by their place there. ``lines`` are
    the connections that have to do with them; of those in ``full`` every message is read.
    ``cumulative`` are the subscriptions that settle all before at once. ``shut`` and ``unclear``
    are connections whose window was overrun: in which parts, or nobody knows where.
    """

    everything: bool = False
    whole: frozenset[Group] = frozenset()
    numbered: Mapping[Group, int] = field(default_factory=dict)
    ranges: Ranges = field(default_factory=lambda: Ranges.of([]))
    lines: frozenset[Line] = frozenset()
    full: frozenset[Line] = frozenset()
    cumulative: Mapping[Line, frozenset[str]] = field(default_factory=dict)
    shut: Mapping[int, Mapping[Line, Shut]] = field(default_factory=dict)
    """By place."""
    unclear: frozenset[Line] = frozenset()

    def has(self, group: Group, number: int) -> bool:
        """Whether a message is one of those looked for."""
        if self.everything or group in self.whole:
            return True
        at = self.numbered.get(group)
        return at is not None and bool(self.ranges.hold(np.array([at]), np.array([number]))[0])


class _Numbers:
    """What is looked for in one group."""

    def __init__(self) -> None:
        self.whole = False
        self.blocks: dict[int, Book] = {}
        self.falls: list[Fall] = []

    def ranges(self, came: int) -> Iterable[tuple[int, int]]:
        """First and last numbers; ``came`` is the greatest number that surely came (-1: none)."""
        missing = False
        for block, book in self.blocks.items():
            gone = book.missing & ((1 << max(0, min(came - block * BLOCK + 1, BLOCK))) - 1)
            missing |= bool(gone)
            yield from ((each, each) for each in numbers_of(block, gone | book.wrong))
        if missing:
            yield came, came
        for fall in self.falls:
            behind = self.blocks.get(fall.high // BLOCK)
            if fall.all_between or (behind is not None and behind.wrong >> fall.high % BLOCK & 1):
                # What it came behind may not count (it came twice, it may be reordered): then what
                # counts is between.
                yield fall.low, fall.high
            else:
                yield from ((fall.low, fall.low), (fall.high, fall.high))


def wanted(merged: DataFrame, counts_messages: bool) -> Wanted | None:
    """What the merged summaries ask to be read again; None for nothing. ``counts_messages``:
    windows count messages, and a summary does not know the octets that an irregularity is told
    with."""
    suspects = merged.where(~F.col("fine") & F.col("what").isin(BOOK, RISE, PART))
    bad = (
        suspects.select("what", *SCOPE, "queue", "producer", "conn", "block", "summary")
        .limit(MOST + 1)
        .collect()
    )
    if not bad:
        return None
    if len(bad) > MOST:
        return Wanted(everything=True)
    found: dict[Group, _Numbers] = defaultdict(_Numbers)
    shut: dict[int, dict[Line, Shut]] = defaultdict(dict)
    unclear = set()
    for row in bad:
        scope, told = (
            tuple(row[name] for name in SCOPE),
            pickle.loads(row.summary),
        )  # written by our own workers
        if row.what == PART:
            line = (*scope, row.conn)
            if told.whole or told.gone or counts_messages:
                unclear.add(line)
            for each in () if line in unclear else told.shut:
                shut[each.place][line] = each
            continue
        group = found[*scope, row.queue, row.producer]
        if row.what == RISE:
            group.falls += told.falls
        elif row.block == LOOSE:
            group.whole = True
        else:
            group.blocks[row.block] = told
    return _named(merged, found, dict(shut), frozenset(unclear))


def _named(
    merged: DataFrame,
    found: Mapping[Group, _Numbers],
    shut: Mapping[int, Mapping[Line, Shut]],
    unclear: frozenset[Line],
) -> Wanted | None:
    about = _about(merged, found)
    if about is None:
        return Wanted(everything=True)
    came, touching = about
    sets = {
        group: list(numbers.ranges(came.get(group, -1)))
        for group, numbers in found.items()
        if not numbers.whole
    }
    whole = {group for group, numbers in found.items() if numbers.whole}
    if sum(map(len, sets.values())) > MOST_NUMBERS:
        whole |= {group for group, some in sets.items() if some}
        sets = {}
    sets = {group: some for group, some in sets.items() if some}
    lines = {line for group in (*sets, *whole) for line in touching.get(group, ())}
    full = {line for group in whole for line in touching.get(group, ())}
    if len(lines) > MOST:
        return Wanted(everything=True)
    if not (lines or shut or unclear):
        return None
    return Wanted(
        whole=frozenset(whole),
        numbered={group: at for at, group in enumerate(sets)},
        ranges=Ranges.of(sets.values()),
        lines=frozenset(lines) | unclear,
        full=frozenset(full) | unclear,
        cumulative=_cumulative(merged, lines - full) if lines - full else {},
        shut=shut,
        unclear=unclear,
    )


def _about(
    merged: DataFrame, groups: Iterable[Group]
) -> tuple[Mapping[Group, int], Mapping[Group, Iterable[Line]]] | None:
    """Of each group the greatest number that surely came, and the connections that have to do with
    it; None: too many."""
    names = {(group[:4], group[4]) for group in groups}
    if not names:
        return {}, {}
    of_queues = _among(
        merged.where(F.col("what").isin(BOOK, TOUCH)), "queue", {queue for _, queue in names}
    )
    greatest = of_queues.groupBy("what", *SCOPE, "queue", "producer", "conn").agg(
        F.max("came").alias("came")
    )
    rows = greatest.limit(MOST + 1).collect()
    if len(rows) > MOST:
        return None
    came: dict[Group, int] = {}
    consume: dict[tuple[Scope, str], list[Line]] = defaultdict(list)
    send: dict[Group, list[Line]] = defaultdict(list)
    for row in rows:
        scope: Scope = (row.run, row.target, row.case, row.example)
        group = (*scope, row.queue, row.producer)
        if row.what == BOOK:
            came[group] = row.came
        elif row.producer == CONSUMES:
            consume[scope, row.queue].append((*scope, row.conn))
        else:
            send[group].append((*scope, row.conn))
    return came, {group: [*consume[group[:4], group[4]], *send[group]] for group in groups}


def _cumulative(merged: DataFrame, lines: Iterable[Line]) -> Mapping[Line, frozenset[str]]:
    """Of the connections the subscriptions that settle all before at once."""
    parts = _among(merged.where(F.col("what") == PART), "conn", {line[-1] for line in lines})
    found = {}
    for row in parts.select(*SCOPE, "conn", "summary").collect():  # as many as there are lines
        account: Account = pickle.loads(row.summary)
        if account.cumulative:
            found[row.run, row.target, row.case, row.example, row.conn] = frozenset(
                account.cumulative
            )
    return found


def _among(frame: DataFrame, column: str, values: Collection[Any]) -> DataFrame:
    """The rows whose column has one of these values."""
    if len(values) <= FEW:
        return frame.where(F.col(column).isin(*values))
    table = pa.table({column: pa.array(sorted(values))})
    return frame.join(F.broadcast(arrow(frame.sparkSession, table)), column, "left_semi")
