"""The harness's codec of Artemis's CORE protocol: comparisons with bytes of a real Artemis, and the
handling of inconsistent bytes."""

import json
from importlib.resources import files

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokerproof.harness.protocols.core import codec
from brokerproof.harness.protocols.core.codec import (
    MAGIC,
    Packet,
    Reader,
    Unreadable,
    encode_packet,
    read_packet,
)
from brokerproof.harness.protocols.core.fact_reader import FORCED
from brokerproof.harness.protocols.core.messages import Message
from brokerproof.harness.protocols.core.tables import (
    ASYNC_RESPONSES,
    BY_CODE,
    BY_NAME,
    NEWEST,
    PRODUCERS,
)
from brokerproof.harness.protocols.core.values import (
    Cursor,
    Malformed,
    Property,
    encode,
    modified_utf8,
    property_of,
)

VECTORS = json.loads((files("brokerproof.fixtures") / "vectors" / "core.json").read_text("utf-8"))
ALL = [
    bytes.fromhex(vector)
    for side in ("client", "broker")
    for vector in VECTORS[side]
    if bytes.fromhex(vector) != MAGIC
]


def the(side: str, name: str) -> Packet:
    found = [
        read_packet(bytes.fromhex(vector))
        for vector in VECTORS[side]
        if bytes.fromhex(vector) != MAGIC
    ]
    return next(packet for packet in found if isinstance(packet, Packet) and packet.name == name)


@pytest.mark.parametrize("data", ALL, ids=lambda data: f"{data[4]}-{len(data)}")
def test_packets_of_a_real_session_are_read_and_written_alike(data: bytes) -> None:
    packet = read_packet(data)
    assert isinstance(packet, Packet)
    # An exception that answers no send has no correlation id, whatever the version.
    version = (
        NEWEST
        if packet.fields.keys() == {name for name, _, _ in BY_NAME[packet.name].fields}
        else 129
    )
    written = encode_packet(packet.name, packet.fields, channel=packet.channel, version=version)
    assert packet.size == len(data) == len(written)
    assert read_packet(written) == packet
    # Artemis writes true as 1 or as 255, depending on its source.
    assert all(
        ours == theirs or (ours, theirs) == (1, 255)
        for ours, theirs in zip(written, data, strict=True)
    )


def test_the_message_that_artemis_delivers_is_the_one_it_was_sent() -> None:
    sent, received = the("client", "send").message, the("broker", "receive").message
    assert received.id > 0
    assert received.properties == sent.properties
    assert received.body == sent.body
    assert received.address == sent.address
    assert received.user_id == sent.user_id
    assert (received.priority, received.durable, received.timestamp) == (9, True, 1_700_000_000_000)
    assert received.cost == sent.cost


def test_everything_that_artemis_own_client_writes_is_read() -> None:
    data = b"".join(map(bytes.fromhex, VECTORS["java-producer"]))
    packets = list(Reader(magic=True).feed(data))
    assert all(isinstance(packet, Packet) for packet in packets)
    sent = [
        packet.message for packet in packets if isinstance(packet, Packet) and packet.name == "send"
    ]
    assert [packet.get("count") for packet in sent] == list(range(6))
    expected = {(1325, "jw", True)}
    assert {(packet.cost, packet.address, packet.durable) for packet in sent} == expected
    asked = [
        packet["credits"]
        for packet in packets
        if isinstance(packet, Packet) and packet.name == "request-producer-credits"
    ]
    assert set(asked) == {2000}  # half of its window of 4000


def test_what_a_message_costs_is_the_size_of_its_encoding() -> None:
    """Artemis's client counts the packet without its header and without the fields after the
    message."""
    sent = the("client", "send")
    assert sent.message.cost == sent.size - codec.PACKET_HEADER - 1 - 8 - 4


def test_what_a_real_artemis_says_is_understood() -> None:
    answer = the("broker", "queue-query-response-v3")
    assert answer["exists"] is True
    assert answer["routing-type"] == 1
    assert answer["default-consumer-window-size"] == 1_048_576
    assert the("broker", "exception")["code"] == 100
    forced = [read_packet(packet) for packet in ALL if packet[4] == BY_NAME["receive"].code]
    assert any(isinstance(packet, Packet) and packet.message.get(FORCED) == 1 for packet in forced)


unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Settings without a deadline: on a busy machine an example's duration means nothing."""

VALUES: dict[str, st.SearchStrategy[object]] = {
    "byte": st.integers(-128, 127),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "boolean": st.booleans(),
    "simple": st.text(max_size=20),
    "string": st.one_of(
        st.text(max_size=20),
        st.sampled_from(["é" * 8, "é" * 9, "x" * 4094, "y" * 4095, "\0€" * 2048]),
    ),
    "rest": st.binary(max_size=20),
}
PROPERTIES = st.dictionaries(
    st.text(max_size=8),
    st.one_of(
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False),
        st.text(max_size=8),
        st.binary(max_size=8),
        st.none(),
        st.builds(Property, st.just("short"), st.integers(-(2**15), 2**15 - 1)),
        st.builds(
            Property,
            st.just("char"),
            st.characters(max_codepoint=0xFFFF, exclude_categories=("Cs",)),
        ),
    ),
    max_size=4,
)
VALUES["message"] = st.builds(
    Message,
    address=st.none() | st.text(max_size=9),
    body=st.binary(max_size=40),
    properties=PROPERTIES.map(
        lambda found: {name: property_of(each) for name, each in found.items()}
    ),
    id=st.integers(0, 2**63 - 1),
    user_id=st.none() | st.binary(min_size=16, max_size=16),
    durable=st.booleans(),
    priority=st.integers(0, 9),
)


def _values(kind: str) -> st.SearchStrategy[object]:
    return st.none() | VALUES[kind[:-1]] if kind.endswith("?") else VALUES[kind]


PACKETS = st.sampled_from(sorted(BY_NAME)).flatmap(
    lambda name: st.tuples(
        st.just(name),
        st.fixed_dictionaries({field: _values(kind) for field, kind, _ in BY_NAME[name].fields}),
    )
)
VERSIONS = st.sampled_from(
    [129, ASYNC_RESPONSES, ASYNC_RESPONSES + 1, PRODUCERS - 1, PRODUCERS, NEWEST]
)


@unhurried
@given(PACKETS, st.integers(0, 2**40), VERSIONS)
def test_what_is_written_is_read(
    what: tuple[str, dict[str, object]], channel: int, version: int
) -> None:
    name, fields = what
    data = encode_packet(name, fields, channel=channel, version=version)
    (read,) = Reader().feed(data)
    assert isinstance(read, Packet)
    assert (read.name, read.channel, read.size) == (name, channel, len(data))
    there = {field for field, _, since in BY_NAME[name].fields if since <= version}
    assert read.fields == {field: value for field, value in fields.items() if field in there}


@unhurried
@given(st.lists(PACKETS, max_size=3), st.data())
def test_however_bytes_are_cut_the_same_packets_come_out(
    packets: list[tuple[str, dict[str, object]]], data: st.DataObject
) -> None:
    raw = MAGIC + b"".join(encode_packet(*packet) for packet in packets)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=5)))
    pieces = [raw[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    reader = Reader(magic=True)
    assert [packet for piece in pieces for packet in reader.feed(piece)] == list(
        Reader(magic=True).feed(raw)
    )


@unhurried
@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_raise(data: bytes) -> None:
    list(Reader().feed(data))
    list(Reader(magic=True).feed(data))
    list(Reader().feed(codec.frame(data[0] if data else 0, 10, data)))


@unhurried
@given(st.sampled_from(ALL), st.data())
def test_no_change_to_a_good_packet_makes_the_reader_raise(raw: bytes, data: st.DataObject) -> None:
    broken = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(4, len(broken) - 1))] = data.draw(st.integers(0, 255))
    (read,) = Reader().feed(bytes(broken))
    assert isinstance(read, Packet | Unreadable)


def test_a_size_that_cannot_be_is_the_end() -> None:
    reader = Reader()
    (found,) = reader.feed((8).to_bytes(4) + bytes(20))
    assert isinstance(found, Unreadable)
    assert found.lost
    assert "8 bytes follow" in found.reason
    assert all(isinstance(packet, Unreadable) for packet in reader.feed(ALL[0]))


def test_a_client_that_begins_with_something_else_is_not_read() -> None:
    (found,) = Reader(magic=True).feed(b"ARTE!")
    assert isinstance(found, Unreadable)
    assert "ARTEMIS" in found.reason


def test_a_packet_whose_fields_are_cut_is_unreadable_and_the_next_is_read() -> None:
    good = encode_packet("ping", {"connection-ttl": 5})
    found = list(Reader().feed(codec.frame(10, 0, bytes(3)) + good))
    assert isinstance(found[0], Unreadable)
    assert not found[0].lost
    assert isinstance(found[1], Packet)
    assert found[1]["connection-ttl"] == 5


def test_a_type_that_is_in_no_table_is_kept_as_bytes() -> None:
    unknown = next(code for code in range(256) if code not in BY_CODE)
    (found,) = Reader().feed(codec.frame(unknown, 3, b"abc"))
    assert isinstance(found, Packet)
    assert found.name == f"packet-{unknown}"
    assert found["rest"] == b"abc"


def test_a_password_is_in_no_trace() -> None:
    (read,) = Reader().feed(
        encode_packet("create-session", {"username": "me", "password": "secret"})
    )
    assert isinstance(read, Packet)
    assert "secret" not in str(read.listed()) + read.brief()


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(ValueError, match="has no field credit"):
        encode_packet("ping", {"credit": 1})
    with pytest.raises(ValueError, match="is not a valid int"):
        encode_packet("consumer-credits", {"credits": 2**31})
    with pytest.raises(ValueError, match="cannot be a property"):
        Message("q", properties={"a": object()}).encode()


def test_text_outside_the_basic_plane_is_two_units_of_three_bytes_each() -> None:
    """Java's modified UTF-8: surrogates are written one by one."""
    assert modified_utf8("\U0001f600") == b"\xed\xa0\xbd\xed\xb8\x80"
    text = "eight units and \U0001f600"
    assert Cursor(encode("string", text)).value("string") == text


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\0\0\0\x03abc", b"\0\0\0\x20ab"])
def test_a_simple_string_whose_length_lies_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        Cursor(data).value("simple")
