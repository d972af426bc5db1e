"""Credit, acknowledgement and transactions of CORE sessions together, judged by a model.

Each example draws a plan. After each step the model knows which messages are delivered, which wait,
and which consumers have credit left. At every stop two things are judged: no message was delivered
without credit, out of order, or after its acknowledgement; and no consumer has credit while
messages wait. The broker may choose which of several consumers gets a message.
"""

from dataclasses import dataclass, field

from hypothesis import strategies as st

from brokerproof.harness.oracles import core_credit
from brokerproof.suites.api import (
    PATIENCE,
    RECONFIGURABLE,
    Bench,
    Clock,
    Target,
    case,
    listed,
    ms,
    over,
    shown,
)
from brokerproof.suites.api.core import CorePeer, Packet, delivery
from brokerproof.suites.steps import hindrances, stalls
from brokerproof.suites.steps.core import CORE, number_of, queue, sized
from brokerproof.suites.steps.queue_model import MEMORY, READ_AHEAD, QueueModel, place_names, places
from brokerproof.suites.steps.stalls import STALLED
from brokerproof.suites.steps.strategies import some_kinds
from brokerproof.suites.steps.traces import judge_trace

WINDOW = "ARTEMIS-FLOW-consumer-1"
EACH_ONCE = "ARTEMIS-CONCEPTS-queue-1"
GONE = "ARTEMIS-CONCEPTS-queue-2"
BACK = "ARTEMIS-REDELIVERY-back-1"
FIFO = "ARTEMIS-GROUPING-fifo-1"

BELOW_ZERO = "a message takes a consumer's credit below zero"
TAKEN_AWAY = "credit is taken away while messages wait"
PASSED_OVER = "an acknowledgement of one message passes over an older one"
ROLLED_BACK = "a rollback gives back what was acknowledged"
CREDIT_LEFT = "a rollback gives messages back to a consumer that has credit left"
NUMBER_AGAIN = "the number of a consumer is used again"
STOPPED_SESSION = "a stopped session has credit for messages that wait"
OTHER_CONSUMER = "a message that came back arrives for another consumer"
PAGED = "messages wait at an address that pages"
SITUATIONS = (
    BELOW_ZERO,
    TAKEN_AWAY,
    PASSED_OVER,
    ROLLED_BACK,
    NUMBER_AGAIN,
    STOPPED_SESSION,
    OTHER_CONSUMER,
)
AT_ONCE, TRANSACTED = 0, 1
"""Two sessions, by the time when their acknowledgements take effect."""
MOST_CONSUMERS = 3
"""Consumers of one session."""
MOST_ATTEMPTS = 6
"""After this many deliveries no step returns a message: brokers dead-letter it after about ten."""
STOPPED = ms(50)
"""At each stop, wait this long for a surplus message; a later one is judged at the next stop."""


@dataclass(frozen=True)
class Publish:
    """Publish this many messages of this cost."""

    count: int
    cost: int


@dataclass(frozen=True)
class Consume:
    """A consumer without credit begins."""

    session: int


@dataclass(frozen=True)
class Credit:
    """Give a consumer credit in bytes: 0 withdraws the rest, and -1 removes the limit."""

    which: int
    size: int


@dataclass(frozen=True)
class CloseConsumer:
    """A consumer ends; its unacknowledged messages return to the queue."""

    which: int


@dataclass(frozen=True)
class Acknowledge:
    """Acknowledge a consumer's delivery and every older one, or with ``one`` only this delivery."""

    which: int
    delivery: int
    one: bool


@dataclass(frozen=True)
class End:
    """The transaction ends. A rollback returns every unacknowledged message of the session."""

    commit: bool


@dataclass(frozen=True)
class Pause:
    """Stop and start a session. In between, grant credit, and withdraw it if ``taken``."""

    session: int
    which: int
    size: int
    taken: bool = False


@dataclass(frozen=True)
class Stall:
    """Messages are published and consumers grant credit while nobody reads from the sessions."""

    steps: tuple[Publish | Credit, ...]


Step = Publish | Consume | Credit | CloseConsumer | Acknowledge | End | Pause | Stall
SESSIONS, WHICH = st.sampled_from([AT_ONCE, TRANSACTED]), st.integers(0, 5)
OCTETS = st.sampled_from([1, 200, 324, 325, 326, 1000, 5000])
PUBLISH = st.builds(Publish, st.integers(1, 5), st.sampled_from([0, 300, 300, 2000]))
CREDIT = st.builds(Credit, WHICH, OCTETS)
ACKNOWLEDGE = st.builds(Acknowledge, WHICH, st.integers(0, 9), st.booleans())
STEPS = some_kinds(
    [PUBLISH, st.builds(Consume, SESSIONS), CREDIT, ACKNOWLEDGE],
    [
        st.builds(Credit, WHICH, st.sampled_from([0, 0, -1])),
        st.builds(CloseConsumer, WHICH),
        st.builds(End, st.booleans()),
        st.builds(Pause, SESSIONS, WHICH, OCTETS, st.booleans()),
    ],
    sizes=(6, 20),
)


STALL = st.builds(Stall, st.lists(st.one_of(PUBLISH, CREDIT), min_size=1, max_size=4).map(tuple))


@dataclass(eq=False)
class Consumer:
    """A consumer; ``credit`` is None if it is unlimited, and may be below zero."""

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
    """A plan in progress. The ``pending`` messages are acknowledged in the open transaction."""

    target: Bench
    name: str
    producer: CorePeer
    peers: tuple[CorePeer, CorePeer]
    place: str
    model: QueueModel = field(default_factory=QueueModel)
    consumers: list[Consumer] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    attempts: dict[int, int] = field(default_factory=dict)
    ended: set[tuple[int, int]] = field(default_factory=set)
    """Sessions and numbers of consumers that have ended."""
    holder: dict[int, Consumer] = field(default_factory=dict)
    """The consumer that each message, by number, was last delivered to."""
    stopped: int | None = None

    def step(self, step: Step) -> None:
        """Take one step of the plan, at the broker and in the model, and judge at its stop."""
        match step:
            case Publish():
                self._publish(step)
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
            case Pause() if self.consumers:
                self._pause(step)
            case Stall() if self.target.virtual:  # a real link's buffers are large
                self._stall(step)
        self.stop(shown(step))

    def _stall(self, stall: Stall) -> None:
        """Carry out steps without waiting for answers."""
        with stalls.core(self.target, self.peers, (EACH_ONCE, WINDOW)):
            for step in stall.steps:
                match step:
                    case Publish():
                        self._publish(step)
                    case Credit(which, size) if self.consumers:
                        self._credit(self.consumers[which % len(self.consumers)], size)
                self.target.advance(stalls.STEP)

    def _publish(self, step: Publish) -> None:
        for _ in range(step.count):
            self.producer.publish(sized(self.name, self.model.publish(), step.cost))

    def _consume(self, session: int) -> None:
        ids = {consumer.id for consumer in self.consumers if consumer.session == session}
        if len(ids) < MOST_CONSUMERS:
            id = min(set(range(MOST_CONSUMERS)) - ids)  # so that numbers are reused
            if (session, id) in self.ended:
                self.target.reached(NUMBER_AGAIN)
            self.peers[session].create_consumer(self.name, id)
            self.consumers.append(Consumer(session, id))

    def _credit(self, consumer: Consumer, size: int) -> None:
        if consumer.credit is None:
            return  # no client grants more to a consumer without limit
        if size == 0 and consumer.credit > 0 and self.model.waiting:
            self.target.reached(TAKEN_AWAY)
        self.peers[consumer.session].credit(size, consumer.id)
        consumer.credit = None if size < 0 else consumer.credit + size if size else 0

    def _close(self, consumer: Consumer) -> None:
        numbers = [number_of(packet) for packet in consumer.out]
        if not self._tired(numbers):
            self.peers[consumer.session].close_consumer(consumer.id)
            self.consumers.remove(consumer)
            self.ended.add((consumer.session, consumer.id))
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
        if first > 0:
            self.target.reached(PASSED_OVER)
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
            if self.pending:
                self.target.reached(ROLLED_BACK)
            credit_left = any(consumer.out and consumer.has_room for consumer in out)
            if credit_left and CREDIT_LEFT in self.target.situations:
                self.target.reached(CREDIT_LEFT)
            self.model.give_back([*numbers, *self.pending])
            for consumer in out:
                consumer.out.clear()
        self.pending.clear()

    def _pause(self, step: Pause) -> None:
        """Grant credit while nothing may be delivered, and restart the session."""
        consumer = self.consumers[step.which % len(self.consumers)]
        self.peers[step.session].stop()
        self.stopped = step.session
        self._credit(consumer, step.size)
        if self.model.waiting and consumer.session == step.session and consumer.has_room:
            self.target.reached(STOPPED_SESSION)
        self.stop("the stop of a session")
        if step.taken:
            self._credit(consumer, 0)
        self.peers[step.session].start()
        self.stopped = None

    def stop(self, after: str) -> None:
        """Wait until nothing more should arrive, and slightly longer; judge the deliveries."""
        rest = self.target.wait_until(lambda: self._take(after) or not self._idle(), PATIENCE)
        for peer in self.peers:
            peer.settle()
        self.target.advance(STOPPED)
        self._take(after)
        if self.model.has_arrivals:
            disorder = self.model.disorder()
            detail = f"after {after}: {disorder or 'in order'}"
            self.target.record_finding(FIFO, not disorder, detail)
        if self.model.waiting and self.place != MEMORY:
            self.target.reached(PAGED)
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
        """Judge the messages that have arrived; return True if a connection has ended."""
        arrivals: dict[tuple[int, int], list[int]] = {}
        for consumer in self.consumers:
            packets = self.peers[consumer.session].delivered(consumer.id)
            for packet in packets:
                self._arrived(consumer, packet, after)
            arrivals[consumer.session, consumer.id] = [number_of(packet) for packet in packets]
        numbers = [number for arrived in arrivals.values() for number in arrived]
        strangers = self.model.strangers(numbers)
        detail = f"after {after}: {listed(numbers)} arrived; unexpected: {listed(strangers)}"
        self.target.require((GONE, EACH_ONCE), not strangers, detail)
        for name, arrived in arrivals.items():
            self.model.arrive(name, arrived)
        for number in numbers:
            self.attempts[number] = self.attempts.get(number, 0) + 1
        for peer in self.peers:
            over = peer.ended is not None or any(map(peer.fatal, peer.inbox))
            instead = peer.instead() if over else "the session goes on"
            self.target.require(EACH_ONCE, not over, f"after {after}: {instead}")
            late = [packet for packet in peer.inbox if delivery().accepts(packet)]
            detail = f"after {after}: {late} messages arrived for no consumer"
            self.target.require(EACH_ONCE, not late, detail)
        return False

    def _arrived(self, consumer: Consumer, packet: Packet, after: str) -> None:
        detail = f"after {after}: {number_of(packet)} arrived for {consumer}"
        self.target.require(WINDOW, consumer.has_room, detail)
        if consumer.credit is not None:
            consumer.credit -= packet.size
            if consumer.credit < 0:
                self.target.reached(BELOW_ZERO)
        if self.holder.get(number_of(packet), consumer) is not consumer:
            self.target.reached(OTHER_CONSUMER)
        self.holder[number_of(packet)] = consumer
        consumer.out.append(packet)

    def finish(self) -> None:
        """End the sessions: every unacknowledged message can be received, in order."""
        for consumer in self.consumers:
            self.model.give_back([number_of(packet) for packet in consumer.out])
        self.model.give_back(self.pending)
        for peer in self.peers:
            peer.close()
        owed = len(self.model.waiting)
        heir = self.target.core()
        heir.create_consumer(self.name)
        heir.credit(-1)
        got: list[int] = []
        while len(got) < owed and (packet := heir.watch_for(delivery(0))) is not None:
            heir.acknowledge(packet)  # brokers stop reading pages at unacknowledged ones
            got.append(number_of(packet))
        got += map(number_of, heir.all_delivered())
        left = self.model.waiting
        detail = f"at the end, {listed(got)} arrived; expected {listed(left)}"
        self.target.record_finding((EACH_ONCE, BACK), set(left) <= set(got), detail)
        self.target.record_finding(GONE, set(got) <= set(left), detail)
        self.target.record_finding(FIFO, got == sorted(got), detail)


def corners(target: Target) -> list[dict[str, object]]:
    """Histories that need more than a few steps: ranges rolled back and redelivered within the
    remaining credit, reused consumer numbers, and many rounds; in memory and with pages."""
    begin: list[Step] = [Consume(TRANSACTED), Consume(AT_ONCE), Consume(AT_ONCE), Publish(9, 300)]
    histories: list[dict[str, object]] = [
        hindrances.history(
            *begin,
            *begin[-1:] * 2,
            *(Credit(0, 1000), Credit(0, 2000), Acknowledge(0, 1, False), Acknowledge(0, 1, True)),
            *(End(False), Credit(0, 0), Credit(0, 1), Credit(2, 1)),
            *(Pause(AT_ONCE, 1, 326, taken=True), Pause(AT_ONCE, 1, 326), Credit(1, 1000)),
            *(CloseConsumer(1), Consume(AT_ONCE), Credit(2, 1000), Acknowledge(1, 0, False)),
            CloseConsumer(2),
        ),
        hindrances.history(
            *begin,
            *(Credit(0, 1000), Credit(0, 2000), Acknowledge(0, 2, False), Acknowledge(0, 1, True)),
            *(End(True), Credit(0, 0), Credit(1, 1000), Acknowledge(1, 3, False), CloseConsumer(1)),
            rounds=6,
        ),
    ]
    if RECONFIGURABLE in target.identity.capabilities:
        steps = [Consume(TRANSACTED), Publish(2, 300), Credit(0, 1000), End(False)]
        histories.append(hindrances.history(*steps))
    stall = Stall((Publish(2, 300), Credit(0, 1000), Credit(1, 326), Publish(1, 0)))
    histories.append(hindrances.history(*begin, stall, Acknowledge(0, 1, False)))
    places = reversed(place_names(target)[:2])
    placed = [
        {"place": place, "unread": None, **history} for place in places for history in histories
    ]
    return hindrances.each_once(target, placed)


def situations(target: Target) -> tuple[str, ...]:
    paged = (PAGED,) if len(place_names(target)) > 1 else ()
    left = (CREDIT_LEFT,) if RECONFIGURABLE in target.identity.capabilities else ()
    unread = (STALLED,) if target.clock is Clock.VIRTUAL else ()
    return (*SITUATIONS, *left, *unread, *paged, *hindrances.situations(target))


@case(WINDOW, EACH_ONCE, GONE, BACK, FIFO, needs={CORE})
@over(
    examples=30,
    always=corners,
    situations=situations,
    place=places,
    hindered_by=hindrances.pairs,
    rounds=st.sampled_from([1, 1, 1, 3]),
    steps=STEPS,
    unread=st.one_of(st.none(), st.none(), st.none(), STALL),  # the slowest of all steps
)
def test_sessions_do_what_the_model_says(
    target: Bench,
    place: str,
    hindered_by: list[str],
    rounds: int,
    steps: list[Step],
    unread: Stall | None,
) -> None:
    """Consumers of a queue begin and end in two sessions, one of them transacted, while credit,
    acknowledgements and transactions change as drawn and other clients interfere. After each step
    the deliveries are those that the model predicts. At the end, without the interference, every
    unacknowledged message can be received.

    One scenario: the model combines all these requirements.
    """
    name = queue(target, target.core(), "" if place == MEMORY else target.full_address(place))
    with hindrances.hindered(target, hindered_by, target.destination(name=name)):
        peers = target.core(), target.core(auto_commit_acks=False)
        run = Run(target, name, target.core(), peers, place)
        stall = [] if unread is None else [unread]
        ending: list[Step] = [*stall, Publish(1, 300), Consume(AT_ONCE), Credit(-1, 5000)]
        for step in [*steps * rounds, *ending]:
            run.step(step)
    run.finish()
    judge_trace(target, peers[AT_ONCE], core_credit.consumers)
