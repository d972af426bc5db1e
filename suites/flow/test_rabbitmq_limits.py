"""RabbitMQ's thresholds, changed on a running broker, in ways that work on any broker: the
watermark throttles publishers but does not cap memory, and the disk limit may be a multiple of the
memory (RabbitMQ: flow control)."""

from brokerproof.harness.clients.rabbitmq_management_api import MANAGEMENT_API, ManagementPeer
from brokerproof.harness.model.broker_io import ResourcesRead
from brokerproof.suites.amqp091.steps import QUIET, bodies, drained, eventually, fill, queue_of
from brokerproof.suites.api import Bench, case, listed
from brokerproof.suites.api.amqp091 import method

NO_CAP = "RABBITMQ-FLOW-mem-4"
SET_AT_RUNTIME = "RABBITMQ-FLOW-mem-3"
DISK_LIMIT = "RABBITMQ-FLOW-disk-3"

BLOCKED, UNBLOCKED = (
    method("connection.blocked", channel=0),
    method("connection.unblocked", channel=0),
)
LITTLE = 30_000_000
"""Any running broker uses more than this many bytes of memory."""
MACHINE = ResourcesRead(100_000_000, 8_000_000_000, disk_free=100_000_000_000)
"""Readings of its machine that a target may report."""


def machine(target: Bench) -> None:
    """Set the target's machine properties, if it accepts them."""
    if "readings" in target.target.identity.capabilities:
        target.readings(MACHINE)


def memory_of(api: ManagementPeer) -> tuple[bool, int, int]:
    """Return whether there is a memory alarm, the memory in use, and the watermark."""
    node = api.node()
    return bool(node.get("mem_alarm")), node.get("mem_used", 0), node.get("mem_limit", 0)


@case(NO_CAP, SET_AT_RUNTIME, needs={"alarms", MANAGEMENT_API})
def test_the_watermark_throttles_and_caps_nothing(target: Bench) -> None:
    """The watermark is set far below the memory in use. Only publishing is blocked: connections,
    channels, queues, bindings and deliveries continue, and no message is lost. One scenario: an
    alarm blocks the whole broker."""
    machine(target)
    owner, publisher = target.amqp091(), target.amqp091()
    queue = queue_of(owner)
    fill(owner, queue, [b"%d" % at for at in range(20)])
    target.set_limits(memory=LITTLE)
    try:
        publisher.publish(b"held", queue)
        publisher.expect(BLOCKED, proves=(NO_CAP, SET_AT_RUNTIME))
        api = target.management()
        (alarm, used, limit), above = api.until(
            lambda: memory_of(api), lambda events: events[0] and events[1] > events[2]
        )
        detail = f"{used} bytes are used, which should be above the mark of {limit}; alarm: {alarm}"
        target.record_finding(NO_CAP, above, detail)
        fresh = target.amqp091(channels=5)
        others = [queue_of(fresh, channel=number) for number in range(1, 6)]
        for other in others:
            fresh.call(
                "queue.bind",
                {"queue": other, "exchange": "amq.fanout", "routing-key": ""},
                proves=NO_CAP,
            )
        target.advance(QUIET * 4)
        detail = f"{owner.count(queue)} of 20 messages are left above the mark"
        target.record_finding(NO_CAP, owner.count(queue) == 20, detail)
        received = bodies(drained(owner, queue))
        detail = f"above the mark, {listed(received)} could be received; expected 0 to 19"
        target.record_finding(NO_CAP, received == [b"%d" % at for at in range(20)], detail)
        words = f"two connections that publish nothing: {fresh.instead()}; {owner.instead()}"
        target.record_finding(NO_CAP, fresh.ended is None and owner.ended is None, words)
    finally:
        target.set_limits(memory=0.9)
    publisher.expect(UNBLOCKED, proves=SET_AT_RUNTIME)
    arrived = eventually(owner, lambda: owner.count(queue) == 1)
    depth = owner.count(queue)
    words = f"after the mark was raised again, the queue has {depth} messages; one had been blocked"
    target.record_finding(SET_AT_RUNTIME, arrived, words)


@case(DISK_LIMIT, needs={"alarms"})
def test_the_disk_limit_may_be_a_multiple_of_the_memory(target: Bench) -> None:
    """The disk limit is set to a millionth of the memory, then to a million times the memory, then
    to a number of bytes. Only the second blocks publishers, and immediately."""
    machine(target)
    publisher, owner = target.amqp091(), target.amqp091()
    queue = target.fresh_name()
    owner.declare(queue)
    target.set_limits(disk=0.000001)
    try:
        publisher.publish(b"passes", queue)
        publisher.settle()
        count = owner.count(queue)
        words = (
            f"with a limit of a millionth of the memory, {count} of 1 messages reached the queue"
        )
        target.record_finding(DISK_LIMIT, count == 1, words)
        target.set_limits(disk=1_000_000.0)
        publisher.publish(b"held", queue)
        answer = publisher.expect(BLOCKED, proves=DISK_LIMIT)
        detail = f"the reason is {answer['reason']!r}; expected the disk"
        target.record_finding(DISK_LIMIT, answer["reason"] == "low on disk", detail)
    finally:
        target.set_limits(disk=1_000_000)
    publisher.expect(UNBLOCKED, proves=DISK_LIMIT)
    owner.call("queue.delete", {"queue": queue})


@case(DISK_LIMIT, needs={"alarms", MANAGEMENT_API})
def test_the_disk_limit_is_worked_out_from_the_memory(target: Bench) -> None:
    """The disk limit is set to a multiple of the memory, which the management API then reports."""
    machine(target)
    try:
        target.set_limits(memory=0.5, disk=2.0)
        api = target.management()

        def told() -> tuple[int, int]:
            node = api.node()
            return node.get("mem_limit", 0), node.get("disk_free_limit", -1)

        (memory, disk), held = api.until(told, lambda both: abs(both[1] - 4 * both[0]) <= 4)
        words = f"half the memory is {memory}, twice it is {disk}; expected four times as much"
        target.record_finding(DISK_LIMIT, held, words)
    finally:
        target.set_limits(memory=0.9, disk=1_000_000)
