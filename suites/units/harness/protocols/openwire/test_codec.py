"""The harness's codec of OpenWire: comparisons with the output of ActiveMQ's own library, and the
handling of inconsistent bytes."""

import json
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokerproof.harness.protocols.openwire import codec
from brokerproof.harness.protocols.openwire.codec import (
    Failure,
    Reader,
    Structure,
    Unreadable,
    encode_command,
    read_command,
)
from brokerproof.harness.protocols.openwire.tables import BY_CODE, BY_NAME, MESSAGES, NEWEST, SINCE
from brokerproof.harness.protocols.openwire.values import (
    Cursor,
    Malformed,
    Typed,
    encode_map,
    java_utf8,
    read_map,
    text_of,
)

VECTORS = json.loads(
    (files("brokerproof.fixtures") / "vectors" / "openwire.json").read_text("utf-8")
)
WHOLE = [vector for vector in VECTORS["commands"] if "fields" in vector]


def _said(value: Any) -> Any:
    match value:
        case bytes():
            return value.hex()
        case list():
            return [_said(item) for item in value]
        case Failure():
            return f"{value.kind}: {value.words}"
        case Structure() if value.name.startswith("ActiveMQ"):
            return f"{value.name} {value['physicalName']}"
        case Structure():
            return str(value)
    return value


@pytest.mark.parametrize("vector", WHOLE, ids=lambda each: each["name"])
def test_what_the_library_writes_is_read_field_by_field(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["octets"])
    found = read_command(data, vector["version"])
    assert isinstance(found, Structure), found
    assert (found.name, found.size) == (vector["name"], len(data))
    told = vector["fields"]
    compared = {
        name
        for name, kind, _ in BY_NAME[found.name].fields
        if name in told and not isinstance(told[name], dict)
    }
    assert {name: _said(found[name]) for name in compared} == {
        name: told[name] for name in compared
    }
    unseen = {name for name, _, _ in BY_NAME[found.name].fields} - compared
    assert unseen <= {
        "content",
        "marshalledProperties",
        "message",
        "exception",
        "peerBrokerInfos",
        "additionalPredicate",
    }
    assert encode_command(found.name, found.fields, version=vector["version"]) == data


@pytest.mark.parametrize(
    "vector", VECTORS["commands"], ids=lambda each: f"{each['name']}-{each['version']}"
)
def test_in_every_version_the_bytes_are_those_of_the_library(vector: dict[str, Any]) -> None:
    data, version = bytes.fromhex(vector["octets"]), vector["version"]
    found = read_command(data, version)
    assert isinstance(found, Structure), found
    newest = next(candidate for candidate in WHOLE if candidate["name"] == vector["name"])
    full = read_command(bytes.fromhex(newest["octets"]), newest["version"])
    assert isinstance(full, Structure)
    # Fields that the older version lacks are omitted; the others are the same.
    assert encode_command(full.name, full.fields, version=version) == data
    assert encode_command(found.name, found.fields, version=version) == data


def test_every_command_of_the_tables_has_a_vector() -> None:
    told = {vector["name"] for vector in WHOLE}
    expected = {"RemoveSubscriptionInfo"}
    assert {name for name, table in BY_NAME.items() if table.command} - told == expected
    oldest = {
        name: min(vector["version"] for vector in VECTORS["commands"] if vector["name"] == name)
        for name in told
    }
    assert all(oldest[name] >= since for name, since in SINCE.items())


def test_a_map_of_the_library_is_read_and_written_alike() -> None:
    data = bytes.fromhex(VECTORS["map"])
    found = read_map(data)
    assert encode_map(found) == data
    plain = {name: value.value for name, value in found.items()}
    assert plain.pop("text") == "x" * 9000
    assert plain == {
        "boolean": True,
        "byte": -5,
        "bytes": b"\1\2\3",
        "char": "€",
        "double": 2.5,
        "float": -1.5,
        "int": -70000,
        "list": [Typed("long", 1), Typed("string", "two")],
        "long": 1 << 40,
        "map": {"inner": Typed("int", 7)},
        "null": None,
        "short": 300,
        "string": "\0 é € 😀",
    }


def test_an_exception_and_a_message_inside_are_read() -> None:
    by_name = {command["name"]: read_command(bytes.fromhex(command["octets"])) for command in WHOLE}
    failed, dispatched = by_name["ExceptionResponse"], by_name["MessageDispatch"]
    assert isinstance(failed, Structure)
    assert isinstance(dispatched, Structure)
    assert failed["exception"] == Failure("java.lang.IllegalStateException", "é")
    assert failed["exception"].name == "IllegalStateException"
    message = dispatched.message
    assert message is not None
    assert message.name == "ActiveMQBytesMessage"
    assert (message.properties(), message.text(), message.cost) == ({"n": 9}, "abc", 1024 + 7 + 12)


def test_a_password_is_in_no_trace() -> None:
    info = Structure("ConnectionInfo", {"userName": "someone", "password": "secret"})
    assert "secret" not in str(info.listed()) + info.brief()
    assert ("userName", "someone") in info.listed()


unhurried = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


@given(st.text(max_size=30))
@unhurried
def test_text_comes_back(text: str) -> None:
    assert text_of(java_utf8(text)) == text
    assert b"\0" not in java_utf8(text)


@given(
    st.lists(st.sampled_from([bytes.fromhex(vector["octets"]) for vector in WHOLE]), max_size=4),
    st.data(),
)
@unhurried
def test_the_reader_does_not_mind_how_bytes_are_cut(
    commands: list[bytes], data: st.DataObject
) -> None:
    raw, reader = b"".join(commands), Reader()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6)))
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        found += list(reader.feed(raw[start:end]))
    assert found == [read_command(command) for command in commands]
    assert reader.pending == 0


@given(
    st.sampled_from([bytes.fromhex(vector["octets"]) for vector in VECTORS["commands"]]), st.data()
)
@unhurried
def test_bytes_that_lie_are_unreadable_or_read_and_never_raise(
    raw: bytes, data: st.DataObject
) -> None:
    changed = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(5, len(changed) - 1))] = data.draw(st.integers(0, 255))
    cut = changed[: data.draw(st.integers(5, len(changed)))]
    for command in Reader().feed(len(cut[4:]).to_bytes(4) + cut[4:]):
        assert isinstance(command, Structure | Unreadable)
        if isinstance(command, Structure):
            command.brief()


@pytest.mark.parametrize("size", [0, -1, codec.MOST_READ + 1])
def test_behind_a_size_that_cannot_be_nothing_is_read(size: int) -> None:
    reader = Reader()
    (found,) = reader.feed(codec.frame(10, bytes(5), size=size))
    assert isinstance(found, Unreadable)
    assert found.lost
    assert str(size) in found.reason
    (again,) = reader.feed(encode_command("KeepAliveInfo"))
    assert isinstance(again, Unreadable)


def test_an_unknown_type_is_read_without_fields() -> None:
    unused = next(code for code in range(256) if code not in BY_CODE)
    found = read_command(codec.frame(unused, b"any"))
    assert isinstance(found, Structure)
    assert found.name == f"type-{unused}"


def test_what_a_command_does_not_have_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="ProducerAck has no field window"):
        encode_command("ProducerAck", {"window": 1})
    with pytest.raises(ValueError, match="int"):
        encode_command("ProducerAck", {"size": 1 << 31})


def test_structures_that_nest_for_ever_are_malformed() -> None:
    data = codec.frame(21, bytes(5) + b"\1\x6e\0" * 200)
    assert isinstance(read_command(data), Unreadable)
    deep = b"\0\0\0\1\0\1n\x0b" * 200
    with pytest.raises(Malformed):
        read_map(deep)
    with pytest.raises(Malformed):
        Cursor(b"\0\5ab").utf()
    assert BY_NAME.keys() >= MESSAGES
    assert NEWEST == 12
