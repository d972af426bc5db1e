"""ActiveMQ's profile over AMQP 1.0: deliveries that wait for room, credit during the wait, and
statistics."""

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
from brokerproof.suites.units.drivers.amqp10 import Desk, Frame, Peer, message

ROOM = 3
COST = 1024 + len(message("m0"))
"""The charge for one of the messages m0, m1 … m9, whose body is a value."""
LIMITED = policy("queue://Q", memory_limit=ROOM * COST, cursor=Cursor.VM)
DURABLE = b"\0\x53\x70\xc0\x02\x01\x41"
"""A header section of a durable message."""
VALUE = b"\0\x53\x77"


def desk(activemq: ActiveMq, **fields: Any) -> Desk:
    return Desk(settings(activemq, **fields))


def producer(desk: Desk, address: str = "queue://Q") -> tuple[Peer, int]:
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


def stomp(desk: Desk, data: str) -> int:
    conn = desk.connect("stomp")
    desk.feed(conn, b"CONNECT\naccept-version:1.2\nhost:h\n\n\0" + data.encode())
    return conn


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


def declared(peer: Peer) -> bytes:
    peer.send(
        Attach(name="c", handle=9, role=False, initial_delivery_count=0, target=Coordinator())
    )
    got = peer.transfer(0, VALUE + Declare().encode(), handle=9)
    return next(frame.value.state.txn_id for frame in got if isinstance(frame.value, Disposition))


def test_a_delivery_in_a_transaction_waits_with_it() -> None:
    broker = desk(configured(LIMITED))
    other, _ = producer(broker)
    for number in range(ROOM):
        other.transfer(number)
    peer, _ = producer(broker)
    id = declared(peer)
    assert outcomes(peer.transfer(1, state=TransactionalState(txn_id=id))) == []
    conn = stomp(broker, subscribe(ack="auto"))
    (told,) = [frame.value for frame in peer.read() if isinstance(frame.value, Disposition)]
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
    (told,) = [frame.value for frame in peer.read() if isinstance(frame.value, Disposition)]
    assert (told.first, type(told.state.outcome)) == (1, Rejected)
    assert broker.take(conn).count(b"MESSAGE\n") == ROOM


def asked(broker: Desk, about: str, to: str = "queue://answers") -> list[Any]:
    """Return the statistics, which arrive at most once."""
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
    for received in receiving.read():
        if received.payload:
            decoded = Message()
            decoded.decode(received.payload)
            assert decoded.correlation_id == "c"
            found.append(decoded.body)
    broker.gone(receiving.conn)
    return found


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
