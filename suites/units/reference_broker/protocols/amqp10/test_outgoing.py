"""Links on which the broker sends: attach, credit, drain, windows, browsing, and their ends."""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.harness.model.broker_io import TimerFired, WritePaused, WriteResumed
from brokerproof.reference_broker.kernel.queue import MOST_SERVED
from brokerproof.reference_broker.protocols.amqp10.messaging import (
    DATA,
    Accepted,
    Declared,
    Source,
)
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    Attach,
    Detach,
    End,
    Flow,
)
from brokerproof.reference_broker.protocols.amqp10.types import Described, Symbol
from brokerproof.suites.units.drivers.amqp10 import (
    Desk,
    Peer,
    bodies,
    error_of,
    kinds,
    message,
    settle,
    stocked,
)

# --- attach ---------------------------------------------------------------------------------------


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


# --- credit ---------------------------------------------------------------------------------------


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


# --- windows --------------------------------------------------------------------------------------


def test_a_drain_waits_for_the_window() -> None:
    _, peer = stocked(2)
    peer.attach_receiver()
    assert bodies(peer.flow(5, incoming_window=1, drain=True)) == ["m0"]
    frames = peer.flow(
        None, handle=None, delivery_count=None, incoming_window=5, next_incoming_id=1
    )
    assert bodies(frames) == ["m1"]
    assert (frames[-1].value.delivery_count, frames[-1].value.link_credit) == (5, 0)


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


def test_a_link_that_ends_in_the_middle_of_a_message_stops_sending_it() -> None:
    desk = Desk()
    producer = Peer(desk).ready(container_id="producer")
    producer.attach_sender()
    producer.transfer(0, message("x" * 2000), settled=True)
    peer = Peer(desk)
    peer.open(max_frame_size=512)
    peer.begin(incoming_window=1)
    peer.attach_receiver()
    assert len(peer.flow(10, incoming_window=1)) == 1
    peer.send(Detach(handle=1, closed=True))
    assert (
        peer.flow(None, handle=None, delivery_count=None, incoming_window=9, next_incoming_id=1)
        == []
    )
    peer.attach_receiver(name="again")
    assert len(peer.flow(10, incoming_window=99, next_incoming_id=1)) == 5


def test_a_peer_that_does_not_read_gets_nothing_until_it_does() -> None:
    desk, peer = stocked(2)
    peer.attach_receiver()
    desk.note(desk.broker.handle(0, WritePaused(peer.conn)))
    assert peer.flow(5, drain=True) == []
    desk.note(desk.broker.handle(0, WriteResumed(peer.conn)))
    frames = peer.read()
    assert bodies(frames) == ["m0", "m1"]
    assert frames[-1].value.delivery_count == 5


# --- the end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["detach", "close", "end", "gone", "error"])
def test_however_a_link_ends_what_it_held_goes_back_in_order(how: str) -> None:
    desk, peer = stocked(4)
    peer.attach_receiver()
    peer.flow(3)
    settle(peer, 1, Accepted())
    waiting = Peer(desk).ready(container_id="waiting")
    waiting.attach_receiver()
    match how:
        case "detach":
            assert kinds(peer.send(Detach(handle=1))) == [Detach]
        case "close":
            assert peer.send(Detach(handle=1, closed=True))[0].value.closed
        case "end":
            assert kinds(peer.send(End())) == [End]
        case "gone":
            desk.gone(peer.conn)
        case "error":
            peer.raw(bytes(4))
    assert bodies(waiting.flow(9)) == ["m0", "m2", "m3"]


def test_data_sections_go_as_they_came() -> None:
    _, peer = stocked(0)
    peer.attach_sender()
    bare = b"".join(
        b"\0\x80" + DATA.to_bytes(8) + b"\xb0" + (3).to_bytes(4) + b"abc" for _ in range(2)
    )
    peer.transfer(0, bare + b"\0\x53\x78\xc1\x01\0", settled=True)
    peer.attach_receiver()
    (got,) = peer.flow(1)
    assert got.payload.endswith(bare + b"\0\x53\x78\xc1\x01\0")
