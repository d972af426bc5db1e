"""Messages arrive unchanged: content, properties and headers, in the encoding of every version."""

from typing import Any

from hypothesis import strategies as st

from brokerproof.harness.protocols.openwire.values import Typed
from brokerproof.suites.api import Bench, case, over, shown
from brokerproof.suites.api.openwire import Structure, dispatch
from brokerproof.suites.openwire.steps import OPENWIRE, fresh_queue

MESSAGE_UNCHANGED = "OPENWIRE-ENC-1"

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
NAMES = st.text("abcxyz019._-", min_size=1, max_size=20)
"""Names of destinations; blanks around a name, and text after ``?``, mean something else."""
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
        {"content": "\0 é € 😀", "properties": {"n\0": "😀"}, "headers": {}, "client_version": 12}
        | {"anonymous": True}
    ],
    content=st.one_of(st.binary(max_size=2000), TEXT),
    properties=st.dictionaries(TEXT.filter(bool), VALUES, max_size=5),
    headers=st.fixed_dictionaries(HEADERS),
    client_version=st.sampled_from([1, 2, 3, 9, 10, 12]),
    anonymous=st.booleans(),
)
def test_a_message_arrives_as_it_was_sent(
    target: Bench,
    content: bytes | str,
    properties: dict[str, Any],
    headers: dict[str, Any],
    client_version: int,
    anonymous: bool,
) -> None:
    """A bytes or text message with any properties and headers goes through a new queue; it may be
    the message alone that names it. Its type, content, properties and headers arrive unchanged."""
    peer, place = target.openwire(version=client_version), fresh_queue(target)
    producer = peer.open_producer(None if anonymous else place)
    sent = peer.message(producer, place, content, properties=properties, **headers)
    peer.answered(peer.publish(sent, response=True))
    consumer = peer.open_consumer(place)
    received = peer.expect(dispatch(consumer), proves=MESSAGE_UNCHANGED)["message"]
    target.record_finding(
        MESSAGE_UNCHANGED, received.name == sent.name, f"a {sent.name} arrived as {received.name}"
    )
    for field in ("content", "messageId", "destination", *headers):
        ours, theirs = sent.get(field), received.get(field)
        if isinstance(ours, Structure):
            ours, theirs = str(ours), str(theirs)
        words = f"{field} was {shown(ours)} and arrived as {shown(theirs)}"
        target.record_finding(MESSAGE_UNCHANGED, theirs == ours, words)
    plain = sent.properties() if properties else {}
    words = f"properties {shown(plain)} arrived as {shown(received.properties())}"
    target.record_finding(MESSAGE_UNCHANGED, received.properties() == plain, words)
