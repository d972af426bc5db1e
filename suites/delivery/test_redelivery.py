"""Redelivery after a failure: complete, in order, at the head of the queue, and marked."""

from functools import partial

import pytest
from hypothesis import strategies as st

from brokerproof.suites.amqp10.outcome_steps import STATES, source
from brokerproof.suites.amqp10.steps import bodies as amqp_bodies
from brokerproof.suites.amqp10.steps import collect as amqp_collect
from brokerproof.suites.amqp10.steps import fill
from brokerproof.suites.api import (
    PATIENCE,
    Bench,
    CloseHow,
    RoutingType,
    Target,
    case,
    listed,
    over,
)
from brokerproof.suites.api.amqp10 import Node
from brokerproof.suites.api.core import delivery
from brokerproof.suites.api.stomp import Frame
from brokerproof.suites.steps.core import CORE, sized
from brokerproof.suites.steps.queue_model import MEMORY, place_names
from brokerproof.suites.steps.queues import (
    INDIVIDUAL,
    QUIET,
    Consumer,
    bodies,
    collect,
    expected_arrivals,
    held,
    numbered,
    publish_all,
    publish_late,
    receive,
    subscribed_again,
)

BACK = "ARTEMIS-REDELIVERY-back-1"
DEAD = "ARTEMIS-REDELIVERY-dead-1"
NOT_AGAIN = "ARTEMIS-REDELIVERY-dead-2"
MARKED = "ARTEMIS-REDELIVERY-marked-1"
FIFO = "ARTEMIS-GROUPING-fifo-1"


def judge(
    target: Bench, after: Consumer, received: list[bytes], due: list[bytes], words: str
) -> None:
    """Record whether all ``due`` messages were received in this order."""
    detail = f"{words} {listed(received)}"
    any_order = expected_arrivals(after, received, due, "in any order")
    target.record_finding(BACK, sorted(received) == sorted(due), detail, expectation=any_order)
    in_order = expected_arrivals(after, received, due)
    target.record_finding(FIFO, received == due, detail, expectation=in_order)


@case(BACK, FIFO, needs={"queue-semantics"})
@pytest.mark.parametrize("how", [CloseHow.EOF, CloseHow.RESET, "DISCONNECT", "UNSUBSCRIBE"])
@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_unsettled_messages_come_again_in_their_order(target: Bench, how: str, ack: str) -> None:
    """A consumer that holds five messages is lost, or leaves by DISCONNECT or UNSUBSCRIBE. The next
    consumer gets all five in the queue's order, before later messages. This is not the order of
    sending if the broker has transactions: the second to fourth messages were sent first, in a
    transaction."""
    queue, consumer, producer = target.destination(), target.stomp("1.2"), target.stomp("1.2")
    one, *within, last = numbered(5)
    publish_late(target, producer, queue, within, lambda: publish_all(producer, queue, [one]))
    publish_all(producer, queue, [last])
    first = bodies(held(target, consumer, queue, 5, ack))
    target.control(first == numbered(5), f"five messages were delivered as {listed(first)}")
    if how in ("DISCONNECT", "UNSUBSCRIBE"):
        consumer.request(how, {"id": "0"} if how == "UNSUBSCRIBE" else ())
    if how != "UNSUBSCRIBE":
        consumer.close_socket(CloseHow.EOF if how == "DISCONNECT" else CloseHow(how))
    after = target.stomp("1.2")
    after.subscribe(queue)
    received = bodies(receive(target, after, 5))
    returned = {0: "no-client", 5: "next-client"}.get(len(received))
    if how == "UNSUBSCRIBE" and returned:
        target.record_behaviour("stomp.held-at-unsubscribe", returned)
    judge(target, after, received, numbered(5), "five were held; the next consumer got")
    publish_all(producer, queue, numbered(3, "later"))
    received = bodies(collect(target, after, 3))
    words = "after them, three were sent and the next consumer got"
    judge(target, after, received, numbered(3, "later"), words)


@case(BACK, FIFO, needs={"queue-semantics"})
def test_what_comes_back_goes_before_what_waits(target: Bench) -> None:
    """A consumer holds five of twenty messages and unsubscribes. The next consumer gets all twenty
    in the order of sending."""
    queue, consumer, producer = target.destination(), target.stomp("1.2"), target.stomp("1.2")
    sent = [body.ljust(2000, b".") for body in numbered(20)]
    publish_all(producer, queue, sent)
    consumer.subscribe(queue, ack="client")
    seen = len(receive(target, consumer, 5))
    detail = f"five of twenty messages should arrive before any is acknowledged, not {seen}"
    target.control(seen >= 5, detail)
    consumer.request("UNSUBSCRIBE", {"id": "0"})
    after = target.stomp("1.2")
    after.subscribe(queue)
    received = bodies(receive(target, after, 20))
    judge(target, after, received, sent, f"{seen} of twenty were held; the next consumer got")


@case(BACK, FIFO, needs={"queue-semantics", "consumer-window"})
@pytest.mark.parametrize("leaving", ["abc", "acb", "bac", "bca", "cab", "cba"])
def test_what_several_give_back_is_in_order_again(target: Bench, leaving: str) -> None:
    """Three subscriptions hold one message each, three messages wait, and the subscriptions end in
    any order. The next consumer gets all six in the order of sending."""
    queue, consumer = target.destination(), target.stomp("1.2")
    for name in "abc":
        consumer.subscribe(queue, name, ack="client", headers={"consumer-window-size": "0"})
    publish_all(target.stomp("1.2"), queue, numbered(6))
    shares = collect(target, consumer, 3)
    by = ", ".join(
        f"{message.body.decode()} by {message.get('subscription')}" for message in shares
    )
    detail = f"three subscriptions with room for one message each hold {by}"
    target.control(len(shares) == 3, detail)
    for name in leaving:
        consumer.request("UNSUBSCRIBE", {"id": name})
    after = target.stomp("1.2")
    after.subscribe(queue)
    received = bodies(receive(target, after, 6))
    words = f"{by} were held and given back in the order {leaving}; the next consumer got"
    judge(target, after, received, numbered(6), words)


def _spoken(target: Target) -> list[dict[str, object]]:
    kinds = [(spoken, False) for spoken in INDIVIDUAL]
    if "durable-subscriptions" in target.identity.capabilities:
        kinds += [("1.2", True), ("1.1", True)]
    return [{"spoken": spoken, "durable": durable} for spoken, durable in kinds]


@case(MARKED, needs={"redelivered-header"})
@pytest.mark.parametrize("how", [CloseHow.EOF, CloseHow.RESET])
@over(
    examples=1,
    always=_spoken,
    spoken=st.sampled_from(["1.0", "1.1", "1.2"]),
    durable=st.just(False),
)
def test_what_comes_again_after_a_lost_connection_is_marked(
    target: Bench, how: CloseHow, spoken: str, durable: bool
) -> None:
    """Three consumers in turn hold the same three messages of a queue or a durable subscription,
    and are lost. Each redelivery has redelivered:true, and later messages do not."""
    to = target.destination(RoutingType.MULTICAST if durable else RoutingType.ANYCAST)
    owner = {"client-id": target.fresh_name()} if durable else {}
    name = {"durable-subscription-name": "s"} if durable else {}
    producer, connect = target.stomp(spoken), partial(target.stomp, spoken, headers=owner)
    again: list[Frame] = []
    for turn in range(3):
        consumer = subscribed_again(target, connect, to, name, ack=INDIVIDUAL[spoken])
        if not turn:
            publish_all(producer, to, numbered(3))
        got = receive(target, consumer, 3)
        target.control(len(got) == 3, f"of three messages {listed(bodies(got))} arrived")
        again += got if turn else []
        consumer.close_socket(how)
    after = subscribed_again(target, connect, to, name)
    last = receive(target, after, 3)
    again += last
    publish_all(producer, to, numbered(2, "fresh"))
    fresh = receive(target, after, 2)
    arrived, due = bodies([*last, *fresh]), {*numbered(3), *numbered(2, "fresh")}
    target.control({*arrived} == due, f"five messages should arrive; {listed(arrived)} did")
    wrong = [message.body for message in again if message.get("redelivered") != "true"]
    words = f"delivered again without redelivered:true: {listed(wrong)}"
    target.record_finding(MARKED, not wrong, words)
    wrong = [message.body for message in fresh if message.get("redelivered") == "true"]
    words = f"delivered for the first time with redelivered:true: {listed(wrong)}"
    target.record_finding(MARKED, not wrong, words)
    if durable:
        after.request("UNSUBSCRIBE", {"id": "0", **name})


@case(MARKED, needs={"redelivered-header", CORE})
@over(
    examples=6,
    always=lambda target: [{"ends": ["rollback", "rollback", CloseHow.EOF], "count": 3}],
    ends=st.lists(st.sampled_from(["rollback", *CloseHow]), min_size=1, max_size=3),
    count=st.integers(1, 30),
)
def test_what_a_core_transaction_gave_back_is_marked(
    target: Bench, ends: list[str], count: int
) -> None:
    """A CORE consumer acknowledges messages in transactions, each of which is rolled back or lost.
    Each redelivery has a delivery count above one; first deliveries do not."""
    name, producer = target.fresh_name(), target.core()
    producer.create_queue(name)
    for number in range(count):
        producer.publish(sized(name, number, 100))
    for turn, end in enumerate([*ends, CloseHow.EOF]):
        if not turn or ends[turn - 1] != "rollback":
            peer = target.core(auto_commit_acks=False)
            peer.create_consumer(name)
            peer.credit(-1)
        got = [peer.expect(delivery(0)) for _ in range(count)]
        counts = [one["delivery-count"] for one in got]
        detail = f"after {listed(ends[:turn])}, the delivery counts are {listed(counts)}"
        target.record_finding(MARKED, all((one > 1) is (turn > 0) for one in counts), detail)
        peer.acknowledge(got[-1])
        if end == "rollback":
            peer.call("rollback", {"last-delivered": False})
        else:
            peer.close_socket(CloseHow(end))


ATTEMPTS = {"anycast.more.": 3, "": 10}
"""max-delivery-attempts by prefix: the number that our broker.xml sets, and the default."""
FAILURES = ("failed", "released", "rollback")
"""Ways to return a message; ``released`` is no failed attempt."""


def _returned(target: Bench, node: Node, count: int, way: str) -> list[bytes]:
    """Let a consumer receive ``count`` messages and return them; return those that arrived."""
    if way == "rollback":
        core = target.core(auto_commit_acks=False)
        core.create_consumer(node.address)
        core.credit(-1)
        due = delivery(0)
        target.wait_until(lambda: sum(map(due.accepts, core.inbox)) >= count, PATIENCE)
        taken = core.delivered()
        if taken:
            core.acknowledge(taken[-1])
        core.stop()  # or a message is delivered again
        core.call("rollback", {"last-delivered": False})
        core.close()
        return [bytes(one.message.body) for one in taken]
    peer = target.amqp()
    link = peer.receiver(node, credit=count)
    got = amqp_collect(target, peer, link, count, quiet=0)
    for one in got:
        peer.disposition(one, STATES[way])
    peer.settle()
    peer.close()
    return amqp_bodies(got)


@case(DEAD, NOT_AGAIN, needs={"amqp", "queue-semantics", "dead-letters", "routing-fixtures"})
@over(
    examples=6,
    always=lambda target: [
        {"prefix": prefix, "ways": [way, "released", "failed"], "count": 3, "place": place}
        for prefix, way, place in (
            *(("anycast.more.", "failed", MEMORY), ("", "failed", place_names(target)[-1])),
            *(
                [("anycast.more.", "rollback", MEMORY)]
                if CORE in target.identity.capabilities
                else []
            ),
        )
    ],
    prefix=st.sampled_from([*ATTEMPTS]),
    ways=lambda target: st.lists(
        st.sampled_from(
            [way for way in FAILURES if way != "rollback" or CORE in target.identity.capabilities]
        ),
        min_size=1,
        max_size=4,
    ),
    count=st.integers(1, 5),
    place=lambda target: st.sampled_from(place_names(target)),
)
def test_a_message_that_fails_too_often_is_a_dead_letter(
    target: Bench, prefix: str, ways: list[str], count: int, place: str
) -> None:
    """Consumers of AMQP and CORE return messages again and again, as failed, rolled back or
    released, in memory or on pages. They are delivered max-delivery-attempts times, not counting
    those that were released. Then each is once at the dead-letter address, and its queue delivers
    only later messages. One scenario: both sentences constrain one history."""
    most = ATTEMPTS[prefix]
    prefix = (
        prefix if most < max(ATTEMPTS.values()) or place == MEMORY else target.full_address(place)
    )
    fresh = target.node()
    node = Node(prefix + fresh.address, fresh.capabilities)
    letters = Node(str(target.profile.parameters["dead_letter_node"]), node.capabilities)
    reader = target.amqp()
    reader.receiver(letters)  # creates the queue
    sent = numbered(count, f"{node.address} ")
    fill(target, node, sent, header={"durable": True})
    failed, limit = 0, f"of max-delivery-attempts {most}"
    for way in [*ways[: most - 1], *["failed"] * most]:
        if failed == most:
            break
        got = _returned(target, node, count, way)
        detail = f"after {failed} failures {limit}, last {way}, {listed(got)} arrived"
        target.require(DEAD, got == sent, detail)
        failed += way != "released"
    later = f"{node.address} later".encode()
    fill(target, node, [later])
    peer = target.amqp()
    left = amqp_bodies(amqp_collect(target, peer, peer.receiver(node, credit=count + 1), 1))
    detail = f"after {failed} failures {limit}, the queue delivered {listed(left)}"
    target.record_finding(NOT_AGAIN, left == [later], detail)
    browser = reader.receiver(letters, source=source(letters, distribution_mode="copy"))
    reader.flow(browser, link_credit=100_000)
    seen: list[bytes] = []

    def dead() -> bool:
        seen.extend(amqp_bodies(reader.take_deliveries(browser)))
        return len([*filter(sent.__contains__, seen)]) >= count

    target.wait_until(dead, PATIENCE)
    target.advance(QUIET)
    dead()
    buried = [body for body in seen if body in sent]
    detail = f"after {failed} failures {limit}, {listed(buried)} are dead letters"
    target.record_finding(DEAD, sorted(buried) == sent, f"{detail}; expected {listed(sent)}")
