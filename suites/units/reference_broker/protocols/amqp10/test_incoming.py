"""Links on which the broker receives: credit, transfers, outcomes, and refusals."""

from dataclasses import replace
from typing import Any

import pytest

from brokerproof.reference_broker.protocols.amqp10.messaging import Modified, Properties, Source
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    Detach,
    Disposition,
    End,
    Flow,
)
from brokerproof.reference_broker.settings.settings import AddressSetting
from brokerproof.suites.units.drivers.amqp10 import (
    AMQP,
    Desk,
    Frame,
    Peer,
    error_of,
    kinds,
    message,
    received,
    settings,
)

STRICT = replace(AMQP, address_settings=(AddressSetting("#", auto_create_addresses=False),))


def granted(frames: list[Frame]) -> list[tuple[int, int]]:
    return [
        (frame.value.delivery_count, frame.value.link_credit)
        for frame in frames
        if isinstance(frame.value, Flow)
    ]


def test_a_sender_that_uses_up_its_credit_by_its_count() -> None:
    peer = Peer(Desk(settings(amqp_credits=10, amqp_low_credits=3))).ready()
    peer.attach_sender(initial_delivery_count=2**32 - 1)
    assert granted(peer.flow(handle=0, delivery_count=4)) == []
    assert granted(peer.flow(handle=0, delivery_count=6)) == [(6, 10)]
    assert granted(peer.flow(handle=0, delivery_count=6, echo=True)) == [(6, 10)]
    found = error_of(peer.flow(handle=0, delivery_count=17), Detach)
    assert found == "amqp:link:transfer-limit-exceeded"


@pytest.mark.parametrize(
    ("fields", "kind", "expected"),
    [
        ({"delivery_id": None}, End, "amqp:invalid-field"),
        ({"delivery_id": 7}, End, "amqp:invalid-field"),
        ({"delivery_id": 0}, End, "amqp:invalid-field"),
        ({"delivery_tag": None}, Detach, "amqp:invalid-field"),
        ({"delivery_tag": bytes(33)}, Detach, "amqp:invalid-field"),
        ({"message_format": None}, Detach, "amqp:invalid-field"),
        ({"message_format": 1}, Detach, "amqp:not-implemented"),
        ({"rcv_settle_mode": 1}, Detach, "amqp:invalid-field"),
        ({"payload": bytes(1001)}, Detach, "amqp:link:message-size-exceeded"),
    ],
)
def test_what_is_wrong_with_a_transfer(fields: dict[str, Any], kind: type, expected: str) -> None:
    desk = Desk(settings(amqp_max_message_size=1000))
    peer, other = Peer(desk).ready(), Peer(desk).ready(container_id="other")
    peer.attach_sender()
    other.attach_sender()
    peer.transfer(0)
    payload = fields.pop("payload", None)
    frames = peer.transfer(1, payload, **fields)
    assert error_of(frames, kind) == expected
    assert desk.observed[-1].startswith("AMQP10-")
    assert kinds(other.transfer(0)) == [Disposition], "others are not touched"
    assert received(desk) == ["m0", "m0"]


@pytest.mark.parametrize(
    ("mode", "settled", "right"),
    [(0, True, False), (0, False, True), (1, True, True), (1, False, False)],
)
def test_the_settle_mode_of_the_link_is_kept(mode: int, settled: bool, right: bool) -> None:
    peer = Peer(Desk()).ready()
    peer.attach_sender(snd_settle_mode=mode)
    frames = peer.transfer(0, settled=settled)
    if right:
        assert kinds(frames) == ([] if settled else [Disposition])
    else:
        assert error_of(frames, Detach) == "amqp:invalid-field"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the message has no body"),
        (b"junk", "begin with a descriptor"),
        (b"\0\x53\x77\xa1\x05abc", "ends within"),
        (b"\0\x53\x70\x45", "the message has no body"),
        (b"\0\x53\x77\x40\0\x53\x77\x40", "comes after section"),
        (b"\0\x53\x75\xa0\0\0\x53\x77\x40", "comes after section"),
        (b"\0\x53\x75\xa0\0\0\x53\x73\x45", "comes after section"),
        (b"\0\x53\x73\x45\0\x53\x70\x45\0\x53\x77\x40", "comes after section"),
        (b"\0\x53\x70\xc0\x02\x01\x50\0\x53\x77\x40", "header cannot be read"),
        (b"\0\x53\x70\x40\0\x53\x77\x40", "a value of the wrong type"),
        (b"\0\x53\x72\x45\0\x53\x77\x40", "a value of the wrong type"),
        (b"\0\x53\x74\x45\0\x53\x77\x40", "a value of the wrong type"),
        (b"\0\x53\x75\xa1\0", "a value of the wrong type"),
        (b"\0\x53\x76\xc1\x01\0", "a value of the wrong type"),
        (b"\0\x53\x72\xc1\x06\x02\xa1\x01a\x40\x40\0\x53\x77\x40", "annotations"),
        (b"\0\x53\x24\x45", "is not a section"),
        (b"\0\xa3\x05hello\x40", "is not a section"),
        (b"\0\x53\x77\x4f", "a value of the wrong type"),
        (b"\0\x53\x77\x00", "end within a value"),
        (b"\0", "ends within"),
    ],
)
def test_bytes_that_are_no_message_are_rejected(data: bytes, reason: str) -> None:
    peer = Peer(Desk()).ready()
    peer.attach_sender()
    (answer,) = peer.transfer(0, data)
    error = answer.value.state.error
    assert (error.condition, answer.value.settled) == ("amqp:decode-error", True)
    assert reason in error.description
    assert kinds(peer.transfer(1)) == [Disposition]
    assert received(peer.desk) == ["m1"]


def test_a_source_that_does_not_know_rejected_gets_its_default_outcome() -> None:
    peer = Peer(Desk()).ready()
    failed = Modified(delivery_failed=True)
    source = Source(outcomes=("amqp:accepted:list", "amqp:modified:list"), default_outcome=failed)
    peer.attach_sender(source=source)
    assert peer.transfer(0, b"junk")[0].value.state == failed


def test_an_address_that_may_not_be_made_is_refused_message_by_message() -> None:
    peer = Peer(Desk(STRICT)).ready()
    peer.attach_sender(None)
    (answer,) = peer.transfer(0, Properties(to="a").encode() + message("one"))
    assert answer.value.state.error.condition == "amqp:not-found"
