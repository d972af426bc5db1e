"""How a connection of OpenWire begins: WireFormatInfo from either side, and what both make of
it."""

from __future__ import annotations

from hypothesis import strategies as st

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import case, over
from brokerproof.harness.protocols.openwire.codec import MAGIC
from brokerproof.harness.protocols.openwire.raw_peer import command
from brokerproof.harness.protocols.openwire.values import read_map
from brokerproof.suites.openwire.steps import OPENWIRE, fresh_queue

NEWEST = 12
ENCODINGS = ("TightEncodingEnabled", "CacheEnabled", "SizePrefixDisabled", "StackTraceEnabled")


@case("OPENWIRE-NEG-1", "OPENWIRE-CMD-1", needs={OPENWIRE})
def test_the_broker_begins_with_its_wire_format(target: Bench) -> None:
    """The broker says WireFormatInfo, loosely encoded, whether or not it was spoken to before."""
    begins, sizes = target.cited
    peer = target.openwire_peer()
    theirs = peer.negotiate(proves=begins)
    target.record_finding(begins, theirs["magic"] == MAGIC, f"its magic is {theirs['magic']!r}")
    target.record_finding(begins, theirs["version"] >= 1, f"its version is {theirs['version']}")
    options = read_map(theirs["marshalledProperties"] or b"\0\0\0\0")
    kinds = {name: options[name].kind for name in ENCODINGS if name in options}
    target.record_finding(
        begins, set(kinds.values()) <= {"boolean"}, f"its options of the encoding are {kinds}"
    )
    identity = target.target.identity
    peer.connect(identity.login, identity.passcode, proves=sizes)
    target.record_finding(sizes, not peer.inbox, f"behind it came {peer.instead()}")


@case("OPENWIRE-NEG-2", "OPENWIRE-NEG-3", "OPENWIRE-ENC-1", needs={OPENWIRE})
@over(
    examples=6, always=lambda target: [{"said": 12}, {"said": 1}], said=st.integers(1, NEWEST + 1)
)
def test_the_smaller_version_is_spoken(target: Bench, said: int) -> None:
    """The client says a version; commands come with the fields that the smaller of both has, in
    every one of them."""
    spoken, loose, _ = target.cited
    peer = target.openwire(version=said)
    target.record_finding(
        spoken,
        peer.version == min(said, peer.theirs["version"]),
        f"version {peer.version} is spoken",
    )
    place = fresh_queue(target)
    producer = peer.open_producer(place, proves=spoken)
    sent = peer.message(producer, place, b"octets", properties={"n": 5})
    peer.answered(peer.publish(sent, response=True), proves=spoken)
    peer.open_consumer(place, proves=spoken)
    came = peer.expect(command("MessageDispatch"), proves=target.cited)["message"]
    same = (came["content"], came.properties(), str(came["messageId"])) == (
        b"octets",
        {"n": 5},
        str(sent["messageId"]),
    )
    target.record_finding(
        target.cited, same, f"in version {peer.version} it came as {came.brief()}"
    )
    peer.close(proves=loose)
