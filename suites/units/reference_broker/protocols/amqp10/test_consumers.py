"""Links on which the broker sends: attach, credit, drain, windows, browsing, and their ends."""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.harness.model.broker_io import WritePaused, WriteResumed
from brokerproof.reference_broker.protocols.amqp10.messaging import (
    DATA,
    Accepted,
    Declared,
    Rejected,
    Released,
    Source,
    Target,
)
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    RECEIVER,
    SENDER,
    Attach,
    Detach,
    Disposition,
    End,
    Flow,
)
from brokerproof.reference_broker.protocols.amqp10.types import Described, Symbol
from brokerproof.suites.units.drivers.amqp10 import (
    Desk,
    Frame,
    Peer,
    Proton,
    bodies,
    error_of,
    header,
    ids,
    kinds,
    message,
    settings,
    settle,
    stocked,
    text,
)

# --- attach ---------------------------------------------------------------------------------------


def test_attach_is_answered_with_what_there_is() -> None:
    peer = Peer(Desk(settings(amqp_first_delivery_count=2**32 - 1))).ready()
    (answer,) = peer.attach_receiver(
        rcv_settle_mode=1, snd_settle_mode=1, initial_delivery_count=77
    )
    attach = answer.value
    assert (attach.role, attach.initial_delivery_count) == (SENDER, 2**32 - 1)
    assert (attach.snd_settle_mode, attach.rcv_settle_mode) == (1, 1)
    source = attach.source
    assert (source.address, source.durable, source.expiry_policy, source.distribution_mode) == (
        "q",
        0,
        "link-detach",
        "move",
    )
    assert source.default_outcome == Released()
    assert set(source.outcomes) == {
        f"amqp:{each}:list" for each in ("accepted", "rejected", "released", "modified")
    }


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


def test_credit_limits_deliveries_one_to_one() -> None:
    _, peer = stocked(5)
    peer.attach_receiver()
    assert peer.read() == []
    assert bodies(peer.flow(2)) == ["m0", "m1"]
    assert bodies(peer.flow(2)) == [], "the same limit, told again"
    assert bodies(peer.flow(2, delivery_count=1)) == ["m2"]
    assert bodies(peer.flow(0, delivery_count=3)) == []
    assert bodies(peer.flow(10, delivery_count=3)) == ["m3", "m4"]


@pytest.mark.parametrize("first", [0, 2**32 - 2])
def test_counts_wrap(first: int) -> None:
    names = ("amqp_first_transfer_id", "amqp_first_delivery_id", "amqp_first_delivery_count")
    _, peer = stocked(6, settings(**dict.fromkeys(names, first)))
    peer.attach_receiver()

    def wrapped(steps: int) -> int:
        return (first + steps) % 2**32

    begun = {"next_incoming_id": first, "delivery_count": None}
    frames = peer.flow(1, **begun)
    assert (bodies(frames), ids(frames)) == (["m0"], [first])
    frames = peer.flow(3, next_incoming_id=wrapped(1), delivery_count=wrapped(1))
    assert (bodies(frames), ids(frames)) == (
        ["m1", "m2", "m3"],
        [wrapped(each) for each in (1, 2, 3)],
    )
    frames = peer.flow(2, next_incoming_id=wrapped(3), delivery_count=wrapped(3))
    assert bodies(frames) == ["m4"]
    (flow,) = peer.flow(2, next_incoming_id=wrapped(5), delivery_count=wrapped(5), drain=True)[1:]
    assert (flow.value.delivery_count, flow.value.link_credit) == (wrapped(7), 0)
    state = Disposition(role=RECEIVER, first=first, last=wrapped(5), settled=True, state=Released())
    peer.send(state)
    assert len(bodies(peer.flow(6, next_incoming_id=wrapped(6), delivery_count=wrapped(7)))) == 6


def test_a_flow_that_knows_a_count_we_never_had() -> None:
    _, peer = stocked(1)
    peer.attach_receiver()
    assert error_of(peer.flow(1, delivery_count=1), Detach) == "amqp:invalid-field"


def test_echo_tells_credit_and_what_is_available() -> None:
    _, peer = stocked(3)
    peer.attach_receiver()
    *transfers, flow = peer.flow(1, echo=True)
    assert bodies(transfers) == ["m0"]
    assert (flow.value.delivery_count, flow.value.link_credit, flow.value.available) == (1, 0, 2)
    assert (flow.value.handle, flow.value.next_outgoing_id, flow.value.drain) == (0, 1, False)
    (flow,) = peer.flow(None, handle=None, delivery_count=None, echo=True, next_incoming_id=1)
    assert (flow.value.handle, flow.value.link_credit, flow.value.next_outgoing_id) == (
        None,
        None,
        1,
    )


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


@pytest.mark.parametrize(("waiting", "credit"), [(0, 5), (3, 5), (5, 5), (6, 5), (1, 2**32 - 1)])
def test_drain_is_answered_with_the_count_at_the_limit(waiting: int, credit: int) -> None:
    desk, peer = stocked(waiting)
    peer.attach_receiver()
    *transfers, flow = peer.flow(credit, drain=True)
    assert len(bodies(transfers)) == min(waiting, credit)
    assert (flow.value.delivery_count, flow.value.link_credit, flow.value.drain) == (
        credit,
        0,
        True,
    )
    assert flow.value.available == max(0, waiting - credit)
    assert ("AMQP10-CREDIT-12" in desk.observed) == (waiting < credit)


def test_credit_after_a_drain_counts_from_the_new_limit() -> None:
    desk, peer = stocked(0)
    peer.attach_receiver()
    peer.flow(5, drain=True)
    producer = Peer(desk).ready(container_id="other")
    producer.attach_sender()
    producer.transfer(0)
    assert peer.read() == []
    assert bodies(peer.flow(1, delivery_count=5)) == ["m0"]


def test_consumers_take_turns_as_their_credit_allows() -> None:
    desk, one = stocked(0)
    two = Peer(desk).ready(container_id="two")
    for peer, credit in ((one, 10), (two, 2)):
        peer.attach_receiver()
        peer.flow(credit)
    producer = Peer(desk).ready(container_id="other")
    producer.attach_sender()
    for number in range(6):
        producer.transfer(number)
    assert (bodies(one.read()), bodies(two.read())) == (["m0", "m2", "m4", "m5"], ["m1", "m3"])


# --- windows --------------------------------------------------------------------------------------


def test_the_peers_window_is_kept_to_the_transfer() -> None:
    _, peer = stocked(5)
    peer.attach_receiver()
    assert bodies(peer.flow(10, incoming_window=2)) == ["m0", "m1"]
    assert bodies(peer.flow(10, incoming_window=2)) == [], "it has not seen them yet"
    assert bodies(peer.flow(10, incoming_window=2, next_incoming_id=1)) == ["m2"]
    assert bodies(
        peer.flow(None, handle=None, delivery_count=None, incoming_window=1, next_incoming_id=3)
    ) == ["m3"]


def test_a_flow_without_next_incoming_id_counts_from_our_first() -> None:
    _, peer = stocked(5, settings(amqp_first_transfer_id=9))
    peer.attach_receiver()
    assert bodies(peer.flow(10, incoming_window=2, next_incoming_id=9)) == ["m0", "m1"]
    assert bodies(peer.flow(10, incoming_window=3, next_incoming_id=None)) == ["m2"]


def test_ids_from_the_future() -> None:
    _, peer = stocked(1)
    peer.attach_receiver()
    assert error_of(peer.flow(1, next_incoming_id=1), End) == "amqp:invalid-field"


def test_a_window_closes_in_the_middle_of_a_message() -> None:
    desk = Desk()
    producer = Peer(desk).ready(container_id="producer")
    producer.attach_sender()
    producer.transfer(0, message("x" * 2000), settled=True)
    producer.transfer(1, settled=True)
    peer = Peer(desk)
    peer.open(max_frame_size=512)
    peer.begin(incoming_window=2)
    peer.attach_receiver()
    frames = peer.flow(10, incoming_window=2)
    assert [frame.value.more for frame in frames] == [True, True]
    frames += peer.flow(10, incoming_window=1, next_incoming_id=2)
    assert len(frames) == 3
    frames += peer.flow(10, incoming_window=100, next_incoming_id=3)
    assert [frame.value.more for frame in frames] == [True] * 4 + [False, False]
    assert text(b"".join(frame.payload for frame in frames[:5])) == "x" * 2000
    assert bodies(frames[5:]) == ["m1"]
    assert ids(frames) == [0, None, None, None, None, 1]


def test_a_drain_waits_for_the_window() -> None:
    _, peer = stocked(2)
    peer.attach_receiver()
    assert bodies(peer.flow(5, incoming_window=1, drain=True)) == ["m0"]
    frames = peer.flow(
        None, handle=None, delivery_count=None, incoming_window=5, next_incoming_id=1
    )
    assert bodies(frames) == ["m1"]
    assert (frames[-1].value.delivery_count, frames[-1].value.link_credit) == (5, 0)


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


# --- browsing -------------------------------------------------------------------------------------


def browse(peer: Peer, **fields: Any) -> list[Frame]:
    source = Source(address="q", distribution_mode="copy", capabilities=("queue",))
    return peer.attach_receiver(source=source, **fields)


def test_a_copy_takes_nothing_away_and_sees_each_message_once() -> None:
    desk, peer = stocked(3)
    (answer,) = browse(peer)
    assert answer.value.source.distribution_mode == "copy"
    assert bodies(peer.flow(2)) == ["m0", "m1"]
    settle(peer, 0, Accepted())
    settle(peer, 1, Rejected())
    frames = peer.flow(5, delivery_count=2, next_incoming_id=2, echo=True)
    assert bodies(frames) == ["m2"]
    assert frames[-1].value.available == 0
    producer = Peer(desk).ready(container_id="other")
    producer.attach_sender()
    producer.transfer(9, settled=True)
    assert bodies(peer.read()) == ["m9"], "and what comes later"
    taker = Peer(desk).ready(container_id="third")
    taker.attach_receiver()
    assert bodies(taker.flow(9)) == ["m0", "m1", "m2", "m9"]


def test_a_copy_drains() -> None:
    _, peer = stocked(2)
    browse(peer)
    frames = peer.flow(5, drain=True)
    assert bodies(frames) == ["m0", "m1"]
    assert (frames[-1].value.delivery_count, frames[-1].value.link_credit) == (5, 0)


def test_what_others_hold_is_not_to_be_seen_until_it_comes_back() -> None:
    desk, peer = stocked(3)
    taker = Peer(desk).ready(container_id="taker")
    taker.attach_receiver()
    taker.flow(1)
    browse(peer)
    assert bodies(peer.flow(1)) == ["m1"]
    desk.gone(taker.conn)
    assert bodies(peer.flow(9, delivery_count=1, next_incoming_id=1)) == ["m2"], (
        "m0 came back behind the cursor's back"
    )


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


def test_a_transfer_to_a_sender_ends_the_link() -> None:
    peer = Peer(Desk()).ready()
    peer.attach_receiver(handle=0)
    assert error_of(peer.transfer(0), Detach) == "amqp:not-allowed"


def test_a_message_too_large_for_the_peer_stays_and_ends_the_link() -> None:
    desk, peer = stocked(1)
    peer.attach_receiver(max_message_size=5)
    assert error_of(peer.flow(1), Detach) == "amqp:link:message-size-exceeded"
    other = Peer(desk).ready(container_id="other")
    other.attach_receiver()
    frames = other.flow(1)
    assert bodies(frames) == ["m0"]
    assert header(frames[0]).delivery_count is None


def test_a_message_too_large_goes_to_another_consumer_that_has_room() -> None:
    desk, peer = stocked(0)
    peer.attach_receiver(max_message_size=40)
    peer.flow(5)
    other = Peer(desk).ready(container_id="other")
    other.attach_receiver()
    other.flow(5)
    producer = Peer(desk).ready(container_id="third")
    producer.attach_sender()
    producer.transfer(0, message("x" * 100), settled=True)
    assert error_of(peer.read(), Detach) == "amqp:link:message-size-exceeded"
    assert bodies(other.read()) == ["x" * 100]


def test_a_topic_has_a_copy_for_each_subscription() -> None:
    desk = Desk()
    peers = [Peer(desk).ready(container_id=str(number)) for number in range(2)]
    for peer in peers:
        peer.attach_receiver(source=Source(address="t", capabilities=("topic",)))
        peer.flow(9)
    peers[0].attach_sender(target=Target(address="t"))
    frames = peers[0].transfer(0)
    assert bodies(frames) == ["m0"]
    assert bodies(peers[1].read()) == ["m0"]


def test_proton_drains_and_settles() -> None:
    desk = Desk()
    client = Proton(desk)
    sender = client.sender()
    for number in range(3):
        client.post(sender, f"m{number}", durable=True, priority=2)
    receiver = client.receiver()
    receiver.drain(10)
    client.pump()
    for number in range(3):
        delivery, got = client.get(receiver)
        assert (got.body, got.durable, got.priority, got.delivery_count) == (
            f"m{number}",
            True,
            2,
            0,
        )
        if number == 0:
            delivery.local.failed = True
            delivery.update(delivery.MODIFIED)
        else:
            delivery.update(delivery.RELEASED if number == 1 else delivery.ACCEPTED)
        delivery.settle()
    client.pump()
    assert receiver.drained() == 7
    receiver.drain_mode = False
    receiver.flow(5)
    client.pump()
    again = [client.get(receiver)[1] for _ in range(2)]
    assert [(each.body, each.delivery_count) for each in again] == [("m0", 1), ("m1", 0)]
    assert receiver.current is None


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
