"""Pages and the journal over AMQP: dispositions that wait, sections and counts that survive,
drains, browsers."""

from dataclasses import replace

import pytest

from brokerproof.reference_broker.persistence.memory import DiskFaults
from brokerproof.reference_broker.protocols.amqp10.messaging import (
    Accepted,
    Header,
    Modified,
    Source,
)
from brokerproof.reference_broker.protocols.amqp10.performatives import Close, Disposition, Transfer
from brokerproof.reference_broker.protocols.amqp10.performatives import Flow as FlowFrame
from brokerproof.reference_broker.protocols.amqp10.types import Symbol
from brokerproof.suites.units.drivers.amqp10 import (
    AMQP,
    Frame,
    Peer,
    bodies,
    error_of,
    header,
    kinds,
    message,
    settle,
)
from brokerproof.suites.units.drivers.amqp10_with_disk import StoringDesk
from brokerproof.suites.units.drivers.persistence import paging

DURABLE = Header(durable=True).encode()


def desk_with(limit: int = -1, read: int = -1) -> StoringDesk:
    return StoringDesk(
        replace(AMQP, address_settings=paging(limit, max_read_page_bytes=read).address_settings)
    )


def _sent(desk: StoringDesk, count: int, start: int = 0) -> list[Frame]:
    producer = Peer(desk).ready(container_id=f"producer{start}")
    producer.attach_sender()
    desk.answer()
    producer.read()
    for number in range(count):
        producer.transfer(number, DURABLE + message(f"m{start + number:03d}" + "x" * 200))
    desk.answer()
    return producer.read()


def _names(count: int, start: int = 0) -> list[str]:
    return [f"m{number:03d}" + "x" * 200 for number in range(start, start + count)]


def _taken(desk: StoringDesk, credit: int = 200) -> tuple[Peer, list[Frame]]:
    peer = Peer(desk).ready()
    peer.attach_receiver()
    frames = peer.flow(credit)
    desk.answer()
    return peer, [frame for frame in frames + peer.read() if isinstance(frame.value, Transfer)]


def test_a_disposition_waits_until_the_message_is_stored() -> None:
    desk = desk_with()
    producer = Peer(desk).ready()
    producer.attach_sender()
    desk.answer()
    producer.read()
    assert producer.transfer(0, DURABLE + message("kept")) == []
    desk.answer()
    (frame,) = producer.read()
    assert isinstance(frame.value, Disposition)
    assert producer.transfer(1, message("not durable")) != [], "what is not durable need not wait"


def test_durable_messages_survive_with_their_sections_and_their_count() -> None:
    for limit in (-1, 900):
        desk = desk_with(limit)
        _sent(desk, 20)
        peer, got = _taken(desk)
        assert bodies(got) == _names(20)
        settle(peer, 0, Accepted())
        settle(peer, 1, Modified(delivery_failed=True, message_annotations={Symbol("x-opt-a"): 1}))
        desk.answer()
        desk.disk.power_loss(desk.now)
        desk.begin()
        _, again = _taken(desk)
        assert bodies(again) == _names(19, 1)
        first, second = header(again[0]), header(again[1])
        assert (first.durable, first.delivery_count, first.first_acquirer) == (True, 1, False)
        assert second.delivery_count in (None, 0)
        assert second.first_acquirer is False


def test_a_drain_waits_for_what_comes_from_the_disk() -> None:
    desk = desk_with(900)
    _sent(desk, 60)
    desk.disk.power_loss(desk.now)
    desk.begin()
    peer = Peer(desk).ready()
    peer.attach_receiver()
    desk.answer()
    peer.read()
    before = peer.flow(200, drain=True)
    assert not any(isinstance(frame.value, FlowFrame) for frame in before), (
        "not drained: there is more, on its way"
    )
    desk.answer()
    frames = before + peer.read()
    assert bodies(frames) == _names(60)
    assert isinstance(frames[-1].value, FlowFrame)
    assert (frames[-1].value.delivery_count, frames[-1].value.link_credit) == (200, 0)


@pytest.mark.parametrize("limit", [-1, 900])
@pytest.mark.parametrize("mode", ["copy", "move"])
def test_whoever_gets_credit_while_a_message_is_written_sees_it_afterwards(
    limit: int, mode: str
) -> None:
    desk = desk_with(limit)
    _sent(desk, 30)
    reader = Peer(desk).ready(container_id="reader")
    reader.attach_receiver(
        source=Source(address="q", distribution_mode=mode, capabilities=("queue",))
    )
    frames = reader.flow(30)
    desk.answer()
    assert bodies(frames + reader.read()) == _names(30)
    producer = Peer(desk).ready(container_id="producer")
    producer.attach_sender()
    desk.answer()
    producer.read()
    producer.transfer(0, DURABLE + message("new"))
    assert desk.asked
    assert reader.flow(5, delivery_count=30) == []
    desk.answer()
    assert bodies(reader.read()) == ["new"]


def test_a_browser_sees_everything_on_pages_and_takes_nothing() -> None:
    """ARTEMIS-PAGING-4. A browser reads even pages that a consumer may not."""
    desk = desk_with(900, read=1000)
    _sent(desk, 60)
    browser = Peer(desk).ready(container_id="browser")
    browser.attach_receiver(
        source=Source(address="q", distribution_mode="copy", capabilities=("queue",))
    )
    frames = browser.flow(25)
    desk.answer()
    seen = bodies(frames + browser.read())
    assert seen == _names(25)
    consumer, got = _taken(desk, 10)
    taken = bodies(got)
    assert taken == _names(len(taken))
    settle(consumer, 0, Accepted(), last=len(taken) - 1)
    frames = browser.flow(200, delivery_count=25)
    desk.answer()
    assert seen + bodies(frames + browser.read()) == _names(60), (
        "each once, whatever was consumed meanwhile"
    )
    rest = len(taken)
    while got := [
        frame
        for frame in consumer.read() + consumer.flow(200, delivery_count=rest)
        if frame.payload
    ]:
        settle(consumer, got[0].value.delivery_id, Accepted(), last=got[-1].value.delivery_id)
        taken += bodies(got)
        rest += len(got)
        desk.answer()
    assert taken == _names(60)


def test_a_producer_whose_message_cannot_be_stored_is_told() -> None:
    desk = desk_with()
    producer = Peer(desk).ready()
    producer.attach_sender()
    desk.answer()
    producer.read()
    desk.disk.faults = DiskFaults(failing_writes=1.0)
    producer.transfer(0, DURABLE + message("x"))
    desk.answer()
    frames = producer.read()
    assert kinds(frames) == [Close]
    assert error_of(frames, Close) == "amqp:internal-error"
    other = Peer(desk).ready(container_id="other")
    other.attach_sender()
    (answer,) = [
        frame
        for frame in other.transfer(0, DURABLE + message("y"))
        if isinstance(frame.value, Disposition)
    ]
    assert answer.value.state.error.condition == "amqp:resource-limit-exceeded"
