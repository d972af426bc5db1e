"""Expiry of messages: none expires before its TTL."""

from __future__ import annotations

from hypothesis import strategies as st

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import case, over
from brokerproof.harness.protocols.amqp10.messages import message
from brokerproof.suites.amqp10.steps import collect, granted

ONE_CONSUMER = "ARTEMIS-CONCEPTS-queue-1"

MINUTE = 60_000
"""Milliseconds."""
MOST = 2**32 - 1
"""The longest ttl of AMQP 1.0, in milliseconds: 49 days."""


@case(ONE_CONSUMER, needs={"amqp", "queue-semantics"})
@over(
    examples=6,
    always=lambda target: [{"ttl": 2**31}],
    ttl=st.sampled_from([2**31 - 1, 2**31, 2**31 + MINUTE, MOST]),
)
def test_a_message_lives_as_long_as_its_ttl_says(target: Bench, ttl: int) -> None:
    """A queue gets a message with a TTL of a minute, one of weeks and another of a minute. A
    consumer that attaches then gets all three."""
    node, peer = target.node(), target.amqp()
    link = peer.sender(node)
    for number, ttl_ms in enumerate((MINUTE, ttl, MINUTE)):
        granted(target, peer, link)
        delivery = peer.transfer(link, message(b"%d" % number, header={"ttl": ttl_ms}))
        peer.confirmed(link.session, delivery)
    consumer = target.amqp()
    receiver = consumer.receiver(node, credit=10)
    received = [bytes(delivery.message.body) for delivery in collect(target, consumer, receiver, 3)]
    target.control(
        {b"0", b"2"} <= set(received),
        f"messages that live for a minute should arrive: {received} arrived; {consumer.instead()}",
    )
    words = (
        f"of three messages with ttls of {MINUTE}, {ttl} and {MINUTE} ms,"
        f" {len(received)} arrived: {received}"
    )
    target.record_finding(ONE_CONSUMER, received == [b"0", b"1", b"2"], words)
