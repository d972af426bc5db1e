"""Messages as bytes in a store: written messages are read back, and junk is rejected."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from brokerproof.harness.model.enums import RoutingType
from brokerproof.reference_broker.kernel.large_body import LargeBody, LargeBodySlice
from brokerproof.reference_broker.kernel.message import Entry, Envelope, LargeMessage, Message
from brokerproof.reference_broker.persistence import codec, page
from brokerproof.reference_broker.protocols.amqp10.large_messages import LargeAmqpMessage
from brokerproof.reference_broker.protocols.amqp10.message import AmqpMessage, Notes
from brokerproof.reference_broker.protocols.amqp10.performatives import Error
from brokerproof.reference_broker.protocols.amqp10.types import Symbol
from brokerproof.suites.units.drivers.broker import patient

texts = st.text(max_size=12)


binaries = st.binary(max_size=60)


numbers = st.integers(0, 2**63)


envelopes = st.builds(
    Envelope,
    texts,
    texts,
    st.sampled_from([None, *RoutingType]),
    st.lists(st.tuples(texts, texts), max_size=3).map(tuple),
    st.booleans(),
)


class LargeBodies:
    def find(self, id: int, size: int) -> LargeBody:
        return LargeBody(self, id, size)

    def read(self, body: LargeBody, begin: int, count: int, then: object) -> None:
        raise AssertionError("nothing is read here")

    def idle(self, body: LargeBody) -> None: ...


BODIES = LargeBodies()


_FIELDS = ("address", "destination", "routing", "headers", "text")


def _same(one: Envelope, other: Envelope) -> bool:
    return all(getattr(one, field) == getattr(other, field) for field in _FIELDS)


@given(envelopes, numbers, binaries, numbers)
@patient
def test_a_message_comes_back_with_everything(
    envelope: Envelope, number: int, body: bytes, arrived: int
) -> None:
    decoder = codec.Decoder(BODIES.find)
    written = codec.encode(Message(number, envelope, body, arrived))
    first, second = decoder.decode(written, 0), decoder.decode(b"ab" + written, 2)
    assert (first.number, first.body, first.arrived) == (number, body, arrived)
    assert _same(first.envelope, envelope)
    assert first.envelope is second.envelope, "equal envelopes are one again"


@given(envelopes, numbers, binaries, st.none() | st.integers(0, 2**32 - 1), binaries, binaries)
@patient
def test_an_amqp_message_comes_back_with_its_sections(
    route: Envelope, number: int, prefix: bytes, ttl: int | None, annotations: bytes, bare: bytes
) -> None:
    written = codec.encode(AmqpMessage(number, route, 7, prefix, ttl, annotations, bare))
    found = codec.Decoder(BODIES.find).decode(written, 0)
    assert isinstance(found, AmqpMessage)
    assert (found.number, found.arrived, found.prefix, found.ttl) == (number, 7, prefix, ttl)
    assert (found.annotations, found.bare) == (annotations, bare)
    assert _same(found.route, route)


@given(envelopes, numbers, numbers, st.integers(0, 2**62), st.booleans(), binaries)
@patient
def test_a_large_message_comes_back_with_where_its_body_is(
    envelope: Envelope, number: int, id: int, size: int, is_text: bool, bare: bytes
) -> None:
    body = LargeBody(BODIES, id, size)
    body.is_text = is_text
    plain = LargeMessage(number, envelope, LargeBodySlice(body), 5)
    sections = ((0x75, 0xB0, 0, size // 2), (0x75, 0xA0, size // 2, size))
    sent = LargeAmqpMessage(AmqpMessage(number, envelope, 7, b"", None, b"", bare), body, sections)
    for message in (plain, sent):
        written = codec.encode(message)
        found = codec.Decoder(LargeBodies().find).decode(b"ab" + written, 2)
        assert type(found) is type(message)
        assert found.large is not None
        assert (found.large.id, found.large.length, found.large.is_text) == (id, size, is_text)
        assert codec.large(written, 0) == (id, size)
        if isinstance(found, LargeAmqpMessage):
            assert (found.sections, found.bare) == (sections, bare)
        else:
            assert len(found.body) == size
    assert codec.large(codec.encode(Message(number, envelope, bare, 5)), 0) is None


@given(st.binary(max_size=80))
@patient
def test_bytes_that_are_no_message_are_refused(junk: bytes) -> None:
    decoder = codec.Decoder(BODIES.find)
    with contextlib.suppress(codec.BadBytes):
        decoder.decode(junk, 0)


def test_notes_and_failures_of_a_queue_that_gave_a_message_up_come_back() -> None:
    source_entry = Entry(Message(1, Envelope("a", "a", None, (), False), b"x"), 1)
    source_entry.earlier, source_entry.failures, source_entry.notes = 2, 3, Notes()
    source_entry.notes.annotations = {Symbol("x-opt-a"): "b"}
    source_entry.notes.rejected = Error(condition="c:d", description="why")
    payload = page.pack(source_entry.message, (4, 5), True, 9, source_entry)
    flags, unit, ids, at = page.peek(payload)
    message, found = page.unpack(payload, flags, at, codec.Decoder(BODIES.find))
    assert (unit, ids, message.body, page.number(payload, flags, at)) == (9, (4, 5), b"x", 1)
    assert found is not None
    assert found.earlier == 5
    assert found.notes.annotations == source_entry.notes.annotations
    assert found.notes.rejected == source_entry.notes.rejected
