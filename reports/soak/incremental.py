"""The judges while a recording still grows.

Every segment that is finished is summarised where it lies, and the summaries are put together with
those before (:class:`brokerproof.reports.judging.merge.Group`). What they say at once (order,
windows, lives, a message that came twice) and what time says (a message that was overtaken and
still has not come) makes a *suspicion*. A suspicion is no verdict: then everything that was
recorded so far is judged as ``brokerproof judge`` does, and what that finds, with its witness, is
what counts.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from brokerproof.harness.model.time import NS_PER_S, Duration, Instant
from brokerproof.harness.oracles import connection_lifetimes
from brokerproof.harness.oracles.connection_reader import AMQP091
from brokerproof.harness.oracles.expectations import Expectations
from brokerproof.reports.judging.delivery_bitmaps import BLOCK, LOOSE
from brokerproof.reports.judging.judge import lifetime
from brokerproof.reports.judging.merge import Group
from brokerproof.reports.judging.segment_summary import (
    AMQP,
    BOOK,
    CHANNELS,
    GROUP,
    LIFE,
    PART,
    RISE,
)

GRACE: Duration = 10 * NS_PER_S
"""How long a message may be under way after a later one of its producer has come: other consumers
have buffers too."""
FULL = (1 << BLOCK) - 1

Key = tuple[Any, ...]


@dataclass
class _Overdue:
    """Messages of one book that were missing, or came unsent, at ``since`` and ever after."""

    since: Instant
    bits: int


@dataclass
class Suspicions:
    """The state of all summaries so far. ``drivers`` > 1: what one recorded may be read before what
    another did, so that a message seems to come before it was sent."""

    ground: Expectations
    drivers: int = 1
    grace: Duration = GRACE
    groups: dict[Key, Group] = field(default_factory=dict)
    amqp: bool = False
    """Whether there are connections of which nothing but their whole reading tells: those of AMQP
    1.0 and CORE."""
    _overdue: dict[Key, _Overdue] = field(default_factory=dict)
    _came: dict[Key, int] = field(default_factory=dict)
    """The greatest number that came, by run, target, case, example, queue and producer."""
    _known: dict[Key, int] = field(default_factory=dict)
    """Of books, what was already looked into."""

    def enter(self, rows: Iterable[Mapping[str, Any]], now: Instant) -> list[str]:
        """Enters the summaries of segments, in the order of their places; returns what is
        suspicious now, in words, that was not before."""
        touched: dict[Key, Group] = {}
        for row in rows:
            key = tuple(row[name] for name in GROUP)
            self.amqp |= row["what"] == AMQP and row["subscription"] != AMQP091
            if row["what"] not in (BOOK, RISE, PART, LIFE, CHANNELS):
                continue
            group = self.groups.get(key)
            if group is None:
                group = self.groups[key] = Group(row["what"])
            group.add(
                row["place"], pickle.loads(row["summary"])
            )  # written by our own workers a moment ago
            touched[key] = group
            if row["what"] == BOOK and row["block"] != LOOSE:
                self._arrived(key, row["block"], group)
        found = [why for key, group in touched.items() for why in self._at_once(key, group)]
        found += self._in_time(now)
        self._forget(touched)
        return found

    @property
    def under_way(self) -> int:
        """Messages that were sent and have not come yet, as far as segments tell."""
        return sum(
            group.told.missing.bit_count() for key, group in self.groups.items() if key[0] == BOOK
        )

    def _arrived(self, key: Key, block: int, group: Group) -> None:
        if (came := group.told.came) >= 0:
            producer = _producer(key)
            self._came[producer] = max(self._came.get(producer, -1), block * BLOCK + came)

    def _at_once(self, key: Key, group: Group) -> list[str]:
        """What needs no waiting."""
        if group.what == LIFE:
            wrong = [
                each.what
                for each in connection_lifetimes.find_anomalies(
                    lifetime(_named(key)["conn"], group.told), self.ground
                )
            ]
            return self._new(key, len(wrong), wrong[0] if wrong else "")
        if group.what in (RISE, PART, CHANNELS):
            what = "messages came out of order" if group.what == RISE else "a window was overrun"
            return self._new(
                key, int(not group.fine), f"{what} on connection {_named(key)['conn']}"
            )
        book = group.told
        again = (book.regot if book.alike else 0) | book.resent | book.odd
        if self.drivers == 1:
            again |= book.got & ~book.sent
        where = f"producer {_named(key)['producer']} on {_named(key)['queue']}"
        return self._new(key, again, f"messages of {where} came twice, marked, or unsent")

    def _new(self, key: Key, state: int, why: str) -> list[str]:
        if not state or self._known.get(key) == state:
            return []
        self._known[key] = state
        return [why]

    def _in_time(self, now: Instant) -> list[str]:
        """What is missing, or came unsent, for longer than it may."""
        found = []
        for key, group in self.groups.items():
            if key[0] != BOOK or _named(key)["block"] == LOOSE:
                continue
            book = group.told
            pending = (book.missing & self._overtaken(key)) | (book.got & ~book.sent)
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
                where = f"producer {_named(key)['producer']} on {_named(key)['queue']}"
                found.append(
                    f"{still.bit_count()} messages of {where} have not come, and later ones have"
                )
        return found

    def _overtaken(self, key: Key) -> int:
        """The numbers of a block of whose producer a later message came."""
        last = self._came.get(_producer(key), -1) - _named(key)["block"] * BLOCK
        return FULL if last >= BLOCK else (1 << max(0, last)) - 1

    def _forget(self, touched: Mapping[Key, Group]) -> None:
        """Lets go of blocks all of whose messages were sent and came, once each."""
        for key, group in touched.items():
            if key[0] == BOOK and group.fine and group.told.sent == FULL:
                del self.groups[key]
                self._known.pop(key, None)
                self._overdue.pop(key, None)


def _named(key: Key) -> dict[str, Any]:
    return dict(zip(GROUP, key, strict=True))


def _producer(key: Key) -> Key:
    about = _named(key)
    return tuple(about[name] for name in ("run", "target", "case", "example", "queue", "producer"))
