"""Histories of one queue, of any length and over any protocol, and their accounting.

Producers send in one write or in transactions; consumers join, settle cumulatively, and leave while
they hold messages. At the end one consumer receives everything, and
:mod:`brokerproof.harness.oracles.accounting` finds losses, duplicates and reordering.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import strategies as st

from brokerproof.harness.oracles.accounting import (
    Attempted,
    Books,
    Confirmed,
    Delivered,
    Excused,
    Key,
    Ledger,
    Returned,
    Settled,
    Withdrawn,
)
from brokerproof.suites.api import Bench, Target, over, shown
from brokerproof.suites.steps import amounts
from brokerproof.suites.steps.queue_clients import CLIENTS, QueueClient
from brokerproof.suites.steps.queue_model import MEMORY
from brokerproof.suites.steps.queues import QUIET

MOST_COMERS = 5
"""The most consumers that join and leave while holding messages: a broker may dead-letter a message
that is delivered ten times (max-delivery-attempts)."""
WINDOWS_OF_MESSAGES = ("amqp", "amqp091", "openwire")
"""Protocols whose consumers have windows counted in messages."""
AT_PAGES = 8
"""The most messages that a consumer holds at a paging address: brokers read ahead only so far."""


Function = TypeVar("Function", bound=Callable[..., Any])

positions = st.integers(0, amounts.POSITIONS)


@dataclass(frozen=True)
class Sentences:
    """The requirements that the accounting proves: each message is delivered once; a settled one is
    gone; messages of one producer are in order; held ones return."""

    once: str
    gone: str
    order: str | None
    """None if no requirement demands an order; the behaviour ``unordered`` then records it."""
    back: str
    confirmed: str | None = None
    """The requirement that each message is confirmed."""
    order_after_return: bool = True
    """True if returned messages must arrive in order too."""
    atomic: str | None = None
    """The requirement that a transaction has all its messages or none; None: ``once`` covers it."""
    unordered: str = ""
    shared: str | None = None
    """The requirement that nobody else gets what a consumer holds; None: ``once`` covers it."""
    marked: str | None = None
    """The requirement on the mark of redeliveries, if there is any."""
    returns: bool = True
    """If False, a lost consumer's messages must return only if one has returned before."""

    @property
    def ids(self) -> tuple[str, ...]:
        every = (
            *(self.once, self.gone, self.order, self.back),
            *(self.confirmed, self.atomic, self.shared, self.marked),
        )
        return tuple(dict.fromkeys(name for name in every if name is not None))


@dataclass(frozen=True)
class Course:
    """A history: ``waiting`` messages are sent before the first consumer joins, each settlement
    covers ``stride`` messages, and ``comers`` consumers join and leave (if ``lost``, by losing
    their connections). If ``narrow``, the first consumer may hold a third of the messages."""

    waiting: int
    stride: int
    comers: int = 0
    lost: bool = False
    narrow: bool = False


class History:
    """One history in progress."""

    def __init__(
        self,
        target: Bench,
        name: str,
        producer: str,
        consumer: str,
        sentences: Sentences,
        **options: str,
    ) -> None:
        self.target = target
        self.name = name
        self.consumer_protocol = consumer
        self.sentences = sentences
        self.options = options
        """How connections are opened."""
        self.returns = True
        """False if the messages that a lost consumer held may be gone."""
        self.transacted: set[Key] = set()
        self.ledger = Ledger(order_after_return=sentences.order_after_return)
        self.producer = CLIENTS[producer](target, name, **options)
        self.producer.confirmed_by = sentences.confirmed
        self._batches = self._consumers = self.waiting = 0

    def send(self, count: int, end: str = "") -> list[Key]:
        """Send ``count`` messages of a new producer. If ``end`` is given (``commit``, ``abort``),
        they are sent in a transaction that ends in this way."""
        self._batches += 1
        keys = [b"%d/%d" % (self._batches, number) for number in range(count)]
        for key in keys:
            self.ledger.update(Attempted(key, f"producer {self._batches}"))
        if not end:
            self.producer.send(keys)
        else:
            self.transacted.update(keys)
            self.producer.transact(keys, end == "commit")
        for key in keys:
            self.ledger.update(Withdrawn(key) if end == "abort" else Confirmed(key))
        return keys

    def join(self, window: int | None = None) -> tuple[str, QueueClient]:
        """Add a consumer that holds at most ``window`` messages."""
        self._consumers += 1
        client = CLIENTS[self.consumer_protocol](self.target, self.name, **self.options)
        client.join(window)
        return f"consumer {self._consumers}", client

    def take(self, name: str, client: QueueClient, count: int) -> int:
        """Receive ``count`` messages and any that arrived with them; return the number received."""
        before = len(client.held)
        client.receive(count)
        for one in client.held[before:]:
            self.ledger.update(Delivered(one.body, name, one.marked))
        return len(client.held) - before

    def settle(self, client: QueueClient, count: int) -> None:
        """Settle the oldest ``count`` messages that ``client`` holds."""
        keys = tuple(message.body for message in client.held[:count])
        client.settle(count)
        self.ledger.update(Settled(keys))

    def leave(self, name: str, client: QueueClient, lost: bool) -> None:
        """End a consumer that holds messages."""
        known = {message.body for message in client.held}
        client.held += client.taken()
        for message in client.leave(lost):
            if message.body not in known:
                self.ledger.update(Delivered(message.body, name, message.marked))
        if not self.returns:
            self.ledger.update(Excused(tuple(self.ledger.held_by(name))))
        self.ledger.update(Returned(name, failed=lost, noticed=not lost))
        self.ledger.doubt_marks()

    def close(self, stride: int, at_once: int) -> Books:
        """Let a last consumer settle everything, ``stride`` messages at a time, and close the
        books."""
        name, client = self.join()
        due = len(self.ledger.must_come())
        while due > 0:
            arrived = self.take(name, client, min(due, at_once))
            if not arrived and not client.held:
                break
            if arrived < min(due, at_once):
                # The broker has a window of its own.
                at_once = max(1, len(client.held))
                stride = min(stride, at_once)
            due -= arrived
            while len(client.held) >= stride or (client.held and (due <= 0 or at_once < 2**31)):
                self.settle(client, min(stride, len(client.held)))
        self.target.wait_until(lambda: client.peer.ended is not None, QUIET)
        self.take(name, client, 0)
        if self.ledger.must_come():
            self.waiting = len(self.join()[1].receive(1))
        return self.ledger.close()


def play(target: Bench, history: History, course: Course, *, pages: bool) -> Books:
    at_once = AT_PAGES if pages else 2**31
    stride = min(max(1, course.stride), at_once)
    first = course.waiting - course.waiting // 2
    history.send(first)
    unit = course.waiting // 4
    if history.producer.transacts:
        history.send(unit, "commit")
        history.send(min(unit, 50), "abort")
    history.send(course.waiting - first - (unit if history.producer.transacts else 0))
    waiting = len(history.ledger.must_come())
    target.used_amount("waiting messages", waiting)
    target.used_amount("messages in a transaction", unit if history.producer.transacts else 0)
    target.used_amount("frames in a write", first)
    narrow = course.narrow and not pages and history.consumer_protocol in WINDOWS_OF_MESSAGES
    window = max(1, waiting // 3) if narrow else None
    name, client = history.join(window)
    history.take(name, client, min(waiting, at_once, window or waiting))
    target.used_amount("unsettled messages", len(client.held))
    settled = min(stride, len(client.held))
    history.settle(client, settled)
    target.used_amount("messages in a settlement", settled)
    history.leave(name, client, course.lost)
    for _ in range(min(course.comers, MOST_COMERS)):
        name, client = history.join()
        if history.ledger.must_come():
            history.take(name, client, 1)
        history.send(1)
        if client.held:
            history.settle(client, 1)
        history.leave(name, client, course.lost)
    return history.close(stride, at_once)


def judge(history: History, books: Books, what: str) -> None:
    target, sentences, detail = history.target, history.sentences, f"{what}: {books}"
    if history.waiting:
        detail += f"; messages still wait: a later consumer got {history.waiting}"
    wrong = {*books.lost, *books.shared, *books.phantom}
    if sentences.shared is not None:
        wrong -= {*books.shared}
        target.record_finding(sentences.shared, not books.shared, detail)
    if sentences.atomic is not None and not history.producer.transacts:
        target.record_not_applicable((sentences.atomic,), "the broker offers no transactions")
    elif sentences.atomic is not None:
        torn = wrong & history.transacted
        if wrong - torn and not torn & {*books.phantom}:
            why = "messages outside transactions are wrong, too"
            target.record_not_applicable((sentences.atomic,), why)
        else:
            wrong -= torn
            target.record_finding(sentences.atomic, not torn, detail)
    target.record_finding(sentences.once, not wrong, detail)
    target.record_finding(sentences.gone, not books.revived, detail)
    if sentences.order is not None:
        target.record_finding(sentences.order, not books.disordered, detail)
    else:
        order = "in-another-order" if books.disordered else "in-order"
        target.record_behaviour(sentences.unordered, order)
    if sentences.marked is not None:
        marks = not (books.unmarked or books.mismarked)
        target.record_finding(sentences.marked, marks, detail)
    if history.returns:
        target.record_finding(sentences.back, not books.abandoned, detail)
    else:
        target.record_not_applicable((sentences.back,), "one message was not redelivered")


def premise(history: History, lost: bool) -> bool:
    """Control: one message can be sent, received and settled at the queue. Return False if the
    message was not redelivered after its consumer had left (or was lost, if ``lost``) and no
    requirement demands redelivery."""
    target, owed = history.target, history.sentences.returns
    history.send(1)
    for holds in (False,) if owed else (True, False):
        name, client = history.join()
        arrived = history.take(name, client, 1)
        if not owed and not holds and not arrived:
            history.leave(name, client, False)  # otherwise it would take a message of the history
            return False
        target.control(arrived == 1, f"one message was sent and {arrived} arrived")
        if not holds:
            history.settle(client, 1)
        history.leave(name, client, lost and holds)
    return True


def over_courses(
    examples: int, always: Callable[[Target], list[dict[str, object]]], **others: Any
) -> Callable[[Function], Function]:
    """Make a property of a case that plays the :func:`course` of the drawn arguments."""
    return over(
        examples=examples,
        always=always,
        position=positions,
        stride=positions,
        comers=st.integers(0, MOST_COMERS),
        lost=st.booleans(),
        narrow=st.booleans(),
        **others,
    )


def course(
    target: Bench,
    position: int,
    stride: int,
    comers: int,
    lost: bool,
    narrow: bool,
    most: int | None = None,
) -> Course:
    """Return the history for ``position``, with at most ``most`` messages."""
    waiting = amounts.at(target, position, most=most, piped=True)
    return Course(waiting, amounts.at(target, stride, least=1), comers, lost, narrow)


def corners(
    protocols: Callable[[Target], list[str]], ends: int, **others: object
) -> Callable[[Target], list[dict[str, object]]]:
    """The histories that always run: each protocol at either end, settled all together and in
    parts, before a consumer disconnects properly or is lost. Each protocol has one history with the
    largest amount (two if it is the only protocol); the others have a few hundred messages."""

    def always(target: Target) -> list[dict[str, object]]:
        names = protocols(target)
        plans: list[dict[str, object]] = []
        for number, name in enumerate(names):
            other = names[(number + 1) % len(names)]
            place = {"ends": (other, name), "place": MEMORY} if ends else {}
            far, fewer = (
                {"position": position, **place, **others} for position in (0, amounts.MORE)
            )
            parts = {"stride": amounts.SOME, "comers": 5 if number == 0 else 1, "narrow": True}
            at_once = {"stride": 0, "comers": 1, "narrow": False, "lost": False}
            lost = bool(number % 2)
            plans.append({**(fewer if lost else far), **parts, "lost": lost})
            plans.append({**(far if lost or len(names) == 1 else fewer), **at_once})
            if not lost:
                plans.append({**fewer, **parts, "lost": True})
        return sorted(plans, key=lambda plan: plan["position"] == 0)  # small ones are recorded

    return always


def history_of(
    target: Bench,
    sentences: Sentences,
    ends: tuple[str, str],
    course: Course,
    place: str = MEMORY,
    **options: str,
) -> None:
    """Play ``course`` on a fresh queue at ``place`` and judge the queue's accounting."""
    prefix = "" if place == MEMORY else target.full_address(place)
    name = prefix + target.fresh_name()
    returns = premise(History(target, name, *ends, sentences, **options), course.lost)
    history = History(target, name, *ends, sentences, **options)
    history.returns = returns
    books = play(target, history, course, pages=place != MEMORY)
    what = f"{' to '.join(ends)}, {place}, {shown(course)}"
    judge(history, books, what)
