"""The harness's simple WebSocket codec writes any values and reads any fragmentation, and wsproto
understands it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wsproto.frame_protocol import FrameProtocol
from wsproto.frame_protocol import Opcode as TheirOp

from brokerproof.harness.protocols.websocket import codec
from brokerproof.harness.protocols.websocket.codec import (
    Item,
    Op,
    Reader,
    Reply,
    Unreadable,
    WsFrame,
)

REPLY = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nX: a\r\nx:b \r\n\r\n"
PAYLOADS = st.one_of(
    st.binary(max_size=130), st.sampled_from([b"x" * size for size in (125, 126, 65535, 65536)])
)
MASKS = st.one_of(st.none(), st.binary(min_size=4, max_size=4))


def read(data: bytes, step: int | None = None) -> list[Item]:
    reader = Reader()
    step = step or max(1, len(data))
    return [item for at in range(0, len(data), step) for item in reader.feed(data[at : at + step])]


@given(st.integers(0, 15), PAYLOADS, MASKS, st.booleans(), st.integers(0, 7), st.integers(1, 9))
def test_a_frame_comes_back_however_it_is_cut(
    op: int, payload: bytes, mask: bytes | None, fin: bool, reserved: int, step: int
) -> None:
    data = codec.encode(op, payload, mask=mask, fin=fin, reserved=reserved)
    expected = WsFrame(op, payload, fin, reserved, mask is not None, True, len(data))
    assert read(REPLY + data + data, step if len(payload) < 200 else 4096)[1:] == [
        expected,
        expected,
    ]


@pytest.mark.parametrize(("form", "shortest"), [(7, True), (16, False), (64, False)])
def test_a_length_may_stand_in_any_form(form: int, shortest: bool) -> None:
    data = codec.encode(Op.TEXT, b"abc", mask=None, form=form)
    (frame,) = read(REPLY + data)[1:]
    assert isinstance(frame, WsFrame)
    assert (frame.payload, frame.shortest) == (b"abc", shortest)


def test_a_length_may_be_a_lie() -> None:
    assert codec.encode(Op.BINARY, b"", mask=b"\0\0\0\0", announce=70000) == bytes.fromhex(
        "82ff000000000001117000000000"
    )


def test_the_examples_of_the_document() -> None:
    """RFC 6455, sections 1.3 and 5.7."""
    assert codec.accept("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    mask = bytes.fromhex("37fa213d")
    assert codec.encode(Op.TEXT, b"Hello", mask=None) == bytes.fromhex("810548656c6c6f")
    assert codec.encode(Op.TEXT, b"Hello", mask=mask) == bytes.fromhex("818537fa213d7f9f4d5158")
    assert codec.encode(Op.PONG, b"Hello", mask=mask) == bytes.fromhex("8a8537fa213d7f9f4d5158")
    assert codec.encode(Op.BINARY, b"x" * 65536, mask=None)[:10] == bytes.fromhex(
        "827f0000000000010000"
    )


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=4))
def test_wsproto_reads_what_we_write_and_we_what_it_writes(pieces: list[bytes]) -> None:
    theirs = FrameProtocol(client=False, extensions=[])
    last = len(pieces) - 1
    for number, piece in enumerate(pieces):
        op = Op.CONTINUATION if number else Op.BINARY
        theirs.receive_bytes(codec.encode(op, piece, mask=b"mask", fin=number == last))
    heard = list(theirs.received_frames())
    assert b"".join(bytes(frame.payload) for frame in heard) == b"".join(pieces)
    assert {frame.opcode for frame in heard} == {TheirOp.BINARY}
    written = b"".join(
        bytes(theirs.send_data(each, fin=number == last)) for number, each in enumerate(pieces)
    )
    ours = read(REPLY + written)[1:]
    assert [our.payload for our in ours if isinstance(our, WsFrame)] == pieces
    assert [our.fin for our in ours if isinstance(our, WsFrame)] == [False] * last + [True]


def test_the_answer_to_the_handshake() -> None:
    (reply,) = read(REPLY, 1)
    assert isinstance(reply, Reply)
    assert reply.status == 101
    assert reply.values("Upgrade") == ["websocket"]
    assert reply.values("X") == ["a", "b"]
    assert reply.size == len(REPLY)


def test_nothing_is_read_behind_a_refusal() -> None:
    items = read(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 4\r\n\r\n\x81\x02hi")
    assert [item.status for item in items if isinstance(item, Reply)] == [400]
    assert len(items) == 1


@pytest.mark.parametrize(
    "data", [b"ERROR\nmessage:no\n\n\0", b"HTTP/2 101\r\n\r\n", b"HTTP/1.1 ok\r\n\r\n", b"S"]
)
def test_what_is_no_http_is_named(data: bytes) -> None:
    (item,) = read(data)
    assert isinstance(item, Unreadable)
    assert item.data.startswith(data[:5])
