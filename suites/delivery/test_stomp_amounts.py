"""STOMP's own requirements hold for any number of messages and clients, on any broker.

The cases vary the number of waiting messages, of messages per ACK or per transaction, and of
transactions, subscriptions, connections or outstanding receipts. The amounts are those of
:mod:`brokerproof.suites.steps.amounts`.
"""

from collections import Counter

from brokerproof.suites.api import PATIENCE, Bench, RoutingType, case, listed
from brokerproof.suites.api.stomp import frame
from brokerproof.suites.delivery.amount_steps import judge_connections
from brokerproof.suites.steps import amounts
from brokerproof.suites.steps.queue_clients import StompQueueClient, wait_while_frames_come
from brokerproof.suites.steps.queues import QUIET
from brokerproof.suites.steps.whole_histories import (
    Sentences,
    corners,
    course,
    history_of,
    over_courses,
)

RECEIPT = {"1.1": "STOMP11-RCPT-01", "1.2": "STOMP12-RCPT-01"}
ARRIVES = {"1.1": "STOMP11-SUB-02", "1.2": "STOMP12-SUB-02"}
ATOMIC = {"1.1": "STOMP11-BEGIN-02", "1.2": "STOMP12-BEGIN-03"}
CUMULATIVE = {"1.1": "STOMP11-SUB-10", "1.2": "STOMP12-SUB-11"}
UNSETTLED_IS_KEPT = {"1.1": "STOMP11-ACK-05", "1.2": "STOMP12-ACK-04"}
STOMP = {
    version: Sentences(
        once=ARRIVES[version],
        gone=CUMULATIVE[version],
        order=None,
        unordered="stomp.order-of-a-queue",
        back=UNSETTLED_IS_KEPT[version],
        order_after_return=False,
        atomic=ATOMIC[version],
        returns=False,
    )
    for version in ("1.1", "1.2")
}
"""What STOMP itself requires: no order, and redeliveries only of messages seen before."""
CONNECTIONS = 200
"""The most connections that a case opens at a time."""


@case({version: each.ids for version, each in STOMP.items()}, needs={"transactions", "anycast"})
@over_courses(5, corners(lambda target: ["stomp"], 0))
def test_a_history_of_stomp_of_any_length_is_conserved(
    target: Bench, version: str, position: int, stride: int, comers: int, lost: bool, narrow: bool
) -> None:
    """Any number of messages pass through a queue, also in transactions, while consumers settle
    any number of them with one ACK and leave. Each arrives, and not again once it is acknowledged.
    One scenario: the requirements constrain one history."""
    plan = course(target, position, stride, comers, lost, narrow)
    history_of(target, STOMP[version], ("stomp", "stomp"), plan, version=version)


@case({version: (RECEIPT[version], ARRIVES[version]) for version in RECEIPT}, needs={"anycast"})
@amounts.over_amounts(examples=2)
def test_any_number_of_receipts_is_sent(target: Bench, version: str, position: int) -> None:
    """Any number of SENDs are sent in one write, each with a receipt. Each gets its RECEIPT, once,
    and a consumer gets each message. One scenario: confirmed messages must arrive."""
    count = amounts.at(target, position, least=1, piped=True)
    peer, to = target.stomp(version), target.destination()
    names = [peer.next_receipt() for _ in range(count)]
    with peer.in_one_write():
        for name in names:
            peer.publish(to, name.encode(), {"receipt": name}, receipt=False)
    is_receipt = frame("RECEIPT")
    target.used_amount("receipts under way", count)
    wait_while_frames_come(target, peer, lambda: len(peer.inbox) >= count)
    times = Counter(item.get("receipt-id") for item in peer.inbox if is_receipt.accepts(item))
    wrong = [name for name in names if times[name] != 1]
    # RECEIPT is due for processed frames; how many were processed on a broken connection is
    # unknown.
    words = f"{len(wrong)} of {count} receipts did not arrive exactly once: {peer.instead()}"
    target.control(peer.ended is None or not wrong, words)
    target.record_finding(
        RECEIPT[version],
        not wrong,
        f"of the receipts for {count} SENDs in one write, {len(wrong)} did not arrive exactly once:"
        f" {', '.join(wrong[:3]) or 'none'}; {peer.instead()}",
    )
    consumer = target.stomp(version)
    consumer.subscribe(to)
    wait_while_frames_come(target, consumer, lambda: consumer.messages_seen >= count)
    lost = {name for name in names if times[name]}
    lost -= {message.body.decode() for message in consumer.take_messages()}
    words = ", ".join(sorted(lost)[:5]) or "none"
    detail = f"of {count} confirmed messages, those that did not arrive: {words}"
    target.record_finding(ARRIVES[version], not lost, f"{detail}; {consumer.instead()}")


@case(ATOMIC, needs={"transactions", "anycast"})
@amounts.over_amounts(examples=10)
def test_any_number_of_transactions_is_open(target: Bench, version: str, position: int) -> None:
    """Any number of transactions may be open, each with one SEND. Every other one is committed and
    the rest are aborted. Exactly the messages of the committed ones arrive."""
    count = amounts.at(target, position, least=2, most=2000)
    peer, to = target.stomp(version), target.destination()
    names = [f"{peer.transaction}-{number}" for number in range(count)]
    with peer.in_one_write():
        for number, name in enumerate(names):
            peer.send("BEGIN", {"transaction": name})
            body, within = b"%d" % number, {"transaction": name}
            peer.publish(to, body, within, receipt=False)
    peer.settle()
    with peer.in_one_write():
        for number, name in enumerate(names):
            peer.send("ABORT" if number % 2 else "COMMIT", {"transaction": name})
    peer.settle()
    target.used_amount("open transactions", count)
    consumer = target.stomp(version)
    consumer.subscribe(to)
    expected = (count + 1) // 2
    target.wait_until(lambda: consumer.messages_seen >= expected, PATIENCE)
    target.advance(QUIET)
    got = [int(message.body) for message in consumer.take_messages()]
    words = f"{expected} of {count} transactions were committed; {listed(got)} arrived"
    target.record_finding(ATOMIC[version], sorted(got) == list(range(0, count, 2)), words)


@case(ARRIVES, needs={"multicast"})
@amounts.over_amounts(examples=2)
def test_any_number_of_subscriptions_gets_a_copy(
    target: Bench, version: str, position: int
) -> None:
    """A connection has any number of subscriptions to a topic; two of them have already received a
    copy each. Every subscription gets every message."""
    # A real broker may need milliseconds to create a queue for each, for which other cases must
    # wait.
    most = 10_000 if target.virtual else 150
    count = amounts.at(target, position, least=2, most=most)
    topic, peer = target.destination(RoutingType.MULTICAST), target.stomp(version)
    producer = target.stomp(version)

    def copies(sent: list[bytes], subscriptions: int) -> dict[str | None, list[bytes]]:
        expected = peer.messages_seen + len(sent) * subscriptions
        for body in sent:
            producer.publish(topic, body)
        target.wait_until(lambda: peer.messages_seen >= expected, PATIENCE)
        target.advance(QUIET)
        found: dict[str | None, list[bytes]] = {}
        for message in peer.take_messages():
            found.setdefault(message.get("subscription"), []).append(message.body)
        return found

    for number in range(2):
        peer.subscribe(topic, str(number))
    got = copies([b"zero"], 2)
    target.control(got == {"0": [b"zero"], "1": [b"zero"]}, f"two subscriptions got {got}")
    with peer.in_one_write():
        for number in range(2, count):
            peer.subscribe(topic, str(number), receipt=False)
    peer.settle()
    target.used_amount("subscriptions of a connection", count)
    got = copies(sent := [b"one", b"two"], count)
    wrong = [str(n) for n in range(count) if sorted(got.get(str(n), [])) != sent]
    words = "; ".join(f"{name} got {listed(got.get(name, []))}" for name in wrong[:3]) or "none"
    words = f"of {count} subscriptions, those that did not get two messages once each: {words}"
    target.record_finding(ARRIVES[version], not wrong, words)


@case("STOMP12-RCPT-01", "STOMP12-SUB-02", needs={"stomp-1.2", "anycast"})
@amounts.over_amounts(examples=10)
def test_any_number_of_connections_is_served(target: Bench, position: int) -> None:
    """Any number of connections are open at a time. Each is answered, and the message that each
    sends arrives."""
    rules = ("STOMP12-SUB-02", "STOMP12-RCPT-01")
    judge_connections(target, StompQueueClient, position, CONNECTIONS, *rules)
