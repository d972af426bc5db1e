"""Links on which the broker sends, in situations that no case covers: odd sources, flows and
states, deep queues."""

from typing import Any

import pytest

from brokerproof.harness.model.broker_io import TimerFired
from brokerproof.reference_broker.kernel.queue import MOST_SERVED
from brokerproof.reference_broker.protocols.amqp10.messaging import Accepted, Declared, Source
from brokerproof.reference_broker.protocols.amqp10.performatives import Attach, Detach, End, Flow
from brokerproof.reference_broker.protocols.amqp10.types import Described, Symbol
from brokerproof.suites.units.drivers.amqp10 import (
    Desk,
    Peer,
    bodies,
    error_of,
    kinds,
    settle,
    stocked,
)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (None, "amqp:invalid-field"),
        (Source(), "amqp:invalid-field"),
        (Source(address="q", dynamic=True), "amqp:invalid-field"),
        (Source(address="q", distribution_mode="teleport"), "amqp:not-implemented"),
        (Source(address="q", outcomes=("amqp:received:list",)), "amqp:invalid-field"),
        (Source(address="q", outcomes=("amqp:accepted:list", "nonsense")), "amqp:invalid-field"),
        (Source(address="q", default_outcome=Declared(txn_id=b"x")), "amqp:invalid-field"),
        (
            Source(address="q", filter={Symbol("f"): Described(Symbol("vendor:f"), "x")}),
            "amqp:not-implemented",
        ),
    ],
)
def test_a_source_that_cannot_be(source: Source | None, expected: str) -> None:
    peer = Peer(Desk()).ready()
    frames = peer.attach_receiver(source=source)
    assert kinds(frames) == [Attach, Detach]
    assert frames[0].value.source is None
    assert error_of(frames, Detach) == expected
    assert peer.flow(10) == [], "pipelined credit is ignored"
    assert peer.send(Detach(handle=1, closed=True)) == []
    assert kinds(peer.attach_receiver()) == [Attach]


@pytest.mark.parametrize(
    "fields", [{"link_credit": 1}, {"delivery_count": 0}, {"available": 0}, {"drain": True}]
)
def test_a_flow_without_handle_has_nothing_of_a_link(fields: dict[str, Any]) -> None:
    peer = Peer(Desk()).ready()
    flow = {
        "next_incoming_id": 0,
        "incoming_window": 1,
        "next_outgoing_id": 0,
        "outgoing_window": 1,
    }
    assert peer.send(Flow(**flow)) == []
    assert error_of(peer.send(Flow(**(flow | fields))), End) == "amqp:invalid-field"


def test_a_drain_is_answered_behind_all_turns_of_a_deep_queue() -> None:
    count = MOST_SERVED + 1
    desk, peer = stocked(count)
    peer.attach_receiver()
    frames = peer.flow(count + 1, incoming_window=2 * count, drain=True)
    assert len(frames) == MOST_SERVED, "not drained: there is more"
    desk.note(desk.broker.handle(0, TimerFired()))
    *rest, answer = peer.read()
    assert bodies(rest) == [f"m{MOST_SERVED}"]
    assert (answer.value.delivery_count, answer.value.link_credit) == (count + 1, 0)


def test_declared_is_no_outcome_of_a_message() -> None:
    _, peer = stocked(1)
    peer.attach_receiver()
    peer.flow(1)
    assert error_of(settle(peer, 0, Declared(txn_id=b"x")), Detach) == "amqp:invalid-field"
    assert error_of(settle(peer, 0, Accepted()), End) == "amqp:session:errant-link", (
        "by its delivery-id"
    )
