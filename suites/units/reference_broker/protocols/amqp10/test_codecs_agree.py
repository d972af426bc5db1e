"""Three AMQP type codecs that share no code read and write the same: the harness's, the reference
broker's and Proton's.

Handmade vectors are in fixtures/vectors/amqp-types.json, with every known difference. If a
difference disappears, a test fails too: then remove its entry. Drawn values cover cases that nobody
thought of.
"""

import json
import math
import struct
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any
from uuid import UUID

import proton
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerproof.harness.clients import proton_engine
from brokerproof.harness.protocols.amqp10 import types as harness
from brokerproof.harness.protocols.amqp10.types import (
    CONSTRUCTORS,
    Array,
    Described,
    Item,
    Raw,
    Value,
)
from brokerproof.reference_broker.protocols.amqp10 import decoder, encoder
from brokerproof.reference_broker.protocols.amqp10 import types as broker

VECTORS = json.loads(
    (Path(str(files("brokerproof.fixtures"))) / "vectors" / "amqp-types.json").read_text(
        encoding="utf-8"
    )
)
VALUES = [vector for vector in VECTORS["values"] if "value" in vector]
REFUSED = [vector for vector in VECTORS["values"] if "refused" in vector]

Neutral = tuple[Any, ...]
"""A value independent of any codec: (type, content); described values and arrays as in the
vectors."""


# --- the codecs, each behind the same two functions -----------------------------------------------


def harness_neutral(what: Item) -> Neutral:
    match what:
        case Described(descriptor, inner):
            return ("described", harness_neutral(descriptor), harness_neutral(inner))
        case Array(element, items, descriptors):
            kind = CONSTRUCTORS[element].type
            return (
                "array",
                kind,
                tuple(map(harness_neutral, items)),
                *map(harness_neutral, descriptors),
            )
        case Value("list", items):
            return ("list", tuple(map(harness_neutral, items)))
        case Value("map", pairs):
            return (
                "map",
                tuple((harness_neutral(key), harness_neutral(each)) for key, each in pairs),
            )
        case Value("uuid", value):
            return ("uuid", value.bytes)
        case Value(kind, float() as value):
            return (kind, bits(value))
        case Value(kind, value):
            return (kind, value)
    raise TypeError(what)


def harness_reads(data: bytes) -> Neutral:
    what, end = harness.decode(data)
    if end != len(data):
        raise ValueError("bytes are left")
    return harness_neutral(what)


ALIKE = ("ubyte", "ushort", "uint", "ulong", "byte", "short", "timestamp", "char", "symbol")
DECIMALS = ("decimal32", "decimal64", "decimal128")
PYTHON_TYPES: dict[type, str] = {
    **{type(None): "null", bool: "boolean", int: "long", float: "double"},
    **{str: "string", bytes: "binary", list: "list", dict: "map"},
}
BROKER_TYPES = PYTHON_TYPES | {
    **{broker.Pairs: "map", broker.Array: "array", broker.Described: "described"},
    **{
        getattr(broker, name.capitalize()): name
        for name in (*ALIKE, *DECIMALS, "int", "float", "uuid")
    },
}


def broker_neutral(value: Any) -> Neutral:
    kind = BROKER_TYPES[type(value)]
    match kind:
        case "described":
            return (kind, broker_neutral(value.descriptor), broker_neutral(value.value))
        case "array":
            items = [(broker_neutral(item)) for item in value]
            descriptor = (broker_neutral(value.descriptor),) if value.described else ()
            return (kind, BROKER_TYPES[value.kind], tuple(items), *descriptor)
        case "list":
            return (kind, tuple(map(broker_neutral, value)))
        case "map":
            pairs = value.items() if isinstance(value, dict) else value
            return (kind, tuple((broker_neutral(key), broker_neutral(each)) for key, each in pairs))
        case "float" | "double":
            return (kind, bits(value))
        case "char":
            return (kind, ord(value))
        case "binary" | "uuid" | "decimal32" | "decimal64" | "decimal128":
            return (kind, bytes(value))
    return (
        (kind, None if value is None else int(value) if isinstance(value, int) else str(value))
        if kind != "boolean"
        else (kind, value)
    )


def broker_reads(data: bytes) -> Neutral:
    value, end = decoder.decode(data)
    if end != len(data):
        raise ValueError("bytes are left")
    return broker_neutral(value)


PROTON_TYPES = PYTHON_TYPES | {
    **{UUID: "uuid", proton.int32: "int", proton.float32: "float"},
    **{proton.Described: "described", proton.Array: "array"},
    **{getattr(proton, name): name for name in (*ALIKE, *DECIMALS)},
}
PROTON_SIZES = {"decimal32": 4, "decimal64": 8}


def proton_neutral(value: Any) -> Neutral:
    kind = PROTON_TYPES[type(value)]
    match kind:
        case "described":
            return (kind, proton_neutral(value.descriptor), proton_neutral(value.value))
        case "array":
            name = str(proton.Data.type_name(value.type))
            undescribed = value.descriptor is proton.UNDESCRIBED
            return (
                kind,
                {"bool": "boolean"}.get(name, name),
                tuple(map(proton_neutral, value.elements)),
                *(() if undescribed else (proton_neutral(value.descriptor),)),
            )
        case "list":
            return (kind, tuple(map(proton_neutral, value)))
        case "map":
            return (
                kind,
                tuple((proton_neutral(key), proton_neutral(each)) for key, each in value.items()),
            )
        case "float" | "double":
            return (kind, bits(float(value)))
        case "char":
            return (kind, ord(value) if isinstance(value, str) else int(value))
        case "uuid":
            return (kind, value.bytes)
        case "decimal32" | "decimal64":
            return (kind, int(value).to_bytes(PROTON_SIZES[kind]))
        case "binary" | "decimal128":
            return (kind, bytes(value))
        case "null" | "boolean":
            return (kind, value)
    return (kind, int(value) if isinstance(value, int) else str(value))


def proton_reads(data: bytes) -> Neutral:
    return proton_neutral(proton_engine.decode(data))


READERS: dict[str, Callable[[bytes], Neutral]] = {
    "harness": harness_reads,
    "broker": broker_reads,
    "proton": proton_reads,
}


def again(data: bytes) -> Item:
    """Return the value in ``data``, without a forced constructor."""
    return unforced(harness.decode(data)[0])


def unforced(what: Item) -> Item:
    match what:
        case Described(descriptor, inner):
            return Described(unforced(descriptor), unforced(inner))
        case Value("list", items):
            return Value("list", tuple(map(unforced, items)))
        case Value("map", pairs):
            return Value("map", tuple((unforced(key), unforced(each)) for key, each in pairs))
        case Array(element, items, descriptors):
            return Array(element, items, descriptors)
        case Value(kind, value):
            return Value(kind, value)
    raise TypeError(what)


WRITERS: dict[str, Callable[[bytes], bytes]] = {
    "harness": lambda data: harness.encode(again(data)),
    "broker": lambda data: encoder.encode(decoder.decode(data)[0]),
    "proton": proton_engine.recode,
}


def bits(value: float) -> bytes:
    return struct.pack(">d", value) if not math.isnan(value) else b"nan"


# --- the vectors ----------------------------------------------------------------------------------


def neutral(written: list[Any]) -> Neutral:
    """A value in the notation of the vectors."""
    kind, *rest = written
    match kind:
        case "described":
            return (kind, neutral(rest[0]), neutral(rest[1]))
        case "array":
            return (kind, rest[0], tuple(map(neutral, rest[1])))
        case "list":
            return (kind, tuple(map(neutral, rest[0])))
        case "map":
            return (kind, tuple((neutral(key), neutral(each)) for key, each in rest[0]))
        case "binary" | "uuid" | "decimal32" | "decimal64" | "decimal128":
            return (kind, bytes.fromhex(rest[0]))
        case "float" | "double":
            return (kind, bits(float(rest[0])))
    return (kind, rest[0])


def reads_as_written(name: str, vector: dict[str, Any]) -> bool:
    try:
        return READERS[name](bytes.fromhex(vector["octets"])) == neutral(vector["value"])
    except (harness.Malformed, decoder.DecodeError, ValueError):
        return False


def refuses(name: str, data: bytes) -> bool:
    try:
        READERS[name](data)
    except (harness.Malformed, decoder.DecodeError, ValueError):
        return True
    return False


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("vector", VALUES, ids=lambda each: each["id"])
def test_a_value_is_read_as_written_down(vector: dict[str, Any], name: str) -> None:
    differs = vector.get("differs", {}).get(name, "")
    assert reads_as_written(name, vector) is not differs.startswith("reads")


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("vector", REFUSED, ids=lambda each: each["id"])
def test_what_is_no_value_is_refused(vector: dict[str, Any], name: str) -> None:
    differs = vector.get("differs", {}).get(name, "")
    data = bytes.fromhex(vector["octets"])
    if differs.startswith("its Python layer fails"):
        with pytest.raises((OverflowError, UnicodeDecodeError, ValueError)):
            READERS[name](data)
    else:
        assert refuses(name, data) is not bool(differs)


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(
    "vector", [vector for vector in VALUES if vector.get("shortest")], ids=lambda each: each["id"]
)
def test_the_shortest_constructor_is_written(vector: dict[str, Any], name: str) -> None:
    data = bytes.fromhex(vector["octets"])
    differs = vector.get("differs", {}).get(name, "")
    assert (WRITERS[name](data) == data) is not ("writes" in differs)


@pytest.mark.parametrize("vector", VALUES, ids=lambda each: each["id"])
def test_the_harness_writes_what_it_read_constructor_by_constructor(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["octets"])
    assert harness.encode(harness.decode(data)[0]) == data


def test_every_constructor_has_a_vector() -> None:
    used: set[int] = set()

    def walk(what: Item) -> None:
        match what:
            case Described(descriptor, inner):
                walk(descriptor)
                walk(inner)
            case Array(element, items, code=code):
                used.update((code or 0, element))
                for item in items:
                    walk(item)
            case Value(kind, value, code):
                used.add(code or 0)
                for item in (
                    value
                    if kind == "list"
                    else [item for pair in value for item in pair]
                    if kind == "map"
                    else ()
                ):
                    walk(item)

    for vector in VALUES:
        walk(harness.decode(bytes.fromhex(vector["octets"]))[0])
    assert CONSTRUCTORS.keys() <= used, sorted(map(hex, CONSTRUCTORS.keys() - used))


# --- drawn values ---------------------------------------------------------------------------------


def whole(kind: str, low: int, high: int) -> st.SearchStrategy[Item]:
    corners = [
        number
        for number in (0, 1, -1, 127, 128, -128, -129, 255, 256, low, high)
        if low <= number <= high
    ]
    return st.one_of(st.sampled_from(corners), st.integers(low, high)).map(
        lambda value: Value(kind, value)
    )


TRUE = Value("boolean", True)
ASCII = st.text(st.characters(max_codepoint=127), max_size=300)
SCALARS: dict[int, st.SearchStrategy[Item]] = {
    0x56: st.booleans().map(lambda value: Value("boolean", value)),
    0x50: whole("ubyte", 0, 2**8 - 1),
    0x60: whole("ushort", 0, 2**16 - 1),
    0x70: whole("uint", 0, 2**32 - 1),
    0x80: whole("ulong", 0, 2**64 - 1),
    0x51: whole("byte", -(2**7), 2**7 - 1),
    0x61: whole("short", -(2**15), 2**15 - 1),
    0x71: whole("int", -(2**31), 2**31 - 1),
    0x81: whole("long", -(2**63), 2**63 - 1),
    0x83: whole("timestamp", -(2**63), 2**63 - 1),
    0x72: st.floats(width=32).map(lambda value: Value("float", value)),
    0x82: st.floats().map(lambda value: Value("double", value)),
    0x73: st.characters(exclude_categories=("Cs",)).map(lambda value: Value("char", ord(value))),
    0x98: st.uuids().map(lambda value: Value("uuid", value)),
    0x74: st.binary(min_size=4, max_size=4).map(lambda value: Value("decimal32", value)),
    0x84: st.binary(min_size=8, max_size=8).map(lambda value: Value("decimal64", value)),
    0x94: st.binary(min_size=16, max_size=16).map(lambda value: Value("decimal128", value)),
    0xB0: st.binary(max_size=300).map(harness.binary),
    0xB1: st.text(max_size=100).map(harness.string),
    0xB3: ASCII.map(harness.symbol),
}
"""Values of each primitive type, by its widest constructor."""
SIMPLE: st.SearchStrategy[Item] = st.one_of(st.just(harness.NULL), *SCALARS.values())
KEYS = st.one_of(ASCII.map(harness.symbol), st.text(max_size=20).map(harness.string))
"""Keys that are different Python objects if and only if they are different values."""


def compound(inner: st.SearchStrategy[Item]) -> st.SearchStrategy[Item]:
    lists = st.lists(inner, max_size=6).map(lambda items: Value("list", tuple(items)))
    # Not unique_by: when it must draw again, Hypothesis prints the long strategy with a warning.
    maps = st.lists(st.tuples(KEYS, inner), max_size=5).map(
        lambda pairs: Value(
            "map", tuple({str(key.value): (key, each) for key, each in pairs}.values())
        )
    )
    described = st.builds(
        Described, st.one_of(whole("ulong", 0, 2**64 - 1), ASCII.map(harness.symbol)), inner
    )
    arrays = st.sampled_from(sorted(SCALARS)).flatmap(
        lambda element: st.builds(
            Array,
            st.just(element),
            st.lists(SCALARS[element], max_size=5).map(tuple),
            st.just(()) | st.tuples(ASCII.map(harness.symbol)),
        )
    )
    return st.one_of(lists, maps, described, arrays)


ITEMS = st.recursive(SIMPLE, compound, max_leaves=12)


@settings(max_examples=300, deadline=None)
@given(ITEMS)
def test_all_read_what_the_harness_writes(what: Item) -> None:
    data = harness.encode(what)
    expected = harness_neutral(what)
    for name, read in READERS.items():
        if name != "proton" or not proton_miscounts(what):
            assert read(data) == expected, name


@settings(max_examples=300, deadline=None)
@given(ITEMS)
def test_the_harness_reads_what_all_write(what: Item) -> None:
    data = harness.encode(what)
    for name, write in WRITERS.items():
        if name != "proton" or not proton_miscounts(what):
            assert harness_reads(write(data)) == harness_neutral(what), name


COMPOUND_ARRAYS = (
    Array(0xD0, (Value("list", ()), Value("list", (harness.uint(1), harness.NULL)))),
    Array(0xD1, (Value("map", ((harness.symbol("k"), harness.NULL),)), Value("map", ()))),
    Array(0xF0, (Array(0x50, (harness.ubyte(1),)), Array(0xB3, (), (harness.symbol("d"),)))),
)
LONG_AND_CHARACTERS = (
    Value("list", (harness.NULL,) * 300),
    Value("map", tuple((harness.string(str(number)), harness.NULL) for number in range(200))),
    Array(0xB1, (harness.string("x" * 300), harness.string(""))),
    Array(0x73, (Value("char", 0x1F600),)),
)
EQUAL_IN_PYTHON = Value(
    "map", tuple((key, harness.NULL) for key in (harness.uint(1), Value("long", 1), TRUE))
)


@pytest.mark.parametrize("what", [*COMPOUND_ARRAYS, *LONG_AND_CHARACTERS, EQUAL_IN_PYTHON])
def test_the_broker_reads_and_writes_what_is_rarely_drawn(what: Item) -> None:
    data, expected = harness.encode(what), harness_neutral(what)
    assert broker_reads(data) == expected
    assert harness_reads(WRITERS["broker"](data)) == expected


@given(ITEMS, st.integers(0, 3))
def test_bytes_around_a_value_do_not_matter(what: Item, before: int) -> None:
    data = harness.encode(what)
    value, end = decoder.decode(b"\xff" * before + data + b"\xff\xff", before)
    assert (broker_neutral(value), end) == (harness_neutral(what), before + len(data))


def proton_miscounts(what: Item) -> bool:
    """True for a described value that is itself described. After it, Proton 0.40 loses the rest of
    a list."""
    match what:
        case Described(descriptor, inner):
            return (
                isinstance(inner, Described)
                or proton_miscounts(inner)
                or proton_miscounts(descriptor)
            )
        case Value("list", items):
            return any(map(proton_miscounts, items))
        case Value("map", pairs):
            return any(proton_miscounts(item) for pair in pairs for item in pair)
    return False


def test_proton_still_miscounts() -> None:
    what = Value(
        "list",
        (Described(harness.ulong(0), Described(harness.ulong(0), harness.NULL)), harness.NULL),
    )
    assert proton_miscounts(what)
    with pytest.raises(harness.Malformed):
        harness_reads(proton_engine.recode(harness.encode(what)))


@settings(max_examples=300, deadline=None)
@given(ITEMS, st.data())
def test_the_broker_refuses_what_the_harness_refuses(what: Item, data: st.DataObject) -> None:
    """Bytes are changed or cut anywhere. Both codecs accept the same data and read the same
    value."""
    raw = bytearray(harness.encode(what))
    at = data.draw(st.integers(0, len(raw) - 1))
    if data.draw(st.booleans()):
        raw[at] = data.draw(st.integers(0, 255))
    else:
        del raw[at:]
    ours, theirs = refuses("harness", bytes(raw)), refuses("broker", bytes(raw))
    assert ours == theirs
    if not ours:
        assert harness_reads(bytes(raw)) == broker_reads(bytes(raw))


# --- the harness's own ways to write what it likes ------------------------------------------------


@pytest.mark.parametrize(
    ("what", "data"),
    [
        (harness.uint(0, 0x43), "43"),
        (harness.uint(0, 0x52), "5200"),
        (harness.uint(0, 0x70), "7000000000"),
        (Value("list", (), 0xD0), "d00000000400000000"),
        (Value("string", "a", 0xB1), "b10000000161"),
        (Raw(b"\xff\xfe"), "fffe"),
        (Value("list", (Raw(b"\x5f"),)), "c002015f"),
    ],
)
def test_a_constructor_can_be_forced(what: Item, data: str) -> None:
    assert harness.encode(what).hex() == data


@pytest.mark.parametrize(
    "what",
    [
        harness.uint(1, 0x43),
        harness.uint(256, 0x52),
        harness.uint(2**32),
        Value("boolean", True, 0x42),
        Value("string", "a" * 256, 0xA1),
        Value("list", (harness.NULL,), 0x45),
        Value("uint", 1, 0x99),
        Value("decimal32", b"abc"),
    ],
    ids=str,
)
def test_what_a_constructor_cannot_hold_is_no_silent_lie(what: Item) -> None:
    with pytest.raises(ValueError, match="use Raw"):
        harness.encode(what)


def test_a_number_needs_a_type() -> None:
    with pytest.raises(TypeError, match=r"write for example uint\(5\)"):
        harness.item({"a": 5})
    assert harness.plain(harness.item({"a": [True, None, "b"]})) == {"a": [True, None, "b"]}


@pytest.mark.parametrize(("depth", "fine"), [(60, True), (61, False), (5000, False)])
def test_nesting_has_an_end(depth: int, fine: bool) -> None:
    data = b"\x00\x44" * depth + b"\x40"
    assert refuses("harness", data) is not fine


def test_a_count_without_bytes_costs_nothing() -> None:
    with pytest.raises(harness.Malformed, match="announces 4294967295 elements"):
        harness.decode(bytes.fromhex("f000000005ffffffff40"))
