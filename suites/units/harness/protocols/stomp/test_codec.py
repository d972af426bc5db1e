"""The harness's simple STOMP codec writes any values, reads any fragmentation, and reports
unreadable bytes."""

import pytest
from hypothesis import strategies as st

from brokerproof.harness.protocols.stomp.codec import (
    Eol,
    Frame,
    Item,
    Reader,
    Unreadable,
    encode,
    escape,
    unescape,
)

TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=("Cs",)), max_size=20)


def read(data: bytes, version: str = "1.2", step: int | None = None) -> list[Item]:
    reader = Reader(version)
    step = step or max(1, len(data))
    return [item for at in range(0, len(data), step) for item in reader.feed(data[at : at + step])]


@pytest.mark.parametrize(
    ("version", "text", "written"),
    [
        ("1.0", "a:b\\n", "a:b\\n"),
        ("1.1", "a:b\n\\\r", "a\\cb\\n\\\\\r"),
        ("1.2", "a:b\n\\\r", "a\\cb\\n\\\\\\r"),
    ],
)
def test_escapes_by_version(version: str, text: str, written: str) -> None:
    assert escape(text, version) == written
    assert unescape(written, version) == text


@pytest.mark.parametrize(
    ("version", "text"), [("1.1", "\\r"), ("1.1", "\\t"), ("1.2", "\\t"), ("1.2", "end\\")]
)
def test_undefined_escapes_are_named(version: str, text: str) -> None:
    with pytest.raises(ValueError, match="undefined escape"):
        unescape(text, version)


def test_size_counts_the_end_of_line_that_came_with_the_frame() -> None:
    data = encode("RECEIPT", {"receipt-id": "1"})
    assert [item.size for item in read(data + b"\n\n")] == [len(data) + 1, 1]
    assert read(b"\n\r\n") == [Eol(3)]


def test_connected_is_not_unescaped_and_first_of_repeated_headers_counts() -> None:
    frame = read(b"CONNECTED\nserver:a\\cb\nserver:second\n\n\x00")[0]
    assert isinstance(frame, Frame)
    assert frame["server"] == "a\\cb"
    assert frame.headers[1] == ("server", "second")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"MESSAGE\nno colon here\n\n\x00", "without a colon"),
        (b"MESSAGE\na:\xff\n\n\x00", "not UTF-8"),
        (b"MESSAGE\na:\\t\n\n\x00", "undefined escape"),
        (b"MESSAGE\ncontent-length:x\n\n\x00", "no number"),
        (b"MESSAGE\ncontent-length:1\n\nab\x00", "no NUL"),
    ],
)
def test_what_is_no_frame_is_named_and_ends_the_reading(data: bytes, reason: str) -> None:
    items = read(data + encode("RECEIPT", {"receipt-id": "1"}))
    assert len(items) == 1
    assert isinstance(items[0], Unreadable)
    assert reason in items[0].reason


def test_a_missing_header_is_said() -> None:
    with pytest.raises(KeyError, match="RECEIPT has no header 'receipt-id'"):
        Frame("RECEIPT")["receipt-id"]
