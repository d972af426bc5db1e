"""Messages arrive unchanged: content, properties and headers, in the encoding of every version."""

import zlib
from typing import Any

from hypothesis import strategies as st

from brokerproof.harness.protocols.openwire.values import Typed, encode_map, long_utf
from brokerproof.suites.api import Bench, case, over, shown
from brokerproof.suites.api.openwire import Structure, dispatch
from brokerproof.suites.openwire.steps import OPENWIRE, fresh_queue

MESSAGE_UNCHANGED = "OPENWIRE-ENC-1"

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
NAMES = st.text("abcxyz019._-", min_size=1, max_size=20)
"""Names of destinations, without blanks around them or text after ``?``, which have a special
meaning."""
VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    TEXT,
    st.binary(max_size=20),
    st.integers(-128, 127).map(lambda value: Typed("byte", value)),
    st.integers(-(2**15), 2**15 - 1).map(lambda value: Typed("short", value)),
    st.integers(-(2**31), 2**31 - 1).map(lambda value: Typed("int", value)),
)
PROPERTIES = st.dictionaries(TEXT.filter(bool), VALUES, max_size=5)
BODIES = st.one_of(
    st.tuples(st.just("Bytes"), st.none() | st.binary(max_size=2000)),
    st.tuples(st.just("Text"), st.none() | TEXT.map(long_utf)),
    st.tuples(st.just("Map"), st.none() | PROPERTIES.map(encode_map)),
    st.tuples(st.just("Stream"), st.just(b"\x09\0\1s\x06" + bytes(8) + b"\x01\1")),
    st.tuples(st.just("Object"), st.just(b"\xac\xed\0\x05t\0\2ok")),
    st.tuples(st.just(""), st.none()),
)
"""Kinds of messages with their bodies. The stream has a string, a long and a boolean; the object is
a serialised string; a message without a kind has only properties."""
HEADERS: dict[str, st.SearchStrategy[Any]] = {
    "correlationId": st.none() | TEXT,
    "groupID": st.none() | TEXT,
    "groupSequence": st.integers(-(2**31), 2**31 - 1),
    "persistent": st.booleans(),
    "priority": st.integers(0, 9),
    "timestamp": st.integers(0, 2**62),
    "type": st.none() | TEXT,
    "replyTo": st.none()
    | NAMES.map(lambda name: Structure("ActiveMQQueue", {"physicalName": name})),
}


@case(MESSAGE_UNCHANGED, needs={OPENWIRE})
@over(
    examples=60,
    always=lambda target: [
        {"body": body, "properties": {"n\0": "😀"}, "headers": {}, "client_version": 12}
        | {"anonymous": True, "compressed": compressed}
        for body in [
            ("Text", long_utf("\0 é € 😀")),
            ("Text", None),
            ("Map", encode_map({"n\0": "😀", "b": True, "e": b""})),
        ]
        for compressed in (False, True)
    ],
    body=BODIES,
    compressed=st.booleans(),
    properties=PROPERTIES,
    headers=st.fixed_dictionaries(HEADERS),
    client_version=st.sampled_from([1, 2, 3, 9, 10, 12]),
    anonymous=st.booleans(),
)
def test_a_message_arrives_as_it_was_sent(
    target: Bench,
    body: tuple[str, bytes | None],
    compressed: bool,
    properties: dict[str, Any],
    headers: dict[str, Any],
    client_version: int,
    anonymous: bool,
) -> None:
    """A message of any kind, compressed or not, with any properties and headers, passes through a
    new queue. Only the message, or also its producer, names the queue. Its type, content,
    properties and headers arrive unchanged."""
    kind, content = body
    if content is not None and compressed:
        packed = zlib.compress(content)
        content = len(content).to_bytes(4) + packed if kind == "Bytes" else packed
    headers = {**headers, "content": content, "compressed": compressed and content is not None}
    peer, place = target.openwire(version=client_version), fresh_queue(target)
    producer = peer.open_producer(None if anonymous else place)
    fields = peer.message(producer, place, properties=properties, **headers).fields
    sent = Structure(f"ActiveMQ{kind}Message", fields)
    peer.answered(peer.publish(sent, response=True))
    consumer = peer.open_consumer(place)
    received = peer.expect(dispatch(consumer), proves=MESSAGE_UNCHANGED)["message"]
    target.record_finding(
        MESSAGE_UNCHANGED, received.name == sent.name, f"a {sent.name} arrived as {received.name}"
    )
    for field in ("messageId", "destination", *headers):
        ours, theirs = sent.get(field), received.get(field)
        if isinstance(ours, Structure):
            ours, theirs = str(ours), str(theirs)
        words = f"{field} was {shown(ours)} and arrived as {shown(theirs)}"
        target.record_finding(MESSAGE_UNCHANGED, theirs == ours, words)
    plain = sent.properties() if properties else {}
    words = f"properties {shown(plain)} arrived as {shown(received.properties())}"
    target.record_finding(MESSAGE_UNCHANGED, received.properties() == plain, words)
