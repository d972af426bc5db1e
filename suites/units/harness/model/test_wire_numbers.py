"""Numbers in text from peers."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from brokerproof.harness.model.wire_numbers import whole_number
from brokerproof.harness.protocols.stomp import codec as stomp_codec
from brokerproof.harness.protocols.stomp.codec import Unreadable

HOSTILE = ["", " 1", "1 ", "14\x1c", "-1", "+1", "1_0", "²", "٣", "1.0", "9" * 21, "9" * 4301]


@pytest.mark.parametrize("text", HOSTILE)
def test_text_that_is_no_number_is_none(text: str) -> None:
    assert whole_number(text) is None


@given(st.integers(0, 2**64 - 1))
@example(2**64 - 1)
def test_every_count_of_64_bits_is_read(value: int) -> None:
    assert whole_number(str(value)) == value


@given(st.text(max_size=24))
def test_no_text_raises(text: str) -> None:
    number = whole_number(text)
    assert number is None or number >= 0


@pytest.mark.parametrize("length", [text for text in HOSTILE if text.strip(" ") != "1"])
def test_a_content_length_that_is_no_number_is_unreadable(length: str) -> None:
    """No broker's frame may end the run that reads it."""
    (item,) = stomp_codec.Reader("1.2").feed(f"MESSAGE\ncontent-length:{length}\n\nx\0".encode())
    assert isinstance(item, Unreadable)
