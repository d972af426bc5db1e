"""Large messages: bodies that a broker stores separately arrive like small ones.

The acceptor through which a message is sent decides: bodies of ``stompMinLargeMessageSize`` bytes
or more are large. A broker may measure sizes slightly differently (text takes more room than its
bytes), so sizes are drawn near the limit, half of it and twice it.
"""

from typing import Any

from hypothesis import strategies as st

from brokerproof.harness.targets.parameters import speaking
from brokerproof.suites.api import PATIENCE, Bench, RoutingType, Target, case, listed, over
from brokerproof.suites.api.stomp import Destination, StompPeer
from brokerproof.suites.steps.queues import (
    INDIVIDUAL,
    bodies,
    collect,
    expected_remainder,
    left_in,
    receive,
)

NEEDS = {"large-messages"}
LARGE = "ARTEMIS-STOMP-large-1"
LIMIT = "stomp_min_large_message_size"
MEBIBYTE = 1024 * 1024


def limits(target: Target) -> dict[int, str]:
    """Return an acceptor for each limit that the target's acceptors have."""
    known = speaking(target.acceptors(), "STOMP")
    by_limit = {acceptor[LIMIT]: name for name, acceptor in sorted(known.items(), reverse=True)}
    return {limit: name for limit, name in by_limit.items() if isinstance(limit, int) and limit > 0}


def sizes(target: Target) -> st.SearchStrategy[tuple[str, int]]:
    """Draw an acceptor and a size near its limit, half of it or twice it."""
    return st.one_of(
        *(st.tuples(st.just(name), _around(limit)) for limit, name in limits(target).items())
    )


def _around(limit: int) -> st.SearchStrategy[int]:
    return st.one_of(
        st.integers(-2, 2).map(lambda by: limit + by),
        st.integers(-40, 40).map(lambda by: max(1, limit // 2 + by)),
        st.integers(-2, 2).map(lambda by: 2 * limit + by),
    )


def largest(target: Target) -> list[dict[str, Any]]:
    """Return the examples that always run: sizes at the limits, and bodies of a mebibyte."""
    return [
        {"place": (name, size), "spoken": "1.2", "as_bytes": as_bytes, "waits": as_bytes}
        for limit, name in limits(target).items()
        for size in (limit - 1, limit, limit + 1, MEBIBYTE)
        for as_bytes in (True, False)
    ]


def body_of(size: int, *, as_bytes: bool) -> bytes:
    """Return a body whose neighbouring parts differ; a bytes body contains NUL and invalid
    UTF-8."""
    pattern = (
        bytes(range(256)) if as_bytes else b"The quick brown fox jumps over the lazy dog. " * 6
    )
    counted = b"".join(b"%d:" % number + pattern for number in range(size // len(pattern) + 1))
    return counted[:size]


def send(peer: StompPeer, to: Destination, body: bytes, *, as_bytes: bool) -> None:
    length = (("content-length", str(len(body))),) if as_bytes else ()
    peer.request("SEND", (("destination", to.name), *to.send_headers, *length), body)


def difference(sent: bytes, came: bytes) -> str:
    """Describe where two bodies differ."""
    if sent == came:  # slow, so only if the bodies differ
        return f"all {len(came)} bytes arrived"
    at = next(
        (at for at, (one, other) in enumerate(zip(sent, came, strict=False)) if one != other), None
    )
    if at is None:
        return f"{len(came)} of {len(sent)} bytes arrived"
    return f"{len(came)} of {len(sent)} bytes arrived; the first that differs is byte {at}"


@case(LARGE, needs=NEEDS)
@over(
    examples=25,
    always=largest,
    place=sizes,
    spoken=st.sampled_from(["1.0", "1.1", "1.2"]),
    as_bytes=st.booleans(),
    waits=st.booleans(),
)
def test_a_large_body_comes_whole(
    target: Bench, place: tuple[str, int], spoken: str, as_bytes: bool, waits: bool
) -> None:
    """A body of about stompMinLargeMessageSize, or of a mebibyte, is sent as bytes or as text
    before or after the consumer subscribes. It arrives whole, and so does a small message after
    it."""
    acceptor, size = place
    queue = target.destination()
    producer, consumer = target.stomp(spoken, acceptor=acceptor), target.stomp(spoken)
    body = body_of(size, as_bytes=as_bytes)
    if not waits:
        consumer.subscribe(queue)
    send(producer, queue, body, as_bytes=as_bytes)
    producer.publish(queue, b"small")
    if waits:
        consumer.subscribe(queue)
    received = bodies(receive(target, consumer, 2))
    what = f"{size} bytes sent by {acceptor} as {'bytes' if as_bytes else 'text'}"
    detail = f"{what}: {difference(body, received[0]) if received else 'nothing arrived'}"
    target.record_finding(LARGE, received[:1] == [body], detail)
    detail = f"{what}: after it, {listed(received[1:])} arrived"
    target.record_finding(LARGE, received[1:] == [b"small"], detail)


@case(LARGE, needs=NEEDS)
@over(examples=10, place=sizes, listeners=st.integers(2, 4))
def test_every_subscriber_gets_a_large_body_whole(
    target: Bench, place: tuple[str, int], listeners: int
) -> None:
    """A large body sent to a topic arrives whole at each subscriber, with its headers."""
    acceptor, size = place
    topic = target.destination(RoutingType.MULTICAST)
    consumers = [target.stomp("1.2") for _ in range(listeners)]
    for consumer in consumers:
        consumer.subscribe(topic)
    body = body_of(size, as_bytes=True)
    target.stomp("1.2", acceptor=acceptor).publish(topic, body, {"color": "red"})
    for number, consumer in enumerate(consumers):
        messages = receive(target, consumer, 1)
        received = [(message.body, message.get("color")) for message in messages]
        words = (
            difference(body, received[0][0]) + f"; color is {received[0][1]}"
            if received
            else "nothing arrived"
        )
        detail = f"{size} bytes sent through {acceptor}, subscriber {number}: {words}"
        target.record_finding(LARGE, received == [(body, "red")], detail)


@case(LARGE, needs=NEEDS)
@over(
    examples=10, place=sizes, spoken=st.sampled_from(["1.0", "1.1", "1.2"]), times=st.integers(1, 3)
)
def test_a_large_body_that_comes_again_is_still_whole(
    target: Bench, place: tuple[str, int], spoken: str, times: int
) -> None:
    """Several consumers in turn receive a large body and leave without settling it. The next
    consumer receives it whole; once acknowledged, it is not delivered again."""
    acceptor, size = place
    queue = target.destination()
    body = body_of(size, as_bytes=True)
    target.stomp(spoken, acceptor=acceptor).publish(queue, body)
    for turn in range(times + 1):
        consumer = target.stomp(spoken)
        consumer.subscribe(queue, ack=INDIVIDUAL[spoken])
        messages = receive(target, consumer, 1)
        words = difference(body, messages[0].body) if messages else "nothing arrived"
        detail = f"{size} bytes sent through {acceptor}, delivery {turn + 1}: {words}"
        target.require(LARGE, bodies(messages) == [body], detail)
        if turn == times:
            consumer.ack(messages[0], receipt=True)
        consumer.request("DISCONNECT")
        consumer.close_socket()
    last = target.stomp(spoken)
    last.subscribe(queue)
    last.publish(queue, b"small")
    left = [body[:20] for body in bodies(collect(target, last, 1))]
    detail = f"after its ACK, the next consumer got {listed(left)}"
    target.record_finding(LARGE, left == [b"small"], detail)


@case(LARGE, needs=NEEDS)
@over(examples=10, place=sizes, window=st.sampled_from([0, 1, 1000, 50_000]))
def test_a_body_larger_than_the_window_comes_all_the_same(
    target: Bench, place: tuple[str, int], window: int
) -> None:
    """Three large bodies wait for a consumer whose window is smaller than each of them. They arrive
    whole, one at a time, as each is acknowledged."""
    acceptor, size = place
    queue = target.destination()
    producer, consumer = target.stomp("1.2", acceptor=acceptor), target.stomp("1.2")
    sent = [b"%d" % number + body_of(size, as_bytes=True) for number in range(3)]
    for body in sent:
        producer.publish(queue, body)
    consumer.subscribe(
        queue, ack="client-individual", headers={"consumer-window-size": str(window)}
    )
    for number, body in enumerate(sent):
        messages = receive(target, consumer, 1)
        words = difference(body, messages[0].body) if messages else "nothing arrived"
        detail = f"body {number} of {size} bytes, window {window}: {words}"
        target.require(LARGE, bodies(messages)[:1] == [body], detail)
        for message in messages:
            consumer.ack(message, receipt=True)
        if len(messages) > 1:  # the window was larger than a body
            return


@case(LARGE, needs=NEEDS)
@over(
    examples=0,
    always=lambda target: [{"as_bytes": True, "waits": False}, {"as_bytes": False, "waits": True}],
    as_bytes=st.booleans(),
    waits=st.booleans(),
)
def test_a_body_far_larger_than_any_buffer_comes_whole(
    target: Bench, as_bytes: bool, waits: bool
) -> None:
    """A body of a mebibyte (five over real sockets) is sent before or after the consumer
    subscribes. It arrives whole, in order between two small ones, and only once if acknowledged."""
    queue = target.destination()
    producer, consumer = target.stomp(), target.stomp()
    body = body_of(MEBIBYTE if target.virtual else 5 * MEBIBYTE, as_bytes=as_bytes)
    unlimited = {"consumer-window-size": "-1"}
    if not waits:
        consumer.subscribe(queue, ack="client", headers=unlimited)
    producer.publish(queue, b"before")
    send(producer, queue, body, as_bytes=as_bytes)
    producer.publish(queue, b"behind")
    if waits:
        consumer.subscribe(queue, ack="client", headers=unlimited)
    messages = receive(target, consumer, 3, within=2 * PATIENCE)
    received = bodies(messages)
    what = f"{len(body)} bytes sent as {'bytes' if as_bytes else 'text'}"
    words = (
        difference(body, received[1])
        if len(received) > 1
        else f"{len(received)} messages arrived; {consumer.instead()}"
    )
    target.require(LARGE, received[1:2] == [body], f"{what}: {words}")
    detail = f"{what}: around it, {listed(body[:9] for body in received[::2])} arrived"
    target.record_finding(LARGE, received[::2] == [b"before", b"behind"], detail)
    consumer.ack(messages[-1], receipt=True)
    consumer.request("DISCONNECT")
    left = left_in(target, queue, "1.2", 0)
    detail = f"{what}: after its ACK, {listed(body[:9] for body in left)} was left"
    target.record_finding(LARGE, left == [], detail, expectation=expected_remainder([]))
