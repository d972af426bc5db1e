"""Transactions over AMQP that the cases of suites/amqp10 do not cover: odd orders and bytes."""

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
    Rejected,
    Source,
    TransactionalState,
)
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    RECEIVER,
    Attach,
    Detach,
    Disposition,
    Transfer,
)
from brokerproof.suites.units.drivers.amqp10 import Desk, Frame, Peer, bodies, error_of, message


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
    """Return the messages that another consumer gets now, and release them."""
    peer = Peer(desk).ready(container_id="looker")
    peer.attach_receiver(
        source=Source(address="q", distribution_mode="copy", capabilities=("queue",))
    )
    found = bodies(peer.flow(100))
    desk.gone(peer.conn)
    return found


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


def test_a_coordinator_answers_a_sender_only() -> None:
    peer = Peer(Desk()).ready()
    frames = peer.attach_sender(target=Coordinator(), initial_delivery_count=None)
    assert [type(frame.value) for frame in frames] == [Attach, Detach]
