"""The profile of ActiveMQ over AMQP 1.0: deliveries that wait for space, credit meanwhile, and
statistics."""

from __future__ import annotations

from typing import Any

import pytest
from proton import Message

from brokerproof.harness.model.broker_io import BytesReceived, StopReading
from brokerproof.harness.model.time import ms
from brokerproof.reference_broker.protocols.amqp10.framing import frame
from brokerproof.reference_broker.protocols.amqp10.messaging import (
    Accepted,
    Coordinator,
    Declare,
    Discharge,
    Properties,
    Rejected,
    Source,
    Target,
    TransactionalState,
)
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    Attach,
    Disposition,
    Flow,
    Transfer,
)
from brokerproof.reference_broker.settings.activemq import ActiveMq, Cursor
from brokerproof.suites.units.drivers.activemq import configured, policy, settings, subscribe, used
from brokerproof.suites.units.drivers.amqp10 import Desk, Frame, Peer, bodies, message

ROOM = 3
COST = 1024 + len(message("m0"))
"""Of a message m0, m1 … m9, whose body is a value."""
LIMITED = policy("queue://Q", memory_limit=ROOM * COST, cursor=Cursor.VM)
T = 3000
DURABLE = b"\0\x53\x70\xc0\x02\x01\x41"
"""A header section that says so."""
VALUE = b"\0\x53\x77"


def desk(activemq: ActiveMq, **fields: Any) -> Desk:
    return Desk(settings(activemq, **fields))


def producer(desk: Desk, address: str = "queue://Q") -> tuple[Peer, int]:
    """A peer that sends, and its credit."""
    peer = Peer(desk).ready(container_id=f"producer {desk._conns}")
    return peer, credit(peer.attach_sender(address))


def credit(frames: list[Frame]) -> int:
    found = [
        frame.value.link_credit
        for frame in frames
        if isinstance(frame.value, Flow) and frame.value.handle == 0
    ]
    return found[-1] if found else 0


def outcomes(frames: list[Frame]) -> list[tuple[int, type]]:
    """Each delivery that was settled, and its outcome."""
    return [
        (id, type(frame.value.state))
        for frame in frames
        if isinstance(frame.value, Disposition)
        for id in range(frame.value.first, (frame.value.last or frame.value.first) + 1)
    ]


def transfers(body: bytes, number: int) -> bytes:
    first = Transfer(
        handle=0, delivery_id=number, delivery_tag=number.to_bytes(4), message_format=0
    )
    return frame(0, first.encode() + body)


def stomp(desk: Desk, octets: str) -> int:
    """A session of STOMP that sends ``octets``."""
    conn = desk.connect("stomp")
    desk.feed(conn, b"CONNECT\naccept-version:1.2\nhost:h\n\n\0" + octets.encode())
    return conn


def test_a_delivery_without_space_is_settled_when_there_is_some() -> None:
    broker = desk(configured(LIMITED))
    peer, _ = producer(broker)
    taken = outcomes([each for number in range(5) for each in peer.transfer(number)])
    assert taken == [(0, Accepted), (1, Accepted), (2, Accepted)]
    peer.attach_sender("queue://elsewhere", handle=1, name="other")
    assert outcomes(peer.transfer(5, handle=1)) == [(5, Accepted)], (
        "another link of the session goes on"
    )
    stomp(broker, subscribe(ack="auto"))
    assert outcomes(peer.read()) == [(3, Accepted), (4, Accepted)]


def test_what_waits_counts_against_the_credit() -> None:
    broker = desk(configured(LIMITED))
    peer, granted = producer(broker)
    assert granted == 1000
    got = [each for number in range(800) for each in peer.transfer(number)]
    assert credit(got) == 0, "797 wait, and 200 are left"
    stomp(broker, subscribe(ack="auto"))
    assert credit(peer.read()) == 200 + 700, "as soon as 100 wait and 200 are left"


def test_without_space_a_delivery_is_rejected_at_once() -> None:
    broker = desk(configured(LIMITED, send_fail_if_no_space=True))
    peer, _ = producer(broker)
    got = [each for number in range(4) for each in peer.transfer(number)]
    assert outcomes(got)[-1] == (3, Rejected)
    error = got[-1].value.state.error
    assert error.condition == "amqp:resource-limit-exceeded"
    assert not broker.closed


def test_or_when_its_time_is_up() -> None:
    broker = desk(configured(LIMITED, send_fail_after_ms=T))
    peer, _ = producer(broker)
    for number in range(4):
        peer.transfer(number)
    broker.run(ms(T) - 1)
    assert outcomes(peer.read()) == []
    broker.run(ms(T))
    assert outcomes(peer.read()) == [(3, Rejected)]


def test_a_settled_delivery_waits_too_and_nobody_is_told() -> None:
    broker = desk(configured(LIMITED))
    peer, _ = producer(broker)
    for number in range(5):
        assert outcomes(peer.transfer(number, settled=True)) == []
    assert used(broker)[0] == ROOM
    conn = stomp(broker, subscribe(ack="auto"))
    assert broker.take(conn).count(b"MESSAGE\n") == 5
    assert outcomes(peer.read()) == []


def test_a_release_does_not_read_on_while_the_store_is_full() -> None:
    broker = desk(configured(store=COST), stalls_at_the_store=True)
    peer, _ = producer(broker)
    assert outcomes(peer.transfer(0, DURABLE + message("m0"))) == [(0, Accepted)]
    effects = broker.broker.handle(
        broker.now, BytesReceived(peer.conn, transfers(DURABLE + message("m1"), 1))
    )
    assert [type(effect) for effect in effects if isinstance(effect, StopReading)] == [StopReading]
    assert peer.transfer(2) == [], "it would be taken if it were looked at"
    broker.run(ms(60_000))
    assert broker.closed == [], "its silence cannot be seen"
    stomp(broker, subscribe(ack="auto"))
    assert outcomes(peer.read()) == [(1, Accepted), (2, Accepted)]
    broker.run(ms(200_000))
    assert broker.closed == [peer.conn], "and now it can"


def test_a_stalled_connection_may_end() -> None:
    broker = desk(configured(store=COST), stalls_at_the_store=True)
    peer, _ = producer(broker)
    for number in range(2):
        peer.transfer(number, DURABLE + message(f"m{number}"))
    broker.gone(peer.conn)
    conn = stomp(broker, subscribe(ack="auto"))
    assert broker.take(conn).count(b"MESSAGE\n") == 1


# --- transactions ---------------------------------------------------------------------------------


def declared(peer: Peer) -> bytes:
    """A transaction on link 9."""
    peer.send(
        Attach(name="c", handle=9, role=False, initial_delivery_count=0, target=Coordinator())
    )
    got = peer.transfer(0, VALUE + Declare().encode(), handle=9)
    return next(each.value.state.txn_id for each in got if isinstance(each.value, Disposition))


def test_a_delivery_in_a_transaction_waits_with_it() -> None:
    broker = desk(configured(LIMITED))
    other, _ = producer(broker)
    for number in range(ROOM):
        other.transfer(number)
    peer, _ = producer(broker)
    id = declared(peer)
    assert outcomes(peer.transfer(1, state=TransactionalState(txn_id=id))) == []
    conn = stomp(broker, subscribe(ack="auto"))
    (told,) = [each.value for each in peer.read() if isinstance(each.value, Disposition)]
    assert (told.first, told.state.txn_id, type(told.state.outcome)) == (1, id, Accepted)
    assert broker.take(conn).count(b"MESSAGE\n") == ROOM
    peer.transfer(2, VALUE + Discharge(txn_id=id).encode(), handle=9)
    assert broker.take(conn).count(b"MESSAGE\n") == 1


def test_a_transaction_that_ended_takes_nothing_more() -> None:
    broker = desk(configured(LIMITED))
    other, _ = producer(broker)
    for number in range(ROOM):
        other.transfer(number)
    peer, _ = producer(broker)
    id = declared(peer)
    peer.transfer(1, state=TransactionalState(txn_id=id))
    peer.transfer(2, VALUE + Discharge(txn_id=id).encode(), handle=9)
    conn = stomp(broker, subscribe(ack="auto"))
    (told,) = [each.value for each in peer.read() if isinstance(each.value, Disposition)]
    assert (told.first, type(told.state.outcome)) == (1, Rejected)
    assert broker.take(conn).count(b"MESSAGE\n") == ROOM


# --- places ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "topic"), [("queue://X", False), ("X", False), ("topic://X", True)]
)
def test_an_address_says_which_place_it_is(address: str, topic: bool) -> None:
    broker = desk(configured())
    conns = {each: stomp(broker, subscribe(f"/{each}/X", "auto")) for each in ("queue", "topic")}
    peer = Peer(broker).ready()
    peer.send(
        Attach(
            name="s",
            handle=0,
            role=False,
            initial_delivery_count=0,
            source=Source(),
            target=Target(address=address),
        )
    )
    peer.transfer(0)
    came = {each: broker.take(conn).count(b"MESSAGE\n") for each, conn in conns.items()}
    assert came == {"queue": int(not topic), "topic": int(topic)}


def test_a_place_made_on_request_can_be_used_by_its_name() -> None:
    broker = desk(configured())
    peer = Peer(broker).ready()
    (told,) = peer.attach_receiver(None, source=Source(dynamic=True))[:1]
    peer.flow(10)
    other, _ = producer(broker, told.value.source.address)
    other.transfer(0)
    assert bodies(peer.read()) == ["m0"]


# --- statistics -----------------------------------------------------------------------------------


def asked(broker: Desk, about: str, to: str = "queue://answers") -> list[Any]:
    """What is told about it, at most once."""
    asking, receiving = (
        Peer(broker).ready(container_id=f"{about} {broker._conns}"),
        Peer(broker).ready(container_id="r"),
    )
    receiving.attach_receiver("queue://answers")
    receiving.flow(10)
    asking.attach_sender(about)
    properties = Properties(reply_to=to, correlation_id="c").encode() if to else b""
    asking.transfer(0, properties + message("?"))
    found = []
    for each in receiving.read():
        if each.payload:
            decoded = Message()
            decoded.decode(each.payload)
            assert decoded.correlation_id == "c"
            found.append(decoded.body)
    broker.gone(receiving.conn)
    return found


def test_statistics_are_told() -> None:
    broker = desk(configured(LIMITED, store=100 * COST, temp=10 * COST, memory=1000 * COST))
    peer, _ = producer(broker)
    for number in range(4):
        peer.transfer(number)
    peer.attach_sender("queue://files", handle=1, name="other")
    peer.transfer(4, DURABLE + message("m4"), handle=1)
    (told,) = asked(broker, "queue://ActiveMQ.Statistics.Broker")
    assert (told["memoryUsage"], told["storeUsage"], told["storePercentUsage"]) == (
        4 * COST,
        COST,
        1,
    )
    assert (told["tempUsage"], told["tempLimit"]) == (0, 10 * COST)
    (told,) = asked(broker, "queue://ActiveMQ.Statistics.Destination.Q")
    assert (told["size"], told["memoryUsage"], told["memoryLimit"], told["memoryPercentUsage"]) == (
        3,
        3 * COST,
        3 * COST,
        100,
    )


@pytest.mark.parametrize(
    ("about", "to"),
    [
        ("queue://ActiveMQ.Statistics.Destination.none", "queue://answers"),
        ("topic://ActiveMQ.Statistics.Destination.Q", "queue://answers"),
        ("queue://ActiveMQ.Statistics.Nothing", "queue://answers"),
        ("queue://ActiveMQ.Statistics.Broker", ""),
    ],
)
def test_of_what_is_not_there_nothing_is_told(about: str, to: str) -> None:
    broker = desk(configured(LIMITED))
    producer(broker)[0].transfer(0)
    assert asked(broker, about, to) == []


def test_questions_and_answers_wait_for_nothing() -> None:
    broker = desk(configured(memory=1, temp=1, store=1))
    producer(broker)[0].transfer(0)
    assert len(asked(broker, "queue://ActiveMQ.Statistics.Broker")) == 1
