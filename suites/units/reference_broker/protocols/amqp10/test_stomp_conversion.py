"""Messages from STOMP to AMQP and back: bodies, headers, properties, durability, priority, ttl,
settlement, selectors."""

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from proton import Message, symbol, timestamp, ulong

from brokerproof.reference_broker.protocols.amqp10.messaging import Accepted, Source
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    Attach,
    Detach,
    Disposition,
    Transfer,
)
from brokerproof.reference_broker.protocols.amqp10.types import Described, Symbol, Ulong
from brokerproof.suites.units.drivers.amqp10 import Desk, Peer, message, text
from brokerproof.suites.units.drivers.broker import Received


class Stomp:
    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.conn = desk.connect("stomp")
        self.feed("CONNECT\naccept-version:1.2\nhost:h\n\n\0")
        self.frames()

    def feed(self, data: str | bytes) -> None:
        self.desk.feed(self.conn, data.encode() if isinstance(data, str) else data)

    def frames(self) -> list[Received]:
        found, data = [], self.desk.take(self.conn)
        while data := data.lstrip(b"\n"):
            head, _, rest = data.partition(b"\n\n")
            sizes = [
                int(line[15:]) for line in head.split(b"\n") if line.startswith(b"content-length:")
            ]
            size = sizes[0] if sizes else rest.index(b"\0")
            found.append(Received(head + b"\n\n" + rest[:size]))
            data = rest[size + 1 :]
        return found

    def send(self, body: bytes = b"hello", headers: str = "") -> None:
        start = f"SEND\ndestination:q\ndestination-type:ANYCAST\n{headers}\n"
        self.feed(start.encode() + body + b"\0")

    def subscribe(self, ack: str = "auto", headers: str = "") -> list[Received]:
        self.feed(
            f"SUBSCRIBE\nid:0\ndestination:q\nsubscription-type:ANYCAST\nack:{ack}\n{headers}\n\0"
        )
        return self.frames()


def by_amqp(desk: Desk, credit: int = 100) -> list[Message]:
    peer = Peer(desk).ready(container_id="taker")
    peer.attach_receiver(snd_settle_mode=1)
    found = []
    for frame in peer.flow(credit):
        if isinstance(frame.value, Transfer):
            decoded = Message()
            decoded.decode(frame.payload)
            if isinstance(decoded.body, memoryview):
                decoded.body = bytes(decoded.body)
            found.append(decoded)
    desk.gone(peer.conn)
    return found


def by_stomp(desk: Desk, headers: str = "") -> list[Received]:
    client = Stomp(desk)
    found = [frame for frame in client.subscribe(headers=headers) if frame.command == "MESSAGE"]
    desk.gone(client.conn)
    return found


def post(desk: Desk, data: bytes | Message) -> None:
    peer = Peer(desk).ready(container_id="poster")
    peer.attach_sender()
    peer.transfer(0, data.encode() if isinstance(data, Message) else data, settled=True)


# --- bodies ---------------------------------------------------------------------------------------


def test_a_body_without_length_that_is_no_text_is_data() -> None:
    desk = Desk()
    Stomp(desk).send(b"\xff\xfe")
    (got,) = by_amqp(desk)
    assert got.body == b"\xff\xfe"


@pytest.mark.parametrize(
    ("data", "body", "counted", "kind"),
    [
        (message("hello"), b"hello", True, None),
        (b"\0\x53\x75\xa0\x03a\0b", b"a\0b", True, None),
        (b"\0\x53\x75\xa0\x02ab\0\x53\x75\xa0\x02cd", b"abcd", True, None),
        (b"\0\x53\x77\xa0\x02ab", b"ab", True, None),
        (b"\0\x53\x77\x40", b"", False, None),
        (b"\0\x53\x77\x41", b"true", True, None),
        (b"\0\x53\x77\x55\xff", b"-1", True, None),
        (b"\0\x53\x77\x82\x3f\xf8\0\0\0\0\0\0", b"1.5", True, None),
        (b"\0\x53\x77\xa3\x01s", b"s", True, None),
        (b"\0\x53\x77\xc0\x02\x01\x41", b"\xc0\x02\x01\x41", True, "value"),
        (b"\0\x53\x77\xa1\x01\xff", b"\xa1\x01\xff", True, "value"),
        (b"\0\x53\x76\x45\0\x53\x76\xc0\x02\x01\x41", b"\x45\xc0\x02\x01\x41", True, "sequence"),
    ],
)
def test_bodies_for_stomp(data: bytes, body: bytes, counted: bool, kind: str | None) -> None:
    desk = Desk()
    post(desk, data)
    (got,) = by_stomp(desk)
    assert got.body == body
    assert ("content-length" in got.headers) == counted
    assert got.headers.get("amqp-body") == kind


# --- headers --------------------------------------------------------------------------------------

ALL_HEADERS = (
    "persistent:true\npriority:7\ncorrelation-id:c\nreply-to:r\ntype:t\ncontent-type:text/plain\ntimestamp:5\n"
    "amqp-message-id:id\namqp-user-id:me\namqp-group-id:g\namqp-group-sequence:3\namqp-reply-to-group-id:rg\ncolour:red\n"
)


def test_there_and_back_again_nothing_is_lost() -> None:
    desk = Desk()
    Stomp(desk).send(headers=ALL_HEADERS)
    (got,) = by_amqp(desk)
    post(desk, got)
    (again,) = by_stomp(desk)
    expected = dict(line.split(":", 1) for line in ALL_HEADERS.splitlines())
    assert expected.items() <= again.headers.items()
    assert again.body == b"hello"
    assert "destination" in again.headers


@pytest.mark.parametrize(
    "header", ["priority:256", "priority:-1", "priority:high", "persistent:maybe", "expires:soon"]
)
def test_a_header_without_a_meaning_in_amqp_is_passed_on_as_it_is(header: str) -> None:
    desk = Desk()
    Stomp(desk).send(headers=header + "\n")
    (got,) = by_amqp(desk)
    name, value = header.split(":")
    assert got.properties == {name: value, "destination-type": "ANYCAST"}
    assert (got.durable, got.priority) == (False, 4)


def test_properties_become_headers() -> None:
    desk = Desk()
    sent = Message(
        body="b",
        durable=True,
        priority=3,
        id=uuid.UUID(int=5),
        correlation_id=ulong(9),
        subject="s",
    )
    sent.properties = {
        "text": "t", "whole": 5, "truth": True, "half": 0.5, "symbol": symbol("y"), "none": None, "octets": b"\xff",  # noqa: E501
        "list": [1], "destination": "forged", "when": timestamp(7),
    }  # fmt: skip
    sent.user_id = b"\xff\0"
    post(desk, sent)
    (got,) = by_stomp(desk)
    expected = {
        "persistent": "true", "priority": "3", "type": "s", "correlation-id": "9", "amqp-user-id": "0xff00",  # noqa: E501
        "amqp-message-id": "00000000-0000-0000-0000-000000000005", "text": "t", "whole": "5", "truth": "true", "half": "0.5",  # noqa: E501
        "symbol": "y", "none": "", "octets": "0xff", "when": "7", "destination": "q",
    }  # fmt: skip
    assert expected.items() <= got.headers.items()
    assert "list" not in got.headers


@effort(max_examples=80, deadline=None)
@given(st.binary(max_size=40), st.sampled_from([0x73, 0x74, 0x75, 0x76, 0x77]))
def test_whatever_a_section_holds_stomp_gets_a_message_or_the_producer_a_no(
    data: bytes, code: int
) -> None:
    desk = Desk()
    subscriber = Stomp(desk)
    subscriber.subscribe()
    peer = Peer(desk).ready()
    peer.attach_sender()
    body = b"" if code >= 0x75 else b"\0\x53\x77\x40"
    frames = peer.transfer(0, b"\0\x53" + bytes((code,)) + data + body)
    if frames and isinstance(frames[0].value, Disposition):
        taken = isinstance(frames[0].value.state, Accepted)
        assert len(subscriber.frames()) == (1 if taken else 0)
    peer.transfer(1, message("still"))
    assert any(frame.body == b"still" for frame in subscriber.frames()) or isinstance(
        frames[0].value, Detach
    )


# --- selectors ------------------------------------------------------------------------------------


def selecting(condition: Any, **fields: Any) -> Source:
    described = Described(Symbol("apache.org:selector-filter:string"), condition)
    return Source(
        address="q", capabilities=("queue",), filter={Symbol("any key"): described}, **fields
    )


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("colour = 'red'", ["a", "c"]),
        ("number > 1", ["b", "c"]),
        ("truth", ["a"]),
        ("AMQPriority = 9 OR JMSType = 'kind'", ["b", "c"]),
        ("AMQDurable = 'DURABLE'", ["b"]),
        ("AMQUserID = 'id-1'", ["a"]),
        ("AMQExpiration > 0", ["b"]),
        ("missing IS NULL AND AMQAddress = 'q'", ["a", "b", "c"]),
        ("listed IS NOT NULL", []),
    ],
)
@pytest.mark.parametrize("mode", [None, "copy"])
def test_a_selector_sees_typed_properties(
    condition: str, expected: list[str], mode: str | None
) -> None:
    desk = Desk()
    first = Message(
        body="a", id="id-1", properties={"colour": "red", "number": 1, "truth": True, "listed": [1]}
    )
    second = Message(
        body="b",
        durable=True,
        ttl=5,
        priority=9,
        properties={"colour": symbol("blue"), "number": 1.5},
    )
    third = Message(body="c", subject="kind", properties={"colour": "red", "number": ulong(7)})
    for got in (first, second, third):
        post(desk, got)
    peer = Peer(desk).ready()
    (answer,) = peer.attach_receiver(
        source=selecting(condition, distribution_mode=mode and Symbol(mode))
    )
    assert isinstance(answer.value, Attach)
    assert answer.value.source.filter is not None
    (flow,) = peer.flow(0, echo=True)
    assert flow.value.available == len(expected)
    frames = peer.flow(9, drain=True)
    assert [text(frame.payload) for frame in frames[:-1]] == expected
    assert frames[-1].value.link_credit == 0


def test_a_selector_on_a_topic() -> None:
    desk = Desk()
    peer = Peer(desk).ready()
    source = selecting("kind = 'x'")
    source.address, source.capabilities = "t", ("topic",)
    peer.attach_receiver(source=source)
    peer.flow(9)
    client = Stomp(desk)
    for kind in "xyx":
        client.feed(f"SEND\ndestination:t\ndestination-type:MULTICAST\nkind:{kind}\n\n{kind}\0")
    assert [text(frame.payload) for frame in peer.read()] == ["x", "x"]


def test_a_stomp_selector_sees_amqp_messages() -> None:
    desk = Desk()
    post(desk, Message(body="a", properties={"number": 5}))
    post(desk, Message(body="b", properties={"number": 50}))
    assert [
        frame.body
        for frame in by_stomp(desk, "selector:number > 10 AND AMQTimestamp >= 0 AND AMQSize > 1\n")
    ] == [b"b"]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (
            {Symbol("s"): Described(Symbol("apache.org:selector-filter:string"), "a = ")},
            "amqp:invalid-field",
        ),
        (
            {Symbol("s"): Described(Symbol("apache.org:selector-filter:string"), 5)},
            "amqp:invalid-field",
        ),
        (
            {Symbol("s"): Described(Ulong(0x468C00000004), "a = 1"), Symbol("n"): None},
            "amqp:not-implemented",
        ),
        (
            {Symbol("n"): Described(Symbol("apache.org:no-local-filter:list"), [])},
            "amqp:not-implemented",
        ),
        ({Symbol("s"): "a = 1"}, "amqp:not-implemented"),
    ],
)
def test_filters_that_cannot_be(filters: Any, expected: str) -> None:
    peer = Peer(Desk()).ready()
    source = Source(address="q", filter=filters)
    frames = peer.attach_receiver(source=source)
    assert str(frames[-1].value.error.condition) == expected


def test_the_numeric_descriptor_of_a_selector() -> None:
    peer = Peer(Desk()).ready()
    source = Source(address="q", filter={Symbol("s"): Described(Ulong(0x468C00000004), "a = 1")})
    assert len(peer.attach_receiver(source=source)) == 1
