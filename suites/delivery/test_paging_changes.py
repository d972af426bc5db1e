"""Paged messages when things do not go straight: transactions, consumers that go, page mode left
and entered again."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import case, over
from brokerproof.harness.clients.artemis_management import Admin
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.oracles.accounting import (
    Attempted,
    Confirmed,
    Delivered,
    Ledger,
    Returned,
    Settled,
)
from brokerproof.harness.protocols.conversation import PATIENCE
from brokerproof.harness.protocols.stomp.raw_peer import Destination
from brokerproof.suites.steps import paging, small_addresses
from brokerproof.suites.steps.paging import Taker, brief
from brokerproof.suites.steps.queues import QUIET

KEEPS = "ARTEMIS-PAGING-11"
NEEDS = {"stomp-1.2", "address-full", "admin", "paging"}


@case(KEEPS, needs=NEEDS | {"transactions"})
@over(
    examples=6,
    always=lambda target: [
        {"before": 0, "inside": 40, "end": "COMMIT"},
        {"before": 40, "inside": 20, "end": "ABORT"},
    ],
    before=st.sampled_from([0, 5, 15, 40]),
    inside=st.integers(15, 50),
    end=st.sampled_from(["COMMIT", "COMMIT", "ABORT"]),
)
def test_a_transaction_across_the_limit_is_whole(
    target: Bench, before: int, inside: int, end: str
) -> None:
    """A transaction sends past the limit of an address while another producer makes it page. After
    COMMIT all of its messages are there in order, after ABORT none."""
    to, admin = small_addresses.destination(target, "page"), target.admin()
    peer, other = target.stomp(), target.stomp()
    if before:
        paging.send(to, peer, range(before))
    peer.request("BEGIN", {"transaction": "t"})
    paging.send(to, peer, range(before, before + inside), headers={"transaction": "t"})
    paging.send(to, other, range(1000, 1030))
    if not paging.paged(target, admin, to.name):
        return
    peer.request(end, {"transaction": "t"})
    paging.send(to, peer, range(before + inside, before + inside + 10))
    mine = [
        *range(before + (inside if end == "COMMIT" else 0)),
        *range(before + inside, before + inside + 10),
    ]
    if end == "ABORT":
        mine = [*range(before), *range(before + inside, before + inside + 10)]
    delivered = Taker(target, to).all(len(mine) + 30)
    received = (
        [number for number in delivered if number < 1000],
        [number for number in delivered if number >= 1000],
    )
    target.record_finding(
        KEEPS,
        received[0] == mine,
        f"after {end} {brief(mine)} should arrive, arrived {brief(received[0])}",
    )
    others = list(range(1000, 1030))
    target.record_finding(
        KEEPS,
        received[1] == others,
        f"of another producer {brief(others)} should arrive, arrived {brief(received[1])}",
    )


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
    """A consumer of an address that pages leaves with unacknowledged messages. The next one gets
    exactly those and the remaining ones, once, and in order if the broker had confirmed that the
    first was gone."""
    to, admin = small_addresses.destination(target, "page"), target.admin()
    count = 60
    paging.send(to, target.stomp(), range(count))
    if not paging.paged(target, admin, to.name):
        return
    first = Taker(target, to)
    done = first.take(held)
    first.peer.settle()  # what was acknowledged is
    target.control(done == list(range(held)), f"the first {held} messages arrived as {brief(done)}")
    if how is None:
        first.peer.request("UNSUBSCRIBE", {"id": "0"})
    else:
        first.peer.close_socket(how)
    received = Taker(target, to).all(count - held)
    expected = list(range(held, count))
    fine = received == expected if how is None else sorted(received) == expected
    target.record_finding(
        KEEPS,
        fine,
        f"{brief(expected)} were not acknowledged, the next consumer got {brief(received)}",
    )


@dataclass(frozen=True)
class Send:
    """``count`` messages of one producer."""

    producer: int
    count: int


@dataclass(frozen=True)
class Take:
    """The consumer acknowledges ``count`` messages, fewer if there are fewer."""

    count: int


@dataclass(frozen=True)
class Go:
    """The consumer goes, and another one comes."""

    how: CloseHow | None
    """None: by UNSUBSCRIBE."""


class Empty:
    """Everything is consumed, so that page mode may be left."""

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
    """Carries out a plan on one address and keeps the books."""

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
        """Acknowledges that many, as far as there are so many that nobody acknowledged."""
        before = len(self.taker.found)
        more = min(count, self.sent - len(self.settled))
        self.enter(self.taker.take(before + more)[before:])

    def enter(self, numbers: list[int]) -> None:
        """Messages that the consumer received and acknowledged are counted."""
        for number in numbers:
            key = b"%d" % number
            self.ledger.update(
                Delivered(key, f"consumer {self.consumers}", number in self.taker.marked)
            )
            self.ledger.update(Settled((key,)))
            self.settled.add(number)

    def go(self, how: CloseHow | None) -> None:
        """Messages held without acknowledgement are not counted until they are delivered again."""
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
    """Two producers send to an address that pages, consumers take messages or leave, and page mode
    is left and entered again. Every message is acknowledged once, and each consumer gets each
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
    target.record_note(f"everything was consumed: {state}")
