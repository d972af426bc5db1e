"""Judges a recording while it is still growing.

The engine that judges whole recordings (:mod:`brokerproof.reports.judging.judge`) summarises every
finished segment and merges the summary with earlier ones. Merged summaries raise a *suspicion*
immediately (order, windows, connections, a message delivered twice) or after some time (a message
was overtaken and still has not arrived). A suspicion is not a verdict: it starts a judgement of
everything recorded so far, as by ``brokerproof judge``, and only the anomalies found there count.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from brokerproof.harness.model.time import NS_PER_S, Duration, Instant
from brokerproof.harness.oracles import connection_lifetimes
from brokerproof.harness.oracles.connection_reader import AMQP091
from brokerproof.harness.oracles.expectations import Expectations
from brokerproof.reports.judging.connection_lifetimes import ConnectionSummary
from brokerproof.reports.judging.delivery_bitmaps import BLOCK, LOOSE, DeliveryBitmap
from brokerproof.reports.judging.judge import lifetime
from brokerproof.reports.judging.merge import EMPTY
from brokerproof.reports.judging.summary import (
    CHANNELS,
    CONNECTION,
    DELIVERIES,
    GROUP,
    ORACLE_JUDGED,
    ORDER,
    WINDOWS,
    Summary,
)

GRACE: Duration = 10 * NS_PER_S
"""The longest time that a message may be in flight after a later one of its producer has arrived:
the buffers of other consumers delay it."""
FULL = (1 << BLOCK) - 1

Key = tuple[Any, ...]
"""The values of :data:`brokerproof.reports.judging.summary.GROUP`."""


@dataclass
class _Overdue:
    """Messages in one block that have been missing since ``since``, or that arrived then without
    having been sent."""

    since: Instant
    bits: int


@dataclass
class Suspicions:
    """The merged summaries so far.

    With several ``drivers``, the segments of one driver may be read before those of another, so a
    message may seem to arrive before it was sent."""

    ground: Expectations
    drivers: int = 1
    grace: Duration = GRACE
    groups: dict[Key, Summary[Any]] = field(default_factory=dict)
    amqp: bool = False
    """True if some connections can only be judged as a whole: those of AMQP 1.0 and CORE."""
    _overdue: dict[Key, _Overdue] = field(default_factory=dict)
    _delivered: dict[Key, int] = field(default_factory=dict)
    """The highest message number that arrived, by run, target, case, example, queue and
    producer."""
    _known: dict[Key, Any] = field(default_factory=dict)
    """The state in which a suspicion was last raised, by group."""

    def enter(self, rows: Iterable[Mapping[str, Any]], now: Instant) -> list[str]:
        """Merge the summaries of segments, sorted by ``place``; return new suspicions in words."""
        changed: dict[Key, Summary[Any]] = {}
        for row in rows:
            if row["kind"] == ORACLE_JUDGED:
                self.amqp |= row["subscription"] != AMQP091
            if row["kind"] not in _SUSPICIONS:
                continue
            key = tuple(row[name] for name in GROUP)
            earlier = self.groups.get(key) or EMPTY[row["kind"]]()
            summary = earlier.merge(pickle.loads(row["summary"]))  # written by our own workers
            self.groups[key] = changed[key] = summary
            if (highest := summary.highest_delivered(row["block"])) >= 0:
                producer = _producer(key)
                self._delivered[producer] = max(self._delivered.get(producer, -1), highest)
        suspicions = []
        for key, summary in changed.items():
            state, reason = _SUSPICIONS[key[0]](self, key, summary)
            if state and self._known.get(key) != state:
                self._known[key] = state
                suspicions.append(reason)
        suspicions += self._overdue_messages(now)
        self._forget(changed)
        return suspicions

    @property
    def under_way(self) -> int:
        """The number of messages that were sent but have not yet arrived, according to the
        segments."""
        return sum(bitmap.missing.bit_count() for _, bitmap in self._bitmaps())

    def _bitmaps(self) -> Iterator[tuple[Key, DeliveryBitmap]]:
        for key, summary in self.groups.items():
            if isinstance(summary, DeliveryBitmap):
                yield key, summary

    def _overdue_messages(self, now: Instant) -> list[str]:
        """Return the messages that should by now have arrived or been sent."""
        suspicions = []
        for key, bitmap in self._bitmaps():
            if _named(key)["block"] == LOOSE:
                continue
            pending = (bitmap.missing & self._overtaken(key)) | (bitmap.got & ~bitmap.sent)
            before = self._overdue.get(key)
            still = before.bits & pending if before else 0
            if before is None or not still:
                if pending:
                    self._overdue[key] = _Overdue(now, pending)
                else:
                    self._overdue.pop(key, None)
            elif now - before.since < self.grace:
                before.bits = still
            else:
                self._overdue[key] = _Overdue(now, pending & ~still)
                suspicions.append(
                    f"{still.bit_count()} messages of {_flow(key)} have not arrived, but later ones"
                    " have arrived"
                )
        return suspicions

    def _overtaken(self, key: Key) -> int:
        """Return the numbers of the messages in a block that a later message of their producer
        overtook."""
        last = self._delivered.get(_producer(key), -1) - _named(key)["block"] * BLOCK
        return FULL if last >= BLOCK else (1 << max(0, last)) - 1

    def _forget(self, changed: Mapping[Key, Summary[Any]]) -> None:
        """Forget blocks in which every message was sent and delivered exactly once."""
        for key, summary in changed.items():
            complete = isinstance(summary, DeliveryBitmap) and summary.sent == FULL
            if complete and not summary.needs_recheck:
                del self.groups[key]
                self._known.pop(key, None)
                self._overdue.pop(key, None)


def _of_deliveries(state: Suspicions, key: Key, bitmap: DeliveryBitmap) -> tuple[int, str]:
    suspicious = bitmap.repeated | bitmap.resent | bitmap.odd
    if state.drivers == 1:
        suspicious |= bitmap.got & ~bitmap.sent
    return suspicious, f"messages of {_flow(key)} arrived twice, marked, or unsent"


def _of_order(_: Suspicions, key: Key, order: Summary[Any]) -> tuple[int, str]:
    conn = _named(key)["conn"]
    return int(order.needs_recheck), f"messages arrived out of order on connection {conn}"


def _of_windows(_: Suspicions, key: Key, windows: Summary[Any]) -> tuple[int, str]:
    conn = _named(key)["conn"]
    return int(windows.needs_recheck), f"a window was exceeded on connection {conn}"


def _of_connection(state: Suspicions, key: Key, summary: ConnectionSummary) -> tuple[int, str]:
    life = lifetime(_named(key)["conn"], summary)
    anomalies = list(connection_lifetimes.find_anomalies(life, state.ground))
    return len(anomalies), anomalies[0].what if anomalies else ""


_SUSPICIONS: Mapping[str, Callable[[Suspicions, Key, Any], tuple[int, str]]] = {
    DELIVERIES: _of_deliveries,
    ORDER: _of_order,
    WINDOWS: _of_windows,
    CHANNELS: _of_windows,
    CONNECTION: _of_connection,
}
"""By kind, a function that returns a state (0 while nothing is suspicious) and the suspicion in
words."""


def _named(key: Key) -> dict[str, Any]:
    return dict(zip(GROUP, key, strict=True))


def _flow(key: Key) -> str:
    group = _named(key)
    return f"producer {group['producer']} on {group['queue']}"


def _producer(key: Key) -> Key:
    group = _named(key)
    return tuple(group[name] for name in ("run", "target", "case", "example", "queue", "producer"))
