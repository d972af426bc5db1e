"""Frames are read from bytes split anywhere, and performatives from frames."""

import struct
from typing import Any

import pytest

from brokerproof.reference_broker.protocols.amqp10 import composite, performatives, refusal
from brokerproof.reference_broker.protocols.amqp10.composite import InvalidField
from brokerproof.reference_broker.protocols.amqp10.connection import _FRAMES
from brokerproof.reference_broker.protocols.amqp10.decoder import DEPTH, DecodeError
from brokerproof.reference_broker.protocols.amqp10.delivery import Batch
from brokerproof.reference_broker.protocols.amqp10.encoder import encode
from brokerproof.reference_broker.protocols.amqp10.framing import EMPTY, FrameParser, decoded
from brokerproof.reference_broker.protocols.amqp10.messaging import (
    Accepted,
    Released,
    Source,
    TransactionalState,
)
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    RECEIVER,
    Open,
    SaslMechanisms,
    Transfer,
)
from brokerproof.reference_broker.protocols.amqp10.refusal import Refusal
from brokerproof.reference_broker.protocols.amqp10.types import (
    Array,
    Described,
    Symbol,
    Uint,
    Ulong,
)


def read_all(parser: FrameParser) -> list[Any]:
    frames = []
    while (received := parser.next()) is not None:
        frames.append(received)
    return frames


def test_peek_and_take() -> None:
    parser = FrameParser(1000)
    parser.feed(b"AM")
    assert (parser.peek(8), parser.take(8)) == (b"AM", None)
    parser.feed(b"QP\0\1\0\0" + EMPTY)
    assert (parser.peek(8), parser.take(8)) == (b"AMQP\0\1\0\0",) * 2
    assert read_all(parser) == [(0, 0, b"")]


# --- performatives --------------------------------------------------------------------------------


def test_fields_at_the_end_may_be_left_out_and_null_means_the_default() -> None:
    for data in (
        "0053 10 c0 04 01 a10163",
        "0053 10 c0 06 03 a10163 40 40",
        "0053 10 d0 00000007 00000001 a10163",
    ):
        opened, _ = decoded(bytes.fromhex(data), _FRAMES)
        assert opened == Open(container_id="c")
        assert opened.max_frame_size == 2**32 - 1
        assert opened.channel_max == 65535
        assert opened.idle_time_out is None


def test_symbolic_descriptors_and_long_ones() -> None:
    body = bytes.fromhex("c0 04 01 a10163")
    for descriptor in (b"\0\xa3\x0eamqp:open:list", b"\0\x80" + (16).to_bytes(8)):
        assert decoded(descriptor + body, _FRAMES)[0] == Open(container_id="c")


def test_a_field_with_several_values() -> None:
    for value in (Symbol("a"), Array(Symbol, [Symbol("a")])):
        body = encode(Described(Ulong(0x10), ["c", *[None] * 6, value]))
        assert decoded(body, _FRAMES)[0].offered_capabilities == ("a",)
    for value in (None, Array(Symbol, [])):
        body = encode(Described(Ulong(0x10), ["c", *[None] * 6, value]))
        assert decoded(body, _FRAMES)[0].offered_capabilities == ()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (Described(Ulong(0x10), []), "open has no container-id, which is mandatory"),
        (Described(Ulong(0x10), [None, "h"]), "open has no container-id, which is mandatory"),
        (Described(Ulong(0x10), [Symbol("c")]), "container-id of open must be string"),
        (Described(Ulong(0x10), ["c", "h", Ulong(1)]), "max-frame-size of open must be uint"),
        (Described(Ulong(0x10), ["c"] * 11), "open has at most 10 fields, not 11"),
        (Described(Ulong(0x10), {"container-id": "c"}), "open must be a list"),
        (Described(Ulong(0x10), ["c", *[None] * 6, Array(str, ["a"])]), "not an array of symbol"),
        (Described(Ulong(0x10), ["c", *[None] * 8, {"a": 1}]), "keys of fields must be symbols"),
        (
            Described(Ulong(0x12), ["n", Uint(0), True, None, None, Described(Ulong(0x29), [])]),
            "is not that of a source",
        ),
        (Described(Ulong(0x12), ["n", Uint(0), True, None, None, []]), "source of attach must be"),
        (
            Described(Ulong(0x14), [Uint(0), *[None] * 6, Described(Ulong(0x30), [])]),
            "is not that of a delivery-state",
        ),
        (Described(Ulong(0x15), [True]), "disposition has no first"),
        (Described(Ulong(0x99), []), "names no performative"),
        (Described("amqp:open:list", []), "names no performative"),
        (Described(Ulong(0x24), []), "names no performative"),
        (Described(Ulong(0x41), [Symbol("PLAIN")]), "names no performative"),
        ([], "begin with a descriptor"),
    ],
)
def test_what_is_no_performative(value: Any, reason: str) -> None:
    with pytest.raises(Refusal, match=reason) as caught:
        decoded(encode(value), _FRAMES)
    assert caught.value.fault.condition == "amqp:decode-error"


@pytest.mark.parametrize(
    "value",
    [
        Described(
            Ulong(0x12), ["n", Uint(0), True, None, None, Described(Ulong(0x28), ["a", Uint(3)])]
        ),
        Described(
            Ulong(0x12),
            ["n", Uint(0), True, None, None, Described(Ulong(0x28), ["a", None, Symbol("later")])],
        ),
    ],
)
def test_a_value_outside_the_choices_is_an_invalid_field(value: Any) -> None:
    with pytest.raises(Refusal) as caught:
        decoded(encode(value), _FRAMES)
    assert caught.value.fault is refusal.BAD_FIELD


@pytest.mark.parametrize("kind", sorted(composite.BY_CODE))
def test_a_table_reads_what_it_writes_field_by_field(kind: int) -> None:
    declared = composite.BY_CODE[kind]
    least = {field.attribute: _sample(field) for field in declared.FIELDS if field.mandatory}
    for field in [None, *declared.FIELDS]:
        fields = dict(least) if field is None else {**least, field.attribute: _sample(field)}
        value = declared(**fields)
        data = value.encode()
        assert declared.read(data, 3, DEPTH) == (value, len(data))
        for end in range(3, len(data)):
            with pytest.raises((DecodeError, InvalidField, IndexError, struct.error)):
                declared.read(data[:end], 3, DEPTH)


def _sample(field: composite.Field) -> Any:
    samples: dict[str, Any] = {
        "boolean": True, "ubyte": 1, "ushort": 7, "uint": 77, "ulong": 777, "timestamp": -5, "binary": b"b", "string": "s",  # noqa: E501
        "symbol": Symbol("amqp:x"), "map": {Symbol("k"): "v"}, "terminus-expiry-policy": Symbol("never"),  # noqa: E501
        "terminus-durability": 2,
        "error": performatives.Error(condition=Symbol("amqp:not-found")),
    }  # fmt: skip
    wanted = {
        "source": Source(address="a"), "target": composite.BY_CODE[0x30](), "delivery-state": TransactionalState(txn_id=b"t"),  # noqa: E501
        "outcome": Accepted(), "message-id": "id", "address": "a", "txn-id": b"t", "global-tx-id": "g",  # noqa: E501
    }  # fmt: skip
    if field.type == "*":
        return wanted[field.requires]
    value = samples.get(field.type, samples.get(composite.RESTRICTED.get(field.type, "")))
    return (value,) if field.multiple else value


def test_a_list_field_that_may_not_be_empty_is_written_as_an_array() -> None:
    assert (
        SaslMechanisms(sasl_server_mechanisms=("PLAIN",)).encode().hex()
        == "005340c00b01e00801a305504c41494e"
    )


# --- transfers out --------------------------------------------------------------------------------


def parts(chunks: list[bytes]) -> list[tuple[Transfer, bytes]]:
    parser = FrameParser(2**32 - 1)
    parser.feed(b"".join(chunks))
    found = []
    for whole in read_all(parser):
        performative, at = decoded(whole.body, _FRAMES)
        found.append((performative, whole.body[at:]))
    return found


def test_dispositions_are_as_few_as_ids_and_states_allow() -> None:
    batch = Batch(RECEIVER)
    assert not batch
    accepted = Accepted()
    for id in (2**32 - 2, 2**32 - 1, 0, 1):
        batch.add(id, accepted)
    batch.add(2, Released())
    batch.add(3, Released())
    batch.add(5, Released())
    assert batch
    taken = [
        (disposition.first, disposition.last, disposition.state) for disposition in batch.take()
    ]
    assert taken == [(2**32 - 2, 1, accepted), (2, 3, Released()), (5, None, Released())]
    assert (batch.take(), bool(batch)) == ([], False)
