"""In a RabbitMQ cluster, an alarm on one node blocks publishing on all nodes.

(RabbitMQ: memory and disk alarms.) The nodes are ``a``, whose acceptors have their usual names, and
``b``. Each node has its own queue.
"""

from collections.abc import Callable
from dataclasses import dataclass

from brokerproof.suites.amqp091.steps import QUIET, arrive, bodies, drained, eventually, fill, holds
from brokerproof.suites.api import Bench, case, listed
from brokerproof.suites.api.amqp091 import Amqp091Peer, method

BLOCKED_ON_ALL_NODES = "RABBITMQ-FLOW-cluster-1"
OTHERS_GO_ON = "RABBITMQ-FLOW-conn-1"

BLOCKED, UNBLOCKED = (
    method("connection.blocked", channel=0),
    method("connection.unblocked", channel=0),
)


@dataclass(frozen=True)
class Node:
    target: Bench
    name: str
    acceptor: str
    owner: Amqp091Peer
    queue: str


@case(BLOCKED_ON_ALL_NODES, OTHERS_GO_ON, needs={"cluster"})
def test_an_alarm_on_one_node_blocks_publishing_on_all(target: Bench) -> None:
    """Memory and then disk alarms are raised at node b, at a, and at both, while clients publish
    and consume at the other node. Publishers on every node are blocked until the last alarm is
    cleared, and consumers continue."""
    a, b = _node(target, "a", "amqp"), _node(target, "b", "b.amqp")
    consumer = target.amqp091(acceptor=a.acceptor)
    fill(a.owner, a.queue, [b"one", b"two", b"three"])
    consumer.call("basic.qos", {"prefetch-count": 1})
    consumer.consume(a.queue)
    first = consumer.delivery()

    def consumes() -> None:
        consumer.ack(first["delivery-tag"])
        received = arrive(consumer, 1)
        # A consumer that missed it would take a message that later controls need.
        words = f"under the alarm, a consumer at node a got {listed(bodies(received))}"
        target.require(OTHERS_GO_ON, bodies(received) == [b"two"], words)

    _one_alarm(b, "memory", _node(target, "a", "amqp"), BLOCKED_ON_ALL_NODES, consumes)
    _one_alarm(b, "disk", a, BLOCKED_ON_ALL_NODES)
    _one_alarm(a, "memory", b, BLOCKED_ON_ALL_NODES)
    _two_alarms(a, b, BLOCKED_ON_ALL_NODES)
    for node in (a, b):
        node.owner.call("queue.delete", {"queue": node.queue})


def _node(target: Bench, name: str, acceptor: str) -> Node:
    owner, queue = target.amqp091(acceptor=acceptor), target.fresh_name()
    owner.declare(queue)
    return Node(target, name, acceptor, owner, queue)


def _publisher(at: Node) -> Amqp091Peer:
    """Return a connection whose message is delivered: the node works without an alarm."""
    publisher = at.target.amqp091(acceptor=at.acceptor)
    drained(at.owner, at.queue)
    publisher.publish(b"free", at.queue)
    holds(at.owner, at.queue, 1)
    drained(at.owner, at.queue)
    return publisher


def _held(
    publisher: Amqp091Peer, at: Node, resource: str, proves: str, body: bytes = b"held"
) -> None:
    """Judge whether the publisher's next message is held back, and that the publisher is
    notified."""
    target = at.target
    publisher.publish(body, at.queue)
    answer = publisher.expect(BLOCKED, proves=proves)
    detail = f"node {at.name} gives the reason {answer['reason']!r}"
    target.record_finding(proves, answer["reason"] == f"low on {resource}", detail)
    publisher.expect_nothing(
        for_=QUIET, of=UNBLOCKED, proves=proves, why="the alarm is still raised"
    )
    count = at.owner.count(at.queue)
    words = f"under the alarm, {count} messages reached the queue at {at.name}"
    target.record_finding(proves, count == 0, words)


def _come(publishers: dict[bytes, Amqp091Peer], at: Node, proves: str) -> None:
    """Judge whether publishers continue and that no message is lost. Messages may arrive in any
    order."""
    for publisher in publishers.values():
        publisher.expect(UNBLOCKED, proves=proves)
    there = eventually(at.owner, lambda: at.owner.count(at.queue) == len(publishers))
    received = bodies(drained(at.owner, at.queue))
    complete = there and sorted(received) == sorted(publishers)
    at.target.record_finding(
        proves, complete, f"after the alarm, {listed(received)} could be received at {at.name}"
    )
    for publisher in publishers.values():
        publisher.close_socket()


def _one_alarm(
    short: Node,
    resource: str,
    used: Node,
    proves: str,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    publisher = _publisher(used)
    short.target.raise_alarm(resource, node=short.name)
    try:
        _held(publisher, used, resource, proves)
        later = used.target.amqp091(acceptor=used.acceptor)
        _held(later, used, resource, proves, b"later")
        meanwhile()
    finally:
        short.target.clear_alarm(resource, node=short.name)
    _come({b"held": publisher, b"later": later}, used, proves)


def _two_alarms(a: Node, b: Node, proves: str) -> None:
    """Judge whether a publisher blocked by alarms on two nodes waits until both are cleared."""
    target, publisher = a.target, _publisher(a)
    target.raise_alarm("memory", node="b")
    try:
        _held(publisher, a, "memory", proves)
        target.raise_alarm("memory", node="a")
        target.clear_alarm("memory", node="b")
        publisher.expect_nothing(
            for_=QUIET, of=UNBLOCKED, proves=proves, why="the other node is short by now"
        )
    finally:
        target.clear_alarm("memory", node="b")
        target.clear_alarm("memory", node="a")
    _come({b"held": publisher}, a, proves)
