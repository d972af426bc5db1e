"""Full addresses over AMQP: credit that is not given, and outcomes of what comes on credit that
was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerproof.harness.model.enums import FullPolicy, RoutingType
from brokerproof.reference_broker.families.artemis.accounting import MESSAGE, REFERENCE
from brokerproof.reference_broker.protocols.amqp10.encoder import encode
from brokerproof.reference_broker.protocols.amqp10.messaging import (
    Accepted,
    Coordinator,
    Declare,
    Discharge,
    Rejected,
    TransactionalState,
)
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    Attach,
    Detach,
    Disposition,
    Flow,
)
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.reference_broker.settings.settings import AddressSetting, Settings
from brokerproof.suites.units.drivers.amqp10 import (
    Desk,
    Frame,
    Peer,
    Proton,
    bodies,
    ids,
    kinds,
    message,
    received,
    settle,
)
from brokerproof.suites.units.drivers.broker import patient

BLOCK, FAIL, DROP, PAGE = FullPolicy.BLOCK, FullPolicy.FAIL, FullPolicy.DROP, FullPolicy.PAGE
CHARGE = MESSAGE + REFERENCE + len(message("m0"))
"""Of a message m0, m1 … m9."""
MOST, LOW = 10, 3


def of(policy: FullPolicy, match: str = "q", **limits: Any) -> Desk:
    anycast = AddressSetting("#", default_address_routing_type=RoutingType.ANYCAST)
    rules = (AddressSetting(match, address_full_policy=policy, **limits), anycast)
    acceptor = with_parameters(
        Acceptor("amqp", protocols=("AMQP",)), amqp_credits=MOST, amqp_low_credits=LOW
    )
    return Desk(Settings(acceptors=(acceptor, Acceptor("stomp")), address_settings=rules))


def producer(desk: Desk, address: str | None = "q", **fields: Any) -> tuple[Peer, int | None]:
    """A peer that sends, and the credit that it has got."""
    peer = Peer(desk).ready(container_id=f"producer {desk._conns}")
    return peer, granted(peer.attach_sender(address, **fields))


def consumer(desk: Desk, credit: int = 100, **fields: Any) -> tuple[Peer, list[int]]:
    """A peer that receives, and the ids of what it has got."""
    peer = Peer(desk).ready(container_id=f"consumer {desk._conns}")
    peer.attach_receiver(**fields)
    return peer, ids(peer.flow(credit))


def granted(frames: list[Frame]) -> int | None:
    """The credit that the last flow among the frames says, if there is one for the link 0."""
    found = [
        frame.value.link_credit
        for frame in frames
        if isinstance(frame.value, Flow) and frame.value.handle == 0
    ]
    return found[-1] if found else None


def states(frames: list[Frame]) -> list[Any]:
    return [frame.value.state for frame in frames if isinstance(frame.value, Disposition)]


# --- BLOCK: credit --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "first"), [(3 * CHARGE, 3), (3 * CHARGE - 1, 3), (3 * CHARGE + 1, 4)]
)
def test_a_new_producer_gets_credit_below_the_limit_and_none_from_there_on(
    limit: int, first: int
) -> None:
    desk = of(BLOCK, max_size_bytes=limit)
    peer, credit = producer(desk)
    assert credit == MOST
    for number in range(first):
        assert producer(desk)[1] == MOST, (
            "an octet below the limit is room enough for a whole window"
        )
        assert states(peer.transfer(number)) == [Accepted()]
    assert producer(desk)[1] is None, "no flow at all"


def test_issued_credit_stays_good_and_is_not_filled_up_until_there_is_room() -> None:
    desk = of(BLOCK, max_size_messages=2)
    peer, _ = producer(desk)
    late, _ = producer(desk)
    for number in range(MOST):
        frames = peer.transfer(number)
        assert (states(frames), granted(frames)) == ([Accepted()], None)
    last, nothing = producer(desk)
    assert nothing is None
    taking, got = consumer(desk)
    assert len(got) == MOST
    for each in range(8):
        settle(taking, got[each], Accepted())
        assert [granted(each.read()) for each in (peer, late, last)] == [None, None, None], each
    settle(taking, got[8], Accepted())
    assert [granted(each.read()) for each in (peer, late, last)] == [MOST, None, MOST], (
        "late has all it may have"
    )


def test_room_is_looked_at_again_before_each_grant() -> None:
    """Who is told that there is room gets credit whatever the others get: credit takes no room."""
    desk = of(BLOCK, max_size_messages=1)
    peer, _ = producer(desk)
    peer.transfer(0)
    others = [producer(desk) for _ in range(3)]
    assert [credit for _, credit in others] == [None] * 3
    consumer(desk, snd_settle_mode=1)
    assert [granted(each.read()) for each, _ in others] == [MOST] * 3


def test_a_producer_that_is_gone_is_not_waited_for() -> None:
    desk = of(BLOCK, max_size_messages=1)
    producer(desk)[0].transfer(0)
    one, two, three = (producer(desk)[0] for _ in range(3))
    one.send(Detach(handle=0, closed=True))
    desk.gone(two.conn)
    assert list(desk.broker._shared.admission._where) != []
    consumer(desk, snd_settle_mode=1)
    assert (granted(one.read()), granted(three.read())) == (None, MOST)
    assert desk.broker._shared.admission._where == {}


def test_a_producer_without_address_waits_for_the_address_of_its_last_message() -> None:
    desk = of(BLOCK, max_size_messages=1)
    client = Proton(desk)
    sender = client.sender(None)
    assert sender.credit == MOST
    for _ in range(MOST - LOW):
        client.post(sender, "m", address="q")
    assert sender.credit == LOW, "not filled up"
    client.post(sender, "m", address="other")
    assert sender.credit == MOST, "there is room there"
    for _ in range(MOST):
        client.post(sender, "m", address="q")
    assert sender.credit == 0
    consumer(desk, snd_settle_mode=1)
    client.pump()
    assert sender.credit == MOST


@pytest.mark.parametrize("policy", [PAGE, FAIL, DROP])
def test_only_block_makes_producers_wait(policy: FullPolicy) -> None:
    desk = of(policy, max_size_messages=0)
    peer, credit = producer(desk)
    assert credit == MOST
    for number in range(MOST - LOW - 1):
        assert granted(peer.transfer(number)) is None
    assert granted(peer.transfer(MOST - LOW - 1)) == MOST


# --- what comes all the same ----------------------------------------------------------------------


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize(
    ("policy", "limits"),
    [
        (FAIL, {"max_size_bytes": 2 * CHARGE}),
        (BLOCK, {"max_size_bytes_reject_threshold": 2 * CHARGE}),
    ],
)
@pytest.mark.parametrize(("more", "taken"), [(0, 2), (-1, 2), (1, 3)])
def test_messages_are_rejected_from_the_limit_on(
    policy: FullPolicy, limits: dict[str, int], more: int, taken: int, settled: bool
) -> None:
    desk = of(policy, **{name: limit + more for name, limit in limits.items()})
    peer, _ = producer(desk)
    found = [states(peer.transfer(number, settled=settled)) for number in range(taken + 2)]
    if settled:
        assert found == [[]] * (taken + 2)
    else:
        assert found[:taken] == [[Accepted()]] * taken
        for (state,) in found[taken:]:
            assert isinstance(state, Rejected)
            assert state.error is not None
            assert (state.error.condition, state.error.description) == (
                "amqp:resource-limit-exceeded",
                "Address is full: q",
            )
    peer.attach_receiver(snd_settle_mode=1)
    found = bodies(peer.flow(100))
    assert found == [f"m{number}" for number in range(taken)], "nothing that was rejected is there"
    assert states(peer.transfer(taken + 2, settled=settled)) == ([] if settled else [Accepted()]), (
        "the link lives"
    )


def test_the_threshold_counts_for_amqp_alone() -> None:
    desk = of(BLOCK, max_size_bytes_reject_threshold=1)
    peer, _ = producer(desk)
    assert states(peer.transfer(0)) == [Accepted()]
    assert isinstance(states(peer.transfer(1))[0], Rejected)
    conn = desk.connect("stomp")
    desk.feed(conn, b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
    desk.take(conn)
    desk.feed(conn, b"SEND\ndestination:q\ndestination-type:ANYCAST\nreceipt:r\n\nbody\0")
    assert desk.take(conn) == b"RECEIPT\nreceipt-id:r\n\n\0"


@pytest.mark.parametrize("settled", [False, True])
def test_drop_accepts_and_forgets(settled: bool) -> None:
    desk = of(DROP, max_size_messages=2)
    peer, _ = producer(desk)
    for number in range(4):
        assert states(peer.transfer(number, settled=settled)) == ([] if settled else [Accepted()])
    assert received(desk) == ["m0", "m1"]


# --- transactions ---------------------------------------------------------------------------------


def controller(desk: Desk) -> tuple[Peer, bytes]:
    """A peer with a producer (handle 0), a coordinator link (handle 9) and a transaction; delivery
    0 was its declare."""
    peer, _ = producer(desk)
    peer.attach_sender(handle=9, name="control", target=Coordinator())
    (state,) = states(peer.transfer(0, b"\0\x53\x77" + encode(Declare()), handle=9))
    return peer, state.txn_id


def discharge(peer: Peer, number: int, id: bytes, fail: bool = False) -> Any:
    frames = peer.transfer(
        number, b"\0\x53\x77" + encode(Discharge(txn_id=id, fail=fail)), handle=9
    )
    return states(frames)[0]


def test_what_a_transaction_holds_fills_the_address() -> None:
    desk = of(FAIL, max_size_messages=2)
    peer, id = controller(desk)
    found = [
        states(peer.transfer(1 + number, state=TransactionalState(txn_id=id)))[0].outcome
        for number in range(3)
    ]
    assert [type(each) for each in found] == [Accepted, Accepted, Rejected]
    assert discharge(peer, 4, id) == Accepted(), "what was accepted happens"
    assert received(desk) == ["m1", "m2"]


@pytest.mark.parametrize("how", ["discharge", "gone"])
def test_a_roll_back_makes_room(how: str) -> None:
    desk = of(BLOCK, max_size_messages=1)
    peer, id = controller(desk)
    peer.transfer(1, state=TransactionalState(txn_id=id))
    waiting, credit = producer(desk)
    assert credit is None
    if how == "discharge":
        discharge(peer, 2, id, fail=True)
    else:
        desk.gone(peer.conn)
    assert granted(waiting.read()) == MOST
    assert desk.broker._shared.accounting.size == 0


def test_a_settled_message_that_is_rejected_dooms_its_transaction() -> None:
    desk = of(FAIL, max_size_messages=1)
    peer, id = controller(desk)
    peer.transfer(1, state=TransactionalState(txn_id=id), settled=True)
    peer.transfer(2, state=TransactionalState(txn_id=id), settled=True)
    state = discharge(peer, 3, id)
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert state.error.condition == "amqp:transaction:rollback"
    assert received(desk) == []
    assert desk.broker._shared.accounting.size == 0


# --- the bound ------------------------------------------------------------------------------------


@given(
    limit=st.integers(0, 6),
    producers=st.integers(1, 4),
    steps=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 12)), max_size=25),
)
@patient
def test_no_more_is_taken_beyond_the_limit_than_credit_was_out(
    limit: int, producers: int, steps: list[tuple[int, int]]
) -> None:
    """Producers send as much as their credit allows, a consumer (4) acknowledges some. What an
    address takes from the moment it is full until it has room again is at most the credit that was
    out at that moment, and so at most that number of producers times their window. In the end
    everything that was accepted has come, in order."""
    desk = of(BLOCK, max_size_messages=limit)
    account = desk.broker._shared.accounting.find
    peers = [producer(desk) for _ in range(producers)]
    credit = [given or 0 for _, given in peers]
    sent = [0] * producers
    taking = Peer(desk).ready(container_id="consumer")
    taking.attach_receiver()
    got = taking.flow(1000)
    acknowledged = 0
    bound: int | None = None

    def listen() -> None:
        nonlocal bound
        for number, (each, _) in enumerate(peers):
            frames = each.read()
            credit[number] = granted(frames) or credit[number]
        got.extend(taking.read())
        if not account("q").full:
            bound = None
        elif bound is None:
            bound = account("q").messages + sum(credit)
            assert sum(credit) <= producers * MOST
        assert bound is None or account("q").messages <= bound

    for who, count in steps:
        if who >= producers:
            waiting = ids(got)[acknowledged:][:count]
            acknowledged += len(waiting)
            if waiting:
                settle(taking, waiting[0], Accepted(), waiting[-1])
            listen()
            continue
        for _ in range(min(count, credit[who])):
            frames = peers[who][0].transfer(sent[who], message(f"{who} {sent[who]}"))
            assert states(frames) == [Accepted()]
            sent[who] += 1
            credit[who] = granted(frames) or credit[who] - 1
            listen()
    for who in range(producers):
        mine = [body for body in bodies(got) if body.startswith(str(who))]
        assert mine == [f"{who} {number}" for number in range(sent[who])]


def test_attach_and_flow_are_all_that_a_producer_hears() -> None:
    desk = of(BLOCK, max_size_messages=0)
    peer = Peer(desk).ready()
    assert kinds(peer.attach_sender()) == [Attach]
