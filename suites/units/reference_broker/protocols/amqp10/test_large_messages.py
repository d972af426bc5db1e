"""Large AMQP messages: their bodies are stored in files and sent unchanged, and STOMP receives
their content."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerproof.reference_broker.kernel import large_body
from brokerproof.reference_broker.protocols.amqp10.large_messages import (
    EMPTY_DATA,
    BodyScan,
    body_at,
)
from brokerproof.reference_broker.protocols.amqp10.messaging import Header
from brokerproof.reference_broker.protocols.amqp10.performatives import Disposition, Transfer
from brokerproof.reference_broker.protocols.amqp10.sections import BadMessage, sections
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.suites.units.drivers.amqp10 import Frame, Peer
from brokerproof.suites.units.drivers.amqp10_with_disk import StoringDesk
from brokerproof.suites.units.drivers.persistence import paging

SMALLEST = 200
DURABLE = Header(durable=True, priority=7).encode()
APPLICATION = b"\0\x53\x74\xc1\x0d\x02\xa1\x05color\xa1\x03red"
FOOTER = b"\0\x53\x78\xc1\x0b\x02\xa3\x06x-opt-\x54\x07"
LONG = b"".join(b"%05d," % number for number in range(200))
"""1200 bytes."""


def data(data: bytes) -> bytes:
    return b"\0\x53\x75\xb0" + len(data).to_bytes(4) + data


def string(data: bytes) -> bytes:
    return b"\0\x53\x77\xb1" + len(data).to_bytes(4) + data


def listed(data: bytes, code: bytes) -> bytes:
    inside = (1).to_bytes(4) + b"\xb0" + len(data).to_bytes(4) + data
    return b"\0\x53" + code + b"\xd0" + len(inside).to_bytes(4) + inside


class LargeDesk(StoringDesk):
    """A test bench whose acceptors treat 200 bytes as large."""

    def __init__(self) -> None:
        acceptors = (
            with_parameters(
                Acceptor("amqp", protocols=("AMQP",)),
                amqp_min_large_message_size=SMALLEST,
                amqp_max_frame_size=512,
            ),
            with_parameters(Acceptor("stomp"), stomp_min_large_message_size=SMALLEST),
        )
        super().__init__(replace(paging(-1), acceptors=acceptors))

    def files(self) -> list[str]:
        return [name for name in self.disk.names() if name.startswith("large/")]

    # STOMP beside it

    def stomp(self) -> int:
        conn = self.connect("stomp")
        self.say(conn, b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
        return conn

    def say(self, conn: int, data: bytes) -> bytes:
        self.feed(conn, data)
        self.answer()
        return self.take(conn)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> LargeDesk:
    monkeypatch.setattr(large_body, "PIECE", 300)
    return LargeDesk()


def sent(desk: LargeDesk, data: bytes, *, cut: int = 300) -> list[Frame]:
    """Send one message to ``q`` in transfers of ``cut`` bytes; return the answers."""
    producer = Peer(desk).ready(container_id="producer")
    producer.attach_sender()
    desk.answer()
    producer.read()
    parts = [data[at : at + cut] for at in range(0, len(data), cut)]
    answers = []
    for number, part in enumerate(parts):
        answers += producer.transfer(0, part, more=number < len(parts) - 1)
    desk.answer()
    return answers + producer.read()


def taken(desk: LargeDesk, largest: int = 512) -> tuple[Peer, list[Frame]]:
    peer = Peer(desk).ready(container_id="consumer", max_frame_size=largest)
    peer.attach_receiver()
    frames = peer.flow(10)
    desk.answer()
    return peer, [frame for frame in frames + peer.read() if isinstance(frame.value, Transfer)]


def whole(frames: list[Frame]) -> bytes:
    return b"".join(frame.payload for frame in frames)


BODIES = [
    data(LONG),
    data(LONG[:500]) + data(b"") + data(LONG[500:]),
    string(LONG),
    listed(LONG, b"\x76"),
    listed(LONG, b"\x76") + listed(LONG, b"\x76"),
    listed(LONG, b"\x77"),
    data(LONG) + FOOTER,
]


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
@pytest.mark.parametrize("largest", [512, 700, 2**32 - 1])
def test_it_leaves_as_it_came(desk: LargeDesk, body: bytes, largest: int) -> None:
    answers = sent(desk, DURABLE + APPLICATION + body)
    assert "Accepted" in str(answers[-1].value.state)
    assert len(desk.files()) == 1
    peer, frames = taken(desk, largest)
    assert all(len(frame.payload) <= largest for frame in frames)
    assert [frame.value.more for frame in frames] == [True] * (len(frames) - 1) + [False]
    assert whole(frames).endswith(APPLICATION + body)
    peer.send(Disposition(role=True, first=0, settled=True, state=answers[-1].value.state))
    desk.answer()
    assert desk.files() == []


@pytest.mark.parametrize(
    ("body", "came", "kind"),
    [
        (data(LONG), LONG, None),
        (data(LONG[:500]) + data(LONG[500:]), LONG, None),
        (string(LONG), LONG, None),
        (listed(LONG, b"\x76"), listed(LONG, b"\x76")[3:], b"sequence"),
        (listed(LONG, b"\x77"), listed(LONG, b"\x77")[3:], b"value"),
        (data(LONG) + FOOTER, LONG, None),
    ],
)
def test_stomp_sees_what_is_inside(
    desk: LargeDesk, body: bytes, came: bytes, kind: bytes | None
) -> None:
    sent(desk, DURABLE + APPLICATION + body)
    frame = desk.say(desk.stomp(), b"SUBSCRIBE\nid:0\ndestination:q\nack:auto\n\n\0")
    head, _, data = frame.partition(b"\n\n")
    assert data == came + b"\0"
    lines = head.split(b"\n")
    assert {
        b"color:red",
        b"persistent:true",
        b"priority:7",
        b"content-length:%d" % len(came),
    } <= set(lines)
    assert [line for line in lines if line.startswith(b"amqp-body")] == (
        [] if kind is None else [b"amqp-body:" + kind]
    )
    assert desk.files() == []


@pytest.mark.parametrize(("text", "valid"), [(True, True), (True, False), (False, True)])
def test_what_came_from_stomp_is_text_or_bytes(desk: LargeDesk, text: bool, valid: bool) -> None:
    raw = "äöü€".encode() * 100 if valid else b"\xff" * 1000
    conn = desk.stomp()
    length = b"" if text else b"content-length:%d\n" % len(raw)
    desk.say(conn, b"SEND\ndestination:q\ncolor:red\n%b\n" % length)
    for at in range(0, len(raw), 7):
        desk.say(conn, raw[at : at + 7])
    desk.say(conn, b"\0")
    assert len(desk.files()) == 1
    _, frames = taken(desk)
    wanted = string(raw) if text and valid else data(raw)
    assert whole(frames).endswith(wanted)
    assert b"\xa1\x05color\xa1\x03red" in whole(frames)


def test_it_survives_a_restart_with_all_of_its_sections(desk: LargeDesk) -> None:
    raw = DURABLE + APPLICATION + data(LONG[:500]) + data(LONG[500:]) + FOOTER
    sent(desk, raw)
    desk.disk.power_loss(desk.now)
    desk.begin()
    _, frames = taken(desk)
    assert whole(frames).endswith(raw[len(DURABLE) :])


def test_an_aborted_delivery_and_a_link_that_goes_leave_no_file(desk: LargeDesk) -> None:
    producer = Peer(desk).ready(container_id="producer")
    producer.attach_sender()
    for number in range(3):
        producer.transfer(0, (data(LONG))[300 * number : 300 * (number + 1)], more=True)
    desk.answer()
    assert len(desk.files()) == 1
    producer.send(Transfer(handle=0, aborted=True))
    desk.answer()
    assert desk.files() == []
    producer.transfer(1, data(LONG)[:400], more=True)
    desk.answer()
    assert len(desk.files()) == 1
    desk.gone(producer.conn)
    desk.answer()
    assert desk.files() == []


@pytest.mark.parametrize(
    "data",
    [
        data(LONG) + b"\0\x53\x74\xc1\x01\0" + data(LONG),
        data(LONG) + string(LONG),
        string(LONG) + string(LONG),
        data(LONG)[:-1],
        data(LONG) + b"junk",
        data(LONG) + FOOTER + FOOTER,
    ],
)
def test_what_is_no_message_is_rejected_and_leaves_no_file(desk: LargeDesk, data: bytes) -> None:
    answers = sent(desk, data)
    assert "Rejected" in str(answers[-1].value.state)
    assert desk.files() == []


def test_a_footer_that_has_to_be_understood_ends_the_link(desk: LargeDesk) -> None:
    answers = sent(desk, data(LONG) + b"\0\x53\x78\xc1\x08\x02\xa3\x03abc\x54\x07")
    assert "does not begin with x-opt-" in str(answers[-1].value)
    assert desk.files() == []


runs = st.binary(max_size=40)
bodies = st.one_of(
    st.lists(runs.map(data), min_size=1, max_size=3).map(b"".join),
    runs.map(string),
    st.lists(runs.map(lambda each: listed(each, b"\x76")), min_size=1, max_size=3).map(b"".join),
    runs.map(lambda each: listed(each, b"\x77")),
    st.sampled_from([EMPTY_DATA, b"\0\x53\x75\xa0\x03abc", b"\0\x80\0\0\0\0\0\0\0\x75\xa0\x03abc"]),
    st.just(b"\0\xa3\x10amqp:data:binary\xa0\x03abc"),
)


@given(
    front=st.sampled_from([b"", DURABLE, APPLICATION]),
    body=bodies,
    footer=st.sampled_from([b"", FOOTER]),
    cut=st.data(),
)
@settings(max_examples=80)
def test_a_scan_finds_what_a_look_at_the_whole_finds(
    front: bytes, body: bytes, footer: bytes, cut: st.DataObject
) -> None:
    data = front + body + footer
    at = body_at(data)
    assert at == len(front)
    scan, rest = BodyScan(), data[at:]
    while rest:
        size = cut.draw(st.integers(1, len(rest)))
        scan.feed(rest[:size])
        rest = rest[size:]
    found = [(code, inside, end) for code, _, inside, end in sections(data) if code >= 0x75]
    assert [(code, at + begin, at + end) for code, _, begin, end in scan.finish()] == found
    assert bytes(scan.footer) == footer


@given(st.binary(max_size=60))
def test_a_scan_of_junk_is_refused_or_finds_sections(junk: bytes) -> None:
    scan = BodyScan()
    try:
        scan.feed(junk)
        scan.finish()
    except BadMessage:
        return
    assert not junk or sections(junk)
