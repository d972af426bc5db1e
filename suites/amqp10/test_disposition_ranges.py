"""Dispositions of several deliveries: ranges of serial numbers (2.6.12, 2.7.6)."""

from __future__ import annotations

from hypothesis import strategies as st

from brokerproof.suites.amqp10.steps import bodies, collect, fill, numbered, received
from brokerproof.suites.amqp10.wrapping_ids import at_the_end, wrapping
from brokerproof.suites.api import RECONFIGURABLE, Bench, Where, case, over

RANGE_WRAPS = "AMQP10-DISP-06"


# RabbitMQ 4 gave nothing back behind the close; until it is known why, this is no accusation.
@case(RANGE_WRAPS, needs={"amqp", RECONFIGURABLE})
@over(
    examples=6,
    always=lambda target: [{"where": at_the_end(target), "count": 3}],
    where=wrapping,
    count=st.integers(2, 5),
)
def test_a_range_of_deliveries_is_settled(target: Bench, where: Where, count: int) -> None:
    """A receiver accepts all of its deliveries but the last in one disposition, whose range may run
    over the end of the 32 bits, and closes. Another connection gets the last and no other."""
    node, sent = target.node(), numbered(count + 1)
    fill(target, node, sent)
    peer, _, got = received(target, node, count + 1)
    peer.disposition(got[0], "accepted", first=got[0].id, last=got[-2].id)
    peer.settle()
    peer.close()
    other = target.amqp()
    left = bodies(collect(target, other, other.receiver(node, credit=count + 1), 1))
    ids = [delivery.id for delivery in got]
    target.record_finding(
        RANGE_WRAPS,
        left == sent[-1:],
        f"of deliveries {ids} all but the last were accepted, and {left} arrived again",
    )
