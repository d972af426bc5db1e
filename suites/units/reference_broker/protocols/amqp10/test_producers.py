"""Links on which the broker receives: credit, transfers, outcomes, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from brokerproof.reference_broker.families.artemis.accounting import Accounting
from brokerproof.reference_broker.families.artemis.admission import Admission
from brokerproof.reference_broker.kernel.admission import Verdict
from brokerproof.reference_broker.protocols.amqp10.messaging import (
    Accepted,
    Header,
    Modified,
    Rejected,
    Source,
)
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    RECEIVER,
    SENDER,
    Attach,
    Detach,
    Disposition,
    End,
    Flow,
    Transfer,
)
from brokerproof.reference_broker.settings.settings import AddressSetting, Settings
from brokerproof.suites.units.drivers.amqp10 import (
    AMQP,
    Desk,
    Frame,
    Peer,
    Proton,
    error_of,
    kinds,
    message,
    received,
    settings,
)

STRICT = replace(AMQP, address_settings=(AddressSetting("#", auto_create_addresses=False),))


# --- credit ---------------------------------------------------------------------------------------


def granted(frames: list[Frame]) -> list[tuple[int, int]]:
    return [
        (frame.value.delivery_count, frame.value.link_credit)
        for frame in frames
        if isinstance(frame.value, Flow)
    ]


@pytest.mark.parametrize(
    ("credits", "low"), [(100, 30), (10, 3), (1, 0), (5, 0), (5, 5), (5, 9), (2, 1)]
)
@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("first", [0, 2**32 - 4])
def test_credit_is_topped_up_at_the_low_mark_and_not_before(
    credits: int, low: int, settled: bool, first: int
) -> None:
    peer = Peer(Desk(settings(amqp_credits=credits, amqp_low_credits=low))).ready()
    frames = peer.attach_sender(initial_delivery_count=first)
    assert granted(frames) == [(first, credits)]
    left, sent = credits, 0
    for number in range(2 * credits + 3):
        frames = peer.transfer(number, settled=settled)
        sent, left = sent + 1, left - 1
        if left <= low:
            left = credits
            assert granted(frames) == [((first + sent) % 2**32, credits)], (number, low)
        else:
            assert granted(frames) == []


def test_a_transfer_beyond_the_credit_ends_the_link() -> None:
    peer = Peer(full_desk(settings(amqp_credits=3, amqp_low_credits=0))).ready()
    peer.desk.broker._shared.admission.full = False  # type: ignore[attr-defined]
    assert granted(peer.attach_sender()) == [(0, 3)]
    peer.desk.broker._shared.admission.full = True  # type: ignore[attr-defined]
    for number in range(3):
        assert kinds(peer.transfer(number)) == [Disposition]
    assert error_of(peer.transfer(3), Detach) == "amqp:link:transfer-limit-exceeded"


class Full(Admission):
    """An address that a test fills and empties."""

    def __init__(self, accounting: Accounting) -> None:
        super().__init__(accounting)
        self.full = True
        self.verdict = Verdict.TAKE
        self.waiting: list[Callable[[], None]] = []

    def has_room(self, address: str, on_room: Callable[[], None]) -> bool:
        if self.full and on_room not in self.waiting:
            self.waiting.append(on_room)
        return not self.full

    def forget(self, on_room: Callable[[], None]) -> None:
        if on_room in self.waiting:
            self.waiting.remove(on_room)

    def judge(self, address: str, *, by_credit: bool) -> Verdict:
        return self.verdict


def full_desk(settings: Settings) -> Desk:
    """A broker whose addresses are full until the test empties them."""
    desk = Desk(settings)
    shared = desk.broker._shared
    shared.admission = Full(shared.accounting)
    return desk


def test_a_full_address_gives_no_credit_and_takes_what_was_granted() -> None:
    desk = full_desk(AMQP)
    admission: Any = desk.broker._shared.admission
    peer = Peer(desk).ready()
    assert kinds(peer.attach_sender()) == [Attach], "no flow at all"
    admission.full = False
    admission.waiting.pop()()
    desk.settle()
    assert granted(peer.read()) == [(0, 100)]
    admission.full = True
    for number in range(100):
        assert granted(peer.transfer(number)) == []
    admission.full = False
    admission.waiting.pop()()
    desk.settle()
    assert granted(peer.read()) == [(100, 100)]
    admission.full = True
    for number in range(100, 170):
        peer.transfer(number)
    peer.send(Detach(handle=0, closed=True))
    assert admission.waiting == [], "who is gone is not waited for"


@pytest.mark.parametrize(
    ("verdict", "state"), [(Verdict.DROP, Accepted), (Verdict.REFUSE, Rejected)]
)
@pytest.mark.parametrize("settled", [False, True])
def test_what_an_address_does_not_take(verdict: Verdict, state: type, settled: bool) -> None:
    desk = full_desk(AMQP)
    admission: Any = desk.broker._shared.admission
    admission.full, admission.verdict = False, verdict
    peer = Peer(desk).ready()
    peer.attach_sender()
    frames = peer.transfer(0, settled=settled)
    if settled:
        assert frames == []
    else:
        assert type(frames[0].value.state) is state
        if state is Rejected:
            assert frames[0].value.state.error.condition == "amqp:resource-limit-exceeded"
    admission.verdict = Verdict.TAKE
    assert received(desk) == []


def test_a_sender_that_uses_up_its_credit_by_its_count() -> None:
    peer = Peer(Desk(settings(amqp_credits=10, amqp_low_credits=3))).ready()
    peer.attach_sender(initial_delivery_count=2**32 - 1)
    assert granted(peer.flow(handle=0, delivery_count=4)) == []
    assert granted(peer.flow(handle=0, delivery_count=6)) == [(6, 10)]
    assert granted(peer.flow(handle=0, delivery_count=6, echo=True)) == [(6, 10)]
    assert (
        error_of(peer.flow(handle=0, delivery_count=17), Detach)
        == "amqp:link:transfer-limit-exceeded"
    )


# --- transfers ------------------------------------------------------------------------------------


def test_a_message_is_accepted_and_settled() -> None:
    peer = Peer(Desk()).ready()
    peer.attach_sender()
    (answer,) = peer.transfer(7)
    assert answer.value == Disposition(role=RECEIVER, first=7, settled=True, state=Accepted())
    assert peer.transfer(8, settled=True) == []
    assert received(peer.desk) == ["m7", "m8"]


def test_many_messages_at_once_are_answered_at_once() -> None:
    peer = Peer(Desk()).ready()
    peer.attach_sender()
    peer.attach_sender("other", handle=4, name="t")
    many = b"".join(
        frame.encode()
        for number in range(2**32 - 2, 2**32 + 3)
        for frame in [Framed(number % 2**32, 4 if number % 2 else 0)]
    )
    (answer,) = peer.raw(many)
    assert answer.value == Disposition(
        role=RECEIVER, first=2**32 - 2, last=2, settled=True, state=Accepted()
    )


class Framed:
    def __init__(self, number: int, handle: int) -> None:
        self.number, self.handle = number, handle

    def encode(self) -> bytes:
        from brokerproof.reference_broker.protocols.amqp10.framing import frame

        transfer = Transfer(
            handle=self.handle, delivery_id=self.number, delivery_tag=b"t", message_format=0
        )
        return frame(0, transfer.encode() + message("x"))


def test_a_message_in_several_transfers() -> None:
    peer = Peer(Desk()).ready()
    peer.attach_sender()
    octets = message("in three parts")
    assert peer.transfer(0, octets[:5], more=True) == []
    assert (
        peer.transfer(
            0, octets[5:6], more=True, delivery_id=None, delivery_tag=None, message_format=None
        )
        == []
    )
    assert kinds(peer.transfer(0, octets[6:])) == [Disposition]
    assert received(peer.desk) == ["in three parts"]


def test_settled_once_is_settled_for_good() -> None:
    peer = Peer(Desk()).ready()
    peer.attach_sender()
    octets = message("m")
    peer.transfer(0, octets[:2], more=True, settled=True)
    assert peer.transfer(0, octets[2:]) == []
    assert received(peer.desk) == ["m"]


def test_an_aborted_delivery_leaves_nothing() -> None:
    peer = Peer(Desk(settings(amqp_credits=3, amqp_low_credits=1))).ready()
    peer.attach_sender()
    peer.transfer(0, b"what", more=True)
    assert peer.transfer(0, b"ever", aborted=True, more=True) == []
    assert granted(peer.transfer(1, aborted=True)) == [(2, 3)], "it took a credit"
    assert kinds(peer.transfer(2)) == [Disposition]
    assert received(peer.desk) == ["m2"]


def test_deliveries_on_two_links_may_interleave() -> None:
    peer = Peer(Desk()).ready()
    peer.attach_sender()
    peer.attach_sender(handle=4, name="t")
    one, two = message("one"), message("two")
    peer.transfer(0, one[:4], more=True)
    peer.transfer(1, two[:4], more=True, handle=4)
    assert peer.transfer(0, one[4:])[0].value.first == 0
    assert peer.transfer(1, two[4:], handle=4)[0].value.first == 1
    assert received(peer.desk) == ["one", "two"]


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
    "fields",
    [
        {"delivery_tag": bytes(32)},
        {"delivery_tag": b""},
        {"rcv_settle_mode": 0},
        {"rcv_settle_mode": 1, "settled": True},
        {"payload": b"\0\x53\x75\xb0" + (1000 - 8).to_bytes(4) + bytes(1000 - 8)},
    ],
)
def test_what_is_right_at_the_edge(fields: dict[str, Any]) -> None:
    peer = Peer(Desk(settings(amqp_max_message_size=1000))).ready()
    peer.attach_sender()
    frames = peer.transfer(0, fields.pop("payload", None), **fields)
    assert kinds(frames) == ([] if fields.get("settled") else [Disposition])
    assert peer.desk.observed == []


@pytest.mark.parametrize(
    "changed", [{"delivery_id": 1}, {"delivery_tag": b"other"}, {"message_format": 5}]
)
def test_what_must_not_change_within_a_delivery(changed: dict[str, Any]) -> None:
    peer = Peer(Desk()).ready()
    peer.attach_sender()
    peer.transfer(0, b"\0", more=True)
    assert error_of(peer.transfer(0, b"\0", **changed), Detach) == "amqp:invalid-field"


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


def test_a_resumed_delivery_that_nobody_knows_is_ignored() -> None:
    peer = Peer(Desk()).ready()
    peer.attach_sender(unsettled={b"tag": Accepted()})
    assert peer.transfer(0, resume=True) == []
    assert kinds(peer.transfer(1)) == [Disposition]
    assert received(peer.desk) == ["m1"]


def test_a_message_larger_than_the_limit_is_never_collected() -> None:
    peer = Peer(Desk(settings(amqp_max_message_size=1000))).ready()
    peer.attach_sender()
    for _ in range(10):
        assert peer.transfer(0, bytes(100), more=True) == []
    assert (
        error_of(peer.transfer(0, bytes(1), more=True), Detach) == "amqp:link:message-size-exceeded"
    )


# --- windows --------------------------------------------------------------------------------------


def test_our_window_is_opened_again_when_half_of_it_is_used() -> None:
    peer = Peer(Desk(settings(amqp_incoming_window=4)))
    peer.open()
    assert peer.begin(next_outgoing_id=2**32 - 1)[0].value.incoming_window == 4
    peer.attach_sender()
    assert kinds(peer.transfer(0)) == [Disposition]
    flow = next(each.value for each in peer.transfer(1) if isinstance(each.value, Flow))
    assert (flow.next_incoming_id, flow.incoming_window, flow.handle) == (1, 4, None)


def test_a_transfer_beyond_the_window_ends_the_session() -> None:
    peer = Peer(Desk(settings(amqp_incoming_window=0)))
    peer.open()
    assert peer.begin()[0].value.incoming_window == 0
    peer.attach_sender()
    assert error_of(peer.transfer(0), End) == "amqp:session:window-violation"
    assert received(peer.desk) == []


# --- outcomes that are not accepted ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"", "the message has no body"),
        (b"junk", "begins with a descriptor"),
        (b"\0\x53\x77\xa1\x05abc", "ends within"),
        (b"\0\x53\x70\x45", "the message has no body"),
        (b"\0\x53\x77\x40\0\x53\x77\x40", "comes after section"),
        (b"\0\x53\x75\xa0\0\0\x53\x77\x40", "comes after section"),
        (b"\0\x53\x75\xa0\0\0\x53\x73\x45", "comes after section"),
        (b"\0\x53\x73\x45\0\x53\x70\x45\0\x53\x77\x40", "comes after section"),
        (b"\0\x53\x70\xc0\x02\x01\x50\0\x53\x77\x40", "header cannot be read"),
        (b"\0\x53\x70\x40\0\x53\x77\x40", "a value of another type"),
        (b"\0\x53\x72\x45\0\x53\x77\x40", "a value of another type"),
        (b"\0\x53\x74\x45\0\x53\x77\x40", "a value of another type"),
        (b"\0\x53\x75\xa1\0", "a value of another type"),
        (b"\0\x53\x76\xc1\x01\0", "a value of another type"),
        (b"\0\x53\x72\xc1\x06\x02\xa1\x01a\x40\x40\0\x53\x77\x40", "annotations"),
        (b"\0\x53\x24\x45", "is none of a section"),
        (b"\0\xa3\x05hello\x40", "is none of a section"),
        (b"\0\x53\x77\x4f", "a value of another type"),
        (b"\0\x53\x77\x00", "end within a value"),
        (b"\0", "ends within"),
    ],
)
def test_octets_that_are_no_message_are_rejected(octets: bytes, reason: str) -> None:
    peer = Peer(Desk()).ready()
    peer.attach_sender()
    (answer,) = peer.transfer(0, octets)
    error = answer.value.state.error
    assert (error.condition, answer.value.settled) == ("amqp:decode-error", True)
    assert reason in error.description
    assert kinds(peer.transfer(1)) == [Disposition]
    assert received(peer.desk) == ["m1"]


@pytest.mark.parametrize(
    ("octets", "taken"),
    [
        (b"\0\x53\x72\xc1\x09\x02\xa3\x05x-opt\x40", False),
        (b"\0\x53\x72\xc1\x0a\x02\xa3\x06x-opt-\x40", True),
        (b"\0\x53\x71\xc1\x05\x02\xa3\x01k\x40", False),
        (b"\0\x53\x71\xc1\x0c\x02\xa3\x08rejected\x40", True),
        (b"\0\x53\x72\xc1\x03\x02\x44\x40", False),
    ],
)
def test_annotations_outside_x_opt_must_be_understood(octets: bytes, taken: bool) -> None:
    peer = Peer(Desk()).ready()
    peer.attach_sender()
    frames = peer.transfer(0, octets + message("m"))
    if taken:
        assert kinds(frames) == [Disposition]
    else:
        assert error_of(frames, Detach) == "amqp:not-implemented"
        assert peer.desk.observed == ["AMQP10-MSG-11"]


def test_a_source_that_does_not_know_rejected_gets_its_default_outcome() -> None:
    peer = Peer(Desk()).ready()
    failed = Modified(delivery_failed=True)
    source = Source(outcomes=("amqp:accepted:list", "amqp:modified:list"), default_outcome=failed)
    peer.attach_sender(source=source)
    assert peer.transfer(0, b"junk")[0].value.state == failed


def test_a_producer_without_an_address_names_one_in_each_message() -> None:
    desk = Desk()
    client = Proton(desk)
    sender = client.sender(None)
    assert sender.credit == 100
    good = client.post(sender, "one", address="a")
    also = client.post(sender, "two", address="b")
    bad = client.post(sender, "three")
    assert (good.remote_state, also.remote_state, bad.remote_state) == (
        good.ACCEPTED,
        good.ACCEPTED,
        good.REJECTED,
    )
    assert bad.remote.condition.name == "amqp:not-found"


def test_an_address_that_may_not_be_made_is_refused_message_by_message() -> None:
    desk = Desk(STRICT)
    client = Proton(desk)
    delivery = client.post(client.sender(None), "one", address="a")
    assert (delivery.remote_state, delivery.remote.condition.name) == (
        delivery.REJECTED,
        "amqp:not-found",
    )


def test_durable_priority_and_count_are_in_the_header_that_leaves() -> None:
    peer = Peer(Desk()).ready()
    peer.attach_sender()
    peer.transfer(0, Header(durable=True, priority=7, delivery_count=9).encode() + message("m"))
    peer.attach_receiver()
    payload = peer.flow(1)[0].payload
    header, _ = Header.read(payload, 3, 9)
    assert header == Header(durable=True, priority=7, first_acquirer=True)


def test_proton_sends_a_message_in_many_frames() -> None:
    desk = Desk(settings(amqp_max_frame_size=512))
    client = Proton(desk)
    sender = client.sender()
    body = "x" * 5000
    delivery = client.post(sender, body)
    assert (delivery.remote_state, delivery.settled) == (delivery.ACCEPTED, True)
    other = Proton(desk, max_frame_size=600, container="other")
    receiver = other.receiver(credit=1)
    _, got = other.get(receiver)
    assert got.body == body


def test_sender_role_of_a_disposition_is_heard_and_changes_nothing() -> None:
    peer = Peer(Desk()).ready()
    peer.attach_sender()
    peer.transfer(0)
    assert peer.send(Disposition(role=SENDER, first=0, last=2**31 - 1, settled=True)) == []
