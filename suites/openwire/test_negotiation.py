"""How an OpenWire connection begins: a WireFormatInfo in each direction, and the result."""

from hypothesis import strategies as st

from brokerproof.harness.protocols.openwire.codec import MAGIC
from brokerproof.harness.protocols.openwire.values import read_map
from brokerproof.suites.api import Bench, case, over, shown
from brokerproof.suites.api.openwire import command
from brokerproof.suites.openwire.steps import OPENWIRE, fresh_queue

WIRE_FORMAT_FIRST = "OPENWIRE-NEG-1"
COMMAND_SIZE = "OPENWIRE-CMD-1"
LOWER_VERSION = "OPENWIRE-NEG-2"
ENCODING_OPTIONS = "OPENWIRE-NEG-3"
MESSAGE_UNCHANGED = "OPENWIRE-ENC-1"

NEWEST = 12
ENCODINGS = ("TightEncodingEnabled", "CacheEnabled", "SizePrefixDisabled", "StackTraceEnabled")


@case(WIRE_FORMAT_FIRST, COMMAND_SIZE, needs={OPENWIRE})
def test_the_broker_begins_with_its_wire_format(target: Bench) -> None:
    """The broker sends WireFormatInfo, loosely encoded, with its magic, a version and boolean
    encoding options. Nothing precedes it."""
    peer = target.openwire_peer()
    theirs = peer.negotiate(proves=WIRE_FORMAT_FIRST)
    detail = f"its magic is {theirs['magic']!r}"
    target.record_finding(WIRE_FORMAT_FIRST, theirs["magic"] == MAGIC, detail)
    detail = f"its version is {theirs['version']}"
    target.record_finding(WIRE_FORMAT_FIRST, theirs["version"] >= 1, detail)
    options = read_map(theirs["marshalledProperties"] or b"\0\0\0\0")
    target.record_behaviour("openwire.version", theirs["version"])
    for field in ("MaxFrameSize", "MaxInactivityDuration"):
        if field in options:
            target.record_behaviour(f"openwire.{field}", options[field].value)
    kinds = {name: options[name].kind for name in ENCODINGS if name in options}
    words = f"its encoding options are {shown(kinds)}"
    target.record_finding(WIRE_FORMAT_FIRST, set(kinds.values()) <= {"boolean"}, words)
    identity = target.target.identity
    peer.connect(identity.login, identity.passcode, proves=COMMAND_SIZE)
    target.record_finding(COMMAND_SIZE, not peer.inbox, f"after it: {peer.instead()}")


@case(LOWER_VERSION, ENCODING_OPTIONS, MESSAGE_UNCHANGED, needs={OPENWIRE})
@over(
    examples=6,
    always=lambda target: [{"client_version": version} for version in (12, 1, 2**8 + 1, 2**31 - 1)],
    client_version=st.integers(1, NEWEST + 1),
)
def test_the_smaller_version_is_spoken(target: Bench, client_version: int) -> None:
    """The client announces a version. The lower of the client's and the broker's is used, and a
    message arrives with that version's fields unchanged."""
    peer, identity = target.openwire_peer(version=client_version), target.target.identity
    peer.negotiate()
    peer.connect(identity.login, identity.passcode, proves=LOWER_VERSION)
    peer.open_session(proves=LOWER_VERSION)
    assert peer.theirs is not None
    target.record_finding(
        LOWER_VERSION,
        peer.version == min(client_version, peer.theirs["version"]),
        f"version {peer.version} is spoken",
    )
    place = fresh_queue(target)
    producer = peer.open_producer(place, proves=LOWER_VERSION)
    sent = peer.message(producer, place, b"octets", properties={"n": 5})
    peer.answered(peer.publish(sent, response=True), proves=LOWER_VERSION)
    peer.open_consumer(place, proves=LOWER_VERSION)
    received = peer.expect(
        command("MessageDispatch"), proves=(LOWER_VERSION, ENCODING_OPTIONS, MESSAGE_UNCHANGED)
    )["message"]
    same = (received["content"], received.properties(), str(received["messageId"])) == (
        b"octets",
        {"n": 5},
        str(sent["messageId"]),
    )
    detail = f"in version {peer.version}, it arrived as {received.brief()}"
    target.record_finding((LOWER_VERSION, ENCODING_OPTIONS, MESSAGE_UNCHANGED), same, detail)
    peer.close(proves=ENCODING_OPTIONS)
