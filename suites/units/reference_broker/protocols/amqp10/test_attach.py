"""How links begin and end: answers, refusals, handles, names, dynamic nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from brokerproof.reference_broker.protocols.amqp10.messaging import DeleteOnClose, Source, Target
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    RECEIVER,
    Attach,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Transfer,
)
from brokerproof.reference_broker.protocols.amqp10.types import Symbol
from brokerproof.reference_broker.settings.settings import AddressSetting, Settings
from brokerproof.suites.units.drivers.amqp10 import (
    AMQP,
    Desk,
    Peer,
    error_of,
    kinds,
    received,
    settings,
)

STRICT = replace(AMQP, address_settings=(AddressSetting("#", auto_create_addresses=False),))


# --- attach ---------------------------------------------------------------------------------------


def test_attach_is_answered_with_what_there_is() -> None:
    peer = Peer(Desk()).ready()
    answer, flow = peer.attach_sender(name="n", handle=5, snd_settle_mode=0, rcv_settle_mode=1)
    attach = answer.value
    assert (attach.name, attach.role, attach.snd_settle_mode, attach.rcv_settle_mode) == (
        "n",
        RECEIVER,
        0,
        0,
    )
    assert attach.target == Target(
        address="q", expiry_policy="link-detach", capabilities=("queue",)
    )
    assert attach.max_message_size == 256 * 1024 * 1024
    assert attach.initial_delivery_count is None
    assert (flow.value.handle, flow.value.delivery_count, flow.value.link_credit) == (
        attach.handle,
        0,
        100,
    )


def test_what_a_target_asks_for_and_does_not_get_is_told() -> None:
    peer = Peer(Desk()).ready()
    asked = Target(
        address="q", durable=2, expiry_policy="never", timeout=9, capabilities=("queue", "wonders")
    )
    answer = peer.attach_sender(target=asked)[0].value
    assert answer.target == Target(
        address="q", expiry_policy="link-detach", capabilities=("queue",)
    )


@pytest.mark.parametrize(
    ("settings", "fields", "expected"),
    [
        (AMQP, {"target": None}, "amqp:invalid-field"),
        (AMQP, {"initial_delivery_count": None}, "amqp:invalid-field"),
        (AMQP, {"target": Target(address="q", dynamic=True)}, "amqp:invalid-field"),
        (AMQP, {"target": Target(address="")}, "amqp:not-found"),
        (STRICT, {}, "amqp:not-found"),
    ],
)
def test_a_link_that_cannot_be_is_answered_and_closed(
    settings: Settings, fields: dict[str, Any], expected: str
) -> None:
    peer = Peer(Desk(settings)).ready()
    frames = peer.attach_sender(**fields)
    assert kinds(frames) == [Attach, Detach]
    assert frames[0].value.target is None
    assert frames[1].value.closed
    assert error_of(frames, Detach) == expected
    assert peer.flow(1, handle=0) == [], "what the peer pipelined is ignored"
    assert peer.send(Detach(handle=0, closed=True)) == []
    assert kinds(peer.attach_sender(None)) == [Attach, Flow], "the handle is free again"


def test_handles_in_use_above_the_maximum_and_unknown() -> None:
    peer = Peer(Desk(settings(amqp_handle_max=3))).ready()
    peer.attach_sender(handle=3)
    assert (
        error_of(peer.attach_sender(handle=3, name="other"), Close) == "amqp:session:handle-in-use"
    )
    peer = Peer(Desk(settings(amqp_handle_max=3))).ready()
    assert error_of(peer.attach_sender(handle=4), Close) == "amqp:connection:framing-error"
    for performative in (Detach(handle=9), Transfer(handle=9, delivery_id=0)):
        peer = Peer(Desk()).ready()
        assert error_of(peer.send(performative), End) == "amqp:session:unattached-handle"
        assert kinds(peer.send(End())) == []
        assert len(peer.begin()) == 1
    peer = Peer(Desk()).ready()
    assert error_of(peer.flow(1, handle=9), End) == "amqp:session:unattached-handle"


def test_the_peers_handle_max_limits_our_handles() -> None:
    peer = Peer(Desk())
    peer.open()
    peer.begin(handle_max=1)
    assert [peer.attach_sender(handle=each, name=str(each))[0].value.handle for each in (7, 8)] == [
        0,
        1,
    ]
    peer.send(Detach(handle=7))
    assert peer.attach_sender(handle=2, name="2")[0].value.handle == 0
    assert error_of(peer.attach_sender(handle=3, name="3"), End) == "amqp:resource-limit-exceeded"


def test_detach_is_answered_alike_and_the_link_is_gone() -> None:
    peer = Peer(Desk()).ready()
    for closed in (False, True):
        peer.attach_sender()
        (answer,) = peer.send(Detach(handle=0, closed=closed))
        assert answer.value == Detach(handle=0, closed=closed)


def test_an_active_name_that_is_attached_again_is_stolen() -> None:
    desk = Desk()
    one, two = Peer(desk).ready(), Peer(desk).ready()
    one.attach_sender()
    assert kinds(one.attach_receiver(name="s")) == [Attach], (
        "a sender and a receiver may share a name"
    )
    assert kinds(Peer(desk).ready(container_id="other").attach_sender()) == [Attach, Flow]
    assert one.read() == []
    assert kinds(two.attach_sender(handle=8)) == [Attach, Flow]
    stolen = one.read()
    assert error_of(stolen, Detach) == "amqp:link:stolen"
    assert stolen[0].value.closed
    assert kinds(two.attach_sender(handle=9)) == [Attach, Flow, Detach]
    assert one.send(Detach(handle=0, closed=True)) == []


def test_a_failed_attach_steals_nothing() -> None:
    peer = Peer(Desk()).ready()
    peer.attach_sender()
    assert kinds(peer.attach_sender(handle=5, target=None)) == [Attach, Detach]
    assert kinds(peer.transfer(0)) == [Disposition]


def test_an_errant_link_ends_the_session() -> None:
    peer = Peer(Desk()).ready()
    peer.attach_sender()
    assert error_of(peer.transfer(0, delivery_tag=None), Detach) == "amqp:invalid-field"
    assert error_of(peer.transfer(1), End) == "amqp:session:errant-link"
    assert peer.desk.observed[-1] == "AMQP10-SESS-06"


def test_a_link_that_we_closed_and_the_peer_only_detached_is_closed_once_more() -> None:
    peer = Peer(Desk()).ready()
    peer.attach_sender()
    peer.transfer(0, delivery_tag=None)
    frames = peer.send(Detach(handle=0))
    assert kinds(frames) == [Attach, Detach]
    assert frames[1].value == Detach(handle=frames[0].value.handle, closed=True)
    assert peer.attach_sender(handle=4) == [], "the answer to our attach"
    assert peer.send(Detach(handle=4, closed=True)) == []
    assert kinds(peer.attach_sender(handle=4)) == [Attach, Flow]


def test_a_dynamic_target_and_a_dynamic_source_have_a_node_of_their_own() -> None:
    desk = Desk(AMQP)
    peer = Peer(desk).ready()
    policy = {Symbol("lifetime-policy"): DeleteOnClose()}
    asked = Source(dynamic=True, dynamic_node_properties=policy)
    source = peer.attach_receiver(source=asked)[0].value.source
    assert source.dynamic
    assert "peer" in source.address
    assert ".r." in source.address
    assert source.dynamic_node_properties is not None
    peer.flow(10)
    peer.attach_sender(source.address)
    frames = peer.transfer(0)
    assert kinds(frames) == [Transfer, Disposition]
    target = peer.attach_sender(name="d", handle=3, target=Target(dynamic=True))[0].value.target
    assert target.address != source.address
    assert kinds(peer.attach_receiver(target.address, name="x", handle=4)) == [Attach]


def test_what_waits_in_a_dynamic_node_goes_with_it() -> None:
    desk = Desk(AMQP)
    peer = Peer(desk).ready()
    address = peer.attach_receiver(source=Source(dynamic=True))[0].value.source.address
    other = Peer(desk).ready()
    other.attach_sender(address)
    other.transfer(0)
    peer.send(Detach(handle=1, closed=True))
    assert received(desk, address) == []
