"""The harness's AMQP 0-9-1 codec: comparisons with pamqp's tables and bytes, and the handling of
inconsistent bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands, exceptions, header
from pamqp import frame as theirs

from brokerproof.harness.protocols.amqp091 import codec
from brokerproof.harness.protocols.amqp091.codec import Frame, Reader, Unreadable
from brokerproof.harness.protocols.amqp091.tables import BY_NAME, BY_NUMBERS, PROPERTIES
from brokerproof.harness.protocols.amqp091.trace_recorder import UNREADABLE, Stream
from brokerproof.harness.protocols.amqp091.values import (
    Malformed,
    Raw,
    Typed,
    decode,
    encode,
    plain,
)


def test_the_table_of_methods_is_that_of_pamqp() -> None:
    """Both tables have the same numbers and field types; only names of reserved fields differ."""
    known = {
        (index >> 16, index & 0xFFFF): [getattr(kind, f"_{name}") for name in kind.__slots__]
        for index, kind in commands.INDEX_MAPPING.items()
    }
    found = {numbers: [kind for _, kind in method.fields] for numbers, method in BY_NUMBERS.items()}
    assert found == known


def test_the_table_of_properties_is_that_of_pamqp() -> None:
    ours = [name for name, _ in PROPERTIES]
    by_flag = sorted(commands.Basic.Properties.flags.items(), key=lambda item: -item[1])
    assert [name.replace("_", "-").replace("message-type", "type") for name, _ in by_flag] == ours


VALUES = {
    "bit": st.booleans(),
    "octet": st.integers(0, 255),
    "short": st.integers(0, 2**16 - 1),
    "long": st.integers(0, 2**32 - 1),
    "longlong": st.integers(0, 2**63 - 1),
    "shortstr": st.text("abcdefgh-.é", max_size=40),
    "longstr": st.text("abcdefgh", max_size=300).map(str.encode),
    "table": st.dictionaries(
        st.text("abc", min_size=1, max_size=5),
        st.one_of(
            st.booleans(),
            st.integers(-(2**63), 2**63 - 1),
            st.text("xyz"),
            st.none(),
            st.lists(st.integers(0, 9)),
        ),
        max_size=4,
    ),
}
METHODS = st.sampled_from(sorted(BY_NAME)).flatmap(
    lambda name: st.tuples(
        st.just(name),
        st.fixed_dictionaries({field: VALUES[kind] for field, kind in BY_NAME[name].fields}),
    )
)


@given(METHODS, st.integers(0, 65535))
def test_what_is_written_is_read(what: tuple[str, dict[str, object]], channel: int) -> None:
    name, fields = what
    data = codec.encode_frame(codec.METHOD, channel, codec.encode_method(name, fields))
    (read,) = Reader().feed(data)
    assert isinstance(read, Frame)
    assert (read.name, read.channel, read.size) == (name, channel, len(data))
    assert {key: plain(value) for key, value in read.fields.items()} == fields


@pytest.mark.filterwarnings("ignore:This command is deprecated")
@given(METHODS)
def test_pamqp_reads_the_same(what: tuple[str, dict[str, object]]) -> None:
    name, fields = what
    data = codec.encode_frame(codec.METHOD, 7, codec.encode_method(name, fields))
    try:
        size, channel, method = theirs.unmarshal(data)
    except exceptions.UnmarshalingException:  # pamqp itself checks some fields, such as queue names
        return
    assert (size, channel) == (len(data), 7)
    for (each, kind), slot in zip(BY_NAME[name].fields, method.__slots__, strict=True):
        value = fields[each]
        if kind != "table":
            assert getattr(method, slot) == (value.decode() if isinstance(value, bytes) else value)


def test_a_content_in_pieces_is_one_method() -> None:
    properties = {
        "content-type": "text/plain",
        "headers": {"n": 1},
        "delivery-mode": 2,
        "cluster-id": "c",
    }
    data = codec.encode_frame(
        codec.METHOD,
        3,
        codec.encode_method("basic.publish", {"routing-key": "here", "mandatory": True}),
    ) + codec.encode_content(3, b"x" * 20, properties, frame_max=16)
    stream = Stream()
    found = [item for at in range(len(data)) for item in stream.feed(data[at : at + 1])]
    (method,) = found
    assert method.name == "basic.publish"
    assert method.channel == 3
    assert method.body == b"x" * 20
    assert method.complete is True
    assert method.size == len(data) == sum(method.frames)
    assert method.frames[2:] == (16, 16, 12)
    assert {name: method[name] for name in properties} == properties
    assert method["mandatory"] is True


def test_pamqp_reads_the_same_content_header() -> None:
    data = codec.encode_content(
        1, b"", {"content-type": "a/b", "priority": 3, "headers": {"k": "v"}}
    )
    _, _, read = theirs.unmarshal(data)
    assert isinstance(read, header.ContentHeader)
    assert (read.body_size, read.properties.content_type, read.properties.priority) == (0, "a/b", 3)
    assert read.properties.headers == {"k": "v"}


def test_an_interrupted_content_says_so() -> None:
    publish = codec.encode_frame(codec.METHOD, 1, codec.encode_method("basic.publish"))
    header = codec.encode_frame(codec.HEADER, 1, codec.encode_content_header(10))
    other = codec.encode_frame(codec.METHOD, 1, codec.encode_method("tx.select"))
    assert [(item.name, item.complete) for item in Stream().feed(publish + header + other)] == [
        ("basic.publish", False),
        ("tx.select", True),
    ]
    expected = ("basic.publish", False)
    assert next((item.name, item.complete) for item in Stream().feed(publish + other)) == expected
    elsewhere = codec.encode_frame(codec.METHOD, 2, codec.encode_method("tx.select"))
    assert [
        item.name for item in Stream().feed(publish + elsewhere + codec.encode_content(1, b""))
    ] == ["tx.select", "basic.publish"]


@pytest.mark.parametrize(
    ("data", "reason", "lost"),
    [
        (codec.encode_frame(9, 0), "unknown type 9", True),
        (codec.encode_frame(1, 0, b"\0\x0a\0\x0b", end=0), "ends with 0x00", True),
        (codec.encode_frame(1, 0, b"\0\x0a"), "is too short for its class", False),
        (codec.encode_frame(1, 0, b"\0\x0a\0\x63"), "no method 99 in class 10", False),
        (
            codec.encode_frame(1, 1, b"\0\x32\0\x0b\x09ab"),
            "queue.declare-ok, queue: shortstr: says it has 9",
            False,
        ),
        (
            codec.encode_frame(1, 1, codec.encode_method("tx.select") + b"!"),
            "1 bytes too many",
            False,
        ),
        (codec.encode_frame(2, 1, b"\0\x3c"), "too short", False),
        (codec.encode_frame(1, 1, b"", size=2**31), "above", True),
    ],
)
def test_bytes_that_are_no_frame_are_named(data: bytes, reason: str, lost: bool) -> None:
    (read,) = Reader().feed(data)
    assert isinstance(read, Unreadable)
    assert reason in read.reason
    assert read.lost is lost
    (method,) = Stream().feed(data)
    assert method.name == UNREADABLE


def test_lies_can_be_written() -> None:
    raw = codec.encode_method(
        "queue.declare", {"queue": Raw(b"\xff"), "arguments": {"a": Typed("?", b"zz")}}
    )
    assert raw.endswith(b"\xff\0" + (5).to_bytes(4) + b"\x01a?zz")
    with pytest.raises(ValueError, match="no field nonsense"):
        codec.encode_method("queue.declare", {"nonsense": 1})


@pytest.mark.parametrize("letter", "bBsuIilTtfdSxFAVD")
def test_every_letter_of_a_table_goes_both_ways(letter: str) -> None:
    value = {
        "S": b"s",
        "x": b"b",
        "F": {},
        "A": [],
        "V": None,
        "D": (2, 314),
        "t": True,
        "f": 0.5,
        "d": 0.25,
    }.get(letter, 1)
    data = encode({"k": Typed(letter, value)}, "table")
    assert decode(data, 0, "table") == ({"k": Typed(letter, value)}, len(data))


def test_tables_that_lie_are_malformed() -> None:
    deep = Typed("F", {})
    for _ in range(80):
        deep = Typed("F", {"k": deep})
    for data in (encode({"k": deep}, "table"), b"\0\0\0\x09\x01a", b"\0\0\0\x03\x01aZ", b"\0\0"):
        with pytest.raises(Malformed):
            decode(data, 0, "table")
