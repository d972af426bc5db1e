"""The type codec on invalid bytes. ``test_codecs_agree`` compares the codec's values with those of
other codecs."""

from typing import Any

import pytest

from brokerproof.reference_broker.protocols.amqp10 import types as t
from brokerproof.reference_broker.protocols.amqp10.decoder import (
    DEPTH,
    MOST_EMPTY,
    DecodeError,
    decode,
)
from brokerproof.reference_broker.protocols.amqp10.encoder import encode


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("", "end within"),
        ("4f", "no type has the constructor 0x4f"),
        ("ff", "no type has the constructor 0xff"),
        ("70 000000", "end within"),
        ("a0", "end within"),
        ("56 02", "a boolean must be 0 or 1"),
        ("a1 05 61", "5 bytes begins"),
        ("b1 7fffffff 61", "2147483647 bytes begins"),
        ("a1 01 ff", "not UTF-8"),
        ("a1 03 eda080", "not UTF-8"),
        ("a3 01 c3", "not ASCII"),
        ("73 0000d800", "not a Unicode character"),
        ("73 00110000", "not a Unicode character"),
        ("98 00", "16 bytes begins"),
        ("c0 00 00", "leaves no room for the count"),
        ("c0 05 01 40", "5 bytes begins at 2, but only 2 are left"),
        ("c0 02 05 40", "5 elements do not fit into 1 bytes"),
        ("c0 03 01 40 40", "the elements end at"),
        ("c0 02 01 52 05", "the elements end at"),
        ("d0 00000004 ffffffff", "4294967295 elements"),
        ("d0 ffffffff 00000000", "4294967295 bytes begins"),
        ("c1 02 01 40", "an even number of elements, not 1"),
        ("c1 09 04 a10161 40 a10161 40", "has the key 'a' twice"),
        ("e0 03 02 50 01", "2 elements do not fit into 1"),
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
    with pytest.raises(DecodeError, match="elements do not fit into"):
        decode(b"\xf0" + (5).to_bytes(4) + (MOST_EMPTY + 1).to_bytes(4) + b"\x43")


def test_nesting_up_to_the_limit() -> None:
    value: Any = []
    for _ in range(DEPTH):
        value = [value]
    assert decode(encode(value))[0] == value
    with pytest.raises(DecodeError, match="nested"):
        decode(encode([value]))


def test_a_python_type_that_stands_for_nothing() -> None:
    with pytest.raises(TypeError, match="object has no AMQP type"):
        encode(object())
    with pytest.raises(TypeError, match="object has no AMQP type"):
        encode(t.Array(object, []))
    with pytest.raises(ValueError, match="4 bytes, not 1"):
        encode(t.Decimal32(b"1"))
