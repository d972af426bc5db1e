"""RabbitMQ's memory and disk thresholds to the exact byte, and when the broker checks them.

(RabbitMQ: flow control.) A case cannot choose a real machine's resources, so these cases are for
targets that simulate them (the ``readings`` capability). They run in virtual time, where they can
act at an exact instant. ``test_rabbitmq_limits.py`` has the cases that real brokers can run.
"""

from hypothesis import strategies as st

from brokerproof.harness.model.broker_io import ResourcesRead
from brokerproof.harness.oracles import resources
from brokerproof.harness.oracles.resources import LOOKS_AT_MEMORY
from brokerproof.suites.amqp091.steps import queue_of
from brokerproof.suites.api import Bench, Duration, case, ms, over, seconds, shown
from brokerproof.suites.api.amqp091 import Amqp091Peer, method

BLOCKED_ON_MEMORY = "RABBITMQ-FLOW-mem-1"
BLOCKED_AT_ONCE = "RABBITMQ-FLOW-mem-2"
SET_AT_RUNTIME = "RABBITMQ-FLOW-mem-3"
MEMORY_ASSUMED = "RABBITMQ-FLOW-mem-5"
BLOCKED_ON_DISK = "RABBITMQ-FLOW-disk-1"
DISK_LIMIT = "RABBITMQ-FLOW-disk-3"
DISK_CHECK_INTERVAL = "RABBITMQ-FLOW-disk-2"

GIB = 1024**3
BLOCKED, UNBLOCKED = (
    method("connection.blocked", channel=0),
    method("connection.unblocked", channel=0),
)
PLENTY = 10**15
"""Bytes of memory or disk space that exceed every threshold here."""
MOMENT: Duration = ms(1)


def publisher(target: Bench) -> tuple[Amqp091Peer, str]:
    """Return a connection that publishes, and the queue to which it publishes."""
    peer = target.amqp091()
    return peer, queue_of(peer)


def held_back(peer: Amqp091Peer, queue: str) -> bool:
    """Publish; return True if the broker announces that it holds the message back."""
    peer.publish(b"probe", queue)
    return peer.watch_for(BLOCKED, within=ms(50)) is not None


@case(BLOCKED_ON_MEMORY, BLOCKED_AT_ONCE, SET_AT_RUNTIME, needs={"alarms", "readings"})
@over(
    examples=60,
    always=lambda target: [
        {"watermark": 0.4, "total": 4 * GIB, "space": 2 * GIB, "above": above, "at_runtime": True}
        for above in (0, 1)
    ],
    watermark=st.sampled_from([0.0, 0.1, 0.4, 0.5, 1.0, 100.0, 1, GIB, 3 * GIB, 2**40]),
    total=st.sampled_from([GIB, 4 * GIB, 4 * GIB + 1, 2**42]),
    space=st.sampled_from([None, 2 * GIB, 2**47]),
    above=st.sampled_from([-1, 0, 1, GIB]),
    at_runtime=st.booleans(),
)
def test_memory_is_short_above_the_mark(
    target: Bench,
    watermark: float | int,
    total: int,
    space: int | None,
    above: int,
    at_runtime: bool,
) -> None:
    """The watermark is a fraction of the memory or the address space, or a number of bytes. At the
    watermark messages pass; one byte above it they wait until less memory is in use. A new
    watermark applies immediately. One scenario: each watermark replaces the previous one."""
    limit = resources.memory_limit(watermark, total, space)
    used = max(0, limit + above)
    short = used > limit
    proves = (
        SET_AT_RUNTIME
        if at_runtime
        else BLOCKED_AT_ONCE
        if watermark in (0.0, 100.0)
        else BLOCKED_ON_MEMORY
    )
    peer, queue = publisher(target)

    def machine(in_use: int) -> ResourcesRead:
        return ResourcesRead(in_use, total, space, disk_free=PLENTY)

    if at_runtime:
        target.set_limits(memory=float(10**6))
        target.readings(machine(used))
        target.control(
            not held_back(peer, queue), "with a mark out of reach, nothing should be held back"
        )
        target.set_limits(memory=watermark)
    else:
        target.set_limits(memory=watermark)
        target.readings(machine(used))
    label = (
        f"mark {watermark}, {total} bytes of memory, address space {shown(space)}: {used} are"
        f" used; the limit is {limit}"
    )
    held = held_back(peer, queue)
    detail = f"{label}: {'held back' if held else 'not held back'}"
    target.record_finding(proves, held is short, detail)
    if not held or not short:
        return
    if limit:  # memory in use is never negative
        target.readings(machine(limit))
        peer.expect(UNBLOCKED, within=LOOKS_AT_MEMORY + MOMENT, proves=BLOCKED_ON_MEMORY)
    else:
        target.set_limits(memory=1.0)
        peer.expect(UNBLOCKED, within=MOMENT, proves=SET_AT_RUNTIME)


@case(MEMORY_ASSUMED, needs={"alarms", "readings"})
@over(
    examples=16,
    always=lambda target: [
        {"watermark": watermark, "above": above} for watermark in (0.4, 3.0) for above in (0, 1)
    ],
    watermark=st.sampled_from([0.1, 0.4, 1.0, 3.0, 8.0]),
    above=st.sampled_from([-1, 0, 1]),
)
def test_a_gibibyte_is_assumed(target: Bench, watermark: float, above: int) -> None:
    """The machine's memory is unknown. The broker assumes 1024 MiB and applies the watermark, even
    above 1."""
    limit = resources.memory_limit(watermark, None)
    peer, queue = publisher(target)
    target.set_limits(memory=watermark)
    target.readings(ResourcesRead(limit + above, disk_free=PLENTY))
    held = held_back(peer, queue)
    target.record_finding(
        MEMORY_ASSUMED,
        held is (above > 0),
        f"watermark {watermark} of an unknown memory, {above} bytes above it: the publisher was"
        f" {'' if held else 'not '}held back",
    )


@case(BLOCKED_ON_DISK, DISK_LIMIT, needs={"alarms", "readings"})
@over(
    examples=30,
    always=lambda target: [{"limit": 1.0, "total": GIB, "below": above} for above in (0, 1)],
    limit=st.sampled_from([0.0, 0.5, 1.0, 2.0, 1, 50_000_000, 10**9]),
    total=st.sampled_from([GIB, 4 * GIB]),
    below=st.sampled_from([-1, 0, 1]),
)
def test_disk_space_is_short_below_the_limit(
    target: Bench, limit: float | int, total: int, below: int
) -> None:
    """The disk limit is a number of bytes or a multiple of the memory. With exactly that much free
    space messages pass, with one byte less they wait."""
    expected = resources.disk_limit(limit, total)
    free = max(0, expected - below)
    peer, queue = publisher(target)
    target.set_limits(memory=float(10**6), disk=limit)
    target.readings(ResourcesRead(1, total, disk_free=free))
    held = held_back(peer, queue)
    target.record_finding(
        DISK_LIMIT if isinstance(limit, float) else BLOCKED_ON_DISK,
        held is (free < expected),
        f"limit {limit} with {total} bytes of memory, that is {expected}: {free} bytes are free;"
        f" held back: {shown(held)}",
    )


@case(DISK_CHECK_INTERVAL, needs={"alarms", "readings"})
@over(
    examples=40,
    always=lambda target: [
        {"spare": spare} for spare in (0, 12_499_999, 12_500_000, 1_250_000_000, 10**12)
    ],
    spare=st.one_of(
        st.integers(0, 13_000_000), st.integers(13_000_000, 1_300_000_000), st.just(10**12)
    ),
)
def test_the_disk_is_looked_at_more_often_near_the_limit(target: Bench, spare: int) -> None:
    """Free space falls below the limit just after a check. Messages pass until the next check,
    which follows after 10 s, or sooner near the limit, down to a tenth of a second. The broker
    notices freed space 10 s later."""
    limit = 50_000_000
    interval = resources.disk_interval(limit + spare, limit)
    early, late = publisher(target), publisher(target)
    target.set_limits(memory=float(10**6), disk=limit)
    target.readings(ResourcesRead(1, GIB, disk_free=limit + spare))
    since = target.now()
    target.readings(ResourcesRead(1, GIB, disk_free=limit - 1))
    target.wait_until(lambda: False, since + interval - ms(52) - target.now())
    label = (
        f"{spare} bytes above the limit: the next check should follow after {interval // MOMENT} ms"
    )
    target.record_finding(
        DISK_CHECK_INTERVAL, not held_back(*early), f"{label}, but it came earlier"
    )
    target.wait_until(lambda: False, since + interval - target.now())
    target.record_finding(DISK_CHECK_INTERVAL, held_back(*late), f"{label}, but it did not come")
    target.readings(ResourcesRead(1, GIB, disk_free=limit))
    again = since + interval + seconds(10)
    peer = late[0]
    if peer.ended is None and target.wait_until(
        lambda: any(map(UNBLOCKED.accepts, peer.inbox)), seconds(11)
    ):
        target.judge_duration(
            DISK_CHECK_INTERVAL,
            "from the alarm to its end",
            target.now() - (since + interval),
            (seconds(10),) * 2,
            since + interval,
        )
    else:
        words = f"space was free again, but the alarm was not over at {again}"
        target.record_finding(DISK_CHECK_INTERVAL, False, words)
