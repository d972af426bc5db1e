"""Paged messages with transactions and consumers that leave; page mode is left and reentered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from brokerproof.harness.clients.artemis_management import Admin
from brokerproof.harness.oracles.accounting import (
    Attempted,
    Confirmed,
    Delivered,
    Ledger,
    Returned,
    Settled,
)
from brokerproof.suites.amqp10.transaction_steps import control, post
from brokerproof.suites.api import PATIENCE, Bench, CloseHow, Target, case, over
from brokerproof.suites.api.stomp import Destination
from brokerproof.suites.steps import paging, small_addresses
from brokerproof.suites.steps.paging import Taker, brief
from brokerproof.suites.steps.queues import QUIET
from brokerproof.suites.steps.small_addresses import page_of

KEEPS = "ARTEMIS-PAGING-11"
REMOVED = "ARTEMIS-PAGING-3"
NEEDS = {"stomp-1.2", "address-full", "admin", "paging"}


class StompTransaction:
    def __init__(self, target: Bench, to: Destination) -> None:
        self.to = to
        self.peer = target.stomp()
        self.peer.request("BEGIN", {"transaction": self.peer.transaction})

    def send(self, numbers: Sequence[int]) -> None:
        paging.send(self.to, self.peer, numbers, headers={"transaction": self.peer.transaction})

    def end(self, how: str) -> None:
        """Commit, roll back, or close the connection."""
        if how == CLOSED:
            self.peer.close_socket()
        else:
            self.peer.request(
                "COMMIT" if how == COMMITTED else "ABORT", {"transaction": self.peer.transaction}
            )


class AmqpTransaction:
    def __init__(self, target: Bench, to: Destination) -> None:
        self.target = target
        self.peer, self.link = small_addresses.producer(target, small_addresses.same(to))
        self.coordinator = control(target, self.peer)
        self.id = self.coordinator.declare()

    def send(self, numbers: Sequence[int]) -> None:
        """Post messages with these numbers in the transaction."""
        for number in numbers:
            data = small_addresses.body(number, paging.SIZE)
            post(self.target, self.peer, self.link, self.id, data, settled=True)
        self.peer.settle()

    def end(self, how: str) -> None:
        """Discharge with success or failure, or close the connection."""
        if how == CLOSED:
            self.peer.close_socket()
        else:
            self.coordinator.discharge(self.id, fail=how == ROLLED_BACK)


COMMITTED, ROLLED_BACK, CLOSED = ENDS = (
    "committed",
    "rolled back",
    "open when its connection closed",
)
BEFORE, INSIDE, PAGE_END = "began before page mode", "began in page mode", "has the end of a page"
TRANSACTIONS: Mapping[str, tuple[str, type[StompTransaction] | type[AmqpTransaction]]] = {
    "stomp": ("transactions", StompTransaction),
    "amqp": ("amqp-transactions", AmqpTransaction),
}


def protocols(target: Target) -> list[str]:
    capabilities = target.identity.capabilities
    return [name for name, (needed, _) in TRANSACTIONS.items() if needed in capabilities]


def corners(target: Target) -> list[dict[str, object]]:
    """Each end of a transaction over each protocol; some transactions begin before page mode."""
    return [
        {"before": before, "inside": 60 - before, "end": end, "protocol": protocol}
        for protocol in protocols(target)
        for before, end in ((40, COMMITTED), (40, ROLLED_BACK), (0, CLOSED))
    ]


@case(KEEPS, REMOVED, needs=NEEDS)
@over(
    examples=6,
    always=corners,
    situations=lambda target: (BEFORE, INSIDE, PAGE_END, *ENDS, *protocols(target)),
    before=st.sampled_from([0, 5, 15, 40]),
    inside=st.integers(15, 50),
    end=st.sampled_from([COMMITTED, *ENDS]),
    protocol=lambda target: st.sampled_from(protocols(target)),
)
def test_a_transaction_across_the_limit_is_whole(
    target: Bench, before: int, inside: int, end: str, protocol: str
) -> None:
    """A transaction sends beyond the limit of an address while another producer makes it page.
    After a commit all messages of the transaction arrive, in order; after a rollback or the close
    of its connection none do. Once everything is consumed, no page is left.

    One scenario: messages that are rolled back must not keep their pages.
    """
    to, admin = small_addresses.destination(target, "page"), target.admin()
    producer, other = target.stomp(), target.stomp()
    if before:
        paging.send(to, producer, range(before))
    transaction = TRANSACTIONS[protocol][1](target, to)
    target.reached(INSIDE if before and admin.address(to.name).paging else BEFORE)
    transaction.send(range(before, before + inside))
    paging.send(to, other, range(1000, 1030))
    if not paging.paged(target, admin, to.name):
        return
    transaction.end(end)
    target.reached(end)
    target.reached(protocol)
    if inside * paging.SIZE > page_of(target):
        target.reached(PAGE_END)
    tail = range(before + inside, before + inside + 10)
    paging.send(to, producer, tail)
    mine = [*range(before + (inside if end == COMMITTED else 0)), *tail]
    taker = Taker(target, to)
    delivered = taker.all(len(mine) + 30)
    received = (
        [number for number in delivered if number < 1000],
        [number for number in delivered if number >= 1000],
    )
    words = f"of a transaction over {protocol} that was {end},"
    detail = f"{words} {brief(received[0])} arrived; expected {brief(mine)}"
    target.record_finding(KEEPS, received[0] == mine, detail)
    others = list(range(1000, 1030))
    target.record_finding(
        KEEPS,
        received[1] == others,
        f"of another producer's messages, {brief(received[1])} arrived; expected {brief(others)}",
    )
    taker.peer.settle()
    state, gone = admin.until(to.name, lambda status: not status.paging and status.pages == 0)
    target.record_finding(REMOVED, gone, f"{words} everything is consumed; the address has {state}")


@case(KEEPS, needs=NEEDS)
@over(
    examples=6,
    always=lambda target: [{"held": 5, "how": None}, {"held": 12, "how": CloseHow.RESET}],
    held=st.integers(1, 20),
    how=st.sampled_from([None, CloseHow.EOF, CloseHow.RESET]),
)
def test_what_a_consumer_did_not_acknowledge_comes_again(
    target: Bench, held: int, how: CloseHow | None
) -> None:
    """A consumer of a paging address leaves with unacknowledged messages. The next one gets exactly
    those and the remaining messages, once, and in order if the broker had confirmed the first one's
    departure."""
    to, admin = small_addresses.destination(target, "page"), target.admin()
    count = 60
    paging.send(to, target.stomp(), range(count))
    if not paging.paged(target, admin, to.name):
        return
    first = Taker(target, to)
    done = first.take(held)
    first.peer.settle()  # the acknowledged ones are
    target.control(done == list(range(held)), f"the first {held} messages arrived as {brief(done)}")
    if how is None:
        first.peer.request("UNSUBSCRIBE", {"id": "0"})
    else:
        first.peer.close_socket(how)
    received = Taker(target, to).all(count - held)
    expected = list(range(held, count))
    fine = received == expected if how is None else sorted(received) == expected
    detail = f"{brief(expected)} were not acknowledged; the next consumer got {brief(received)}"
    target.record_finding(KEEPS, fine, detail)


@dataclass(frozen=True)
class Send:
    """Send ``count`` messages of one producer."""

    producer: int
    count: int


@dataclass(frozen=True)
class Take:
    """The consumer acknowledges ``count`` messages, or all if there are fewer."""

    count: int


@dataclass(frozen=True)
class Go:
    how: CloseHow | None
    """None means by UNSUBSCRIBE."""


class Empty:
    """Consume everything, so that the address can leave page mode."""

    def __repr__(self) -> str:
        return "Empty()"


EMPTY = Empty()
Step = Send | Take | Go | Empty
steps = st.one_of(
    st.builds(Send, st.integers(0, 1), st.integers(1, 25)),
    st.builds(Send, st.integers(0, 1), st.integers(1, 25)),
    st.builds(Take, st.integers(1, 30)),
    st.builds(Go, st.sampled_from([None, CloseHow.EOF, CloseHow.RESET])),
    st.just(EMPTY),
)
AGAIN: list[Step] = [
    Take(10),
    Send(1, 20),
    EMPTY,
    Send(0, 25),
    Go(CloseHow.RESET),
    Take(5),
    Send(1, 15),
]


class Play:
    """Carry out a plan on one address and keep the ledger."""

    def __init__(self, target: Bench, to: Destination) -> None:
        self.target, self.to, self.ledger = target, to, Ledger()
        self.producers = [target.stomp() for _ in range(2)]
        self.sent = 0
        self.settled: set[int] = set()
        self.consumers = 0
        self.taker = self.join()

    def join(self) -> Taker:
        self.consumers += 1
        self.taker = Taker(self.target, self.to)
        return self.taker

    def send(self, step: Send) -> None:
        numbers = range(self.sent, self.sent + step.count)
        for number in numbers:
            self.ledger.update(Attempted(b"%d" % number, f"producer {step.producer}"))
        paging.send(self.to, self.producers[step.producer], numbers)
        self.sent += step.count
        for number in numbers:
            self.ledger.update(Confirmed(b"%d" % number))

    def take(self, count: int) -> None:
        """Acknowledge ``count`` messages, or all unacknowledged ones if there are fewer."""
        before = len(self.taker.found)
        more = min(count, self.sent - len(self.settled))
        self.enter(self.taker.take(before + more)[before:])

    def enter(self, numbers: list[int]) -> None:
        """Record the messages that the consumer received and acknowledged."""
        for number in numbers:
            key = b"%d" % number
            self.ledger.update(
                Delivered(key, f"consumer {self.consumers}", number in self.taker.marked)
            )
            self.ledger.update(Settled((key,)))
            self.settled.add(number)

    def go(self, how: CloseHow | None) -> None:
        """Leave. Held messages are not recorded until they are delivered again."""
        self.taker.peer.settle()
        if how is None:
            self.taker.peer.request("UNSUBSCRIBE", {"id": "0"})
        else:
            self.taker.peer.close_socket(how)
        self.ledger.update(
            Returned(f"consumer {self.consumers}", failed=how is not None, noticed=how is None)
        )
        self.join()


@case(KEEPS, needs=NEEDS)
@over(
    examples=15,
    always=lambda target: [{"plan": AGAIN}],
    plan=st.lists(steps, min_size=1, max_size=8),
)
def test_the_books_of_a_paged_queue_balance(target: Bench, plan: list[Step]) -> None:
    """Two producers send to a paging address, consumers consume messages or leave, and page mode is
    left and entered again. Every message is acknowledged once, and each consumer gets each
    producer's messages in order."""
    play, admin = Play(target, small_addresses.destination(target, "page")), target.admin()
    play.taker.peer.request("UNSUBSCRIBE", {"id": "0"})
    play.send(Send(0, 30))
    if not paging.paged(target, admin, play.to.name):
        return
    play.join()
    for step in plan:
        match step:
            case Send():
                play.send(step)
            case Take():
                play.take(step.count)
            case Go():
                play.go(step.how)
            case Empty():
                _emptied(target, admin, play)
    play.take(play.sent)
    before = len(play.taker.found)
    play.enter(play.taker.rest()[before:])
    books = play.ledger.close()
    bad = books.lost or books.phantom or books.shared or books.revived or books.disordered
    target.record_finding(KEEPS, not bad, str(books))


def _emptied(target: Bench, admin: Admin, play: Play) -> None:
    play.take(play.sent)
    target.wait_until(lambda: False, QUIET)
    state, _ = admin.until(play.to.name, lambda status: not status.paging, PATIENCE)
    target.record_note(f"everything was consumed; the address has {state}")
