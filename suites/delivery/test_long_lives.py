"""Long lives: errors that drift, add up or wrap in a month of virtual time under light load.

Both sides of a connection agree on signs of life and send them. Except during the middle third of
the month, the client sends a message in every other round, receives it and settles it. Both sides
must still keep the agreement afterwards. The month has as many rounds as the effort allows
(:mod:`brokerproof.suites.steps.amounts`) if the broker agrees on intervals of that length, so every
counter reaches that number.
"""

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from brokerproof.harness.oracles.accounting import (
    Attempted,
    Books,
    Confirmed,
    Delivered,
    Ledger,
    Settled,
)
from brokerproof.harness.protocols.core.raw_peer import TTL_MS
from brokerproof.suites.api import NS_PER_MS, Bench, Duration, Instant, case, ms, seconds
from brokerproof.suites.steps import amounts
from brokerproof.suites.steps.queue_clients import (
    Amqp091QueueClient,
    AmqpQueueClient,
    CoreQueueClient,
    OpenWireQueueClient,
    QueueClient,
    StompQueueClient,
)
from brokerproof.suites.steps.queue_model import IN_VIRTUAL_TIME
from brokerproof.suites.steps.traces import signs_of_life

MONTH = seconds(30 * 86_400)
MOST_ROUNDS = 21_600
"""A round every two minutes takes less than a minute of processor time."""
ASKED_MS = 60_000
"""The idle time-out that an AMQP 1.0 client requests: while nothing else is sent, each round has
one empty frame."""
WATCHED_MS = 20_000
"""The inactivity duration of an OpenWire connection."""


def rounds_of(target: Bench) -> int:
    """Return the number of rounds of a life."""
    return min(MOST_ROUNDS, amounts.FAR[target.effort])


class Life:
    """A connection that lasts ``rounds`` times ``step``. In every other round of the first and last
    thirds, one message is exchanged."""

    def __init__(self, target: Bench, client: QueueClient, step: Duration) -> None:
        self.target = target
        self.client = client
        self.step = step
        self.rounds = rounds_of(target)
        self.ledger = Ledger()
        self.born = target.now()
        self.handles: list[Any] = []

    def _message(self, number: int) -> None:
        key = b"%d" % number
        self.ledger.update(Attempted(key, "producer"))
        self.client.send([key])
        self.ledger.update(Confirmed(key))
        for body in self.client.receive(1):
            self.ledger.update(Delivered(body, "consumer", None))
        self.handles += [arrived.handle for arrived in self.client.held]
        keys = tuple(arrived.body for arrived in self.client.held)
        self.client.settle(len(keys))
        self.ledger.update(Settled(keys))
        self.client.peer.inbox.clear()  # each wait looks at all of it

    def live(self, beat: Callable[[], None], silences: Iterable[int] = ()) -> None:
        """Continue until the plan or the connection ends. Send nothing in the rounds of
        ``silences``."""
        silent = set(silences)
        for number in range(self.rounds):
            self.target.advance(self.step)
            if self.client.peer.ended is not None:
                return
            if number in silent:
                continue
            beat()
            if number % 2 == 0 and number * 3 // self.rounds != 1:
                self._message(number)
        self.target.used_amount("rounds of a life", self.rounds)

    @property
    def has_survived(self) -> bool:
        return self.client.peer.ended is None

    @cached_property
    def books(self) -> Books:
        return self.ledger.close()

    def __str__(self) -> str:
        lived = (self.target.now() - self.born) // seconds(1)
        end = "the connection is open" if self.has_survived else self.client.peer.instead()
        times = f"{self.rounds} times {self.step // NS_PER_MS} ms"
        return f"over {times}, {lived} s in all: {end}; {self.books}"

    def signs(self) -> list[Instant]:
        """Return the times of the broker's signs of life, from the start."""
        return [self.born, *signs_of_life(self.target, self.client.peer, self.born)]


BEATS = {"1.1": "STOMP11-HB-07", "1.2": "STOMP12-HB-07"}
AT_LEAST_EVERY = {"1.1": "STOMP11-HB-09", "1.2": "STOMP12-HB-09"}
CLIENT_BEATS = {"1.1": "STOMP11-HB-08", "1.2": "STOMP12-HB-08"}
ARRIVES = {"1.1": "STOMP11-SUB-02", "1.2": "STOMP12-SUB-02"}


@case(
    BEATS, AT_LEAST_EVERY, CLIENT_BEATS, ARRIVES, needs={"heart-beat", "anycast", IN_VIRTUAL_TIME}
)
def test_heart_beats_of_a_month(target: Bench, version: str) -> None:
    """For a month client and server send heartbeats as agreed, and a message is exchanged now and
    then. The server is never silent for longer than agreed, the connection stays open, and each
    message arrives. One scenario: everything is observed on one connection."""
    wanted = MONTH // rounds_of(target) // NS_PER_MS
    client = StompQueueClient(
        target, target.fresh_name(), version=version, heart_beat=f"{wanted},{wanted}"
    )
    sx, sy = (int(part) for part in client.peer.connected["heart-beat"].split(","))
    target.control(sx > 0 and sy > 0, f"heart-beats of {wanted} ms were answered by {sx},{sy}")
    client.join()
    life = Life(target, client, ms(max(wanted, sy)))
    life.live(client.peer.beat)
    target.record_finding(CLIENT_BEATS[version], life.has_survived, str(life))
    target.record_finding(ARRIVES[version], not life.books.lost, str(life))
    signs, period = life.signs(), ms(max(wanted, sx))
    target.record_finding(BEATS[version], len(signs) > life.rounds // 2, str(life))
    target.judge_period(
        AT_LEAST_EVERY[version], "silence of the server", signs, (0, period), until=signs[-1]
    )


def record_books(target: Bench, life: Life, once: str, order: str) -> None:
    """Record whether each message of a life arrived once and in order."""
    books = life.books
    target.record_finding(
        once, not (books.lost or books.shared or books.phantom or books.revived), str(life)
    )
    target.record_finding(order, not books.disordered, str(life))


@case(
    "AMQP091-HB-02",
    "AMQP091-HB-03",
    "AMQP091-HB-05",
    "AMQP091-TAG-01",
    "AMQP091-QUEUE-13",
    "AMQP091-PUB-04",
    needs={"amqp091", IN_VIRTUAL_TIME},
)
def test_an_amqp091_connection_of_a_month(target: Bench) -> None:
    """For a month client and server send heartbeats; the client is sometimes silent for less than
    two intervals. The server is never silent for longer than an interval, no tag is reused, and no
    message is lost. One scenario: everything is observed on one connection."""
    interval = MONTH // rounds_of(target) * 2 // seconds(1)
    client = Amqp091QueueClient(target, target.fresh_name(), heartbeat=interval)
    client.join()
    life = Life(target, client, seconds(interval) // 2)
    # Five silences of one and a half intervals, which begin in the first or second half of an
    # interval.
    begins = [life.rounds * part // 6 // 2 * 2 + part % 2 for part in range(1, 6)]
    life.live(client.peer.beat, [begin + step for begin in begins for step in (0, 1)])
    alive = ("AMQP091-HB-03", "AMQP091-HB-05")
    target.record_finding(alive, life.has_survived, str(life))
    signs = life.signs()
    target.judge_period(
        "AMQP091-HB-02", "silence of the server", signs, (0, seconds(interval)), until=signs[-1]
    )
    tags = life.handles
    again = len(tags) - len(set(tags))
    detail = f"of {len(tags)} deliveries, {again} have another's tag and {tags.count(0)} have tag 0"
    target.record_finding("AMQP091-TAG-01", not again and 0 not in tags, detail)
    record_books(target, life, "AMQP091-QUEUE-13", "AMQP091-PUB-04")


@case(
    "AMQP10-IDLE-20",
    "AMQP10-IDLE-11",
    "AMQP10-XFER-06",
    "AMQP10-CREDIT-03",
    needs={"amqp", IN_VIRTUAL_TIME},
)
def test_an_amqp_connection_of_many_time_outs(target: Bench) -> None:
    """For many idle time-outs client and broker show signs of life, and the first message of a link
    stays unsettled while further messages are exchanged. The connection stays open, the broker is
    never silent for longer than the time-out, no delivery has the tag of the unsettled one, and
    credit stays valid until used. One scenario: everything is observed on one connection."""
    asked = ASKED_MS
    client = AmqpQueueClient(target, target.fresh_name(), idle_time_out=asked)
    announced = int(client.peer.opened.get("idle-time-out") or 0)
    step = min(asked, announced or asked) // 2
    client.join()
    client.send([b"held"])
    client.receive(1)
    target.control(len(client.held) == 1, f"one message was sent and {len(client.held)} arrived")
    kept = client.held.pop().handle
    life = Life(target, client, ms(step))
    life.live(client.peer.beat)
    target.record_finding("AMQP10-IDLE-11", life.has_survived, str(life))
    signs = life.signs()
    target.judge_period(
        "AMQP10-IDLE-20", "silence of the broker", signs, (0, ms(asked)), until=signs[-1]
    )
    same = sum(handle.tag == kept.tag for handle in life.handles)
    detail = f"of {len(life.handles)} deliveries, {same} have the tag of one that is unsettled"
    target.record_finding("AMQP10-XFER-06", not same, detail)
    target.record_finding("AMQP10-CREDIT-03", not life.books.lost, str(life))


@case("ARTEMIS-TTL-core-2", needs={"core", "queue-semantics", IN_VIRTUAL_TIME})
def test_a_core_connection_of_many_pings(target: Bench) -> None:
    """A client pings for many times its TTL and exchanges messages. The connection stays open."""
    client = CoreQueueClient(target, target.fresh_name())
    client.join()
    life = Life(target, client, ms(TTL_MS) // 2)
    life.live(client.peer.ping)
    target.record_finding("ARTEMIS-TTL-core-2", life.has_survived, str(life))


@case(
    "OPENWIRE-INACT-5", "OPENWIRE-MSGACK-2", "ACTIVEMQ-ORDER-1", needs={"openwire", IN_VIRTUAL_TIME}
)
def test_an_openwire_connection_of_many_inactivities(target: Bench) -> None:
    """A client shows signs of life for many times the inactivity duration, while messages are
    exchanged. The connection stays open, and each message arrives once and in order. One scenario:
    everything is observed on one connection."""
    client = OpenWireQueueClient(target, target.fresh_name(), MaxInactivityDuration=WATCHED_MS)
    client.join()
    life = Life(target, client, ms(WATCHED_MS) // 2)
    life.live(client.peer.keep_alive)
    target.record_finding("OPENWIRE-INACT-5", life.has_survived, str(life))
    record_books(target, life, "OPENWIRE-MSGACK-2", "ACTIVEMQ-ORDER-1")
