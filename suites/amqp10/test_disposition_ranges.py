"""Dispositions of several deliveries or of none, and dispositions by a sender (2.6.12, 2.7.6)."""

import pytest
from hypothesis import strategies as st

from brokerproof.harness.protocols.amqp10 import codec
from brokerproof.suites.amqp10.steps import (
    bodies,
    collect,
    fill,
    lasting_objection,
    numbered,
    over_habits,
    ready_sender,
    received,
)
from brokerproof.suites.amqp10.wrapping_ids import at_the_end, wrapping
from brokerproof.suites.api import RECONFIGURABLE, Bench, Where, case, listed
from brokerproof.suites.api.amqp10 import SENDER

RANGE_WRAPS = "AMQP10-DISP-06"
DISPOSITION_SETTLES = "AMQP10-DISP-03"
TERMINAL_STATES = "AMQP10-OUT-01"


# RabbitMQ 4 returned nothing after the close. Until the reason is known, this is not judged.
@case(RANGE_WRAPS, needs={"amqp", RECONFIGURABLE})
@over_habits(
    examples=6,
    always=lambda target: [{"where": at_the_end(target), "count": 3}],
    where=wrapping,
    count=st.integers(2, 5),
)
def test_a_range_of_deliveries_is_settled(target: Bench, where: Where, count: int) -> None:
    """A receiver accepts all of its deliveries but the last in one disposition, whose range may
    wrap at 32 bits, and closes. Another connection gets the last and no other."""
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
        f"all but the last of the deliveries {listed(ids)} were accepted; {listed(left)} arrived"
        " again",
    )


@case(TERMINAL_STATES, needs={"amqp", "amqp-redelivery"})
@pytest.mark.parametrize("state", ["received", "no state"])
def test_a_disposition_that_decides_nothing_leaves_the_delivery_open(
    target: Bench, state: str
) -> None:
    """A client sends a disposition with state received, or without a state, unsettled. The session
    continues and the client accepts the message, which is consumed once the client has closed."""
    node = target.node()
    fill(target, node, [b"open"])
    peer, _, got = received(target, node, 1)
    told = codec.composite("received", section_number=0, section_offset=0)
    peer.disposition(got[0], told if state == "received" else None, settled=False)
    error = lasting_objection(peer)
    detail = f"after an unsettled disposition ({state}), the broker sent"
    detail = f"{detail} {error.brief() if error else 'no error'}"
    target.require(TERMINAL_STATES, error is None, detail)
    peer.disposition(got[0])
    peer.settle()
    peer.close()
    other = target.amqp()
    back = bodies(collect(target, other, other.receiver(node, credit=10), 0))
    words = f"{detail}; after its acceptance, {listed(back)} arrived again"
    target.record_finding(TERMINAL_STATES, not back, words)


@case(DISPOSITION_SETTLES, needs={"amqp"})
def test_a_sender_may_settle_first(target: Bench) -> None:
    """A client sends a message unsettled and immediately settles it, as its sender. The session
    continues, and both an earlier and a later message are accepted."""
    peer = target.amqp()
    link = ready_sender(target, peer, target.node(), 3)
    peer.publish(link, b"plain")
    peer.disposition(peer.post(link, b"settled by its sender"), None, role=SENDER)
    error = lasting_objection(peer)
    detail = (
        f"after a sender's disposition, the broker sent {error.brief() if error else 'no error'}"
    )
    target.require(DISPOSITION_SETTLES, error is None, detail)
    peer.publish(link, b"behind", proves=DISPOSITION_SETTLES)
