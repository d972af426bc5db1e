"""Credit, acknowledgement and transactions of CORE sessions together: a plan is drawn, and a model
knows after each step what is out, what waits, and which consumers have credit left.

Two things are judged at every stop. No message began without credit, out of order, or after it was
acknowledged. And no consumer has credit while messages wait. Which of several consumers gets a
message is the broker's choice.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import case, over
from brokerproof.harness.model.time import ms
from brokerproof.harness.oracles import core_credit
from brokerproof.harness.protocols.conversation import PATIENCE
from brokerproof.harness.protocols.core.codec import Packet
from brokerproof.harness.protocols.core.raw_peer import CorePeer, delivery
from brokerproof.harness.targets.target import Target
from brokerproof.suites.steps import hindrances
from brokerproof.suites.steps.core import CORE, judge_trace, number_of, queue, sized
from brokerproof.suites.steps.queue_model import (
    MEMORY,
    READ_AHEAD,
    QueueModel,
    place_names,
    places,
)

WINDOW = "ARTEMIS-FLOW-consumer-1"
EACH_ONCE = "ARTEMIS-CONCEPTS-queue-1"
GONE = "ARTEMIS-CONCEPTS-queue-2"
BACK = "ARTEMIS-REDELIVERY-back-1"
FIFO = "ARTEMIS-GROUPING-fifo-1"

AT_ONCE, TRANSACTED = 0, 1
"""Sessions by when their acknowledgements count."""
MOST_CONSUMERS = 3
"""Consumers of one session."""
MOST_ATTEMPTS = 6
"""Deliveries of one message behind which nothing gives it back: brokers give up after some ten."""
STOPPED = ms(50)
"""How long a surplus message is waited for at each stop; one that is later is judged at the
next."""


@dataclass(frozen=True)
class Publish:
    """So many messages of this cost."""

    count: int
    cost: int


@dataclass(frozen=True)
class Consume:
    """A consumer without credit begins."""

    session: int


@dataclass(frozen=True)
class Credit:
    """A consumer gets credit in bytes: 0 takes away what is left, -1 the limit."""

    which: int
    size: int


@dataclass(frozen=True)
class CloseConsumer:
    """A consumer ends; what it did not acknowledge goes back."""

    which: int


@dataclass(frozen=True)
class Acknowledge:
    """A delivery of a consumer is acknowledged, and unless it is ``one`` alone every older one."""

    which: int
    delivery: int
    one: bool


@dataclass(frozen=True)
class End:
    """The transaction ends. A rollback gives back whatever the session has out."""

    commit: bool


@dataclass(frozen=True)
class Pause:
    """A session is stopped and started; meanwhile a consumer gets credit."""

    session: int
    which: int
    size: int


Step = Publish | Consume | Credit | CloseConsumer | Acknowledge | End | Pause
SESSIONS, WHICH = st.sampled_from([AT_ONCE, TRANSACTED]), st.integers(0, 5)
OCTETS = st.sampled_from([1, 200, 324, 325, 326, 1000, 5000])
PUBLISH = st.builds(Publish, st.integers(1, 5), st.sampled_from([0, 300, 300, 2000]))
CREDIT = st.builds(Credit, WHICH, OCTETS)
ACKNOWLEDGE = st.builds(Acknowledge, WHICH, st.integers(0, 9), st.booleans())
STEPS = st.one_of(
    PUBLISH,
    PUBLISH,
    st.builds(Consume, SESSIONS),
    CREDIT,
    CREDIT,
    st.builds(Credit, WHICH, st.sampled_from([0, 0, -1])),
    ACKNOWLEDGE,
    ACKNOWLEDGE,
    st.builds(CloseConsumer, WHICH),
    st.builds(End, st.booleans()),
    st.builds(Pause, SESSIONS, WHICH, OCTETS),
)


@dataclass(eq=False)
class Consumer:
    """A consumer; ``credit`` is None without limit, and may be below zero."""

    session: int
    id: int
    credit: int | None = 0
    out: list[Packet] = field(default_factory=list)

    @property
    def has_room(self) -> bool:
        return self.credit is None or self.credit > 0

    def __str__(self) -> str:
        return f"consumer {self.id} of session {self.session} (credit {self.credit})"


@dataclass
class Run:
    """A plan on its way. ``pending`` is acknowledged in the open transaction."""

    target: Bench
    name: str
    producer: CorePeer
    peers: tuple[CorePeer, CorePeer]
    place: str
    model: QueueModel = field(default_factory=QueueModel)
    consumers: list[Consumer] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    attempts: dict[int, int] = field(default_factory=dict)
    stopped: int | None = None

    def step(self, step: Step) -> None:
        """One step of the plan, at the broker and in the model, up to its stop."""
        match step:
            case Publish(count, cost):
                for _ in range(count):
                    self.producer.publish(sized(self.name, self.model.publish(), cost))
            case Consume(session):
                self._consume(session)
            case Credit(which, size) if self.consumers:
                self._credit(self.consumers[which % len(self.consumers)], size)
            case CloseConsumer(which) if self.consumers:
                self._close(self.consumers[which % len(self.consumers)])
            case Acknowledge(which, number, one):
                self._acknowledge(which, number, one)
            case End(commit):
                self._end(commit)
            case Pause(session, which, size) if self.consumers:
                self._pause(session, self.consumers[which % len(self.consumers)], size)
        self.stop(str(step))

    def _consume(self, session: int) -> None:
        ids = {consumer.id for consumer in self.consumers if consumer.session == session}
        if len(ids) < MOST_CONSUMERS:
            id = min(set(range(MOST_CONSUMERS)) - ids)  # so that numbers are used again
            self.peers[session].create_consumer(self.name, id)
            self.consumers.append(Consumer(session, id))

    def _credit(self, consumer: Consumer, size: int) -> None:
        if consumer.credit is None:
            return  # no client gives more to a consumer without limit
        self.peers[consumer.session].credit(size, consumer.id)
        consumer.credit = None if size < 0 else consumer.credit + size if size else 0

    def _close(self, consumer: Consumer) -> None:
        numbers = [number_of(packet) for packet in consumer.out]
        if not self._tired(numbers):
            self.peers[consumer.session].close_consumer(consumer.id)
            self.consumers.remove(consumer)
            self.model.give_back(numbers)

    def _tired(self, numbers: list[int]) -> bool:
        return any(self.attempts[number] >= MOST_ATTEMPTS for number in numbers)

    def _acknowledge(self, which: int, number: int, one: bool) -> None:
        holders = [consumer for consumer in self.consumers if consumer.out]
        if not holders:
            return
        consumer = holders[which % len(holders)]
        place = number % len(consumer.out)
        first = place if one else 0
        settled = consumer.out[first : place + 1]
        del consumer.out[first : place + 1]
        self.peers[consumer.session].acknowledge(settled[-1], one=one, proves=EACH_ONCE)
        if consumer.session == TRANSACTED:
            self.pending += map(number_of, settled)

    def _end(self, commit: bool) -> None:
        out = [consumer for consumer in self.consumers if consumer.session == TRANSACTED]
        numbers = [number_of(packet) for consumer in out for packet in consumer.out]
        if not commit and self._tired([*numbers, *self.pending]):
            return
        peer = self.peers[TRANSACTED]
        if commit:
            peer.call("commit")
        else:
            peer.call("rollback", {"last-delivered": False})
            self.model.give_back([*numbers, *self.pending])
            for consumer in out:
                consumer.out.clear()
        self.pending.clear()

    def _pause(self, session: int, consumer: Consumer, size: int) -> None:
        """Give credit while nothing may be delivered, and start again."""
        self.peers[session].stop()
        self.stopped = session
        self._credit(consumer, size)
        self.stop("the stop of a session")
        self.peers[session].start()
        self.stopped = None

    def stop(self, after: str) -> None:
        """Wait until nothing more should arrive, and a little longer; judge what arrived."""
        rest = self.target.wait_until(lambda: self._take(after) or not self._idle(), PATIENCE)
        for peer in self.peers:
            peer.settle()
        self.target.advance(STOPPED)
        self._take(after)
        idle = ", ".join(map(str, self._idle())) or "nobody"
        detail = f"after {after}: {idle} has credit while {len(self.model.waiting)} messages wait"
        self.target.require((WINDOW, BACK), rest and idle == "nobody", detail)

    def _idle(self) -> list[Consumer]:
        out = sum(packet.size for consumer in self.consumers for packet in consumer.out)
        if not self.model.waiting or (self.place != MEMORY and out >= READ_AHEAD):
            return []
        return [
            consumer
            for consumer in self.consumers
            if consumer.has_room and consumer.session != self.stopped
        ]

    def _take(self, after: str) -> bool:
        """Judge the messages that have arrived; return True if a connection is over."""
        arrivals = []
        for consumer in self.consumers:
            packets = self.peers[consumer.session].delivered(consumer.id)
            for packet in packets:
                self._arrived(consumer, packet, after)
            arrivals.append([number_of(packet) for packet in packets])
        numbers = [number for arrived in arrivals for number in arrived]
        strangers = self.model.strangers(numbers)
        detail = f"after {after}: {strangers} of {numbers} arrived and did not wait"
        self.target.require((GONE, EACH_ONCE), not strangers, detail)
        disorder = self.model.disorder(arrivals)
        self.target.record_finding(FIFO, not disorder, f"after {after}: {disorder or 'in order'}")
        self.model.take(numbers)
        for number in numbers:
            self.attempts[number] = self.attempts.get(number, 0) + 1
        for peer in self.peers:
            over = peer.ended is not None or any(map(peer.fatal, peer.inbox))
            instead = peer.instead() if over else "the session goes on"
            self.target.require(EACH_ONCE, not over, f"after {after}: {instead}")
            late = [packet for packet in peer.inbox if delivery().accepts(packet)]
            self.target.require(EACH_ONCE, not late, f"after {after}: {late} for no consumer")
        return False

    def _arrived(self, consumer: Consumer, packet: Packet, after: str) -> None:
        detail = f"after {after}: {number_of(packet)} arrived for {consumer}"
        self.target.require(WINDOW, consumer.has_room, detail)
        if consumer.credit is not None:
            consumer.credit -= packet.size
        consumer.out.append(packet)

    def finish(self) -> None:
        """End the sessions: all that was not acknowledged can be had, in order."""
        for consumer in self.consumers:
            self.model.give_back([number_of(packet) for packet in consumer.out])
        self.model.give_back(self.pending)
        for peer in self.peers:
            peer.close()
        owed = len(self.model.waiting)
        heir = self.target.core()
        heir.create_consumer(self.name)
        heir.credit(-1)

        def here() -> int:
            return sum(delivery(0).accepts(packet) for packet in heir.inbox)

        self.target.wait_until(lambda: here() >= owed, PATIENCE)
        got = [number_of(packet) for packet in heir.all_delivered()]
        left = self.model.waiting
        detail = f"in the end {left} are left, and {got} arrived"
        self.target.record_finding((EACH_ONCE, BACK), set(left) <= set(got), detail)
        self.target.record_finding(GONE, set(got) <= set(left), detail)
        self.target.record_finding(FIFO, got == sorted(got), detail)


def corners(target: Target) -> list[dict[str, object]]:
    """Histories that need more than a few steps: ranges that are rolled back and delivered again
    within the credit that is left, numbers of consumers that are used again, and many rounds; in
    memory and with pages."""
    begin: list[Step] = [Consume(TRANSACTED), Consume(AT_ONCE), Consume(AT_ONCE), Publish(9, 300)]
    histories: list[dict[str, object]] = [
        {
            "rounds": 1,
            "steps": [
                *begin,
                *begin[-1:] * 2,
                Credit(0, 1000),
                Credit(0, 2000),
                Acknowledge(0, 1, False),
                Acknowledge(0, 1, True),
                End(False),
                Credit(0, 0),
                Credit(0, 1),
                Credit(2, 1),
                Pause(AT_ONCE, 1, 326),
                Credit(1, 1000),
                CloseConsumer(1),
                Consume(AT_ONCE),
                Credit(2, 1000),
                Acknowledge(1, 0, False),
                CloseConsumer(2),
            ],
        },
        {
            "rounds": 6,
            "steps": [
                *begin,
                Credit(0, 1000),
                Credit(0, 2000),
                Acknowledge(0, 2, False),
                Acknowledge(0, 1, True),
                End(True),
                Credit(0, 0),
                Credit(1, 1000),
                Acknowledge(1, 3, False),
                CloseConsumer(1),
            ],
        },
    ]
    places = reversed(place_names(target)[:2])
    placed = [{"place": place, **history} for place in places for history in histories]
    return hindrances.each_once(target, placed)


@case(WINDOW, EACH_ONCE, GONE, BACK, FIFO, needs={CORE})
@over(
    examples=30,
    always=corners,
    place=places,
    hindered_by=hindrances.pairs,
    rounds=st.sampled_from([1, 1, 1, 3]),
    steps=st.lists(STEPS, min_size=4, max_size=20),
)
def test_sessions_do_what_the_model_says(
    target: Bench, place: str, hindered_by: list[str], rounds: int, steps: list[Step]
) -> None:
    """Consumers of a queue begin and end in two sessions, one of them transacted, while credit,
    acknowledgements and transactions change as drawn and other clients hinder. After each step the
    deliveries are those of the model. In the end, when nothing hinders, all that was not
    acknowledged can be had.

    One scenario: the requirements are the model.
    """
    name = queue(target, target.core(), "" if place == MEMORY else target.full_address(place))
    with hindrances.hindered(target, hindered_by, target.destination(name=name)):
        peers = target.core(), target.core(auto_commit_acks=False)
        run = Run(target, name, target.core(), peers, place)
        for step in [*steps * rounds, Publish(1, 300), Consume(AT_ONCE), Credit(-1, 5000)]:
            run.step(step)
    run.finish()
    judge_trace(target, peers[AT_ONCE], core_credit.consumers)
