"""Accounting: no message is lost, duplicated, invented or overtaken, whatever clients do."""

from dataclasses import dataclass

from hypothesis import strategies as st

from brokerproof.harness.oracles.accounting import (
    Attempted,
    Books,
    Confirmed,
    Delivered,
    Key,
    Ledger,
    Refused,
    Returned,
    Settled,
    Withdrawn,
)
from brokerproof.suites.api import PATIENCE, Bench, CloseHow, case, over
from brokerproof.suites.api.stomp import Destination, Frame, StompPeer
from brokerproof.suites.steps.queues import QUIET

ONE_CONSUMER = "ARTEMIS-CONCEPTS-queue-1"
GONE_WHEN_ACKNOWLEDGED = "ARTEMIS-CONCEPTS-queue-2"
FIFO = "ARTEMIS-GROUPING-fifo-1"
REDELIVERED = "ARTEMIS-REDELIVERY-back-1"
MARKED = "ARTEMIS-REDELIVERY-marked-1"

PRODUCERS, CONSUMERS = 2, 3
LONGEST = 9
"""The most steps of a plan. With these, no message is delivered ten times, after which a broker may
dead-letter it (max-delivery-attempts)."""


@dataclass(frozen=True)
class Send:
    """Send ``count`` messages, outside any transaction ("") or in one that ends this way."""

    producer: int
    count: int
    end: str


@dataclass(frozen=True)
class Join:
    """A consumer subscribes unless it is subscribed already."""

    consumer: int
    ack: str


@dataclass(frozen=True)
class Answer:
    """ACK or NACK a message that a consumer holds (an index modulo their number)."""

    consumer: int
    command: str
    which: int


@dataclass(frozen=True)
class Leave:
    """A consumer leaves by UNSUBSCRIBE, by DISCONNECT, or by losing its connection."""

    consumer: int
    how: str


consumers = st.integers(0, CONSUMERS - 1)
sends = st.builds(
    Send,
    st.integers(0, PRODUCERS - 1),
    st.integers(1, 3),
    st.sampled_from(["", "", "COMMIT", "ABORT"]),
)
joins = st.builds(Join, consumers, st.sampled_from(["client", "client-individual"]))
replies = st.builds(Answer, consumers, st.sampled_from(["ACK", "ACK", "NACK"]), st.integers(0, 9))
leaves = st.builds(
    Leave, consumers, st.sampled_from(["UNSUBSCRIBE", "DISCONNECT", CloseHow.EOF, CloseHow.RESET])
)
plans = st.lists(
    st.one_of(sends, sends, joins, replies, replies, leaves), min_size=2, max_size=LONGEST
)


class Play:
    """Carry out a plan on one queue and keep the ledger."""

    def __init__(self, target: Bench, queue: Destination) -> None:
        self.target, self.queue, self.ledger = target, queue, Ledger()
        self.producers = [target.stomp("1.2") for _ in range(PRODUCERS)]
        self.consumers: dict[int, tuple[str, StompPeer, str]] = {}
        self.unanswered: dict[str, list[Frame]] = {}
        self._messages = self._names = 0

    def step(self, step: Send | Join | Answer | Leave) -> None:
        match step:
            case Send():
                self.send(step)
            case Join():
                if step.consumer not in self.consumers:
                    self.join(step.consumer, step.ack)
            case Answer():
                if step.consumer in self.consumers:
                    self.answer(step)
            case Leave():
                if step.consumer in self.consumers:
                    self.leave(step.consumer, step.how)

    def send(self, step: Send) -> None:
        producer = self.producers[step.producer]
        self._names += 1
        within = {"transaction": f"{producer.transaction}-{self._names}"} if step.end else {}
        if step.end:
            producer.request("BEGIN", within)
        keys: list[Key] = []
        for _ in range(step.count):
            self._messages += 1
            keys.append(f"m{self._messages}".encode())
            self.ledger.update(Attempted(keys[-1], f"producer {step.producer}"))
            producer.publish(self.queue, keys[-1], within)
        if step.end:
            producer.request(step.end, within)
        for key in keys:
            self.ledger.update(Withdrawn(key) if step.end == "ABORT" else Confirmed(key))

    def join(self, slot: int, ack: str) -> StompPeer:
        self._names += 1
        name = f"consumer {self._names}"
        peer = self.target.stomp("1.2")
        peer.subscribe(self.queue, "s", ack=ack)
        self.consumers[slot] = (name, peer, ack)
        self.unanswered[name] = []
        return peer

    def look(self, slot: int, *, settle: bool = True) -> None:
        """Record the messages that a consumer received; ``settle``: first wait for those in
        flight."""
        name, peer, _ = self.consumers[slot]
        if settle:
            peer.settle()
        for message in peer.take_messages():
            marked = message.get("redelivered") == "true"
            self.ledger.update(Delivered(message.body, name, marked))
            self.unanswered[name].append(message)

    def answer(self, step: Answer) -> None:
        name, peer, ack = self.consumers[step.consumer]
        self.look(step.consumer)
        waiting = self.unanswered[name]
        if not waiting:
            return
        at = step.which % len(waiting)
        covered = waiting[: at + 1] if ack == "client" else waiting[at : at + 1]
        peer.request(step.command, peer.naming(waiting[at]))
        self.unanswered[name] = [key for key in waiting if key not in covered]
        keys = tuple(message.body for message in covered)
        self.ledger.update(Settled(keys) if step.command == "ACK" else Refused(keys))

    def leave(self, slot: int, how: str) -> None:
        self.look(slot)
        name, peer, _ = self.consumers[slot]
        if how == "UNSUBSCRIBE":
            peer.request("UNSUBSCRIBE", {"id": "s"})
            self.look(slot, settle=False)
        elif how == "DISCONNECT":
            peer.request("DISCONNECT")
            self.look(slot, settle=False)
            peer.close_socket()
        else:
            peer.close_socket(CloseHow(how))
        del self.consumers[slot]
        self.ledger.update(
            Returned(name, failed=how in tuple(CloseHow), noticed=how == "UNSUBSCRIBE")
        )

    def balance(self) -> Books:
        """All clients leave, a last consumer consumes the remaining messages, and the ledger is
        closed."""
        for slot in list(self.consumers):
            self.leave(slot, "DISCONNECT")
        last = self.join(CONSUMERS, "auto")

        def all_here() -> bool:
            return {
                message.body for message in last.inbox if message.command == "MESSAGE"
            } >= self.ledger.must_come()

        self.target.wait_until(lambda: all_here() or last.ended is not None, PATIENCE)
        self.target.wait_until(lambda: last.ended is not None, QUIET)
        self.look(CONSUMERS, settle=False)
        return self.ledger.close()


@case(
    ONE_CONSUMER,
    GONE_WHEN_ACKNOWLEDGED,
    FIFO,
    REDELIVERED,
    MARKED,
    needs={"queue-semantics", "redelivered-header", "transactions", "nack"},
)
@over(examples=150, plan=plans)
def test_the_books_of_a_queue_balance(
    target: Bench, plan: list[Send | Join | Answer | Leave]
) -> None:
    """Two producers send to a queue, in transactions or not, while up to three consumers join,
    leave, acknowledge and refuse. Every confirmed message is consumed once, in its producer's
    order, and redeliveries are marked. One scenario: the requirements constrain the same
    history."""
    play = Play(target, target.destination())
    for step in plan:
        play.step(step)
    books = play.balance()
    target.record_finding(
        ONE_CONSUMER, not (books.lost or books.shared or books.phantom), str(books)
    )
    target.record_finding(GONE_WHEN_ACKNOWLEDGED, not books.revived, str(books))
    target.record_finding(FIFO, not books.disordered, str(books))
    target.record_finding(REDELIVERED, not books.abandoned, str(books))
    target.record_finding(MARKED, not (books.unmarked or books.mismarked), str(books))
