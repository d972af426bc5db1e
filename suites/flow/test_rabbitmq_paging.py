"""RabbitMQ pages queues out before publishers are blocked, or never (the paging threshold).

Classic queues paged out messages up to release 3.13. Release 4 has no such threshold, so these
cases are for targets with the ``memory-paging`` capability. The management API shows the messages
in memory.
"""

from collections.abc import Iterator

from hypothesis import strategies as st

from brokerproof.harness.clients.rabbitmq_management_api import MANAGEMENT_API
from brokerproof.harness.model.broker_io import ResourcesRead
from brokerproof.harness.oracles import resources
from brokerproof.suites.amqp091.steps import bodies, drained, fill, queue_of
from brokerproof.suites.amqp10.steps import collect
from brokerproof.suites.api import Bench, Duration, case, listed, ms, over, seconds
from brokerproof.suites.api.amqp091 import Amqp091Peer, method
from brokerproof.suites.api.amqp10 import Node
from brokerproof.suites.api.stomp import Destination
from brokerproof.suites.steps.queues import receive

PAGED_BEFORE_BLOCKING = "RABBITMQ-FLOW-page-1"
NEVER_PAGED = "RABBITMQ-FLOW-page-2"
SHORT_OF_DISK = "RABBITMQ-FLOW-disk-1"

NEEDS = {"alarms", "memory-paging", MANAGEMENT_API}
BLOCKED, UNBLOCKED = (
    method("connection.blocked", channel=0),
    method("connection.unblocked", channel=0),
)
LOOKS: Duration = ms(2500)
"""The broker checks this often whether queues must page (``memory_monitor_interval``)."""
TOTAL = 8 * 1024**3
PLENTY = 10**15


def in_memory(target: Bench, queue: str) -> tuple[int, int]:
    """Return how many messages of a queue wait, and how many are in memory. Each request has its
    own connection: RabbitMQ's API accepts at most 100 requests on one, and soon closes silent
    ones."""
    api = target.management()
    reported = api.queue(queue)
    api.close_socket()
    return reported.get("messages_ready", 0), reported.get("messages_ready_ram", -1)


@case(PAGED_BEFORE_BLOCKING, NEVER_PAGED, SHORT_OF_DISK, needs=NEEDS | {"readings"})
@over(
    examples=30,
    always=lambda target: (
        [
            {"watermark": 0.4, "ratio": ratio, "above": above, "short": False}
            for ratio in (0.5, 0.75, 1.5)
            for above in (-1, 0)
        ]
        + [{"watermark": 0.4, "ratio": 0.5, "above": 0, "short": True}]
    ),
    watermark=st.sampled_from([0.4, 0.1, 0.9]),
    ratio=st.sampled_from([0.5, 0.75, 0.9, 1.0, 1.5, 2.0]),
    above=st.sampled_from([-1, 0, 1000]),
    short=st.booleans(),
)
def test_where_paging_begins(
    target: Bench, watermark: float, ratio: float, above: int, short: bool
) -> None:
    """Memory in use reaches the paging ratio of the watermark. One byte below that a queue stays in
    memory; at that point all its messages are written out. With a ratio above 1.0, or while disk
    space is short, none are. One scenario: the last step reads the pages of the first."""
    limit = resources.memory_limit(watermark, TOTAL)
    at = min(-(-int(ratio * 1000) * limit // 1000), 2 * limit)
    used = at + above
    peer = target.amqp091()
    queue = queue_of(peer)
    messages = [b"%d " % number + bytes(number) for number in range(20)]
    fill(peer, queue, messages)
    target.set_limits(memory=watermark, disk=1000, paging=ratio)
    free = 999 if short else PLENTY
    target.readings(ResourcesRead(1, TOTAL, disk_free=free))
    target.readings(ResourcesRead(used, TOTAL, disk_free=free))
    target.advance(2 * LOOKS)
    wait, left = in_memory(target, queue)
    label = (
        f"watermark {watermark}, ratio {ratio}, {used / limit:.6f} of the mark used: {left} of"
        f" {wait} are in memory"
    )
    expected = ratio <= 1.0 and above >= 0
    if short:
        if expected:
            detail = f"{label} while disk space is short; expected all"
            target.record_finding(SHORT_OF_DISK, left == 20, detail)
        return
    target.record_finding(
        NEVER_PAGED if ratio > 1.0 else PAGED_BEFORE_BLOCKING,
        left == (0 if expected else 20),
        f"{label}; expected {0 if expected else 20}",
    )
    if used <= limit:
        peer.publish(b"more", queue)
        peer.settle()
        messages.append(b"more")
        words = f"{label}: below the mark publishers should go on"
        target.record_finding(PAGED_BEFORE_BLOCKING, peer.take(BLOCKED) is None, words)
    else:
        other = target.amqp091()
        other.publish(b"held", queue)
        other.expect(BLOCKED, proves=NEVER_PAGED if ratio > 1.0 else PAGED_BEFORE_BLOCKING)
    target.advance(LOOKS)
    received = bodies(drained(peer, queue))
    words = f"{label}; {len(received)} of {len(messages)} arrived unchanged"
    target.record_finding(PAGED_BEFORE_BLOCKING, received == messages, words)


@case(SHORT_OF_DISK, PAGED_BEFORE_BLOCKING, needs=NEEDS | {"readings"})
def test_nothing_is_paged_while_the_disk_is_short(target: Bench) -> None:
    """Memory is needed while disk space is short. Nothing is written out until disk space is free
    again; then everything is."""
    peer = target.amqp091()
    queue = queue_of(peer)
    fill(peer, queue, [b"some bytes"] * 20)
    target.set_limits(memory=0.4, disk=1000, paging=0.5)
    target.readings(ResourcesRead(TOTAL * 3 // 10, TOTAL, disk_free=999))
    target.advance(4 * LOOKS)
    _, left = in_memory(target, queue)
    words = f"without disk space, {left} of 20 messages are in memory; expected all"
    target.record_finding(SHORT_OF_DISK, left == 20, words)
    target.readings(ResourcesRead(TOTAL * 3 // 10, TOTAL, disk_free=PLENTY))
    target.advance(seconds(10) + LOOKS)
    _, left = in_memory(target, queue)
    words = f"once there was disk space again, {left} of 20 messages are in memory; expected none"
    target.record_finding(PAGED_BEFORE_BLOCKING, left == 0, words)


@case(PAGED_BEFORE_BLOCKING, needs=NEEDS | {"readings"})
@over(
    examples=3,
    always=lambda target: [
        {"way": way} for way in ("get", "dead letters", "stomp", "amqp", "reject")
    ],
    way=st.sampled_from(["get", "dead letters", "stomp", "amqp", "reject"]),
)
def test_what_was_written_out_comes_back_whole(target: Bench, way: str) -> None:
    """Messages paged to disk leave their queue by get, dead-lettering, STOMP, AMQP 1.0 or
    redelivery, unchanged and in order. One scenario: each way out begins with the same paged
    queue."""
    peer = target.amqp091()
    queue, dead = target.fresh_name(), target.fresh_name()
    letters = {"x-max-length": 5, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    peer.declare(dead)
    peer.declare(queue, arguments=letters if way == "dead letters" else {})
    sent = [b"%d " % number + bytes(5000 + number) for number in range(5)]
    fill(peer, queue, sent)
    target.set_limits(memory=0.4, paging=0.5)
    target.readings(ResourcesRead(TOTAL * 3 // 10, TOTAL, disk_free=PLENTY))
    target.advance(2 * LOOKS)
    _, left = in_memory(target, queue)
    target.control(left == 0, f"{left} messages are in memory; expected none")
    if way == "dead letters":
        for _ in range(5):
            peer.publish(b"more", queue)
        peer.settle()
        received = bodies(drained(peer, dead))
    elif way == "stomp":
        reader = target.stomp()
        reader.subscribe(Destination(f"/amq/queue/{queue}"))
        received = [message.body for message in receive(target, reader, 5)]
    elif way == "amqp":
        taker = target.amqp()
        inlet = taker.receiver(
            Node(str(target.profile.parameters["declared_node"]).format(name=queue)), credit=10
        )
        received = [bytes(delivery.message.body) for delivery in collect(target, taker, inlet, 5)]
    else:
        if way == "reject":
            got = [peer.get(queue) for _ in range(5)]
            for message in got:
                peer.send(
                    "basic.reject",
                    {"delivery-tag": message["delivery-tag"], "requeue": True},
                    channel=1,
                )
            peer.settle()
        received = bodies(drained(peer, queue))
    words = f"{way}: {listed(received)} arrived; expected {listed(sent)}"
    target.record_finding(PAGED_BEFORE_BLOCKING, received == sent, words)


# --- as far as any broker can be tested -----------------------------------------------------------

HELD = 1000
"""Real-time length of the queue that should be paged out; in virtual time it is shorter."""
BODY = bytes(5000)
"""More than the 4096 bytes up to which RabbitMQ keeps bodies in the queue index, in memory."""
ALONGSIDE = 12
"""Number of queues with traffic. RabbitMQ divides memory among queues by the time in which each
would become empty; these become empty immediately."""
LONG: Duration = seconds(15)
"""Check for this long that nothing is paged out: over three times the age of the API's numbers."""


class Traffic:
    """Steady traffic through queues; ``held`` receives as many messages as it delivers."""

    def __init__(self, target: Bench, peer: Amqp091Peer, held: str) -> None:
        self._target, self._peer, self._held = target, peer, held
        self._queues = [queue_of(peer) for _ in range(ALONGSIDE)]

    def _step(self, publishes: bool) -> None:
        """Send a message through each queue. Take one out of ``held`` and, unless publishers are
        blocked, put one into it."""
        everywhere = (*self._queues, self._held)
        for queue in everywhere if publishes else ():
            self._peer.publish(BODY, queue)
        for queue in everywhere if publishes else (self._held,):
            self._peer.get(queue, no_ack=True)

    def for_(self, duration: Duration, until: Iterator[bool], *, publishes: bool = True) -> bool:
        """Keep the traffic going for this long, or until the regularly checked condition is
        true."""
        end = self._target.now() + duration
        while self._target.now() < end:
            for _ in range(1 if self._target.virtual else 5):
                self._step(publishes)
                self._target.advance(ms(500 if self._target.virtual else 100))
            if next(until):
                return True
        return False


def in_use(target: Bench) -> int:
    """Return the number of bytes of memory in use."""
    api = target.management()
    used, _ = api.until(lambda: int(api.node().get("mem_used", 0)), bool)
    target.control(used > 0, "the API should report how much memory is used")
    api.close_socket()
    return used


def outside(target: Bench, queue: str) -> Iterator[bool]:
    """At each request, yield True if less than half of a queue is in memory."""
    while True:
        wait, left = in_memory(target, queue)
        yield 0 <= left < wait // 2


@case(PAGED_BEFORE_BLOCKING, NEVER_PAGED, needs=NEEDS)
def test_the_order_of_events_as_memory_is_needed(target: Bench) -> None:
    """The watermark is set above, below and above the memory in use. If the paging threshold is
    above the memory in use, or the ratio above 1.0, the queue stays in memory; with a ratio of 0.5
    most of it is paged out, and publishers continue. One scenario: the order of the steps is
    judged."""
    if "readings" in target.target.identity.capabilities:
        target.readings(ResourcesRead(100_000_000, TOTAL, disk_free=PLENTY))
    owner, publisher = target.amqp091(), target.amqp091()
    queue = queue_of(owner)
    target.set_limits(memory=0.9, paging=0.95)
    fill(owner, queue, [BODY] * (HELD // 5 if target.virtual else HELD))
    traffic = Traffic(target, owner, queue)
    long = 3 * LOOKS if target.virtual else LONG

    def mark(parts: int, of: int, ratio: float) -> str:
        """Set the watermark to a fraction of the memory in use, and set the ratio; describe
        both."""
        used = in_use(target)
        target.set_limits(memory=used * parts // of, paging=ratio)
        return f"{used} bytes used, mark {used * parts // of}, ratio {ratio}"

    def stays(level: str, proves: str) -> None:
        wait, left = in_memory(target, queue)
        detail = f"{level}: {left} of {wait} messages are in memory; expected nearly all"
        target.record_finding(proves, left >= wait * 9 // 10, detail)

    try:
        memory = mark(4, 3, 0.95)
        traffic.for_(long, outside(target, queue))
        stays(memory, PAGED_BEFORE_BLOCKING)
        memory = mark(5, 6, 1.5)
        publisher.publish(b"held", queue)
        publisher.expect(BLOCKED, proves=NEVER_PAGED)
        traffic.for_(long, outside(target, queue), publishes=False)
        stays(memory, NEVER_PAGED)
        memory = mark(4, 3, 0.5)
        publisher.expect(UNBLOCKED, proves=NEVER_PAGED)
        gone = traffic.for_(4 * LONG, outside(target, queue))
        wait, left = in_memory(target, queue)
        words = f"{memory}: {left} of {wait} messages are in memory; expected only a few"
        target.record_finding(PAGED_BEFORE_BLOCKING, gone, words)
        publisher.publish(b"passes", queue)
        publisher.settle()
        told = "no" if publisher.take(BLOCKED) is None else "a"
        words = f"while queues were written out, the publisher got {told} connection.blocked"
        target.record_finding(PAGED_BEFORE_BLOCKING, told == "no", words)
    finally:
        target.set_limits(memory=0.9, paging=0.5)
