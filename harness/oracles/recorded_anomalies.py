"""Finds a broker's anomalies in a recording when only the traffic is known.

:mod:`brokerproof.harness.oracles.accounting` serves cases that know their plan. Here only a trace
of some load or a capture is available, so the rules are narrower: anything that a correct broker
could have done is not a violation.

* *phantom*: delivered although nobody in the recording sent it, or its transaction was aborted;
  only if every connection could be read and the queue has senders;
* *shared*: delivered while another consumer of the queue held it; *revived*: delivered again after
  it was settled, or acknowledged by a consumer that is still there;
* *lost*: confirmed and never delivered, while a later message of the same producer was delivered
  from the same queue. Messages after the last one delivered may simply be waiting. This is
  uncertain once a consumer left without the broker's confirmation;
* *disordered*: delivered for the first time after a later message of the same producer, to the same
  subscription, and before any consumer of the queue left;
* *mismarked*: marked as a redelivery the first time; *unmarked*: redelivered after a refusal or a
  lost connection without the mark;
* *overrun*: a delivery began while the window was closed.

Bodies that were sent more than once identify no message and are ignored. Messages with headers that
let a broker reorder or drop them (priority, expiry, …), and queues with selectors, need not keep
order and may retain messages."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeAlias

from brokerproof.harness.model.enums import Vantage
from brokerproof.harness.oracles import capture_gaps, connection_reader
from brokerproof.harness.oracles.connection_reader import ConnectionReader, row
from brokerproof.harness.oracles.expectations import NOTHING, Expectations
from brokerproof.harness.trace.events import ConnectionOpened, Event, FrameReceived, FrameSent
from brokerproof.harness.trace.facts import (
    Delivered,
    End,
    Fact,
    Key,
    Overrun,
    Sent,
    Subscribed,
    UnreadableConnection,
    Unsubscribed,
    When,
)

CHANNELS = 1 << 20
"""A number above all channel numbers of a connection."""
KINDS = ("phantom", "shared", "revived", "lost", "disordered", "mismarked", "unmarked", "overrun")


@dataclass(frozen=True, slots=True, order=True)
class Anomaly:
    """One anomaly: its kind, its location, and the places in the recording that show it
    (``witness``)."""

    kind: str
    queue: str
    conn: int
    subscription: str
    what: str
    witness: tuple[When, ...]
    uncertain: bool = False


@dataclass
class MessageContext:
    """Facts outside a message that affect what happens to it."""

    complete: bool = True
    """True if everything that was sent is known."""
    left: Mapping[tuple[int, str], When] = field(default_factory=dict)
    """When each subscription ended, by connection and name."""
    departed: Mapping[str, When] = field(default_factory=dict)
    """When the first consumer left without a confirmation, by queue."""
    came: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """The highest number delivered, by queue and producer."""
    selective: frozenset[str] = frozenset()
    """Queues of which at least one subscription has a selector."""
    sent_to: frozenset[str] = frozenset()
    """Queues to which at least one connection sent messages."""


def of_message(
    key: Key, sends: Sequence[Sent], gots: Sequence[Delivered], context: MessageContext
) -> Iterator[Anomaly]:
    """Yield the anomalies of one message. ``gots`` are its deliveries, in order of time."""
    if len(sends) > 1:
        return
    sent = sends[0] if sends else None
    if sent is None and gots and context.complete and gots[0].queue in context.sent_to:
        yield _wrong("phantom", gots[0], key, "was delivered but never sent")
        return
    if sent is not None and sent.withdrawn and gots:
        yield _wrong(
            "phantom", gots[0], key, "was delivered, but its transaction was aborted", sent.when
        )
        return
    copies: dict[tuple[int, str], list[Delivered]] = defaultdict(list)
    for got in gots:
        one_for_all = got.anycast or (sent is not None and sent.anycast)
        copies[(-1, got.queue) if one_for_all else (got.conn, got.subscription)].append(got)
    if not (context.complete or key.stamped):
        copies.clear()  # an unreadable frame may have had the same body
    for copy in copies.values():
        yield from _again(key, copy, context)
        # If the subscription of one copy is unknown, another subscription may have received and
        # returned the message.
        if (sent is not None or not context.complete) and (
            copy[0] is gots[0] or copy[0].anycast is not None
        ):
            yield from _first(key, copy[0], context)


def _first(key: Key, got: Delivered, context: MessageContext) -> Iterator[Anomaly]:
    departed = context.departed.get(got.queue)
    if got.marked and context.complete and (departed is None or departed > got.when):
        yield _wrong("mismarked", got, key, "was marked as redelivered when it first arrived")


def _again(key: Key, gots: Sequence[Delivered], context: MessageContext) -> Iterator[Anomaly]:
    for before, after in pairwise(gots):
        left = context.left.get((before.conn, before.subscription))
        gone = left is not None and left < after.when
        if before.ended is None or before.ended > after.when:
            kind, why = "shared", "was delivered while another delivery of it was held"
        elif before.end is End.SETTLED or (before.end is End.ASKED and not gone):
            kind, why = "revived", "was delivered again after it had been settled"
        elif before.end in (End.REFUSED, End.LOST) and not after.marked:
            kind, why = "unmarked", f"was {before.end.value} and arrived again unmarked"
        else:
            continue
        yield _wrong(kind, after, key, why, before.when)


def could_be_lost(sent: Sent, context: MessageContext) -> bool:
    """Return True if a missing message should have arrived, because a later one of its producer
    did."""
    return (
        bool(sent.confirmed and sent.anycast)
        and not sent.strange
        and sent.queue not in context.selective
    )


def missing(key: Key, sent: Sent, context: MessageContext) -> Anomaly:
    """Return a message that was never delivered although a later one was."""
    what = f"{key} was confirmed but never delivered, although a later one of its producer was"
    uncertain = sent.queue in context.departed or not sent.routed
    return Anomaly("lost", sent.queue, sent.conn, "", what, (sent.when,), uncertain)


def first_deliveries(
    sent: Sent, gots: Sequence[Delivered], context: MessageContext
) -> Iterator[tuple[Delivered, bool]]:
    """Return a message's first delivery (on a topic, the first to each subscription), and whether
    the position of that delivery is meaningful."""
    seen: set[tuple[int, str]] = set()
    for got in gots:
        copy = (-1, "") if sent.anycast or got.anycast else (got.conn, got.subscription)
        if copy not in seen:
            seen.add(copy)
            departed = context.departed.get(got.queue)
            again = got.marked and got.anycast is None and sent.anycast is None
            yield got, not sent.strange and not again and (departed is None or departed > got.when)


def _wrong(kind: str, got: Delivered, key: Key, why: str, before: When | None = None) -> Anomaly:
    witness = (got.when,) if before is None else (before, got.when)
    return Anomaly(kind, got.queue, got.conn, got.subscription, f"{key} {why}", witness)


Slot: TypeAlias = tuple[Key, str]


def slot(fact: Sent | Delivered) -> Slot:
    """Return the identity of a message: its stamp, unique within a queue, or its body."""
    return fact.key, fact.queue if fact.key.stamped else ""


def producer_of(sent: Sent) -> int:
    """Return the producer of a message, from its stamp or from its connection and channel (a
    negative number)."""
    return sent.key.producer if sent.key.stamped else -1 - (sent.conn * CHANNELS + sent.channel)


def number_of(sent: Sent) -> int:
    """Return a message's number among those of its producer, from its stamp or its place in the
    recording."""
    return sent.key.number if sent.key.stamped else sent.when[1]


@dataclass
class Line:
    """The first deliveries of one producer's messages to one subscription, in order."""

    latest: int = -1
    latest_when: When = (0, 0)

    def update(
        self, number: int, name: str, queue: str, conn: int, subscription: str, when: When
    ) -> Anomaly | None:
        """Record the next delivery: message ``name``, which has its producer's ``number``."""
        if number < self.latest:
            what = f"{name} arrived after a later one of its producer"
            return Anomaly("disordered", queue, conn, subscription, what, (self.latest_when, when))
        self.latest, self.latest_when = number, when
        return None


def find_anomalies(
    events: Sequence[Event], ground: Expectations = NOTHING, *, whole: bool = True
) -> list[Anomaly]:
    """Return every anomaly of one recording (one example of a case), in order of kind.

    ``whole``: the recording has every connection of the broker. Otherwise, anomalies that depend on
    that are uncertain."""
    since, recorded_facts = capture_gaps.since(events), list(facts(events, ground))
    touching: dict[str, set[int]] = defaultdict(set)
    for fact in recorded_facts:
        if not isinstance(fact, UnreadableConnection):
            touching[fact.queue].add(fact.conn)

    def doubtful(wrong: Anomaly) -> bool:
        instants = [since[conn] for conn in touching[wrong.queue] & since.keys()]
        last = max(when for when, _ in wrong.witness)
        of_queue = min(instants, default=None)
        return capture_gaps.doubtful(
            wrong.kind, last, min(since.values(), default=None), of_queue, whole=whole
        )

    judged = _judged(recorded_facts, readable(events) and whole)
    return sorted(
        replace(anomaly, uncertain=anomaly.uncertain or doubtful(anomaly)) for anomaly in judged
    )


def readable(events: Iterable[Event]) -> bool:
    """Return True if every send is known because all connections use the same one of the tracked
    protocols (:data:`brokerproof.harness.oracles.connection_reader.READABLE`) and only frames were
    written."""
    protocols = set()
    for event in events:
        if (
            isinstance(event, (ConnectionOpened, FrameSent, FrameReceived))
            and event.vantage is not Vantage.BROKER
        ):
            protocols.add(event.protocol)
        if connection_reader.hides(event):
            return False
    return connection_reader.readable(protocols)


def facts(events: Sequence[Event], ground: Expectations = NOTHING) -> Iterator[Fact]:
    """Yield the facts of those connections in a recording that speak STOMP, AMQP 0-9-1 or CORE."""
    readings: dict[int, ConnectionReader] = {}
    for place, event in enumerate(events):
        if event.conn is None or event.vantage is Vantage.BROKER:
            continue
        reading = readings.setdefault(event.conn, ConnectionReader(event.conn, ground))
        yield from reading.read(row(place, event))
    for reading in readings.values():
        yield from reading.end()


def _judged(recorded_facts: Sequence[Fact], complete: bool) -> Iterator[Anomaly]:
    sends: dict[Slot, list[Sent]] = defaultdict(list)
    gots: dict[Slot, list[Delivered]] = defaultdict(list)
    for fact in recorded_facts:
        if isinstance(fact, Sent):
            sends[slot(fact)].append(fact)
        elif isinstance(fact, Delivered):
            gots[slot(fact)].append(fact)
        elif isinstance(fact, Overrun):
            yield Anomaly(
                "overrun", fact.queue, fact.conn, fact.subscription, str(fact), (fact.when,)
            )
    for deliveries in gots.values():
        deliveries.sort(key=lambda got: got.when)
    context = circumstances(recorded_facts, sends, complete)
    firsts: list[tuple[Sent, Delivered]] = []
    for at in sends.keys() | gots.keys():
        key, _ = at
        yield from of_message(key, sends[at], gots[at], context)
        if len(sends[at]) != 1:
            continue
        (sent,) = sends[at]
        firsts += [
            (sent, got) for got, counts in first_deliveries(sent, gots[at], context) if counts
        ]
        overtaken = number_of(sent) < context.came.get((sent.queue, producer_of(sent)), -1)
        if not gots[at] and overtaken and could_be_lost(sent, context):
            yield missing(key, sent, context)
    lines: dict[tuple[int, str, int], Line] = defaultdict(Line)
    for sent, got in sorted(firsts, key=lambda pair: pair[1].when):
        line = lines[got.conn, got.subscription, producer_of(sent)]
        wrong = line.update(
            number_of(sent), str(got.key), got.queue, got.conn, got.subscription, got.when
        )
        if wrong is not None:
            yield wrong


def circumstances(
    recorded_facts: Iterable[Fact], sends: Mapping[Slot, Sequence[Sent]], complete: bool
) -> MessageContext:
    left: dict[tuple[int, str], When] = {}
    departed: dict[str, When] = {}
    came: dict[tuple[str, int], int] = {}
    selective = set()
    for fact in recorded_facts:
        if isinstance(fact, Unsubscribed):
            left[fact.conn, fact.subscription] = fact.when
            if not fact.noticed:
                departed[fact.queue] = min(fact.when, departed.get(fact.queue, fact.when))
        elif isinstance(fact, Subscribed):
            if fact.selective:
                selective.add(fact.queue)
        elif isinstance(fact, Delivered) and len(own := sends.get(slot(fact), ())) == 1:
            flow = fact.queue, producer_of(own[0])
            came[flow] = max(number_of(own[0]), came.get(flow, -1))
    queues = frozenset(got.queue for own in sends.values() for got in own)
    opaque = any(isinstance(fact, UnreadableConnection) for fact in recorded_facts)
    return MessageContext(
        complete and not opaque, left, departed, came, frozenset(selective), queues
    )
