"""RabbitMQ throttles a connection that publishes faster than its queue accepts.

(RabbitMQ: per-connection flow control.) On the wire this is a delay like any other; the management
API shows it as the ``flow`` state.
"""

from collections.abc import Iterator

from hypothesis import strategies as st

from brokerproof.harness.clients.rabbitmq_management_api import MANAGEMENT_API
from brokerproof.harness.trace.events import OctetsSent
from brokerproof.suites.amqp091.steps import queue_of
from brokerproof.suites.api import (
    PATIENCE,
    RECONFIGURABLE,
    Bench,
    Duration,
    Target,
    Where,
    case,
    ms,
    over,
    seconds,
)
from brokerproof.suites.api.amqp091 import Amqp091Peer, method

HELD_BACK_BY_QUEUE = "RABBITMQ-FLOW-conn-2"
SILENCE_ALLOWED = "RABBITMQ-FLOW-conn-1"

FLOW = "flow"
RATE = 1000
"""Messages per second that a queue accepts, on targets where this can be configured."""
INITIAL = 400
"""A connection may be this many messages ahead of a channel, and a channel of a queue
(``credit_flow_default_credit``)."""
FLOOD: Duration = seconds(60)
"""The longest flood in real time. In virtual time the API is always up to date."""
SLOW = 500
"""Bytes of a body: enough to keep a queue busy."""


def place(target: Target) -> Where:
    """Slow queues: by configuration if the target allows it; other brokers' queues are slow
    anyway."""
    slow = (
        {"broker": {"queue_rate": RATE}} if RECONFIGURABLE in target.identity.capabilities else None
    )
    return Where(target.identity.default_amqp_acceptor, slow)


def places(target: Target) -> st.SearchStrategy[Where]:
    return st.just(place(target))


def batch(peer: Amqp091Peer, queue: str, count: int) -> bytes:
    return peer.publication(bytes(SLOW), queue) * count


class Flood:
    """Publish to a queue as fast as possible, with confirms and at most two batches in flight."""

    def __init__(self, target: Bench, peer: Amqp091Peer, queue: str) -> None:
        self._target, self.peer, self.queue = target, peer, queue
        self.size = 1500 if target.virtual else 10_000
        self.sent = self.confirmed = self.acks = 0
        self._batch = batch(peer, queue, self.size)
        peer.call("confirm.select")

    def go_on(self) -> None:
        """Send another batch if there is room for one; count the confirmed messages."""
        self.count()
        while self.sent - self.confirmed < 2 * self.size:
            self.peer.write(self._batch, as_event=False)  # too many frames for the trace
            now, conn, shown = self._target.now(), self.peer.conn, self._batch[:64]
            self._target.record(OctetsSent(at_ns=now, conn=conn, data=shown, size=len(self._batch)))
            self.sent += self.size

    def count(self) -> None:
        for ack in self.peer.taken("basic.ack"):
            self.acks += 1
            self.confirmed = max(self.confirmed, ack["delivery-tag"])

    def end(self) -> bool:
        """Wait for the confirms; return True if every message was confirmed."""

        def all_of_it() -> bool:
            self.count()
            return self.confirmed >= self.sent or self.peer.ended is not None

        return self._target.wait_until(all_of_it, FLOOD) and self.confirmed == self.sent


def _until(target: Bench, flood: Flood, seen: Iterator[bool]) -> bool:
    """Flood until ``seen`` yields True, for at most :data:`FLOOD`."""
    deadline = target.now() + (FLOOD // 12 if target.virtual else FLOOD)
    for in_flow in seen:
        if in_flow or target.now() >= deadline or flood.acks > 80_000:  # a case may get 100,000
            return in_flow
        flood.go_on()
        target.wait_until(lambda: flood.peer.ended is not None, ms(50))
    raise AssertionError("it never ends by itself")


@case(HELD_BACK_BY_QUEUE, needs={"alarms", "connection-flow", MANAGEMENT_API})
@over(examples=1, where=places)
def test_a_connection_that_floods_its_queue_is_in_flow(target: Bench, where: Where) -> None:
    """A connection publishes as fast as it can, and another now and then. The management API
    reports the state flow only for the first, unless the queue keeps up, and finally all messages
    are accepted. One scenario: both connections must publish at the same time."""
    flooding, easy = target.amqp091(), target.amqp091()
    flood = Flood(target, flooding, queue_of(flooding, arguments={"x-max-length": 1000}))
    calm = queue_of(easy)
    easy.call("confirm.select")
    api = target.management()
    reported: list[str | None] = []

    def states() -> Iterator[bool]:
        number = 0
        while True:
            number += 1
            easy.publish(b"now and then", calm)
            easy.expect(method("basic.ack", delivery_tag=number), proves=HELD_BACK_BY_QUEUE)
            mine, other = (api.connection(peer) for peer in (flooding, easy))
            reported.append(None if other is None else other.get("state"))
            yield mine is not None and mine.get("state") == FLOW

    seen = _until(target, flood, states())
    if not (seen or target.virtual):
        target.record_not_applicable(HELD_BACK_BY_QUEUE, f"{flood.sent} messages were no flood")
        return
    target.record_finding(HELD_BACK_BY_QUEUE, seen, f"{flood.sent} messages led to no {FLOW}")
    seen_states = " and ".join(sorted(map(str, set(reported))))
    words = f"the connection that publishes now and then was {seen_states}; expected running"
    target.record_finding(HELD_BACK_BY_QUEUE, FLOW not in reported, words)
    whole = flood.end()
    detail = f"{flood.confirmed} of {flood.sent} messages were confirmed; {flooding.instead()}"
    target.record_finding(HELD_BACK_BY_QUEUE, whole, detail)
    state, quiet = target.management().state_of(flooding, {"running"}, seconds(20))
    detail = f"when all was accepted, the state was {state}; expected running"
    target.record_finding(HELD_BACK_BY_QUEUE, quiet, detail)


@case(HELD_BACK_BY_QUEUE, needs={"alarms", "readings", RECONFIGURABLE})
@over(
    examples=8,
    always=lambda target: [
        {"where": place(target), "count": count} for count in (300, 400, 900, 2500)
    ],
    where=places,
    count=st.integers(1, 3000),
)
def test_how_far_a_connection_may_be_ahead_of_its_queue(
    target: Bench, where: Where, count: int
) -> None:
    """A request follows a burst of messages on another channel of the connection. The broker
    answers it immediately if the burst is within the channel's credit, otherwise once the queue has
    caught up enough."""
    peer, owner = target.amqp091(channels=2), target.amqp091()
    queue = target.fresh_name()
    owner.declare(queue)
    since = target.now()
    peer.write(batch(peer, queue, count), as_event=False)
    peer.settle(2)
    least = max(0, count - 2 * INITIAL) * seconds(1) // RATE
    most = ms(50) if count < INITIAL else count * seconds(1) // RATE + ms(50)
    target.judge_duration(
        HELD_BACK_BY_QUEUE,
        f"answer after {count} messages",
        target.now() - since,
        (least, most),
        since,
    )
    target.wait_until(lambda: False, PATIENCE)
    depth = owner.count(queue)
    detail = f"the queue has {depth} messages of {count}"
    target.record_finding(HELD_BACK_BY_QUEUE, depth == count, detail)


@case(HELD_BACK_BY_QUEUE, SILENCE_ALLOWED, needs={"alarms", "readings", RECONFIGURABLE})
@over(examples=2, where=places)
def test_silence_in_flow_does_not_count(target: Bench, where: Where) -> None:
    """A client with heartbeats is throttled, and silent for longer than allowed. It stays
    connected, its messages are accepted, and then its silence counts again."""
    peer = target.amqp091(heartbeat=1)
    queue = target.fresh_name()
    peer.declare(queue)
    peer.write(batch(peer, queue, 8000), as_event=False)
    target.wait_until(lambda: peer.ended is not None, seconds(7))
    words = f"the client was silent for 7 s while its connection was in flow: {peer.instead()}"
    target.record_finding((HELD_BACK_BY_QUEUE, SILENCE_ALLOWED), peer.ended is None, words)
    peer.expect_end(within=seconds(5), proves=SILENCE_ALLOWED)
    depth = target.amqp091().count(queue)
    detail = f"the queue has {depth} messages of 8000"
    target.record_finding(HELD_BACK_BY_QUEUE, depth == 8000, detail)
