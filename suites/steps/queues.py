"""Steps on a queue: send bodies, receive messages, and count the remaining ones."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from brokerproof.harness.clients.stomppy_peer import StompPyPeer
from brokerproof.harness.protocols.byte_log import Arrivals, Expectation
from brokerproof.harness.protocols.stomp.codec import header_list
from brokerproof.suites.api import (
    PATIENCE,
    Bench,
    CloseHow,
    Duration,
    Requirements,
    listed,
    ms,
    seconds,
)
from brokerproof.suites.api.stomp import Destination, Frame, HeadersLike, StompPeer, frame
from brokerproof.suites.steps.refusals import refusal

Consumer = StompPeer | StompPyPeer

INDIVIDUAL = {"1.0": "client", "1.1": "client-individual", "1.2": "client-individual"}
"""By version, the ack mode in which a consumer settles single messages; 1.0 has only ``client``."""
QUIET: Duration = ms(300)
"""Wait this long for a surplus message after the last expected one."""
SENTINEL = b"the last one"
SENTINEL_AGAIN: Duration = seconds(2)
"""Wait this long for a sentinel message before sending another."""


def bodies(messages: Iterable[Frame]) -> list[bytes]:
    return [message.body for message in messages]


def numbered(count: int, prefix: str = "m") -> list[bytes]:
    return [f"{prefix}{number}".encode() for number in range(count)]


def patterned(size: int) -> bytes:
    """Return ``size`` bytes that reveal a lost, repeated or moved piece."""
    return b"".join(b"%07d " % at for at in range(0, size, 8))[:size]


def judge_arrivals(
    target: Bench,
    requirement: Requirements,
    received: Sequence[int],
    count: int,
    how: Literal["accepted", "sent"],
) -> None:
    """Judge whether the messages numbered from 0 have arrived, each once and in order."""
    detail = f"{count} messages were {how}; {listed(received)} arrived"
    target.record_finding(requirement, received == list(range(count)), detail)


def publish_all(peer: StompPeer, to: Destination, each_body: Sequence[bytes]) -> None:
    """Send all bodies in order. The receipt of the last message confirms all (STOMP12-RCPT-03)."""
    for body in each_body[:-1]:
        peer.publish(to, body, receipt=False)
    if each_body:
        peer.publish(to, each_body[-1])


def publish_late(
    target: Bench,
    peer: StompPeer,
    to: Destination,
    late: Sequence[bytes],
    meanwhile: Callable[[], None],
) -> None:
    """Send ``late`` in a transaction, call ``meanwhile``, and commit. If the broker has no
    transactions, send ``late`` after ``meanwhile``."""
    if "transactions" not in target.target.identity.capabilities:
        meanwhile()
        publish_all(peer, to, late)
        return
    name = {"transaction": peer.transaction}
    peer.request("BEGIN", name)
    for body in late:
        peer.publish(to, body, name)
    meanwhile()
    peer.request("COMMIT", name)


def receive(
    target: Bench, peer: Consumer, count: int, *, within: Duration = PATIENCE
) -> list[Frame]:
    """Return the next ``count`` messages, without waiting for a surplus; fewer if some are late or
    the connection ends."""

    def enough() -> bool:
        return (
            peer.ended is not None
            or sum(received.command == "MESSAGE" for received in peer.inbox) >= count
            or any(map(peer.fatal, peer.inbox))
        )

    target.wait_until(enough, within)
    return peer.take_messages()


def receive_and_acknowledge(target: Bench, peer: StompPeer, count: int) -> list[Frame]:
    """Receive like :func:`receive`, but acknowledge: even a small window is enough."""
    messages: list[Frame] = []
    while len(messages) < count:
        arrived = receive(target, peer, 1)
        if not arrived:
            break
        for message in arrived:
            peer.ack(message)
        messages += arrived
    return messages


def collect(target: Bench, peer: Consumer, count: int, *, quiet: Duration = QUIET) -> list[Frame]:
    """Receive like :func:`receive`, but also the messages that arrive within ``quiet`` after it."""
    messages = receive(target, peer, count)
    target.wait_until(lambda: peer.ended is not None, quiet)
    return messages + peer.take_messages()


def expected_arrivals(
    peer: Consumer,
    received: Sequence[bytes],
    want: Sequence[bytes],
    match: Literal["in order", "in any order"] = "in order",
) -> Expectation:
    """The expectation that ``want`` arrives at ``peer``; ``received`` are the latest messages."""
    return expected_shares([peer], [received], want, match)


def expected_shares(
    peers: Sequence[Consumer],
    shares: Sequence[Sequence[bytes]],
    want: Sequence[bytes],
    match: Literal["in order", "in any order"] = "in any order",
) -> Expectation:
    """Return the expectation that the bodies ``want`` arrive at ``peers``, in any distribution;
    ``shares`` has their latest messages."""
    judged = tuple((peer.conn, len(share)) for peer, share in zip(peers, shares, strict=True))
    arrivals = Arrivals(tuple(want), match, judged)
    return Expectation(kind="messages", words="the messages", arrivals=arrivals)


def expected_remainder(
    want: Sequence[bytes], match: Literal["in order", "in any order", "among others"] = "in order"
) -> Expectation:
    """Return the expectation that the last call of :func:`left_in` returned the bodies ``want``."""
    arrivals = Arrivals(tuple(want), match, ignored=(SENTINEL,))
    return Expectation(kind="messages", words="what is left in the queue", arrivals=arrivals)


def require_held(target: Bench, count: int) -> None:
    """Skip the case if a subscription that acknowledges nothing cannot have that many messages."""
    most = int(target.target.identity.profile.parameters.get("most_unacknowledged", count) or 0)
    words = f"the broker lets out {most} unacknowledged messages, and this needs {count}"
    target.control(count <= most, words, optional=True)


def held(target: Bench, peer: Consumer, queue: Destination, count: int, ack: str) -> list[Frame]:
    """Subscribe and return ``count`` unsettled messages. Control: they arrive."""
    target.require_capability("anycast")
    require_held(target, count)
    peer.subscribe(queue, ack=ack)
    messages = receive(target, peer, count)
    detail = f"{count} messages were sent and {len(messages)} arrived; {peer.instead()}"
    target.control(len(messages) == count, detail)
    return messages


def unsettled_comes_back(target: Bench, version: str, ack: str, *, leaves: bool = False) -> bool:
    """True if a message that a lost consumer never settled reaches the next consumer (``leaves``:
    the lost consumer had unsubscribed). If it does not, a missing message does not prove a
    settlement."""
    queue, consumer = target.destination(), target.stomp(version)
    consumer.publish(queue, b"unsettled")
    held(target, consumer, queue, 1, ack)
    if leaves:
        consumer.request("UNSUBSCRIBE", {"id": "0"})
    consumer.close_socket(CloseHow.RESET)
    return left_in(target, queue, version, 1) == [b"unsettled"]


def commit_is_confirmed(target: Bench, producer: StompPeer) -> bool:
    """Send COMMIT for the peer's transaction with a receipt; return True if the RECEIPT arrives
    before the connection ends."""
    producer.send("COMMIT", {"transaction": producer.transaction, "receipt": "committed"})
    confirmed = frame("RECEIPT", {"receipt-id": "committed"})
    target.wait_until(
        lambda: producer.ended is not None or any(map(confirmed.accepts, producer.inbox)), PATIENCE
    )
    return producer.take(confirmed) is not None


def undone_by_abort(target: Bench, version: str, mode: str) -> bool:
    """True if an ACK in an aborted transaction leaves its message in the queue, as it should."""
    queue, consumer = target.destination(), target.stomp(version)
    consumer.publish(queue, b"one")
    message = held(target, consumer, queue, 1, mode)[0]
    consumer.request("BEGIN", {"transaction": consumer.transaction})
    consumer.ack(message, {"transaction": consumer.transaction})
    consumer.request("ABORT", {"transaction": consumer.transaction})
    consumer.close_socket(CloseHow.RESET)
    return left_in(target, queue, version, 1) == [b"one"]


def subscribed_again(
    target: Bench,
    connect: Callable[[], StompPeer],
    to: Destination,
    headers: HeadersLike,
    *,
    ack: str = "auto",
) -> StompPeer:
    """Return a connection subscribed to a durable subscription whose last consumer is gone.

    Repeat a refused SUBSCRIBE on new connections: no document says how soon a broker notices that
    the old one has ended. Control: a SUBSCRIBE is confirmed within PATIENCE.
    """
    until = target.now() + PATIENCE
    while True:
        peer = connect()
        receipt = peer.next_receipt()
        fields = (*header_list(headers), ("receipt", receipt))
        peer.subscribe(to, ack=ack, headers=fields, receipt=False)
        got = refusal(peer, receipt)
        if got is None:
            return peer
        target.control(
            target.now() < until,
            f"SUBSCRIBE to the durable subscription of a connection that ended got {got}",
        )
        target.advance(QUIET)


def left_in(target: Bench, queue: Destination, version: str, count: int) -> list[bytes]:
    """Return the bodies that a new consumer gets from the queue; ``count`` are expected.

    A sentinel message sent after them shows that the consumer is served and that the wait was long
    enough. If it does not arrive, send another: a broker may have delivered the first to a lost
    consumer in ``auto`` mode whose end it had not noticed yet.
    """
    target.require_capability("anycast")
    consumer = target.stomp(version)
    consumer.subscribe(queue, ack="auto")  # no window, whatever the number of messages
    received: list[bytes] = []
    for within in (SENTINEL_AGAIN, SENTINEL_AGAIN, PATIENCE):
        consumer.publish(queue, SENTINEL)
        received += bodies(
            receive(target, consumer, max(1, count + 1 - len(received)), within=within)
        )
        if SENTINEL in received:
            break
    missing = count - sum(body != SENTINEL for body in received)
    received += bodies(collect(target, consumer, missing))
    detail = f"the message sent last should reach the only consumer; it got {received!r}"
    target.control(SENTINEL in received, detail)
    return [body for body in received if body != SENTINEL]
