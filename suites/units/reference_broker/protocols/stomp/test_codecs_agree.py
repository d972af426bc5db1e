"""Three STOMP codecs that share no code read and write the same: the harness's, the reference
broker's and stomp.py's.

Handmade vectors are in fixtures/vectors/stomp.json, with every known difference and its reason. If
a difference disappears, a test fails too: then remove its entry. Drawn frames cover cases that
nobody thought of.
"""

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerproof.harness.clients import stomppy_transports
from brokerproof.harness.protocols.stomp import codec as harness
from brokerproof.reference_broker.kernel.message import Envelope, Message
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder
from brokerproof.reference_broker.protocols.stomp.frame import Version
from brokerproof.reference_broker.protocols.stomp.grammar import GRAMMARS, OPENING
from brokerproof.reference_broker.protocols.stomp.parser import FrameParser
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.reference_broker.settings.acceptor import StompLimits

VECTORS = json.loads(
    (Path(str(files("brokerproof.fixtures"))) / "vectors" / "stomp.json").read_text(
        encoding="utf-8"
    )
)
VERSIONS = {version.wire: version for version in Version}

Read = list[tuple[str, tuple[tuple[str, str], ...], bytes]]
REFUSED = "refused"


# --- the codecs, each behind the same two functions -----------------------------------------------


def harness_reads(version: str, pieces: list[bytes]) -> Read | str:
    reader = harness.Reader("1.2" if version == "opening" else version)
    items = [item for piece in pieces for item in reader.feed(piece)]
    if any(isinstance(item, harness.Unreadable) for item in items):
        return REFUSED
    return [
        (item.command, item.headers, item.body) for item in items if isinstance(item, harness.Frame)
    ]


def broker_reads(version: str, pieces: list[bytes]) -> Read | str:
    """Read with the broker's parser; return refusals as the requirement that they cite."""
    parser = FrameParser(
        OPENING if version == "opening" else GRAMMARS[VERSIONS[version]], StompLimits()
    )
    read: Read = []
    try:
        for piece in pieces:
            parser.feed(piece)
            while (frame := parser.next()) is not None:
                read.append((frame.head.command, frame.head.headers, frame.body))
    except Refusal as fault:
        return f"{REFUSED} {fault.requirement}"
    return read


def stomppy_reads(version: str, pieces: list[bytes]) -> Read | str:
    return [
        (frame.command, frame.headers, frame.body)
        for frame in stomppy_transports.parse(*pieces)
        if frame.command != "heartbeat"
    ]


def harness_writes(version: str, command: str, headers: Any, body: bytes) -> bytes:
    return harness.encode(command, headers, body, version=version)


def broker_writes(version: str, command: str, headers: Any, body: bytes) -> bytes:
    return FrameEncoder(VERSIONS[version]).frame(command, headers, body)


def stomppy_writes(version: str, command: str, headers: Any, body: bytes) -> bytes:
    return stomppy_transports.encode(command, headers, body, version=version)


READERS = {"harness": harness_reads, "broker": broker_reads, "stomp.py": stomppy_reads}
WRITERS = {"harness": harness_writes, "broker": broker_writes, "stomp.py": stomppy_writes}


# --- the vectors ----------------------------------------------------------------------------------


def encoded(vector: dict[str, Any]) -> bytes:
    return bytes.fromhex(vector["hex"]) if "hex" in vector else vector["octets"].encode()


def meant(frames: list[dict[str, Any]], codec: str) -> Read:
    """Return ``frames`` as ``codec`` represents them: stomp.py keeps only the first of repeated
    headers."""
    read: Read = []
    for frame in frames:
        headers = tuple((name, value) for name, value in frame["headers"])
        if codec == "stomp.py":
            headers = tuple(dict(reversed(headers)).items())[::-1]
        body = (
            bytes.fromhex(frame["body_hex"])
            if "body_hex" in frame
            else frame.get("body", "").encode()
        )
        read.append((frame["command"], headers, body))
    return read


def cuts(data: bytes) -> Iterator[tuple[str, list[bytes]]]:
    yield "whole", [data]
    yield "byte by byte", [data[at : at + 1] for at in range(len(data))]
    for at in range(1, len(data)):
        yield f"cut at {at}", [data[:at], data[at:]]


def wanted(outcome: dict[str, Any], codec: str, version: str) -> Read | str:
    if "refused" not in outcome:
        return meant(outcome["frames"], codec)
    return (
        f"{REFUSED} {outcome['refused']['requirement'][version]}" if codec == "broker" else REFUSED
    )


def readings() -> Iterator[Any]:
    for vector in VECTORS["read"]:
        for codec in READERS:
            if codec == "broker" and vector["sender"] == "server":
                continue
            for version in vector["versions"]:
                yield pytest.param(vector, codec, version, id=f"{vector['id']}-{version}-{codec}")


@pytest.mark.parametrize(("vector", "codec", "version"), list(readings()))
def test_a_vector_is_read_as_written_down(vector: dict[str, Any], codec: str, version: str) -> None:
    read = {how: READERS[codec](version, pieces) for how, pieces in cuts(encoded(vector))}
    difference = vector.get("differs", {}).get(codec)
    if difference is None or "reads" not in difference:
        expected = wanted(difference or vector, codec, version)
        assert {how: each for how, each in read.items() if each != expected} == {}
    else:
        right, wrong = wanted(vector, codec, version), wanted(difference, codec, version)
        assert all(reading in (right, wrong) for reading in read.values()), read
        assert wrong in read.values()


def writings() -> Iterator[Any]:
    for vector in VECTORS["written"]:
        for codec in WRITERS:
            for version in vector["versions"]:
                yield pytest.param(vector, codec, version, id=f"{vector['id']}-{version}-{codec}")


@pytest.mark.parametrize(("vector", "codec", "version"), list(writings()))
def test_a_vector_is_written_as_written_down(
    vector: dict[str, Any], codec: str, version: str
) -> None:
    [(command, headers, body)] = meant([vector], "harness")
    difference = vector.get("differs", {}).get(codec)
    found = WRITERS[codec](version, command, headers, body)
    assert found == (difference or vector)["octets"].encode()


def test_every_difference_is_one() -> None:
    """A recorded difference must differ from its vector; otherwise the entry is meaningless."""
    for vector in VECTORS["read"]:
        for codec, difference in vector.get("differs", {}).items():
            assert difference["why"]
            if "frames" in vector and "frames" in difference:
                assert meant(difference["frames"], codec) != meant(vector["frames"], codec), vector[
                    "id"
                ]
    assert len({vector["id"] for vector in VECTORS["read"]}) == len(VECTORS["read"])


# --- drawn frames ---------------------------------------------------------------------------------

AWKWARD = st.text(st.sampled_from("\\\n:\rcnrt aé\u2028🐘"), max_size=8)
FREE = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
NAMES = (AWKWARD | FREE).filter(lambda name: name not in ("", "content-length"))
BODIES = st.binary(max_size=40) | st.sampled_from([b"\0", b"\n\n\0", b"\0SEND\n\n\0", b"\xff"])


def sayable(version: str, name: str, value: str) -> bool:
    """True if ``version`` can carry this header so that every reader understands it alike.

    1.0 has no escapes, 1.1 none for a carriage return, and readers may treat a carriage return
    before a line feed as part of the line end. stomp.py reads escapes in 1.0 and writes none in
    names, so neither is drawn; the vectors have them.
    """
    excluded = {"1.0": "\n\r:\\", "1.1": "\r", "1.2": ""}[version]
    never_in_names = "\n\r:\\"
    return (
        not any(character in value for character in (excluded if version != "1.0" else "\n\r\\"))
        and not any(never_in_name in name for never_in_name in never_in_names)
        and not (version == "1.0" and value.startswith(" "))
    )


@st.composite
def frames(draw: st.DrawFn) -> tuple[str, dict[str, str], bytes]:
    version = draw(st.sampled_from(harness.VERSIONS))
    headers = draw(st.dictionaries(NAMES, AWKWARD | FREE, max_size=5))
    headers = {name: value for name, value in headers.items() if sayable(version, name, value)}
    body = draw(BODIES)
    if body:
        headers["content-length"] = str(len(body))
    return version, dict(sorted(headers.items())), body


@settings(deadline=None)
@given(frames())
def test_all_write_the_same_bytes(drawn: tuple[str, dict[str, str], bytes]) -> None:
    version, headers, body = drawn
    written = {
        codec: write(version, "SEND", tuple(headers.items()), body)
        for codec, write in WRITERS.items()
    }
    assert written["harness"] == written["broker"] == written["stomp.py"]


@settings(deadline=None)
@given(st.lists(frames(), min_size=1, max_size=4), st.integers(0, 2), st.data())
def test_all_read_what_any_wrote(
    drawn: list[tuple[str, dict[str, str], bytes]], eols: int, data: st.DataObject
) -> None:
    version = drawn[0][0]
    said = [(headers, body) for spoken_version, headers, body in drawn if spoken_version == version]
    stream = b"".join(
        harness_writes(version, "SEND", tuple(headers.items()), body) + b"\n" * eols
        for headers, body in said
    )
    cut_at = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=4), label="cut at"))
    pieces = [
        stream[start:end] for start, end in zip([0, *cut_at], [*cut_at, len(stream)], strict=True)
    ]
    wanted = [("SEND", tuple(headers.items()), body) for headers, body in said]
    assert harness_reads(version, pieces) == wanted
    assert broker_reads(version, pieces) == wanted
    if eols < 2:  # after two line ends in one read, stomp.py loses the next frame; see the vectors
        assert stomppy_reads(version, pieces) == wanted


@settings(deadline=None)
@given(st.sampled_from(harness.VERSIONS), st.binary(max_size=60))
def test_the_harness_and_the_broker_survive_any_bytes(version: str, junk: bytes) -> None:
    """Both codecs return frames or a refusal, whatever the bytes and their split."""
    stream = b"SEND\n" + junk
    for reads in (harness_reads, broker_reads):
        assert reads(version, [stream]) == reads(
            version, [stream[at : at + 1] for at in range(len(stream))]
        )


def test_no_producer_of_another_protocol_sets_the_headers_of_message() -> None:
    headers = (("content-length", "1"), ("colour", "red"))
    message = Message(1, Envelope("a", "/queue/a", None, headers, False), b"body")
    frame = FrameEncoder(Version.V1_2).message(b"MESSAGE\n", message, b"", False)
    assert b"colour:red" in frame
    assert b"content-length:1\n" not in frame
