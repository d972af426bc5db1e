"""Tracks every message of one queue, and reports irregularities once a plan of sends and
settlements has ended.

The terms are those of Jepsen's total-queue. An *attempt* is a message sent to the broker; it is
*confirmed* once its receipt arrives. A message that was delivered but never confirmed is
*recovered*, which is legal because the receipt may have been lost. These are illegal:

* *phantom*: delivered although never sent, or sent in an aborted transaction;
* *shared*: delivered while a consumer still held an earlier delivery of it;
* *revived*: delivered again after it was settled;
* *lost*: confirmed and never delivered to anyone;
* *abandoned*: delivered, returned to the queue, and never redelivered;
* *disordered*: delivered to a consumer after a later message of the same producer;
* *unmarked*: redelivered after a failure without the redelivery mark; *mismarked*: marked as a
  redelivery the first time.

Deliveries on two connections cannot be compared, because their relative order is not visible. So
order is checked for each consumer, and only among messages that waited together.

A consumer that leaves without UNSUBSCRIBE is in doubt for a while: unseen deliveries may be in
flight to it, and the broker may keep delivering until it notices. Messages that wait or are sent
during that time may arrive late and marked, so neither their order nor their redelivery mark is
checked. The doubt ends when a message that the consumer held is delivered to another consumer,
since the broker requeues all of its messages together."""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from brokerproof.harness.model.finding import listed

Key: TypeAlias = bytes
"""Identity of a message: its body."""


@dataclass(frozen=True, slots=True)
class Attempted:
    """``producer`` sent a message. These facts are given in sending order."""

    key: Key
    producer: str


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The broker confirmed the message or, in a transaction, the commit."""

    key: Key


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The message's transaction was aborted, so it must never be delivered."""

    key: Key


@dataclass(frozen=True, slots=True)
class Delivered:
    """A delivery reached ``consumer``. ``marked`` says whether it was flagged as a redelivery; None
    if the protocol has no such flag."""

    key: Key
    consumer: str
    marked: bool | None


@dataclass(frozen=True, slots=True)
class Settled:
    """The broker confirmed that these messages are acknowledged."""

    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """The broker confirmed that the consumer refused these messages. The broker may redeliver them,
    but need not."""

    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Excused:
    """These messages may be missing from now on: they expired, a policy dropped them, or they were
    dead-lettered."""

    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Returned:
    """``consumer`` left, and the messages that it held return to the queue.

    ``failed``: its connection was lost without an orderly close. ``noticed``: the broker confirmed
    the end of the subscription, so no delivery can be in flight to the consumer."""

    consumer: str
    failed: bool = False
    noticed: bool = False


Fact: TypeAlias = (
    Attempted | Confirmed | Withdrawn | Delivered | Settled | Refused | Excused | Returned
)


class _Now(enum.Enum):
    UNSEEN = enum.auto()
    HELD = enum.auto()
    SETTLED = enum.auto()
    REFUSED = enum.auto()
    BACK = enum.auto()


@dataclass(slots=True)
class _Entry:
    producer: str
    number: int
    now: _Now = _Now.UNSEEN
    confirmed: bool = False
    withdrawn: bool = False
    holder: str = ""
    run: int | None = 0
    """Messages with the same value waited together, so none may overtake another on the way to one
    consumer. None means that this is in doubt."""
    owes_mark: bool | None = False
    """True if the next delivery must be marked as a redelivery; None if it may be."""
    excused: bool = False
    doubts: int = 0
    """How many doubts had begun when the message was last sent or returned."""


@dataclass(frozen=True, slots=True)
class Books:
    """The irregularities found. Each tuple has message keys in the order of detection."""

    attempted: int = 0
    confirmed: int = 0
    delivered: int = 0
    recovered: tuple[Key, ...] = ()
    phantom: tuple[Key, ...] = ()
    shared: tuple[Key, ...] = ()
    revived: tuple[Key, ...] = ()
    lost: tuple[Key, ...] = ()
    abandoned: tuple[Key, ...] = ()
    disordered: tuple[Key, ...] = ()
    unmarked: tuple[Key, ...] = ()
    mismarked: tuple[Key, ...] = ()

    @property
    def balanced(self) -> bool:
        return not any(getattr(self, name) for name in ILLEGAL)

    def __str__(self) -> str:
        noted = [_named(name, getattr(self, name)) for name in ILLEGAL if getattr(self, name)]
        counts = f"{self.attempted} sent, {self.confirmed} confirmed, {self.delivered} deliveries"
        return f"{counts}: {'; '.join(noted) or 'nothing lost, doubled or out of order'}"


ILLEGAL = (
    "phantom",
    "shared",
    "revived",
    "lost",
    "abandoned",
    "disordered",
    "unmarked",
    "mismarked",
)


def _named(name: str, keys: tuple[Key, ...]) -> str:
    return f"{name} {listed(keys)}"


@dataclass
class Ledger:
    """Takes facts one by one, each in constant time, and keeps the books up to date.

    ``order_after_return``: returned messages must be redelivered in their producer's order too.
    """

    order_after_return: bool = True

    _entries: dict[Key, _Entry] = field(default_factory=dict)
    _found: dict[str, list[Key]] = field(
        default_factory=lambda: {name: [] for name in (*ILLEGAL, "recovered")}
    )
    _latest: dict[tuple[str, str, int], int] = field(default_factory=dict)
    _runs: int = 0
    _unseen_run: int = 0
    _deliveries: int = 0
    _held: dict[str, dict[Key, None]] = field(default_factory=dict)
    """Unsettled messages by consumer."""
    _doubts: int = 0
    _in_doubt: dict[str, set[Key]] = field(default_factory=dict)
    """Consumers that left unnoticed by the broker, each with the messages that it held."""

    def update(self, fact: Fact) -> None:
        """Record one fact. Raises ``ValueError`` if a key was sent twice; keys must be unique."""
        match fact:
            case Attempted(key, producer):
                if key in self._entries:
                    raise ValueError(f"{key!r} was sent twice; every message needs its own key")
                doubt = bool(self._in_doubt)
                self._entries[key] = _Entry(
                    producer,
                    len(self._entries),
                    run=None if doubt else self._unseen_run,
                    owes_mark=None if doubt else False,
                    doubts=self._doubts,
                )
            case Confirmed(key):
                self._entries[key].confirmed = True
            case Withdrawn(key):
                self._entries[key].withdrawn = True
            case Delivered():
                self._delivered(fact)
            case Settled(keys):
                self._let_go(keys, _Now.SETTLED)
            case Excused(keys):
                for key in keys:
                    self._entries[key].excused = True
            case Refused(keys):
                self._give_back(keys, _Now.REFUSED, owes_mark=True)
            case Returned():
                self._returned(fact)

    def doubt_marks(self) -> None:
        """Let unseen messages be marked: a broker may have assigned them to a consumer that left
        before they were sent."""
        for entry in self._entries.values():
            if entry.now is _Now.UNSEEN:
                entry.owes_mark = None

    def must_come(self) -> set[Key]:
        """The messages that must still be delivered if any consumer remains."""
        return {key for key, entry in self._entries.items() if _is_back(entry) or _owed(entry)}

    def held_by(self, consumer: str) -> list[Key]:
        """Return the messages that ``consumer`` holds, in sending order."""
        held = self._held.get(consumer, {})
        return sorted(held, key=lambda key: self._entries[key].number)

    def close(self) -> Books:
        """Return the books, after a consumer has drained the queue."""
        entries = self._entries.items()
        return Books(
            attempted=len(self._entries),
            confirmed=sum(entry.confirmed for _, entry in entries),
            delivered=self._deliveries,
            **{
                name: tuple(keys)
                for name, keys in self._found.items()
                if name not in ("lost", "abandoned")
            },
            lost=tuple(key for key, entry in entries if _owed(entry)),
            abandoned=tuple(key for key, entry in entries if _is_back(entry)),
        )

    def _delivered(self, fact: Delivered) -> None:
        self._deliveries += 1
        entry = self._entries.get(fact.key)
        if entry is None or entry.withdrawn:
            self._found["phantom"].append(fact.key)
            return
        if entry.now in (_Now.HELD, _Now.SETTLED):
            self._found["shared" if entry.now is _Now.HELD else "revived"].append(fact.key)
            return
        if entry.now is _Now.UNSEEN and not entry.confirmed:
            self._found["recovered"].append(fact.key)
        if entry.doubts < self._doubts:
            # The message may have been in flight to a consumer whose departure the broker had not
            # noticed.
            entry.run = None
            if entry.now is _Now.UNSEEN:
                entry.owes_mark = None
        wrong = fact.marked is not None and fact.marked != entry.owes_mark
        if entry.owes_mark is not None and wrong:
            self._found["mismarked" if fact.marked else "unmarked"].append(fact.key)
        if entry.run is not None:
            line = (fact.consumer, entry.producer, entry.run)
            if entry.number < self._latest.get(line, -1):
                self._found["disordered"].append(fact.key)
            self._latest[line] = max(entry.number, self._latest.get(line, -1))
        entry.now, entry.holder = _Now.HELD, fact.consumer
        self._held.setdefault(fact.consumer, {})[fact.key] = None
        self._believe(fact.key)

    def _returned(self, fact: Returned) -> None:
        held = self.held_by(fact.consumer)
        if not fact.noticed:
            self._doubts += 1
        self._give_back(held, _Now.BACK, owes_mark=True if fact.failed else None)
        if not fact.noticed:
            self._in_doubt[fact.consumer] = set(held)

    def _believe(self, key: Key) -> None:
        """End the doubt about a consumer that held ``key``, because that message was
        redelivered."""
        for consumer in [name for name, keys in self._in_doubt.items() if key in keys]:
            del self._in_doubt[consumer]
            if not self._in_doubt:
                self._runs += 1
                self._unseen_run = self._runs

    def _give_back(self, keys: Iterable[Key], now: _Now, *, owes_mark: bool | None) -> None:
        self._runs += 1
        self._let_go(keys, now)
        ordered = self.order_after_return and not self._in_doubt
        for key in keys:
            entry = self._entries[key]
            entry.run = self._runs if ordered else None
            entry.owes_mark, entry.doubts = owes_mark, self._doubts

    def _let_go(self, keys: Iterable[Key], now: _Now) -> None:
        for key in keys:
            entry = self._entries.get(key)
            if entry is None:  # never sent, which the books already state
                continue
            entry.now = now
            self._held.get(entry.holder, {}).pop(key, None)


def account(facts: Iterable[Fact]) -> Books:
    """Return the books of a complete history that ends with the queue drained."""
    ledger = Ledger()
    for fact in facts:
        ledger.update(fact)
    return ledger.close()


def _owed(entry: _Entry) -> bool:
    missing = entry.now is _Now.UNSEEN and entry.confirmed and not entry.withdrawn
    return missing and not entry.excused


def _is_back(entry: _Entry) -> bool:
    return entry.now is _Now.BACK and not entry.excused
