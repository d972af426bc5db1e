"""The byte-level steps of the STOMP suites: cutting streams, and reading a server's frames without
unescaping."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerproof.harness.protocols.stomp import codec
from brokerproof.harness.targets.target_file import LOGIN, load
from brokerproof.suites.stomp.byte_steps import Cut, RawFrame, cuts, raw_frame, raw_frames, raw_line
from brokerproof.suites.stomp.malformations import KINDS
from brokerproof.suites.stomp.test_framing import HEADER_LINE, wrong_line


def test_raw_frames_keep_escapes_and_find_bodies_by_their_length() -> None:
    heard = b"\nCONNECTED\nversion:1.2\n\n\x00\r\nMESSAGE\r\nx:a\\c\r\ncontent-length:3\r\n\r\n\x00\n\n\x00\n"  # noqa: E501
    assert list(raw_frames(heard)) == [
        RawFrame(b"CONNECTED", (b"version:1.2",), b""),
        RawFrame(b"MESSAGE", (b"x:a\\c", b"content-length:3"), b"\x00\n\n"),
    ]


@pytest.mark.parametrize(
    "cut_off", [b"MESSAGE\nx:", b"MESSAGE\n\nbody", b"MESSAGE\ncontent-length:9\n\nbody\x00"]
)
def test_a_frame_that_has_not_ended_is_not_there_yet(cut_off: bytes) -> None:
    assert list(raw_frames(b"RECEIPT\n\n\x00" + cut_off)) == [RawFrame(b"RECEIPT", (), b"")]


def test_a_cut_falls_beside_the_byte_it_names() -> None:
    data = b"A\nBC\nD"
    assert [Cut(0x0A, 1, offset).of(data) for offset in (-1, 0, 1)] == [3, 4, 5]
    assert Cut(0x0A, 2, 0).of(data) == 1, "the third of two is the first again"
    assert Cut(0x00, 5, 1).of(data) == 0, "no such byte: no cut"
    assert Cut(None, 5, 2).of(data) == len(data)


@given(cuts(), st.binary(max_size=80))
def test_cuts_divide_a_stream_without_loss(where: tuple[Cut, ...], data: bytes) -> None:
    positions = sorted({0, len(data), *(cut.of(data) for cut in where)})
    assert b"".join(data[start:end] for start, end in itertools.pairwise(positions)) == data


@pytest.mark.parametrize("version", codec.VERSIONS)
def test_raw_lines_are_those_of_the_codec(version: str) -> None:
    headers = (("name", "plain"), ("x", "a\\b" if version == "1.0" else "a:b\\\nc"))
    lines = [raw_line(name, value, version) for name, value in headers]
    assert raw_frame("SEND", lines, b"body") == codec.encode(
        "SEND", headers, b"body", version=version
    )


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ("1.0", b"no colon"),
        ("1.0", b":no name"),
        ("1.1", b"x:a:b"),
        ("1.1", b"x:a\\rb"),
        ("1.1", b"x:a\\"),
        ("1.2", b"x:a\rb"),
        ("1.2", b"x:a\\tb"),
    ],
)
def test_a_line_outside_the_grammar_is_noticed(version: str, line: bytes) -> None:
    assert wrong_line(RawFrame(b"MESSAGE", (b"good:line", line), b""), version) == line


def test_what_a_version_escapes_is_inside_its_grammar() -> None:
    for version, text in (("1.1", "a:b\\\nc\rd"), ("1.2", "a:b\\\nc\rd")):
        assert HEADER_LINE[version].fullmatch(raw_line(text, text, version))


def test_malformations_have_names_of_their_own() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS)


def test_a_target_with_a_login_says_so() -> None:
    assert LOGIN in load("stomp://me:secret@localhost:61613").identity.capabilities
    assert LOGIN not in load("localhost:61613").identity.capabilities
