"""Transactions over AMQP: declare, work, discharge, and everything that rolls back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from brokerproof.reference_broker.protocols.amqp10.encoder import encode
from brokerproof.reference_broker.protocols.amqp10.framing import frame
from brokerproof.reference_broker.protocols.amqp10.messaging import (
    Accepted,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Modified,
    Rejected,
    Released,
    Source,
    TransactionalState,
)
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    RECEIVER,
    SENDER,
    Attach,
    Detach,
    Disposition,
    End,
    Transfer,
)
from brokerproof.reference_broker.settings.quotas import Quotas
from brokerproof.suites.units.drivers.amqp10 import (
    AMQP,
    Desk,
    Frame,
    Peer,
    bodies,
    error_of,
    message,
)


class Controller(Peer):
    """A peer with a coordinator link (handle 9), a producer (handle 0) and a consumer (handle 1) on
    one session."""

    def __init__(self, desk: Desk, **fields: Any) -> None:
        super().__init__(desk)
        self.next = 0
        self.ready(container_id=f"controller {self.conn}")
        self.control(**fields)
        self.attach_sender()
        self.attach_receiver()

    def control(self, handle: int = 9, name: str = "control", **fields: Any) -> list[Frame]:
        return self.attach_sender(handle=handle, name=name, target=Coordinator(), **fields)

    def ask(self, what: Any, handle: int = 9, **fields: Any) -> list[Frame]:
        payload = b"\0\x53\x77" + encode(what)
        frames = self.transfer(self.next, payload, handle=handle, **fields)
        self.next += 1
        return frames

    def declare(self, handle: int = 9) -> bytes:
        state = states(self.ask(Declare(), handle))[0]
        assert isinstance(state, Declared)
        return state.txn_id

    def discharge(self, id: bytes, fail: bool | None = None, handle: int = 9) -> Any:
        return states(self.ask(Discharge(txn_id=id, fail=fail), handle))[-1]

    def post(self, id: bytes, payload: bytes | None = None, **fields: Any) -> list[Frame]:
        number, self.next = self.next, self.next + 1
        return self.transfer(
            number, payload or message(f"m{number}"), state=TransactionalState(txn_id=id), **fields
        )

    def plain(self, payload: str) -> None:
        self.transfer(self.next, message(payload), settled=True)
        self.next += 1

    def settle(
        self, id: bytes, first: int, outcome: Any, last: int | None = None, settled: bool = True
    ) -> list[Frame]:
        state = TransactionalState(txn_id=id, outcome=outcome)
        return self.send(
            Disposition(role=RECEIVER, first=first, last=last, settled=settled, state=state)
        )


def states(frames: list[Frame]) -> list[Any]:
    return [frame.value.state for frame in frames if isinstance(frame.value, Disposition)]


def waiting(desk: Desk) -> list[str]:
    """Return the messages that another consumer would get now; it gives them back."""
    peer = Peer(desk).ready(container_id="looker")
    peer.attach_receiver(
        source=Source(address="q", distribution_mode="copy", capabilities=("queue",))
    )
    found = bodies(peer.flow(100))
    desk.gone(peer.conn)
    return found


def test_what_is_posted_comes_at_the_discharge() -> None:
    desk = Desk()
    peer = Controller(desk)
    id = peer.declare()
    expected = TransactionalState(txn_id=id, outcome=Accepted())
    assert states(peer.post(id, message("a"))) == [expected]
    peer.plain("plain")
    assert peer.post(id, message("b"), settled=True) == []
    assert waiting(desk) == ["plain"]
    assert peer.discharge(id) == Accepted()
    assert waiting(desk) == ["plain", "a", "b"]


def test_what_is_posted_is_gone_after_a_rollback() -> None:
    desk = Desk()
    peer = Controller(desk)
    id = peer.declare()
    peer.post(id)
    assert peer.discharge(id, fail=True) == Accepted()
    assert waiting(desk) == []


def test_a_post_in_several_transfers() -> None:
    desk = Desk()
    peer = Controller(desk)
    id = peer.declare()
    data = message("long")
    state = TransactionalState(txn_id=id)
    peer.transfer(peer.next, data[:3], more=True, state=state)
    frames = peer.transfer(peer.next, data[3:])
    peer.next += 1
    assert states(frames) == [TransactionalState(txn_id=id, outcome=Accepted())]
    assert peer.discharge(id) == Accepted()
    assert waiting(desk) == ["long"]


def test_a_discharge_before_the_last_transfer_ends_the_control_link() -> None:
    desk = Desk()
    peer = Controller(desk)
    id = peer.declare()
    peer.post(id)
    peer.transfer(peer.next, b"\0", more=True, state=TransactionalState(txn_id=id))
    peer.next += 1
    assert error_of(peer.ask(Discharge(txn_id=id)), Detach) == "amqp:transaction:rollback"
    assert desk.observed[-1] == "AMQP10-TXN-08"
    assert waiting(desk) == []


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize(
    ("outcome", "left"), [(Accepted(), []), (Released(), ["m"]), (Rejected(), []), (None, ["m"])]
)
def test_an_outcome_applies_at_the_discharge(outcome: Any, left: list[str], settled: bool) -> None:
    desk = Desk()
    peer = Controller(desk)
    peer.plain("m")
    assert bodies(peer.flow(1)) == ["m"]
    id = peer.declare()
    assert peer.settle(id, 0, outcome, settled=settled) == []
    assert waiting(desk) == []
    frames = peer.ask(Discharge(txn_id=id))
    assert states(frames)[-1] == Accepted()
    ours = [
        frame.value
        for frame in frames
        if isinstance(frame.value, Disposition) and frame.value.role is SENDER
    ]
    assert ours == (
        []
        if settled
        else [
            Disposition(
                role=SENDER, first=0, settled=True, state=outcome if outcome else Released()
            )
        ]
    )
    assert waiting(desk) == left


def test_after_a_rollback_a_delivery_that_was_not_settled_stays_with_its_receiver() -> None:
    desk = Desk()
    peer = Controller(desk)
    peer.plain("m")
    peer.flow(1)
    id = peer.declare()
    peer.settle(id, 0, Accepted(), settled=False)
    assert peer.discharge(id, fail=True) == Accepted()
    assert waiting(desk) == []
    peer.send(Disposition(role=RECEIVER, first=0, settled=True, state=Released()))
    assert waiting(desk) == ["m"]


@pytest.mark.parametrize(("default", "left"), [(None, ["m"]), (Accepted(), [])])
def test_after_a_rollback_a_delivery_that_was_settled_gets_the_default_outcome(
    default: Any, left: list[str]
) -> None:
    desk = Desk()
    peer = Controller(desk)
    source = Source(address="q", default_outcome=default, capabilities=("queue",))
    peer.attach_receiver(source=source, name="other", handle=2)
    peer.plain("m")
    peer.flow(1, handle=2)
    id = peer.declare()
    peer.settle(id, 0, Modified(delivery_failed=True))
    peer.discharge(id, fail=True)
    assert waiting(desk) == left


def test_a_delivery_settled_after_its_outcome_and_before_the_discharge() -> None:
    desk = Desk()
    peer = Controller(desk)
    peer.plain("m")
    peer.flow(1)
    id = peer.declare()
    peer.settle(id, 0, Accepted(), settled=False)
    assert peer.settle(id, 0, Accepted(), settled=True) == []
    frames = peer.ask(Discharge(txn_id=id))
    assert states(frames) == [Accepted()], "nobody waits for our word on the delivery"
    assert waiting(desk) == []


def test_a_plain_disposition_settles_a_delivery_whose_outcome_waits() -> None:
    desk = Desk()
    peer = Controller(desk)
    peer.plain("m")
    peer.flow(1)
    id = peer.declare()
    peer.settle(id, 0, Accepted(), settled=False)
    peer.send(Disposition(role=RECEIVER, first=0, settled=True))
    assert peer.discharge(id, fail=True) == Accepted()
    assert waiting(desk) == ["m"], "settled, and rolled back: the default outcome"


def test_an_outcome_in_another_transaction_ends_the_control_link() -> None:
    desk = Desk()
    peer = Controller(desk)
    peer.plain("m")
    peer.flow(1)
    one = peer.declare()
    peer.control(handle=8, name="second")
    two = peer.declare(handle=8)
    peer.settle(one, 0, Accepted(), settled=False)
    frames = peer.settle(two, 0, Accepted(), settled=False)
    assert error_of(frames, Detach) == "amqp:transaction:rollback"
    assert peer.discharge(one) == Accepted()
    assert waiting(desk) == []


def test_an_unknown_txn_id() -> None:
    desk = Desk()
    peer = Controller(desk)
    (state,) = states(peer.post(b"nobody"))
    assert state.error.condition == "amqp:transaction:unknown-id"
    assert peer.discharge(b"nobody").error.condition == "amqp:transaction:unknown-id"
    assert peer.discharge(b"nobody", fail=True).error.condition == "amqp:transaction:unknown-id"
    peer.plain("m")
    peer.flow(1)
    assert error_of(peer.settle(b"nobody", 0, Accepted()), Detach) == "amqp:transaction:unknown-id"
    assert waiting(desk) == ["m"]


@pytest.mark.parametrize("how", ["detach", "close", "end", "gone", "error"])
def test_however_the_control_link_ends_its_transactions_are_rolled_back(how: str) -> None:
    desk = Desk()
    peer = Controller(desk)
    peer.plain("first")
    peer.plain("second")
    peer.flow(2)
    id = peer.declare()
    peer.post(id)
    peer.settle(id, 0, Accepted())
    peer.settle(id, 1, Accepted(), settled=False)
    match how:
        case "detach":
            peer.send(Detach(handle=9))
        case "close":
            peer.send(Detach(handle=9, closed=True))
        case "end":
            peer.send(End())
        case "gone":
            desk.gone(peer.conn)
        case "error":
            peer.raw(bytes(4))
    if how in ("detach", "close"):
        assert waiting(desk) == ["first"], "the second stays with its receiver"
        assert states(peer.post(id))[0].error.condition == "amqp:transaction:unknown-id"
    else:
        assert waiting(desk) == ["first", "second"]


def test_the_link_of_a_delivery_may_end_before_the_discharge() -> None:
    for fail, left in ((False, []), (True, ["m"])):
        desk = Desk()
        peer = Controller(desk)
        peer.plain("m")
        peer.flow(1)
        id = peer.declare()
        peer.settle(id, 0, Accepted(), settled=False)
        peer.send(Detach(handle=1, closed=True))
        assert waiting(desk) == []
        frames = peer.ask(Discharge(txn_id=id, fail=fail))
        assert states(frames) == [Accepted()]
        assert waiting(desk) == left


def test_work_on_another_session_of_the_connection() -> None:
    desk = Desk()
    peer = Controller(desk)
    id = peer.declare()
    peer.begin(3)
    peer.attach_sender(name="far", channel=3)
    frames = peer.transfer(0, message("far"), channel=3, state=TransactionalState(txn_id=id))
    assert states(frames) == [TransactionalState(txn_id=id, outcome=Accepted())]
    peer.discharge(id)
    assert waiting(desk) == ["far"]


def test_a_post_that_cannot_be_taken_dooms_the_transaction_if_it_was_settled() -> None:
    desk = Desk()
    peer = Controller(desk)
    id = peer.declare()
    (state,) = states(peer.post(id, b"junk"))
    assert isinstance(state.outcome, Rejected)
    peer.post(id, message("good"))
    assert peer.discharge(id) == Accepted(), "the peer was told"
    assert waiting(desk) == ["good"]
    id = peer.declare()
    assert peer.post(id, b"junk", settled=True) == []
    peer.post(id, message("good too"))
    assert peer.discharge(id).error.condition == "amqp:transaction:rollback"
    assert waiting(desk) == ["good"]
    id = peer.declare()
    peer.post(id, b"junk", settled=True)
    assert peer.discharge(id, fail=True) == Accepted()


@pytest.mark.parametrize("what", [Accepted(), "declare", None, [], Declare(global_id="g")])
def test_what_is_neither_declare_nor_discharge(what: Any) -> None:
    peer = Controller(Desk())
    (state,) = states(peer.ask(what))
    assert isinstance(state, Rejected)
    assert len(peer.declare()) == 8


@pytest.mark.parametrize(
    "data",
    [
        b"junk",
        b"\0\x53\x75\xa0\0",
        b"\0\x53\x77\0\x53\x32\x45",
        b"\0\x53\x77\0\x53\x32\xc0\x03\x01\xa1\0",
    ],
)
def test_bytes_for_the_coordinator_that_mean_nothing(data: bytes) -> None:
    peer = Controller(Desk())
    (state,) = states(
        peer.raw(
            frame(
                0,
                Transfer(handle=9, delivery_id=0, delivery_tag=b"", message_format=0).encode()
                + data,
            )
        )
    )
    assert state.error.condition == "amqp:decode-error"


def test_a_controller_that_does_not_know_rejected_is_told_by_a_detach() -> None:
    peer = Controller(Desk(), source=Source(outcomes=("amqp:accepted:list", "amqp:declared:list")))
    assert error_of(peer.ask(Discharge(txn_id=b"nobody")), Detach) == "amqp:transaction:unknown-id"


def test_open_transactions_are_limited() -> None:
    peer = Controller(Desk(replace(AMQP, quotas=Quotas(transactions=1000))))
    for _ in range(1000):
        last = peer.declare()
    (state,) = states(peer.ask(Declare()))
    assert state.error.condition == "amqp:resource-limit-exceeded"
    assert peer.discharge(last) == Accepted()
    assert peer.declare()


def test_a_coordinator_answers_a_sender_only() -> None:
    peer = Peer(Desk()).ready()
    frames = peer.attach_sender(target=Coordinator(), initial_delivery_count=None)
    assert [type(frame.value) for frame in frames] == [Attach, Detach]
