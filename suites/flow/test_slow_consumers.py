"""With a window of zero, or one credit at a time, no message waits behind a slow consumer.

The manual describes Artemis's own client. These cases test the broker's part with
``consumer-window-size`` over STOMP, and with link credit over AMQP.
"""

from hypothesis import strategies as st

from brokerproof.suites.amqp10.steps import collect as collect_deliveries
from brokerproof.suites.amqp10.steps import fill, numbered
from brokerproof.suites.api import PATIENCE, Bench, case, listed, over
from brokerproof.suites.api.stomp import Destination, Frame, StompPeer
from brokerproof.suites.steps.queues import QUIET, bodies, publish_all, receive
from brokerproof.suites.steps.queues import numbered as numbers

NOTHING_WAITS = "ARTEMIS-FLOW-consumer-2"
IN_TURN = "ARTEMIS-FLOW-consumer-3"
SAME_COURSE = "ARTEMIS-FLOW-consumer-4"


def holder(target: Bench, queue: Destination, window: int) -> StompPeer:
    peer = target.stomp()
    peer.subscribe(queue, ack="client-individual", headers={"consumer-window-size": str(window)})
    return peer


def everything_but(target: Bench, fast: StompPeer, count: int) -> list[bytes]:
    """Acknowledge and return a consumer's messages until ``count`` have arrived or no more
    arrive."""
    results: list[bytes] = []
    while len(results) < count:
        messages: list[Frame] = receive(target, fast, 1)
        if not messages:
            break
        for message in messages:
            fast.ack(message)
        results += bodies(messages)
    target.wait_until(lambda: any(received.command == "MESSAGE" for received in fast.inbox), QUIET)
    return results + bodies(fast.take_messages())


@case(NOTHING_WAITS, needs={"stomp-1.2", "consumer-window"})
@over(examples=10, count=st.integers(5, 20), size=st.sampled_from([1, 1000]))
def test_nothing_waits_behind_a_slow_consumer_without_a_window(
    target: Bench, count: int, size: int
) -> None:
    """Two consumers have a window of zero; one holds a message and stops. The other gets all
    remaining messages in order."""
    queue = target.destination()
    slow, fast = holder(target, queue, 0), holder(target, queue, 0)
    sent = [body.ljust(size, b".") for body in numbers(count)]
    publish_all(target.stomp(), queue, sent)
    held = bodies(receive(target, slow, 1))
    received = everything_but(target, fast, count - 1)
    detail = f"the slow consumer holds {listed(held)} of {count}; the other got {listed(received)}"
    target.record_finding(
        NOTHING_WAITS, len(held) == 1 and sorted([*held, *received]) == sorted(sent), detail
    )


@case(NOTHING_WAITS, needs={"amqp"})
@over(examples=8, count=st.integers(5, 20), credit=st.integers(1, 3))
def test_nothing_waits_behind_a_slow_receiver_with_little_credit(
    target: Bench, count: int, credit: int
) -> None:
    """Of two receivers of a queue, the slow one grants little credit and settles nothing. It holds
    that many messages, and the fast one gets all remaining messages in order."""
    node = target.node()
    slow, fast = target.amqp(), target.amqp()
    taking = slow.receiver(node, credit=credit)
    fill(target, node, numbered(count))
    held = [delivery.message.body for delivery in collect_deliveries(target, slow, taking, credit)]
    other = fast.receiver(node, credit=count)
    received = [
        delivery.message.body
        for delivery in collect_deliveries(target, fast, other, count - credit)
    ]
    expected = [body for body in numbered(count) if body not in held]
    detail = (
        f"{credit} credits: {listed(held)} of {count} were held; {listed(received)} went elsewhere"
    )
    complete = sorted(received) == sorted(expected)
    target.record_finding(NOTHING_WAITS, len(held) == credit and complete, detail)


@case(IN_TURN, needs={"stomp-1.2", "consumer-window"})
@over(examples=8, window=st.integers(2, 6))
def test_a_slow_consumer_keeps_its_window_of_messages_from_the_other(
    target: Bench, window: int
) -> None:
    """Two consumers have windows with room for everything, and one acknowledges nothing. They are
    served in turn, and the slow one keeps its half until it leaves."""
    queue = target.destination()
    slow, fast = holder(target, queue, 100_000), holder(target, queue, 100_000)
    sent = numbers(2 * window)
    publish_all(target.stomp(), queue, sent)
    kept = bodies(receive(target, slow, window))
    received = everything_but(target, fast, window)
    detail = (
        f"the slow consumer keeps {listed(kept)} of {len(sent)} messages; the other got"
        f" {listed(received)}"
    )
    halves = (
        len(kept) == len(received) == window and sorted([*kept, *received], key=sent.index) == sent
    )
    turns = kept in (sent[::2], sent[1::2]) and received in (sent[::2], sent[1::2])
    target.record_finding(IN_TURN, halves and turns, detail)
    slow.request("UNSUBSCRIBE", {"id": "0"})
    back = everything_but(target, fast, window)
    target.control(
        bool(back), "messages of the slow consumer should be redelivered when it has left"
    )
    words = f"after the slow consumer left, the other got {listed(back)} of {listed(kept)}"
    target.record_finding(IN_TURN, sorted(back) == sorted(kept), words)


@case(SAME_COURSE, needs={"stomp-1.2", "consumer-window"})
@over(examples=6, order=st.lists(st.integers(0, 1), min_size=4, max_size=12))
def test_acknowledgements_alone_decide_who_gets_what(target: Bench, order: list[int]) -> None:
    """Two consumers with a window of zero acknowledge in the same order on two queues. Each gets
    the same messages both times. The chapter only permits this: a difference is no violation."""
    first, second = (_course(target, order) for _ in range(2))
    shares, again = ("; ".join(map(listed, course)) for course in (first, second))
    detail = (
        f"in the order {listed(order)}, the consumers got {shares} the first time, then {again}"
    )
    target.record_finding(
        SAME_COURSE, first == second, detail, uncertain="the chapter says that it can be so"
    )


def _course(target: Bench, order: list[int]) -> list[list[bytes]]:
    queue = target.destination()
    consumers = [holder(target, queue, 0), holder(target, queue, 0)]
    publish_all(target.stomp(), queue, numbers(len(order) + 2))
    got: list[list[bytes]] = [[], []]
    held = [receive(target, consumer, 1, within=PATIENCE) for consumer in consumers]
    for who in range(2):
        got[who] += bodies(held[who])
    for who in order:
        if not held[who]:
            continue
        consumers[who].ack(held[who][0])
        held[who] = receive(target, consumers[who], 1)
        got[who] += bodies(held[who])
    return got
