"""The type codec: every value there and back, and what is no value at all. ``test_codecs_agree``
compares it with other codecs."""

import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from brokerproof.reference_broker.protocols.amqp10 import types as t
from brokerproof.reference_broker.protocols.amqp10.decoder import (
    DEPTH,
    MOST_EMPTY,
    DecodeError,
    decode,
)
from brokerproof.reference_broker.protocols.amqp10.encoder import encode


def typed(value: Any) -> Any:
    """A value that equals another only if all AMQP types in it are equal too."""
    match value:
        case t.Described():
            return ("described", typed(value.descriptor), typed(value.value))
        case t.Array():
            return (
                "array",
                value.kind.__name__,
                value.described,
                typed(value.descriptor),
                [typed(item) for item in value],
            )
        case t.Pairs():
            return ("map", [(typed(key), typed(item)) for key, item in value])
        case dict():
            return ("map", [(typed(key), typed(item)) for key, item in value.items()])
        case list():
            return ("list", [typed(item) for item in value])
        case float():
            return (
                type(value).__name__,
                "nan" if math.isnan(value) else value,
                math.copysign(1, value),
            )
    return (type(value).__name__, value)


def numbers(kind: type, low: int, high: int) -> st.SearchStrategy[Any]:
    edges = [
        number
        for number in (low, low + 1, -129, -128, -1, 0, 1, 127, 128, 255, 256, high - 1, high)
        if low <= number <= high
    ]
    return (st.sampled_from(edges) | st.integers(low, high)).map(kind)


SIZES = st.sampled_from([0, 1, 254, 255, 256, 257]) | st.integers(0, 20)
BINARY = SIZES.flatmap(lambda size: st.binary(min_size=size, max_size=size))
TEXTS = st.text(max_size=20) | SIZES.map(lambda size: "x" * size) | st.just("ü" * 128)
SYMBOLS = (
    st.text(st.characters(max_codepoint=126, min_codepoint=32), max_size=20)
    | SIZES.map(lambda size: "s" * size)
).map(t.Symbol)
CHARS = st.characters(exclude_categories=("Cs",)).map(t.Char)

SCALARS: dict[type, st.SearchStrategy[Any]] = {
    type(None): st.none(),
    bool: st.booleans(),
    t.Ubyte: numbers(t.Ubyte, 0, 2**8 - 1),
    t.Ushort: numbers(t.Ushort, 0, 2**16 - 1),
    t.Uint: numbers(t.Uint, 0, 2**32 - 1),
    t.Ulong: numbers(t.Ulong, 0, 2**64 - 1),
    t.Byte: numbers(t.Byte, -(2**7), 2**7 - 1),
    t.Short: numbers(t.Short, -(2**15), 2**15 - 1),
    t.Int: numbers(t.Int, -(2**31), 2**31 - 1),
    int: numbers(int, -(2**63), 2**63 - 1),
    t.Float: st.floats(width=32).map(t.Float),
    float: st.floats(),
    t.Decimal32: st.binary(min_size=4, max_size=4).map(t.Decimal32),
    t.Decimal64: st.binary(min_size=8, max_size=8).map(t.Decimal64),
    t.Decimal128: st.binary(min_size=16, max_size=16).map(t.Decimal128),
    t.Char: CHARS,
    t.Timestamp: numbers(t.Timestamp, -(2**63), 2**63 - 1),
    t.Uuid: st.binary(min_size=16, max_size=16).map(t.Uuid),
    bytes: BINARY,
    str: TEXTS,
    t.Symbol: SYMBOLS,
}
SCALAR = st.one_of(*SCALARS.values())
KEYS = st.one_of(SYMBOLS, TEXTS, SCALARS[t.Ulong], SCALARS[int])


def arrays(descriptor: bool, least: int = 0) -> st.SearchStrategy[Any]:
    def of(kind: type) -> st.SearchStrategy[Any]:
        items = st.lists(SCALARS[kind], min_size=least, max_size=5)
        if not descriptor:
            return items.map(lambda values: t.Array(kind, values))
        return st.tuples(items, SYMBOLS).map(
            lambda both: t.Array(kind, both[0], described=True, descriptor=both[1])
        )

    return st.sampled_from(sorted(SCALARS, key=lambda kind: kind.__name__)).flatmap(of)


def plain_maps(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Maps whose keys Python can tell apart."""
    return st.lists(st.tuples(KEYS, values), max_size=4).map(lambda pairs: dict(reversed(pairs)))


def maps(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def made(pairs: list[tuple[Any, Any]]) -> Any:
        seen: dict[tuple[str, Any], Any] = {}
        for key, value in pairs:
            seen[type(key).__name__, key] = (key, value)
        unique = list(seen.values())
        plain = dict(unique)
        return plain if len(plain) == len(unique) else t.Pairs(unique)

    return st.lists(st.tuples(KEYS, values), max_size=4).map(made)


VALUES = st.recursive(
    SCALAR,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        maps(inner),
        arrays(False),
        arrays(True),
        st.builds(t.Described, st.one_of(SYMBOLS, SCALARS[t.Ulong]), inner),
        st.lists(st.lists(SCALAR, max_size=3), max_size=3).map(lambda lists: t.Array(list, lists)),
        st.lists(arrays(False), max_size=3).map(lambda inside: t.Array(t.Array, inside)),
        st.lists(plain_maps(SCALAR), max_size=3).map(lambda inside: t.Array(dict, inside)),
    ),
    max_leaves=12,
)


@given(VALUES)
@example([None] * 300)
@example({str(number): number for number in range(200)})
@example(t.Array(str, ["x" * 300, ""]))
@example(t.Pairs([(t.Uint(1), "uint"), (1, "long"), (True, "boolean")]))
def test_what_is_written_is_read_again_with_its_types(value: Any) -> None:
    data = encode(value)
    read, end = decode(data)
    assert end == len(data)
    assert typed(read) == typed(value)


@given(VALUES, st.integers(0, 3))
def test_bytes_around_a_value_do_not_matter(value: Any, before: int) -> None:
    data = encode(value)
    read, end = decode(b"\xff" * before + data + b"\xff\xff", before)
    assert end == before + len(data)
    assert typed(read) == typed(value)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("", "end within"),
        ("4f", "no type has the constructor 0x4f"),
        ("ff", "no type has the constructor 0xff"),
        ("70 000000", "end within"),
        ("56 02", "a boolean is 0 or 1"),
        ("a1 05 61", "5 bytes begins"),
        ("b1 7fffffff 61", "2147483647 bytes begins"),
        ("a1 01 ff", "not UTF-8"),
        ("a1 03 eda080", "not UTF-8"),
        ("a3 01 c3", "not ASCII"),
        ("73 0000d800", "no Unicode character"),
        ("73 00110000", "no Unicode character"),
        ("98 00", "16 bytes begins"),
        ("c0 00 00", "leaves no room for the count"),
        ("c0 05 01 40", "5 bytes begins at 2, and only 2 are left"),
        ("c0 02 05 40", "5 elements cannot be in 1 bytes"),
        ("c0 03 01 40 40", "the elements end at"),
        ("c0 02 01 52 05", "the elements end at"),
        ("d0 00000004 ffffffff", "4294967295 elements"),
        ("d0 ffffffff 00000000", "4294967295 bytes begins"),
        ("c1 02 01 40", "1 is odd"),
        ("c1 09 04 a10161 40 a10161 40", "has the key 'a' twice"),
        ("e0 03 02 50 01", "2 elements cannot be in 1"),
        ("f0 00000005 7fffffff 40", "2147483647 elements"),
        ("e0 02 01 00", "end within"),
        ("e0 03 01 00 40", "end within"),
        ("e0 05 01 00 40 00 40", "no type has the constructor 0x00"),
        ("00 53", "end within"),
        ("00" * 64, "nested more than"),
        ("c0 02 01" * 64, "nested more than"),
    ],
)
def test_bytes_that_are_no_value(raw: str, reason: str) -> None:
    data = bytes.fromhex(raw)
    with pytest.raises(DecodeError) as caught:
        decode(data)
    assert reason in str(caught.value)


def test_an_array_of_nothing_is_limited() -> None:
    most = b"\xf0" + (5).to_bytes(4) + MOST_EMPTY.to_bytes(4) + b"\x43"
    assert len(decode(most)[0]) == MOST_EMPTY
    with pytest.raises(DecodeError, match="elements cannot be in"):
        decode(b"\xf0" + (5).to_bytes(4) + (MOST_EMPTY + 1).to_bytes(4) + b"\x43")


def test_nesting_up_to_the_limit() -> None:
    value: Any = []
    for _ in range(DEPTH):
        value = [value]
    assert typed(decode(encode(value))[0]) == typed(value)
    with pytest.raises(DecodeError, match="nested"):
        decode(encode([value]))


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_refused(data: bytes) -> None:
    try:
        _, end = decode(data)
    except DecodeError:
        return
    assert end <= len(data)


@settings(max_examples=150)
@given(VALUES, st.data())
def test_a_value_with_one_wrong_byte_is_another_value_or_refused(
    value: Any, data: st.DataObject
) -> None:
    raw = bytearray(encode(value))
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] = data.draw(st.integers(0, 255))
    try:
        decode(bytes(raw))
    except DecodeError:
        return


@given(VALUES)
@settings(max_examples=100)
def test_a_value_that_is_cut_is_refused(value: Any) -> None:
    data = encode(value)
    for end in range(max(0, len(data) - 3), len(data)):
        with pytest.raises(DecodeError):
            decode(data[:end])


def test_a_python_type_that_stands_for_nothing() -> None:
    with pytest.raises(TypeError, match="object stands for no AMQP type"):
        encode(object())
    with pytest.raises(TypeError, match="object stands for no AMQP type"):
        encode(t.Array(object, []))
    with pytest.raises(ValueError, match="4 bytes, not 1"):
        encode(t.Decimal32(b"1"))
