"""The harness's AMQP codec: correct and inconsistent frames, the table of composites, messages."""

import json
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerproof.harness.protocols.amqp10 import codec, messages, tables, types
from brokerproof.harness.protocols.amqp10.codec import Empty, Frame, Reader, Unreadable
from brokerproof.harness.protocols.amqp10.types import NULL, Array, Described, Malformed, Raw, Value

DEFINITION = json.loads(
    (files("brokerproof.fixtures") / "vectors" / "amqp10-definition.json").read_text("utf-8")
)["types"]
BEGIN = {"next-outgoing-id": 1, "incoming-window": 2, "outgoing-window": 3}


def encoded(
    name: str, fields: dict[str, Any] | None = None, payload: bytes = b"", **frame: Any
) -> bytes:
    return codec.encode_frame(types.encode(codec.composite(name, fields)) + payload, **frame)


def read(*pieces: bytes) -> list[codec.Read]:
    reader = Reader()
    return [item for piece in pieces for item in reader.feed(piece)]


# --- the table ------------------------------------------------------------------------------------


def primitive(field: dict[str, Any]) -> str:
    kind = field["type"]
    if kind in ("role", "error", "*"):
        return str(kind)
    while DEFINITION[kind]["class"] == "restricted":
        if kind in ("fields", "filter-set", "node-properties", "annotations") and kind != "map":
            return "fields"
        kind = DEFINITION[kind]["source"]
    return f"{kind}*" if field["multiple"] else str(kind)


COMPOSITES = {name: each for name, each in DEFINITION.items() if each["class"] == "composite"}


def test_the_table_has_every_composite_and_no_other() -> None:
    assert tables.COMPOSITES.keys() == COMPOSITES.keys()


@pytest.mark.parametrize("name", COMPOSITES)
def test_a_composite_is_that_of_the_definition(name: str) -> None:
    ours, theirs = tables.COMPOSITES[name], COMPOSITES[name]
    assert (ours.code, ours.symbol) == (theirs["descriptor"]["code"], theirs["descriptor"]["name"])
    assert [(field.name, field.type, field.mandatory) for field in ours.fields] == [
        (field["name"], primitive(field), field["mandatory"]) for field in theirs["fields"]
    ]


def test_the_sections_are_those_of_the_definition() -> None:
    theirs = {
        name: each["descriptor"]["code"]
        for name, each in DEFINITION.items()
        if "section" in each["provides"]
    }
    assert dict(tables.SECTIONS) == theirs


def test_the_constructors_are_those_of_the_definition() -> None:
    theirs = {
        encoding["code"]: (name, encoding["name"], encoding["category"], encoding["width"])
        for name, each in DEFINITION.items()
        if each["class"] == "primitive"
        for encoding in each["encodings"]
    }
    assert {
        constructor.code: (constructor.type, constructor.name, constructor.kind, constructor.width)
        for constructor in types.CONSTRUCTORS.values()
    } == theirs


# --- composites -----------------------------------------------------------------------------------


def test_fields_stand_in_their_order_and_trailing_ones_are_left_out() -> None:
    made = codec.composite("begin", BEGIN)
    assert made.descriptor == types.ulong(0x11)
    assert made.value == Value("list", (NULL, types.uint(1), types.uint(2), types.uint(3)))


def test_a_null_is_written_where_it_is_asked_for() -> None:
    assert codec.composite("close", {"error": NULL}).value == Value("list", (NULL,))
    assert codec.composite("close", {"error": None}).value == Value("list", ())


def test_a_field_may_have_any_other_type() -> None:
    made = codec.composite(
        "begin", {**BEGIN, "handle-max": types.string("many"), "remote-channel": Raw(b"\x5f")}
    )
    assert made.value == Value(
        "list", (Raw(b"\x5f"), types.uint(1), types.uint(2), types.uint(3), types.string("many"))
    )


def test_a_field_that_the_table_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="begin has no field windows"):
        codec.composite("begin", {"windows": 1})


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("a", "symbol*", types.symbol("a")),
        (["a", "b"], "symbol*", types.symbols(["a", "b"])),
        ({"a": "b"}, "fields", Value("map", ((types.symbol("a"), types.string("b")),))),
        ({"a": "b"}, "map", Value("map", ((types.string("a"), types.string("b")),))),
        ("amqp:not-found", "error", codec.error("amqp:not-found")),
        (("amqp:not-found", "gone"), "error", codec.error("amqp:not-found", "gone")),
        (True, "role", Value("boolean", True)),
        (5, "ubyte", types.ubyte(5)),
        (types.ulong(5), "ubyte", types.ulong(5)),
        (None, "uint", NULL),
    ],
)
def test_plain_values_get_the_type_of_their_field(
    value: Any, kind: str, expected: types.Item
) -> None:
    assert codec.typed(value, kind) == expected


# --- frames ---------------------------------------------------------------------------------------


def test_a_frame_is_read_as_it_was_written() -> None:
    data = encoded(
        "transfer", {"handle": 7, "delivery-tag": b"\x01", "more": True}, b"payload", channel=3
    )
    (found,) = read(data)
    assert isinstance(found, Frame)
    assert found.name == "transfer"
    assert found.channel == 3
    assert found.payload == b"payload"
    assert found.size == len(data)
    assert (found["handle"], found.get("delivery_tag"), found.get("settled")) == (7, b"\x01", None)
    expected = (("channel", "3"), ("handle", "7"), ("delivery-tag", "0x01"), ("more", "true"))
    assert found.listed() == expected
    with pytest.raises(KeyError, match="transfer has no field 'settled'"):
        found["settled"]


def test_composites_inside_are_named() -> None:
    (found,) = read(
        encoded(
            "disposition",
            {"role": True, "first": 1, "state": codec.composite("rejected", {"error": "a:b"})},
        )
    )
    assert isinstance(found, Frame)
    assert dict(found.listed()) == {
        "channel": "0",
        "role": "receiver",
        "first": "1",
        "state": "rejected(error=error(condition=a:b))",
    }
    assert found.kind("state") == "rejected"


def test_an_error_is_found() -> None:
    (found,) = read(encoded("end", {"error": ("amqp:internal-error", "why")}))
    assert isinstance(found, Frame)
    assert (found.condition, found.part("error")["description"]) == ("amqp:internal-error", "why")


def test_headers_frames_and_signs_of_life_follow_one_another() -> None:
    items = read(
        codec.protocol_header(3),
        encoded("sasl-outcome", {"code": 0}, type=1),
        codec.protocol_header() + codec.encode_frame(b"", channel=2) + encoded("begin", BEGIN),
    )
    assert [item.name if isinstance(item, Frame) else item for item in items] == [
        "protocol-header",
        "sasl-outcome",
        "protocol-header",
        Empty(8, 2),
        "begin",
    ]


@given(st.lists(st.integers(1, 60), max_size=8))
def test_it_does_not_matter_how_the_stream_is_cut(sizes: list[int]) -> None:
    data = (
        codec.protocol_header()
        + encoded("begin", BEGIN)
        + codec.encode_frame(b"")
        + encoded("close")
    )
    pieces, at = [], 0
    for size in sizes:
        pieces.append(data[at : at + size])
        at += size
    assert read(*pieces, data[at:]) == read(data)


def test_an_extended_header_is_kept_apart() -> None:
    (found,) = read(encoded("begin", BEGIN, extended=b"\xff" * 5))
    assert isinstance(found, Frame)
    assert (found.name, found.extended) == ("begin", b"\xff" * 5 + bytes(3))


@pytest.mark.parametrize(
    ("data", "reason", "lost"),
    [
        (codec.encode_frame(b"", size=7), "7 bytes, shorter than its own header", True),
        (codec.encode_frame(b"", size=2**31), "2147483648 bytes, more than", True),
        (codec.encode_frame(b"", doff=1), "data offset 1", False),
        (codec.encode_frame(b"", doff=3), "data offset 3", False),
        (codec.encode_frame(b"", type=2), "type 2, neither", False),
        (codec.encode_frame(b"\x40"), "carries null, which is not a performative", False),
        (encoded("accepted"), "which is not a performative", False),
        (encoded("sasl-outcome", {"code": 0}), "of type 0 carries", False),
        (encoded("begin", BEGIN, type=1), "of type 1 carries", False),
        (codec.encode_frame(b"\x00\x53\x11\x40"), "begin is described, but no list", False),
        (codec.encode_frame(b"\x00\x53\x11\xc0\x09\x01"), "should have 9 bytes", False),
    ],
)
def test_what_cannot_be_read_is_named(data: bytes, reason: str, lost: bool) -> None:
    items = read(data, encoded("close"))
    first = items[0]
    assert isinstance(first, Unreadable)
    assert reason in first.reason
    assert first.lost is lost
    assert isinstance(items[1], Unreadable if lost else Frame)


def test_a_frame_that_never_ends_is_waited_for_without_cost() -> None:
    reader = Reader(most=100)
    assert list(reader.feed(codec.encode_frame(b"", size=100))) == []
    assert reader.pending == 8
    assert isinstance(
        next(iter(Reader(most=99).feed(codec.encode_frame(b"", size=100)))), Unreadable
    )


# --- flaws ----------------------------------------------------------------------------------------


def flaws(name: str, fields: dict[str, Any]) -> list[str]:
    (found,) = read(encoded(name, fields))
    assert isinstance(found, Frame)
    return codec.flaws(found)


def test_a_frame_as_the_table_has_it_has_no_flaws() -> None:
    source = codec.composite(
        "source", {"address": "a", "outcomes": ["amqp:accepted:list"], "filter": {"x": "y"}}
    )
    assert not flaws(
        "attach",
        {"name": "a", "handle": 0, "role": True, "source": source, "desired-capabilities": "one"},
    )


@pytest.mark.parametrize(
    ("name", "fields", "flaw"),
    [
        ("begin", {"incoming-window": 1, "outgoing-window": 1}, "begin has no next-outgoing-id"),
        (
            "begin",
            {**BEGIN, "handle-max": types.ulong(1)},
            "begin.handle-max is 1, which is not a valid uint",
        ),
        (
            "end",
            {"error": codec.composite("error", {"description": "why"})},
            "error has no condition",
        ),
        ("end", {"error": types.string("why")}, "end.error is why, which is not a valid error"),
        (
            "open",
            {"container-id": "a", "properties": types.item({"a": "b"})},
            "open.properties is {a: b}, which is not a valid fields",
        ),
        (
            "open",
            {"container-id": "a", "desired-capabilities": types.string("a")},
            "desired-capabilities is a, which is not a valid symbol*",
        ),
        (
            "attach",
            {"name": "a", "handle": 0, "role": types.ubyte(1)},
            "attach.role is 1, which is not a valid role",
        ),
    ],
)
def test_flaws_are_named(name: str, fields: dict[str, Any], flaw: str) -> None:
    assert any(flaw in named for named in flaws(name, fields)), flaws(name, fields)


def test_a_field_too_many_is_a_flaw() -> None:
    body = Described(types.ulong(0x18), Value("list", (NULL, types.uint(1))))
    (found,) = read(codec.encode_frame(types.encode(body)))
    assert isinstance(found, Frame)
    assert codec.flaws(found) == ["close has a field too many (field-1)"]


# --- messages -------------------------------------------------------------------------------------


def test_a_message_is_read_as_it_was_written() -> None:
    payload = messages.message(
        b"body",
        header={"durable": True, "delivery-count": 3},
        message_annotations={"x-opt-a": "b"},
        properties={"message-id": "id", "to": "there"},
        application_properties={"key": types.Value("int", 5)},
        footer={"x-opt-f": True},
    )
    found = messages.read(payload)
    assert [name for name, _ in found.sections] == [
        *("header", "message-annotations", "properties", "application-properties", "data", "footer")
    ]
    assert found.fields("header") == {"durable": True, "delivery-count": 3}
    assert found.fields("properties") == {"message-id": "id", "to": "there"}
    assert found.map("application-properties") == {"key": 5}
    assert found.body == b"body"
    bare = messages.message(
        b"body",
        properties={"message-id": "id", "to": "there"},
        application_properties={"key": types.Value("int", 5)},
    )
    assert found.bare == bare


@pytest.mark.parametrize(
    ("sections", "body"),
    [
        ([messages.section("data", b"a"), messages.section("data", b"b")], b"ab"),
        ([messages.section("amqp-value", "text")], "text"),
        (
            [messages.section("amqp-sequence", [True]), messages.section("amqp-sequence", ["a"])],
            [True, "a"],
        ),
        ([], None),
    ],
)
def test_bodies(sections: list[Described], body: Any) -> None:
    assert messages.read(messages.encode(sections)).body == body


def test_a_descriptor_may_be_a_symbol() -> None:
    data = types.encode(Described(types.symbol("amqp:data:binary"), types.binary(b"a")))
    assert messages.read(data).body == b"a"


@pytest.mark.parametrize(
    "payload", [b"\x40", types.encode(Described(types.ulong(1), NULL)), b"\x00\x53\x75\xa0\x05a"]
)
def test_what_is_no_message_is_refused(payload: bytes) -> None:
    with pytest.raises(Malformed):
        messages.read(payload)


def test_text_of_values() -> None:
    what = Value(
        "list",
        (
            NULL,
            types.binary(b"\x01"),
            Array(0x56, (Value("boolean", True),)),
            types.item({"a": None}),
        ),
    )
    assert types.text(what) == "[null, 0x01, [true], {a: null}]"
