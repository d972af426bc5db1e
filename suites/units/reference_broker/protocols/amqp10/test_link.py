"""How links begin and end: refusals, a detach that does not close, dynamic nodes."""

from dataclasses import replace
from typing import Any

import pytest

from brokerproof.reference_broker.protocols.amqp10.messaging import Source, Target
from brokerproof.reference_broker.protocols.amqp10.performatives import Attach, Detach, Flow
from brokerproof.reference_broker.settings.settings import AddressSetting, Settings
from brokerproof.suites.units.drivers.amqp10 import AMQP, Desk, Peer, error_of, kinds, received

STRICT = replace(AMQP, address_settings=(AddressSetting("#", auto_create_addresses=False),))


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


def test_what_waits_in_a_dynamic_node_goes_with_it() -> None:
    desk = Desk(AMQP)
    peer = Peer(desk).ready()
    address = peer.attach_receiver(source=Source(dynamic=True))[0].value.source.address
    other = Peer(desk).ready()
    other.attach_sender(address)
    other.transfer(0)
    peer.send(Detach(handle=1, closed=True))
    assert received(desk, address) == []
