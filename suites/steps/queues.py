"""Looking into a queue from outside: send bodies to it, take what comes out of it, count what
came."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.model.time import Duration, ms
from brokerproof.harness.protocols.conversation import PATIENCE
from brokerproof.harness.protocols.stomp.codec import Frame
from brokerproof.harness.protocols.stomp.raw_peer import Destination, StompPeer

INDIVIDUAL = {"1.0": "client", "1.1": "client-individual", "1.2": "client-individual"}
"""The mode in which a consumer holds what it got, by version; 1.0 has no other than ``client``."""
QUIET: Duration = ms(300)
"""How long a surplus message is waited for, behind the last one that should come."""
SENTINEL = b"the last one"


def bodies(messages: Iterable[Frame]) -> list[bytes]:
    """What the messages carry, in order."""
    return [message.body for message in messages]


def numbered(count: int, prefix: str = "m") -> list[bytes]:
    """``count`` bodies that tell their number: m0, m1, …"""
    return [f"{prefix}{number}".encode() for number in range(count)]


def publish_all(peer: StompPeer, to: Destination, each_body: Sequence[bytes]) -> None:
    """Send all, in order; the receipt of the last says that all were received (STOMP12-RCPT-03)."""
    for body in each_body[:-1]:
        peer.publish(to, body, receipt=False)
    if each_body:
        peer.publish(to, each_body[-1])


def receive(
    target: Bench, peer: StompPeer, count: int, *, within: Duration = PATIENCE
) -> list[Frame]:
    """The next ``count`` messages, fewer when they do not come in time or the connection ends; no
    surplus is waited for."""

    def enough() -> bool:
        return (
            peer.ended is not None
            or sum(received.command == "MESSAGE" for received in peer.inbox) >= count
            or any(map(peer.fatal, peer.inbox))
        )

    target.wait_until(enough, within)
    return peer.take_messages()


def collect(target: Bench, peer: StompPeer, count: int, *, quiet: Duration = QUIET) -> list[Frame]:
    """Like :func:`receive`, and what comes ``quiet`` longer besides."""
    messages = receive(target, peer, count)
    target.wait_until(lambda: peer.ended is not None, quiet)
    return messages + peer.take_messages()


def held(target: Bench, peer: StompPeer, queue: Destination, count: int, ack: str) -> list[Frame]:
    """A subscription that holds ``count`` messages without settling them. That they come is a
    control."""
    peer.subscribe(queue, ack=ack)
    messages = receive(target, peer, count)
    target.control(
        len(messages) == count,
        f"{count} messages were sent and {len(messages)} came; {peer.instead()}",
    )
    return messages


def left_in(target: Bench, queue: Destination, version: str, count: int) -> list[bytes]:
    """What a new consumer finds in the queue, when ``count`` messages should be there.

    A sentinel is sent behind them: it shows that the consumer is served, and that the wait for the
    others was fair. It is sent again when it does not come: a broker that has not yet noticed that
    a consumer in mode auto was cut off may hand the first one to that consumer, and then it is
    gone.
    """
    consumer = target.stomp(version)
    consumer.subscribe(queue, ack="auto")  # no window, however much there is
    found: list[bytes] = []
    for _ in range(3):
        consumer.publish(queue, SENTINEL)
        found += bodies(collect(target, consumer, count + 1))
        if SENTINEL in found:
            break
    target.control(
        SENTINEL in found, f"the message sent last should reach the only consumer; it got {found!r}"
    )
    return [body for body in found if body != SENTINEL]
