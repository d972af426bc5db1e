"""Prefetch, settlement and transactions of channels together, judged by a model.

Each example draws a plan. After each step the model knows which messages are delivered, which wait,
and how many deliveries each limit still allows. At every stop two things are judged: no delivery
exceeded a limit, was out of order, or repeated a settled message; and no consumer has room while
messages wait in its queue. The broker may choose which of several consumers gets a message.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import chain, cycle

from hypothesis import strategies as st

from brokerproof.suites.amqp091.channel_plans import (
    PLAIN,
    PUBLISHER,
    TRANSACTED,
    Cancel,
    Close,
    Consume,
    End,
    Get,
    Limit,
    Publish,
    Recover,
    Settle,
    Stall,
    Step,
    steps,
)
from brokerproof.suites.amqp091.steps import (
    CONSUMER_PREFETCH,
    NACK,
    Kind,
    bodies,
    drained,
    eventually,
    offers,
)
from brokerproof.suites.api import PATIENCE, Bench, Clock, Target, case, listed, ms, over, shown
from brokerproof.suites.api.amqp091 import Amqp091Peer, Method, method
from brokerproof.suites.steps import hindrances, stalls
from brokerproof.suites.steps.queue_model import QueueModel
from brokerproof.suites.steps.stalls import STALLED

LIMIT = "AMQP091-QOS-01"
MORE = "AMQP091-QOS-02"
CHANNEL_LIMIT = "RABBITMQ-AMQP091-QOS-01"
NOT_FOR_NO_ACK = "AMQP091-QOS-03"
MULTIPLE_ACKS = "AMQP091-ACK-02"
REQUEUE = "AMQP091-REJ-01"
MARK = "AMQP091-RED-01"
OLD_PLACE = "RABBITMQ-AMQP091-NACK-02"
ORDER = "AMQP091-PUB-04"
ROLLBACK = "AMQP091-TX-02"
CLOSED = "AMQP091-CHAN-04"

CHANNEL_HOLDS = "a channel's limit holds up a consumer with room of its own"
OWN_HOLDS = "a consumer's own limit holds it up"
TWO_CONSUMERS = "one acknowledgement settles deliveries of two consumers"
BEHIND = "a message comes back behind younger ones that were delivered"
ROLLED_BACK = "a rollback returns deliveries to their channel"
COMMITTED = "a commit requeues"
CANCELLED = "a delivery is settled whose consumer is cancelled"
GOT_AGAIN = "basic.get takes a message that came back"
CLOSED_WITHIN = "a channel is closed within a transaction that settled something"
THIRD = "a message is delivered for the third time"
CLOSED_UNREAD = "a channel with deliveries is closed by a peer that does not read"
SITUATIONS = (TWO_CONSUMERS, BEHIND, ROLLED_BACK, CANCELLED, GOT_AGAIN, CLOSED_WITHIN, THIRD)
LIMITED = (CHANNEL_HOLDS, OWN_HOLDS)
UNREAD = (STALLED, CLOSED_UNREAD)
"""Situations that can be reached only in virtual time."""
STOPPED = ms(50)
"""At each stop, wait this long for a surplus delivery; a later one is judged at the next stop."""


@dataclass(eq=False)
class Consumer:
    """A consumer; ``held`` is the number of its unsettled deliveries."""

    tag: str
    channel: "Channel"
    queue: int
    prefetch: int
    no_ack: bool
    held: int = 0

    @property
    def has_own_room(self) -> bool:
        return self.no_ack or not self.prefetch or self.held < self.prefetch

    @property
    def has_room(self) -> bool:
        within_channel = not self.channel.limit or self.channel.held < self.channel.limit
        return self.no_ack or (self.has_own_room and within_channel)


@dataclass(frozen=True)
class Held:
    """An unsettled delivery; ``consumer`` is None for basic.get."""

    queue: int
    number: int
    consumer: Consumer | None


@dataclass(eq=False)
class Channel:
    """A channel's unsettled deliveries by tag; ``pending``: settled in the open transaction."""

    number: int
    limit: int = 0
    prefetch: int = 0
    """The prefetch of consumers that begin from now on."""
    out: dict[int, Held] = field(default_factory=dict)
    pending: list[tuple[dict[int, Held], str]] = field(default_factory=list)
    held: int = 0

    def all_out(self) -> list[Held]:
        pending = [held for settled, _ in self.pending for held in settled.values()]
        return [*self.out.values(), *pending]

    def release(self, deliveries: list[Held]) -> None:
        """Stop counting these deliveries against any limit."""
        for held in deliveries:
            if held.consumer is not None:
                held.consumer.held -= 1
                self.held -= 1


@dataclass
class Run:
    target: Bench
    peer: Amqp091Peer
    publisher: Amqp091Peer
    names: list[str]
    queues: list[QueueModel]
    channels: dict[int, Channel] = field(
        default_factory=lambda: {number: Channel(number) for number in (PLAIN, TRANSACTED)}
    )
    consumers: list[Consumer] = field(default_factory=list)
    settled_by: dict[tuple[int, int], str] = field(default_factory=dict)
    """For each consumed message, by queue and number, the requirement that its redelivery
    breaks."""
    came_back: dict[tuple[int, int], str] = field(default_factory=dict)
    """For each message that a closed channel returned, by queue and number, the requirement that
    demands it."""
    has_limits: bool = True
    """False for quorum queues, which support no limit of a channel."""
    tags: int = 0
    attempts: Counter[tuple[int, int]] = field(default_factory=Counter)
    """How often a message was delivered, by queue and number."""

    def step(self, step: Step) -> None:
        """Take one step of the plan, at the broker and in the model, and judge at its stop."""
        judged: tuple[str, ...] = (LIMIT, MORE)
        for model in self.queues:
            model.is_mixed = False
        match step:
            case Publish(queue, count):
                self._publish(self.peer, queue, count)
            case Consume(channel, queue, prefetch, no_ack):
                self._consume(self.channels[channel], queue, prefetch, no_ack)
            case Cancel(which) if self.consumers:
                self._cancel(which % len(self.consumers))
            case Limit(channel, limit):
                self._limit(self.channels[channel], limit)
            case Settle(channel, which, verb, multiple) if self.channels[channel].out:
                self._settle(self.channels[channel], which, verb, multiple)
                judged = (MULTIPLE_ACKS,) if multiple else (REQUEUE,)
            # No document says whether it returns messages acknowledged in an open transaction.
            case Recover(channel) if not self.channels[channel].pending:
                self.peer.call("basic.recover", {"requeue": True}, channel=channel)
                self._give_back(self.channels[channel], list(self.channels[channel].out.values()))
                self.channels[channel].out.clear()
                judged = (REQUEUE,)
            case Get(channel, queue):
                self._get(self.channels[channel], queue)
            case End(commit):
                self._end(self.channels[TRANSACTED], commit)
                judged = (ROLLBACK,)
            case Close(channel):
                self._close(self.channels[channel])
                judged = (CLOSED,)
            case Stall():
                self._stall(step)
        self.stop(shown(step), judged)

    def _publish(self, peer: Amqp091Peer, queue: int, count: int) -> None:
        for _ in range(count):
            body = b"%d" % self.queues[queue].publish()
            peer.publish(body, self.names[queue], channel=PUBLISHER)
        peer.settle(PUBLISHER)

    def _stall(self, stall: Stall) -> None:
        """Carry out steps without waiting for answers, then wait until only unread data is in
        flight."""
        closes = None if stall.closes is None else self.channels[stall.closes]
        with stalls.amqp091(self.target, self.peer, MORE):
            for step in stall.steps:
                match step:
                    case Publish(queue, count):
                        self._publish(self.publisher, queue, count)
                    case Settle(channel, which, verb, multiple) if self.channels[channel].out:
                        self._settle(self.channels[channel], which, verb, multiple)
                self.target.advance(stalls.STEP)
            if closes is not None:
                fields = {"reply-code": 200, "reply-text": "", "class-id": 0, "method-id": 0}
                self.peer.send("channel.close", fields, channel=closes.number)
                if closes.out:
                    self.target.reached(CLOSED_UNREAD)
                self._closed(closes)
        if closes is not None:
            self.peer.expect(method("channel.close-ok", channel=closes.number))
            open_channel(self.peer, closes.number)

    def _consume(self, channel: Channel, queue: int, prefetch: int, no_ack: bool) -> None:
        """Begin a consumer. Do not set a prefetch on a channel that has a limit, because RabbitMQ
        would forget the limit (``test_prefetch.py``)."""
        self.tags += 1
        tag = f"c{self.tags}"
        if not channel.limit:
            channel.prefetch = prefetch if offers(self.target.target, CONSUMER_PREFETCH) else 0
            fields = {"prefetch-count": channel.prefetch}
            self.peer.call("basic.qos", fields, channel=channel.number)
        self.peer.consume(self.names[queue], tag, channel=channel.number, no_ack=no_ack)
        self.consumers.append(Consumer(tag, channel, queue, channel.prefetch, no_ack))

    def _cancel(self, place: int) -> None:
        consumer = self.consumers.pop(place)
        fields = {"consumer-tag": consumer.tag}
        self.peer.call("basic.cancel", fields, channel=consumer.channel.number)

    def _limit(self, channel: Channel, limit: int) -> None:
        """Set the limit while no message from basic.get is unsettled: no document says whether such
        messages count."""
        if not (self.has_limits and offers(self.target.target, CONSUMER_PREFETCH)):
            return
        if all(held.consumer is not None for held in channel.all_out()) and not channel.pending:
            fields = {"prefetch-count": limit, "global": True}
            self.peer.call("basic.qos", fields, channel=channel.number)
            channel.limit = limit

    def _settle(self, channel: Channel, which: int, verb: str, multiple: bool) -> None:
        tag = sorted(channel.out)[which % len(channel.out)]
        fields: dict[str, object] = {"delivery-tag": tag, "multiple": multiple}
        if verb == "ack":
            self.peer.send("basic.ack", fields, channel=channel.number)
        elif offers(self.target.target, NACK):
            fields["requeue"] = verb == "requeue"
            self.peer.send("basic.nack", fields, channel=channel.number)
        else:
            # A message requeued by basic.reject need not be delivered on the same channel
            # (1.8.3.14).
            verb, multiple = "drop", False
            fields = {"delivery-tag": tag, "requeue": False}
            self.peer.send("basic.reject", fields, channel=channel.number)
        tags = [other for other in channel.out if multiple and other < tag]
        settled = {number: channel.out.pop(number) for number in [*tags, tag]}
        consumers = {held.consumer for held in settled.values() if held.consumer is not None}
        if len(consumers) > 1:
            self.target.reached(TWO_CONSUMERS)
        if not consumers <= set(self.consumers):
            self.target.reached(CANCELLED)
        if channel.number == TRANSACTED:
            channel.pending.append((settled, verb))
        else:
            self._settled(channel, list(settled.values()), verb)

    def _settled(self, channel: Channel, deliveries: list[Held], verb: str) -> None:
        if verb == "requeue":
            self._give_back(channel, deliveries)
            return
        channel.release(deliveries)
        proves = MULTIPLE_ACKS if verb == "ack" else REQUEUE
        self.settled_by |= {(held.queue, held.number): proves for held in deliveries}

    def _give_back(self, channel: Channel, deliveries: list[Held]) -> None:
        channel.release(deliveries)
        for queue, model in enumerate(self.queues):
            # A broker may return and deliver one consumer's messages before another's, and a
            # channel below its limit may get a younger message before they are back (NACK-02).
            consumers = {held.consumer for held in deliveries if held.queue == queue}
            model.is_mixed |= len(consumers) > 1 or channel.limit > 0
        for held in deliveries:
            model = self.queues[held.queue]
            model.give_back([held.number])
            if model.delivered and held.number < max(model.delivered):
                self.target.reached(BEHIND)

    def _get(self, channel: Channel, queue: int) -> None:
        """Get a message that no consumer can receive first."""
        model = self.queues[queue]
        if channel.limit or not model.waiting:
            return
        answer = self.peer.get(self.names[queue], channel=channel.number)
        expected = model.next()
        got = int(answer.body) if answer.name == "basic.get-ok" else 0
        returned = self.came_back.get((queue, expected[0]), (ORDER, OLD_PLACE))
        self.target.require(
            self.settled_by.get((queue, got), returned),
            got in expected,
            f"basic.get returned {answer.brief()}; the oldest message was {listed(expected)}",
        )
        self._mark(queue, answer)
        if got in model.delivered:
            self.target.reached(GOT_AGAIN)
        model.take([got])
        channel.out[answer["delivery-tag"]] = Held(queue, got, None)

    def _end(self, channel: Channel, commit: bool) -> None:
        pending, channel.pending = channel.pending, []
        self.peer.call("tx.commit" if commit else "tx.rollback", channel=channel.number)
        for model in self.queues:
            # A broker may deliver between the settlements that it applies.
            model.is_mixed |= commit and len(pending) > 1
        for settled, verb in pending:
            if not commit:
                self.target.reached(ROLLED_BACK)
            elif verb == "requeue":
                self.target.reached(COMMITTED)
            if commit:
                self._settled(channel, list(settled.values()), verb)
            else:
                channel.out.update(settled)

    def _close(self, channel: Channel) -> None:
        self.peer.close_channel(channel.number)
        self._closed(channel)
        open_channel(self.peer, channel.number)

    def _closed(self, channel: Channel) -> None:
        self.consumers = [other for other in self.consumers if other.channel is not channel]
        out = channel.all_out()
        if channel.pending:
            self.target.reached(CLOSED_WITHIN)
        channel.out.clear()
        channel.pending.clear()
        channel.limit = channel.prefetch = 0
        self._give_back(channel, out)
        self.came_back |= {(held.queue, held.number): CLOSED for held in out}

    def stop(self, after: str, judged: tuple[str, ...]) -> None:
        """Wait until nothing more should arrive, and slightly longer; judge the deliveries."""
        rest = self.target.wait_until(
            lambda: self._take(after, judged) or not self._idle(), PATIENCE
        )
        for number in self.channels:
            self.peer.settle(number)
        self.target.advance(STOPPED)
        self._take(after, judged)
        for queue, model in enumerate(self.queues):
            if model.has_arrivals:
                disorder = model.disorder()
                detail = f"after {after}: {disorder or 'in order'}"
                lost = {self.came_back.get((queue, number), "") for number in model.waiting} - {""}
                rules = tuple(lost) if disorder and lost else (ORDER, OLD_PLACE, *judged)
                self.target.require(rules, not disorder, detail)
        for consumer in self.consumers:
            if self.queues[consumer.queue].waiting and not consumer.has_room:
                self.target.reached(CHANNEL_HOLDS if consumer.has_own_room else OWN_HOLDS)
        idle = self._idle()
        names = ", ".join(f"{consumer.tag} ({consumer.held} held)" for consumer in idle)
        detail = f"after {after}, messages wait; consumers with room: {names or 'none'}"
        proves = {
            NOT_FOR_NO_ACK
            if consumer.no_ack and consumer.channel.limit
            else self.came_back.get((consumer.queue, number), MORE)
            for consumer in idle
            for number in self.queues[consumer.queue].waiting
        }
        self.target.require(tuple(proves or {MORE}), rest and not idle, detail)

    def _idle(self) -> list[Consumer]:
        return [
            consumer
            for consumer in self.consumers
            if consumer.has_room and self.queues[consumer.queue].waiting
        ]

    def _take(self, after: str, judged: tuple[str, ...]) -> bool:
        """Judge the deliveries that have arrived; return True if the connection has ended."""
        arrivals: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for channel in self.channels.values():
            for delivery in self.peer.deliveries(channel.number):
                self._arrived(channel, delivery, arrivals, after)
        for queue, by_consumer in arrivals.items():
            for number in self.queues[queue].strangers([*chain(*by_consumer.values())]):
                message = queue, number
                proves = self.settled_by.get(message) or self.came_back.get(message) or judged
                detail = f"after {after}: {number} arrived, although it is settled or held"
                self.target.require(proves, False, detail)
            for tag, numbers in by_consumer.items():
                self.queues[queue].arrive(tag, numbers)
        over = self.peer.ended is not None or any(map(self.peer.fatal, self.peer.inbox))
        instead = self.peer.instead() if over else "the channels stay open"
        self.target.require(judged, not over, f"after {after}: {instead}")
        return over

    def _arrived(
        self,
        channel: Channel,
        delivery: Method,
        arrivals: dict[int, dict[str, list[int]]],
        after: str,
    ) -> None:
        tag, number = delivery["consumer-tag"], int(delivery.body)
        consumer = next((other for other in self.consumers if other.tag == tag), None)
        detail = f"after {after}: {number} arrived for {tag}"
        if consumer is None:
            self.target.require(LIMIT, False, f"{detail}, a cancelled consumer")
            return
        self._mark(consumer.queue, delivery)
        arrivals[consumer.queue][tag].append(number)
        if consumer.no_ack:
            if channel.limit and channel.held >= channel.limit:
                beyond = f"{detail}, with {channel.held} held of {channel.limit}"
                self.target.record_held(NOT_FOR_NO_ACK, delivery, beyond)
            return
        within = f"{consumer.held} held of {consumer.prefetch}, {channel.held} of {channel.limit}"
        self.target.require((LIMIT, CHANNEL_LIMIT), consumer.has_room, f"{detail}, with {within}")
        consumer.held += 1
        channel.held += 1
        channel.out[delivery["delivery-tag"]] = Held(consumer.queue, number, consumer)

    def _mark(self, queue: int, delivery: Method) -> None:
        number = int(delivery.body)
        self.attempts[queue, number] += 1
        if self.attempts[queue, number] == 3:
            self.target.reached(THIRD)
        again = number in self.queues[queue].delivered
        detail = f"{delivery.brief()}, which was {'' if again else 'not '}delivered before"
        self.target.record_finding(MARK, delivery["redelivered"] is again, detail)

    def finish(self) -> None:
        """End consumers, then channels; then all unsettled messages can be received again, in
        order."""
        while self.consumers:
            self._cancel(0)
        for channel in self.channels.values():
            self._close(channel)
        for name, model in zip(self.names, self.queues, strict=True):
            self._wait_for(name, len(model.waiting))
            left = [int(body) for body in bodies(drained(self.peer, name))]
            left = left if model.keeps_places else sorted(left)
            detail = f"at the end, {listed(left)} remained; expected {listed(model.waiting)}"
            self.target.record_finding(
                (CLOSED, MULTIPLE_ACKS, REQUEUE, ROLLBACK, OLD_PLACE, ORDER),
                left == model.waiting,
                detail,
            )
            self.peer.call("queue.delete", {"queue": name})

    def _wait_for(self, name: str, count: int) -> None:
        eventually(self.peer, lambda: self.peer.count(name) == count)


def open_channel(peer: Amqp091Peer, number: int) -> None:
    """Open a channel, with transactions if it is the third."""
    peer.open_channel(number)
    if number == TRANSACTED:
        peer.call("tx.select", channel=number)


NOT_READING: list[Step] = [
    Consume(PLAIN, 0, 3, False),
    Consume(TRANSACTED, 1, 2, False),
    Publish(0, 5),
    Publish(1, 5),
    Limit(PLAIN, 2),
    Stall((Publish(0, 2), Settle(PLAIN, 0, "ack", True), Settle(PLAIN, 0, "requeue", False))),
    Settle(PLAIN, 0, "ack", False),
    Stall((Settle(PLAIN, 1, "ack", True), Publish(1, 1)), closes=TRANSACTED),
    Consume(TRANSACTED, 1, 0, True),
    Stall((Publish(1, 4), Publish(0, 1))),
]
"""A client settles deliveries and closes a channel without reading from its connection."""


def corners(target: Target) -> list[dict[str, object]]:
    """Histories that need more than a few steps: limits below the number of deliveries, settlements
    of a cancelled consumer's deliveries, rollbacks of ranges, many rounds, and channels closed with
    all sorts of unsettled deliveries."""
    histories: list[dict[str, object]] = [
        hindrances.history(
            *(Consume(PLAIN, 0, 0, False), Consume(PLAIN, 1, 3, False)),
            *(Publish(0, 5), Publish(1, 5), Limit(PLAIN, 3), Publish(0, 3)),
            *(Settle(PLAIN, 1, "ack", False), Settle(PLAIN, 0, "drop", False)),
            *(Settle(PLAIN, 4, "ack", True), Settle(PLAIN, -1, "requeue", True)),
            *(Limit(PLAIN, 5), Cancel(0), Settle(PLAIN, -1, "requeue", True)),
            *(Consume(PLAIN, 0, 2, False), Settle(PLAIN, 1, "ack", False), Limit(PLAIN, 1)),
            *(Publish(1, 2), Settle(PLAIN, -1, "ack", True), Recover(PLAIN), Close(PLAIN)),
        ),
        hindrances.history(
            *(Publish(0, 6), Consume(TRANSACTED, 0, 4, False)),
            *(Settle(TRANSACTED, 2, "ack", True), End(False)),
            *(Settle(TRANSACTED, 1, "requeue", True), End(True), Get(TRANSACTED, 0)),
            *(Settle(TRANSACTED, 0, "ack", False), End(True)),
            *(Settle(TRANSACTED, -1, "ack", True), End(True)),
            *(Publish(0, 4), Recover(TRANSACTED), Cancel(0)),
            rounds=12,
        ),
        hindrances.history(
            *(Publish(0, 2), Consume(PLAIN, 0, 1, False)), *[Settle(PLAIN, 0, "requeue", False)] * 3
        ),
        hindrances.history(Consume(PLAIN, 0, 1, False), Limit(PLAIN, 3), Publish(0, 3)),
        hindrances.history(
            *(Publish(0, 3), Publish(1, 3), Get(PLAIN, 1), Consume(PLAIN, 0, 2, False)),
            *(Consume(TRANSACTED, 1, 0, False), Settle(TRANSACTED, 0, "ack", False)),
            *(Close(TRANSACTED), Close(PLAIN)),
            *(Get(PLAIN, 0), Get(PLAIN, 1), Consume(PLAIN, 1, 0, False)),
        ),
        hindrances.history(
            *(Publish(0, 3), Consume(PLAIN, 0, 0, False), Limit(PLAIN, 2)),
            *(Consume(PLAIN, 1, 0, True), Publish(1, 2)),
        ),
    ]
    if target.clock is Clock.VIRTUAL:
        histories.append(hindrances.history(*NOT_READING))
    for history, mode in zip(histories, cycle((None, 2)), strict=False):
        history["kind"] = Kind(mode=mode)
    return hindrances.each_once(target, histories)


def situations(target: Target) -> tuple[str, ...]:
    unread = UNREAD if target.clock is Clock.VIRTUAL else ()
    limited = LIMITED if offers(target, CONSUMER_PREFETCH) else ()
    committed = (COMMITTED,) if offers(target, NACK) else ()
    return (*SITUATIONS, *limited, *committed, *unread, *hindrances.situations(target))


@case(
    LIMIT,
    MORE,
    CHANNEL_LIMIT,
    NOT_FOR_NO_ACK,
    MULTIPLE_ACKS,
    REQUEUE,
    MARK,
    OLD_PLACE,
    ORDER,
    ROLLBACK,
    CLOSED,
    needs={"amqp091"},
)
@over(
    examples=40,
    always=corners,
    situations=situations,
    hindered_by=hindrances.pairs,
    rounds=st.sampled_from([1, 1, 1, 4]),
    steps=steps,
    kind=Kind.any,
)
def test_channels_do_what_the_model_says(
    target: Bench, kind: Kind, hindered_by: list[str], rounds: int, steps: list[Step]
) -> None:
    """Consumers of two queues, classic or quorum, begin and end on two channels, one of them
    transactional, while their limits, settlements and channels change as drawn and other clients
    interfere. After each step the deliveries are those that the model predicts. At the end every
    unsettled message can be received again.

    One scenario: the model combines all these requirements.
    """
    with hindrances.hindered(target, hindered_by, target.destination()):
        peer = target.amqp091()
        for number in (PLAIN, TRANSACTED):
            open_channel(peer, number)
        publisher = target.amqp091()
        names = [kind.queue(target, peer, exclusive=False) for _ in range(2)]
        publisher.properties = peer.properties
        keeps_places = kind.keeps_places and OLD_PLACE not in target.unbound
        queues = [QueueModel(keeps_places=keeps_places) for _ in names]
        run = Run(target, peer, publisher, names, queues, has_limits=kind.type == "classic")
        if not offers(target.target, CONSUMER_PREFETCH):
            target.record_not_applicable(NOT_FOR_NO_ACK, "its prefetch may be a channel's")
        for step in [*steps * rounds, Publish(0, 2), Consume(PLAIN, 0, 1, True)]:
            run.step(step)
    run.finish()
