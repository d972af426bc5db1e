"""Prefetch and acknowledgements of OpenWire's consumers together, judged by a model.

Each example draws a plan. After each step the model knows which messages are dispatched, which
their client has seen, and which wait. At every stop two things are judged: no message exceeded a
limit or arrived after its acknowledgement; and no consumer has room while messages wait. The broker
may choose which of several consumers gets a message.
"""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from brokerproof.harness.protocols.openwire.raw_peer import DELIVERED, INDIVIDUAL, POISON
from brokerproof.suites.api import PATIENCE, Bench, Clock, Target, case, listed, ms, over, shown
from brokerproof.suites.api.openwire import OpenWirePeer, Structure, dispatch, queue
from brokerproof.suites.openwire.steps import COMMIT, OPENWIRE, begin, number_of, transact
from brokerproof.suites.steps import hindrances, stalls
from brokerproof.suites.steps.queue_model import QueueModel
from brokerproof.suites.steps.stalls import STALLED
from brokerproof.suites.steps.strategies import some_kinds

LIMIT = "OPENWIRE-PREFETCH-1"
MORE = "OPENWIRE-PREFETCH-2"
PULL = "OPENWIRE-PREFETCH-3"
SEEN_ACK = "OPENWIRE-MSGACK-1"
STANDARD_ACK = "OPENWIRE-MSGACK-2"
INDIVIDUAL_ACK = "OPENWIRE-MSGACK-3"
POISON_ACK = "OPENWIRE-MSGACK-4"

MIDDLE = "a range in the middle is acknowledged"
SEEN_SETTLED = "a message that its client has seen is acknowledged"
IN_TRANSACTION = "messages are acknowledged in a transaction"
SHRUNK = "a limit shrinks below what is out"
PULLED_AGAIN = "a pull brings a message that came back"
BOTH = "two consumers have messages out at once"
AT_LIMIT = "messages wait for a consumer that is at its limit"
PUSHED = "a consumer that pulled gets a limit"
SITUATIONS = (MIDDLE, SEEN_SETTLED, IN_TRANSACTION, SHRUNK, PULLED_AGAIN, BOTH, AT_LIMIT, PUSHED)
STOPPED = ms(50)
"""At each stop, wait this long for a surplus message; a later one is judged at the next stop."""


@dataclass(frozen=True)
class Publish:
    count: int


@dataclass(frozen=True)
class Consume:
    """Start a consumer on one of two connections. With a limit of 0 the consumer pulls."""

    connection: int
    limit: int


@dataclass(frozen=True)
class Change:
    """Change a consumer's limit, which may be 0, to another one above 0."""

    which: int
    limit: int


@dataclass(frozen=True)
class See:
    """A client reports how many of its messages it has seen, beginning with the oldest."""

    which: int
    count: int


@dataclass(frozen=True)
class Acknowledge:
    """Acknowledge messages of a consumer, as a range or one by one, immediately or when a
    transaction commits."""

    which: int
    first: int
    count: int
    individual: bool
    transacted: bool


@dataclass(frozen=True)
class Poison:
    """A client rejects its oldest message, which must not be delivered again."""

    which: int


@dataclass(frozen=True)
class Pull:
    """A consumer whose limit is 0 asks for a message."""

    which: int


@dataclass(frozen=True)
class Remove:
    """End a consumer. Its unacknowledged messages return to the queue."""

    which: int


@dataclass(frozen=True)
class Stall:
    """The consumers' connections are not read while messages are published and acknowledged."""

    steps: tuple[Publish | See | Acknowledge | Pull, ...]


Step = Publish | Consume | Change | See | Acknowledge | Poison | Pull | Remove | Stall
WHICH, COUNT = st.integers(0, 5), st.integers(1, 4)
ACKNOWLEDGE = st.builds(
    Acknowledge, WHICH, st.integers(0, 5), COUNT, st.booleans(), st.sampled_from([False, True])
)
STALL = st.builds(
    Stall,
    st.lists(
        st.one_of(
            st.builds(Publish, st.integers(1, 6)),
            st.builds(See, WHICH, COUNT),
            st.builds(Acknowledge, WHICH, st.integers(0, 5), COUNT, st.booleans(), st.just(False)),
            st.builds(Pull, WHICH),
        ),
        min_size=1,
        max_size=5,
    ).map(tuple),
)
STEPS = some_kinds(
    [
        st.builds(Publish, st.integers(1, 6)),
        st.builds(Consume, st.integers(0, 1), st.integers(0, 4)),
        ACKNOWLEDGE,
        ACKNOWLEDGE,
    ],
    [
        st.builds(See, WHICH, COUNT),
        st.builds(Change, WHICH, COUNT),
        st.builds(Poison, WHICH),
        st.builds(Pull, WHICH),
        st.builds(Remove, WHICH),
        STALL,
    ],
    sizes=(6, 20),
)


@dataclass(eq=False)
class Consumer:
    """A consumer. Its client has seen the first ``seen`` of the messages in ``out``."""

    id: Structure
    peer: OpenWirePeer
    limit: int
    out: list[Structure] = field(default_factory=list)
    seen: int = 0
    pulled: int = 0

    @property
    def has_room(self) -> bool:
        return self.pulled > 0 if self.limit == 0 else len(self.out) - self.seen < self.limit

    def __str__(self) -> str:
        out = f"{len(self.out)} out, {self.seen} of them seen, {self.pulled} pulled"
        return f"a consumer with a limit of {self.limit} ({out})"


@dataclass
class Run:
    """A plan in progress."""

    target: Bench
    place: Structure
    publisher: OpenWirePeer
    producer: Structure
    peers: tuple[OpenWirePeer, OpenWirePeer]
    model: QueueModel = field(default_factory=QueueModel)
    consumers: list[Consumer] = field(default_factory=list)
    settled_by: dict[int, str] = field(default_factory=dict)
    """For each consumed message, by number, the requirement that its redelivery breaks."""
    spared_by: dict[int, str] = field(default_factory=dict)
    """For each message that the last acknowledgement must leave, by number, the requirement that
    says so."""
    transactions: int = 0
    answered: bool = True
    """False while no answer can arrive."""

    def step(self, step: Step) -> None:
        """Take one step of the plan, at the broker and in the model, and judge at its stop."""
        judged = MORE
        if isinstance(step, Stall):
            self._stall(step)
        else:
            judged = self._carry_out(step)
        self.stop(shown(step), judged)

    def _stall(self, stall: Stall) -> None:
        """Carry out steps without waiting for answers. Virtual time only: real links have large
        buffers.
        """
        if self.target.virtual:
            with stalls.openwire(self.target, self.peers, MORE):
                self.answered = False
                for step in stall.steps:
                    self._carry_out(step)
                    self.target.advance(stalls.STEP)
                self.answered = True

    def _carry_out(self, step: Step) -> str:
        """Return the requirement by which the step is judged."""
        judged = MORE
        match step:
            case Publish(count):
                self._publish(count)
            case Consume(connection, limit):
                peer = self.peers[connection]
                id = peer.open_consumer(self.place, prefetch=limit)
                self.consumers.append(Consumer(id, peer, limit))
            case Change(which, limit) if self.consumers:
                self._change(self.consumers[which % len(self.consumers)], limit)
            case See(which, count):
                judged = SEEN_ACK
                self._see(which, count)
            case Acknowledge():
                self._acknowledge(step)
            case Poison(which):
                judged = POISON_ACK
                self._poison(which)
            case Pull(which):
                judged = PULL
                self._pull(which)
            case Remove(which) if self.consumers:
                consumer = self.consumers.pop(which % len(self.consumers))
                consumer.peer.remove(consumer.id)
                self.model.give_back(map(number_of, consumer.out))
        return judged

    def _pushed(self) -> list[Consumer]:
        return [consumer for consumer in self.consumers if consumer.limit]

    def _publish(self, count: int) -> None:
        for _ in range(count):
            properties = {"number": self.model.publish()}
            message = self.publisher.message(
                self.producer, self.place, b"content", properties=properties
            )
            self.publisher.answered(self.publisher.publish(message, response=True))

    def _change(self, consumer: Consumer, limit: int) -> None:
        fields = {"destination": self.place, "consumerId": consumer.id, "prefetch": limit}
        consumer.peer.send("ConsumerControl", fields)
        consumer.peer.settle()
        if limit < len(consumer.out) - consumer.seen:
            self.target.reached(SHRUNK)
        if not consumer.limit:
            self.target.reached(PUSHED)
        consumer.limit = limit

    def _see(self, which: int, count: int) -> None:
        consumers = [consumer for consumer in self._pushed() if len(consumer.out) > consumer.seen]
        if consumers:
            consumer = consumers[which % len(consumers)]
            seen = min(len(consumer.out), consumer.seen + count)
            consumer.peer.ack(
                consumer.out[seen - 1],
                type=DELIVERED,
                first=consumer.out[consumer.seen],
                count=seen - consumer.seen,
                response=self.answered,
            )
            consumer.seen = seen
            self._spare(consumer, SEEN_ACK)

    def _poison(self, which: int) -> None:
        holders = [consumer for consumer in self.consumers if consumer.out]
        if holders:
            consumer = holders[which % len(holders)]
            given_up = consumer.out.pop(0)
            consumer.peer.ack(given_up, type=POISON, response=self.answered, proves=POISON_ACK)
            consumer.seen = max(0, consumer.seen - 1)
            self.settled_by[number_of(given_up)] = POISON_ACK
            self._spare(consumer, POISON_ACK)

    def _acknowledge(self, step: Acknowledge) -> None:
        """Acknowledge seen messages, or any if none was seen: a client never skips a message it has
        seen."""
        holders = [consumer for consumer in self.consumers if consumer.out]
        if not holders:
            return
        consumer = holders[step.which % len(holders)]
        covered = consumer.seen or len(consumer.out)
        first = step.first % covered
        settled = consumer.out[first : min(covered, first + step.count)]
        if not step.individual and first > 0 and first + len(settled) < len(consumer.out):
            self.target.reached(MIDDLE)
        if consumer.seen:
            self.target.reached(SEEN_SETTLED)
        # Release 6.3.1 counts a message twice if it was seen and is then acknowledged alone in a
        # transaction. No client does that.
        transacted = step.transacted and not (step.individual and consumer.seen)
        fields: dict[str, Any] = {"transactionId": self._begin(consumer)} if transacted else {}
        if step.individual:
            proves = INDIVIDUAL_ACK
            for dispatched in settled:
                consumer.peer.ack(
                    dispatched, type=INDIVIDUAL, response=self.answered, proves=proves, **fields
                )
        else:
            proves = STANDARD_ACK
            consumer.peer.ack(
                settled[-1],
                first=settled[0],
                count=len(settled),
                response=self.answered,
                proves=proves,
                **fields,
            )
        if transacted:
            transact(consumer.peer, fields["transactionId"], COMMIT)
            self.target.reached(IN_TRANSACTION)
        del consumer.out[first : first + len(settled)]
        consumer.seen = max(0, consumer.seen - len(settled))
        self.settled_by |= dict.fromkeys(map(number_of, settled), proves)
        self._spare(consumer, proves)

    def _spare(self, consumer: Consumer, proves: str) -> None:
        self.spared_by |= dict.fromkeys(map(number_of, consumer.out), proves)

    def _begin(self, consumer: Consumer) -> Structure:
        self.transactions += 1
        return begin(consumer.peer, self.transactions)

    def _pull(self, which: int) -> None:
        """Pull where a message waits, so that a message arrives."""
        pulling = [consumer for consumer in self.consumers if not consumer.limit]
        if pulling and self.model.waiting:
            consumer = pulling[which % len(pulling)]
            fields = {"consumerId": consumer.id, "destination": self.place, "timeout": 0}
            consumer.peer.send("MessagePull", fields)
            consumer.pulled = 1

    def stop(self, after: str, judged: str) -> None:
        """Wait until nothing more should arrive, and slightly longer; judge the deliveries."""
        rest = self.target.wait_until(lambda: self._take(after) or not self._idle(), PATIENCE)
        for peer in self.peers:
            peer.settle()
        self.target.advance(STOPPED)
        self._take(after)
        if sum(bool(consumer.out) for consumer in self.consumers) > 1:
            self.target.reached(BOTH)
        if self.model.waiting and any(not consumer.has_room for consumer in self._pushed()):
            self.target.reached(AT_LIMIT)
        idle = ", ".join(map(str, self._idle())) or "nobody"
        detail = f"after {after}: {idle} has room while {len(self.model.waiting)} messages wait"
        if self._idle():
            self.finish()  # first rule out that messages were lost
        self.target.require((judged, MORE), rest and idle == "nobody", detail)

    def _idle(self) -> list[Consumer]:
        return [consumer for consumer in self.consumers if self.model.waiting and consumer.has_room]

    def _take(self, after: str) -> bool:
        """Judge the messages that have arrived. Return False, which makes the caller keep
        waiting."""
        numbers: list[int] = []
        for consumer in self.consumers:
            for dispatched in consumer.peer.dispatched(consumer.id):
                detail = f"after {after}: {number_of(dispatched)} arrived for {consumer}"
                proves = LIMIT if consumer.limit else PULL
                self.target.require(proves, consumer.has_room, detail)
                if not consumer.limit and number_of(dispatched) in self.model.delivered:
                    self.target.reached(PULLED_AGAIN)
                consumer.pulled = 0
                consumer.out.append(dispatched)
                numbers.append(number_of(dispatched))
        for number in self.model.strangers(numbers):
            detail = f"after {after}: {number} arrived, though acknowledged or held by a consumer"
            self.target.require(self.settled_by.get(number, LIMIT), False, detail)
        self.model.take(numbers)
        for peer in self.peers:
            over = peer.ended is not None or any(map(peer.fatal, peer.inbox))
            instead = peer.instead() if over else "the connection goes on"
            self.target.require(STANDARD_ACK, not over, f"after {after}: {instead}")
        return False

    def finish(self) -> None:
        """End the consumers; then every unacknowledged message can be received."""
        while self.consumers:
            consumer = self.consumers.pop()
            consumer.peer.remove(consumer.id)
            self.model.give_back(map(number_of, consumer.out))
        left = self.model.waiting
        heir = self.target.openwire()
        consumer_id = heir.open_consumer(self.place, prefetch=1000)

        def here() -> int:
            return sum(dispatch(consumer_id).accepts(command) for command in heir.inbox)

        self.target.wait_until(lambda: here() >= len(left), PATIENCE)
        self.target.advance(STOPPED)
        got = sorted(map(number_of, heir.dispatched(consumer_id)))
        detail = f"at the end, {listed(got)} arrived; expected {listed(left)}"
        for number in set(got) - set(left):
            self.target.record_finding(self.settled_by.get(number, LIMIT), False, detail)
        for number in left:
            kept = self.spared_by.get(number, STANDARD_ACK)
            self.target.require(kept, number in got, detail)


UNREAD: list[Step] = [
    Consume(0, 3),
    Consume(1, 0),
    Publish(7),
    Stall((Acknowledge(0, 0, 2, False, False), Publish(2), Pull(0))),
    Stall((See(0, 1), Acknowledge(0, 0, 1, True, False), Publish(1))),
    Remove(0),
]
"""Consumers acknowledge and pull without reading from their connections."""


def corners(target: Target) -> list[dict[str, object]]:
    """Histories that need more than a few steps: seen messages acknowledged in parts, in ranges
    from the middle, and in many rounds."""
    histories: list[dict[str, object]] = [
        hindrances.history(
            *(Consume(0, 3), Consume(1, 0), Publish(12), See(0, 3)),
            *(Acknowledge(0, 1, 2, False, False), See(0, 2), Acknowledge(0, 2, 2, True, False)),
            *(Acknowledge(0, 1, 1, True, True), Acknowledge(0, 0, 4, False, True), Change(0, 1)),
            *(Pull(0), Acknowledge(0, 0, 1, False, False), Change(0, 4), See(0, 2), Poison(0)),
            *(Poison(0), Remove(0), Pull(0), Change(0, 3), Acknowledge(0, 0, 3, False, False)),
            Publish(3),
        ),
        hindrances.history(
            *(Consume(0, 4), Publish(14), Poison(0), Acknowledge(0, 0, 2, False, True)),
            *(Acknowledge(0, 1, 3, False, False), See(0, 3), Acknowledge(0, 0, 2, False, True)),
            *(Acknowledge(0, 0, 1, True, False), Acknowledge(1, 1, 3, True, True), Remove(-1)),
            rounds=6,
        ),
        hindrances.history(*UNREAD),
    ]
    return hindrances.each_once(target, histories)


def unread(target: Target) -> tuple[str, ...]:
    """Return the situations that can be reached only in virtual time."""
    return (STALLED,) if target.clock is Clock.VIRTUAL else ()


@case(LIMIT, MORE, PULL, SEEN_ACK, STANDARD_ACK, INDIVIDUAL_ACK, POISON_ACK, needs={OPENWIRE})
@over(
    examples=30,
    always=corners,
    situations=lambda target: (*SITUATIONS, *unread(target), *hindrances.situations(target)),
    hindered_by=hindrances.pairs,
    rounds=st.sampled_from([1, 1, 1, 3]),
    steps=STEPS,
)
def test_consumers_do_what_the_model_says(
    target: Bench, hindered_by: list[str], rounds: int, steps: list[Step]
) -> None:
    """Consumers of a queue start and stop on two connections, with randomly drawn limits,
    acknowledgements and pulls, while other clients interfere. After each step the dispatched
    messages are those that the model predicts. At the end every unacknowledged message can be
    received.

    One scenario: the model combines all these requirements.
    """
    name = target.fresh_name()
    ending: list[Step] = [Consume(0, 2), Consume(1, 0), Publish(3), Pull(-1), See(-1, 1)]
    with hindrances.hindered(target, hindered_by, target.destination(name=name)):
        place, publisher = queue(name), target.openwire()
        peers = target.openwire(), target.openwire()
        run = Run(target, place, publisher, publisher.open_producer(place), peers)
        for step in [*steps * rounds, *ending]:
            run.step(step)
    run.finish()
