"""The recheck plan: the messages, connections, and pieces to read again.

The plan is small enough to be sent to every task. Bitmaps give the numbers of the suspicious
messages, and inversions give those of messages that arrived out of order. A missing message matters
only if a later one of its producer arrived. That later message is then read again too, because it
proves the loss."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from brokerproof.reports.judging.delivery_bitmaps import BLOCK, LOOSE, DeliveryBitmap, numbers_of
from brokerproof.reports.judging.dense_ids import Bools, Ints
from brokerproof.reports.judging.order import Inversion
from brokerproof.reports.judging.summary import (
    CONSUMES,
    DELIVERIES,
    ORDER,
    QUEUE_USE,
    SCOPE,
    WINDOWS,
)
from brokerproof.reports.judging.windows import WindowClosed, WindowLedger
from brokerproof.reports.sources.dataframes import arrow
from brokerproof.reports.spark.on_demand import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

Scope: TypeAlias = tuple[str, str, str, int]
Group: TypeAlias = tuple[str, str, str, int, str, int]
"""The scope, the queue and the producer."""
ConnectionKey: TypeAlias = tuple[str, str, str, int, int]
"""The scope and the connection."""
MOST = 100_000
"""The maximum number of suspicious groups that are named. If there are more, everything is read
again."""
FEW = 200
"""The maximum number of values in a query."""
MOST_NUMBERS = 1_000_000
"""The maximum number of messages that are named by number. If there are more, whole groups are
read."""


@dataclass(frozen=True)
class Ranges:
    """Sets of numbers as ascending bounds, one set for each group (numbered from 0)."""

    low: Ints
    high: Ints
    _LIFT = np.int64(1) << 41

    @classmethod
    def of(cls, sets: Iterable[Iterable[tuple[int, int]]]) -> Ranges:
        """Return the sets for these ranges. A range is given by its first and its last number."""
        lift = int(cls._LIFT)
        bounds = [
            (group * lift + low, group * lift + high)
            for group, ranges in enumerate(sets)
            for low, high in ranges
        ]
        if not bounds:
            return cls(np.empty(0, np.int64), np.empty(0, np.int64))
        low, high = np.array(sorted(bounds), np.int64).T
        # Extend each overlapping range as far as those before it.
        return cls(np.ascontiguousarray(low), np.maximum.accumulate(high))

    def contains(self, group: Ints, number: Ints) -> Bools:
        """For each number, return whether the set of its group (-1: none) contains the number."""
        if not len(self.low):
            return np.zeros(len(group), np.bool_)
        lifted = group * self._LIFT + number
        place = np.searchsorted(self.low, lifted, "right") - 1
        contained: Bools = (
            (group >= 0) & (number >= 0) & (place >= 0) & (lifted <= self.high[place])
        )
        return contained


@dataclass(frozen=True)
class RecheckPlan:
    """The events to read again; none by default."""

    everything: bool = False
    """True if too many events are involved to name them."""
    whole: frozenset[Group] = frozenset()
    """Groups all of whose messages matter."""
    numbered: Mapping[Group, int] = field(default_factory=dict)
    """Groups in which only some messages matter, with their places in :attr:`ranges`."""
    ranges: Ranges = field(default_factory=lambda: Ranges.of([]))
    connections: frozenset[ConnectionKey] = frozenset()
    """All connections that are involved."""
    full: frozenset[ConnectionKey] = frozenset()
    """Connections whose messages are all read."""
    cumulative: Mapping[ConnectionKey, frozenset[str]] = field(default_factory=dict)
    """Subscriptions that settle cumulatively."""
    closed: Mapping[int, Mapping[ConnectionKey, WindowClosed]] = field(default_factory=dict)
    """Connections whose window was overrun, by the place of the piece."""
    unclear: frozenset[ConnectionKey] = frozenset()
    """Connections whose window may have been overrun in any piece."""

    def includes(self, group: Group, number: int) -> bool:
        if self.everything or group in self.whole:
            return True
        place = self.numbered.get(group)
        return place is not None and bool(
            self.ranges.contains(np.array([place]), np.array([number]))[0]
        )

    @property
    def names_messages(self) -> bool:
        """True if messages are read again, not only windows."""
        return bool(self.numbered or self.whole or self.everything)


class Suspects:
    """The suspicious messages of one group."""

    def __init__(self) -> None:
        self.whole = False
        self.blocks: dict[int, DeliveryBitmap] = {}
        self.inversions: list[Inversion] = []

    def ranges(self, delivered: int) -> Iterable[tuple[int, int]]:
        """Yield the first and last number of each range; ``delivered`` is the highest number that
        certainly arrived (-1: none)."""
        missing = False
        for block, bitmap in self.blocks.items():
            below = (1 << max(0, min(delivered - block * BLOCK + 1, BLOCK))) - 1
            overtaken = bitmap.missing & below
            missing |= bool(overtaken)
            for number in numbers_of(block, overtaken | bitmap.suspicious):
                yield number, number
        if missing:
            yield delivered, delivered
        for low, high, all_between in self.inversions:
            behind = self.blocks.get(high // BLOCK)
            if all_between or (behind is not None and behind.suspicious >> high % BLOCK & 1):
                # The message before it may not count, because it was delivered twice or may be
                # reordered. In that case, the one that counts is between them.
                yield low, high
            else:
                yield from ((low, low), (high, high))


def recheck_plan(merged: DataFrame, *, window_counts_messages: bool) -> RecheckPlan:
    """Return the recheck plan that the merged summaries require.

    If windows count messages, a summary lacks the bytes that the description of an anomaly needs,
    so the whole connection is read."""
    suspicious = F.col("needs_recheck") & F.col("kind").isin(DELIVERIES, ORDER, WINDOWS)
    columns = ("kind", *SCOPE, "queue", "producer", "conn", "block", "summary")
    rows = merged.where(suspicious).select(*columns).limit(MOST + 1).collect()
    if len(rows) > MOST:
        return RecheckPlan(everything=True)
    suspects: dict[Group, Suspects] = defaultdict(Suspects)
    closed: dict[int, dict[ConnectionKey, WindowClosed]] = defaultdict(dict)
    unclear = set()
    for row in rows:
        scope = scope_of(row)
        summary = pickle.loads(row.summary)  # written by our own workers
        group = (*scope, row.queue, row.producer)
        if row.kind == ORDER:
            suspects[group].inversions += summary.inversions
        elif row.kind == DELIVERIES and row.block == LOOSE:
            suspects[group].whole = True
        elif row.kind == DELIVERIES:
            suspects[group].blocks[row.block] = summary
        elif summary.ambiguous or summary.unsubscribed or window_counts_messages:
            unclear.add((*scope, row.conn))
        else:
            for piece in summary.closed:
                closed[piece.place][*scope, row.conn] = piece
    return _plan(merged, suspects, dict(closed), frozenset(unclear))


def _plan(
    merged: DataFrame,
    suspects: Mapping[Group, Suspects],
    closed: Mapping[int, Mapping[ConnectionKey, WindowClosed]],
    unclear: frozenset[ConnectionKey],
) -> RecheckPlan:
    uses = _queue_uses(merged, suspects)
    if uses is None:
        return RecheckPlan(everything=True)
    delivered, using = uses
    whole = {group for group, messages in suspects.items() if messages.whole}
    sets = {
        group: ranges
        for group, messages in suspects.items()
        if not messages.whole and (ranges := list(messages.ranges(delivered.get(group, -1))))
    }
    if sum(map(len, sets.values())) > MOST_NUMBERS:
        whole |= sets.keys()
        sets = {}
    connections = {connection for group in (*sets, *whole) for connection in using.get(group, ())}
    full = {connection for group in whole for connection in using.get(group, ())}
    if len(connections) > MOST:
        return RecheckPlan(everything=True)
    return RecheckPlan(
        whole=frozenset(whole),
        numbered={group: place for place, group in enumerate(sets)},
        ranges=Ranges.of(sets.values()),
        connections=frozenset(connections) | unclear,
        full=frozenset(full) | unclear,
        cumulative=_cumulative(merged, connections - full) if connections - full else {},
        closed=closed,
        unclear=unclear,
    )


def _queue_uses(
    merged: DataFrame, groups: Collection[Group]
) -> tuple[Mapping[Group, int], Mapping[Group, Iterable[ConnectionKey]]] | None:
    """Return, by group, the highest number that certainly arrived and the connections involved;
    None if there are too many."""
    if not groups:
        return {}, {}
    of_queues = _among(
        merged.where(F.col("kind").isin(DELIVERIES, QUEUE_USE)),
        "queue",
        {queue for *_, queue, _ in groups},
    )
    greatest = of_queues.groupBy("kind", *SCOPE, "queue", "producer", "conn").agg(
        F.max("delivered").alias("delivered")
    )
    rows = greatest.limit(MOST + 1).collect()
    if len(rows) > MOST:
        return None
    delivered: dict[Group, int] = {}
    consumers: dict[tuple[Scope, str], list[ConnectionKey]] = defaultdict(list)
    senders: dict[Group, list[ConnectionKey]] = defaultdict(list)
    for row in rows:
        scope = scope_of(row)
        group = (*scope, row.queue, row.producer)
        if row.kind == DELIVERIES:
            delivered[group] = row.delivered
        elif row.producer == CONSUMES:
            consumers[scope, row.queue].append((*scope, row.conn))
        else:
            senders[group].append((*scope, row.conn))
    using = {group: [*consumers[group[:4], group[4]], *senders[group]] for group in groups}
    return delivered, using


def _cumulative(
    merged: DataFrame, connections: Iterable[ConnectionKey]
) -> Mapping[ConnectionKey, frozenset[str]]:
    """Return the subscriptions of these connections that settle cumulatively."""
    ledgers = _among(
        merged.where(F.col("kind") == WINDOWS), "conn", {conn for *_, conn in connections}
    )
    cumulative: dict[ConnectionKey, frozenset[str]] = {}
    for row in ledgers.select(*SCOPE, "conn", "summary").collect():
        ledger: WindowLedger = pickle.loads(row.summary)  # written by our own workers
        if ledger.cumulative:
            cumulative[*scope_of(row), row.conn] = ledger.cumulative
    return cumulative


def _among(frame: DataFrame, column: str, values: Collection[Any]) -> DataFrame:
    if len(values) <= FEW:
        return frame.where(F.col(column).isin(*values))
    table = pa.table({column: pa.array(sorted(values))})
    return frame.join(F.broadcast(arrow(frame.sparkSession, table)), column, "left_semi")


def scope_of(row: Mapping[str, Any] | Row) -> Scope:
    return row["run"], row["target"], row["case"], row["example"]
