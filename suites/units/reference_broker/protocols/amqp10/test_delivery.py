"""Outcomes of deliveries: who settles, ranges, dead letters."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from brokerproof.reference_broker.protocols.amqp10.messaging import (
    Accepted,
    Declared,
    Modified,
    Received,
    Released,
    Source,
)
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    SENDER,
    Detach,
    Disposition,
    End,
)
from brokerproof.suites.units.drivers.amqp10 import (
    Peer,
    bodies,
    error_of,
    header,
    ids,
    settle,
    stocked,
)

# --- settlement -----------------------------------------------------------------------------------


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize(
    ("state", "failures"),
    [
        (Released(), None),
        (Modified(), None),
        (Modified(delivery_failed=True), 1),
        (Modified(delivery_failed=False), None),
    ],
)
def test_what_comes_back_comes_to_its_place(
    state: Any, failures: int | None, settled: bool
) -> None:
    _, peer = stocked(4)
    peer.attach_receiver()
    assert bodies(peer.flow(3)) == ["m0", "m1", "m2"]
    answers = settle(peer, 0, state, last=1, settled=settled)
    assert [answer.value for answer in answers] == (
        [] if settled else [Disposition(role=SENDER, first=0, last=1, settled=True, state=state)]
    )
    frames = peer.flow(3, delivery_count=3, next_incoming_id=3)
    assert bodies(frames) == ["m0", "m1", "m3"]
    assert ids(frames) == [3, 4, 5]
    assert [header(frame).delivery_count for frame in frames] == [failures, failures, None]
    assert [header(frame).first_acquirer for frame in frames] == [False, False, True]


def test_undeliverable_here_is_never_here_again_and_elsewhere_still() -> None:
    desk, peer = stocked(2)
    peer.attach_receiver()
    peer.flow(10)
    assert settle(peer, 0, Modified(undeliverable_here=True)) == []
    assert settle(peer, 1, Released())[0].payload, "others come again"
    producer = Peer(desk).ready(container_id="other")
    producer.attach_sender()
    producer.transfer(5, settled=True)
    assert bodies(peer.read()) == ["m5"]
    other = Peer(desk).ready(container_id="third")
    other.attach_receiver()
    assert bodies(other.flow(10)) == ["m0"]


@pytest.mark.parametrize("default", [None, Accepted(), Modified(delivery_failed=True)])
@pytest.mark.parametrize("state", [None, Received(section_number=0, section_offset=0)])
def test_settled_without_an_outcome_gets_the_default_outcome(default: Any, state: Any) -> None:
    _, peer = stocked(1)
    peer.attach_receiver(
        source=Source(address="q", default_outcome=default, capabilities=("queue",))
    )
    peer.flow(1)
    settle(peer, 0, state)
    again = peer.flow(1, delivery_count=1, next_incoming_id=1)
    if isinstance(default, Accepted):
        assert again == []
    else:
        assert header(again[0]).delivery_count == (1 if default else None)


def test_a_state_that_is_no_outcome_settles_nothing() -> None:
    _, peer = stocked(1)
    peer.attach_receiver()
    peer.flow(1)
    assert settle(peer, 0, Received(section_number=0, section_offset=5), settled=False) == []
    assert settle(peer, 0, None, settled=False) == []
    assert settle(peer, 0, Accepted(), settled=False)[0].value.role is SENDER
    assert error_of(settle(peer, 1, Accepted(), last=0), End) == "amqp:invalid-field"


def test_declared_is_no_outcome_of_a_message() -> None:
    _, peer = stocked(1)
    peer.attach_receiver()
    peer.flow(1)
    assert error_of(settle(peer, 0, Declared(txn_id=b"x")), Detach) == "amqp:invalid-field"
    assert error_of(settle(peer, 0, Accepted()), End) == "amqp:session:errant-link", (
        "by its delivery-id"
    )


@effort(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_is_released_no_message_overtakes_an_older_one(data: st.DataObject) -> None:
    """A model: what waits is sorted, what is out is out, and each flow brings the oldest that
    waits."""
    _, peer = stocked(8)
    peer.attach_receiver()
    waiting, out, sent = list(range(8)), {}, 0
    for _ in range(data.draw(st.integers(1, 8))):
        credit = data.draw(st.integers(0, 4))
        frames = peer.flow(credit, delivery_count=sent, next_incoming_id=sent)
        expected = waiting[:credit]
        assert bodies(frames) == [f"m{number}" for number in expected]
        for number, each in zip(ids(frames), expected, strict=True):
            out[number] = each
        waiting, sent = waiting[len(expected) :], sent + len(expected)
        peer.flow(0, delivery_count=sent, next_incoming_id=sent)
        if not out:
            continue
        first = data.draw(st.sampled_from(sorted(out)))
        last = data.draw(st.integers(first, first + 3))
        back = data.draw(st.booleans())
        settle(peer, first, Released() if back else Accepted(), last=last)
        for number in range(first, last + 1):
            gone = out.pop(number, None)
            if back and gone is not None:
                waiting = sorted([*waiting, gone])
