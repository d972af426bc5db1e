"""The frame parser: any fragmentation gives the same frames and refusals."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from brokerproof.reference_broker.kernel.message import Envelope
from brokerproof.reference_broker.protocols.stomp.frame import Version
from brokerproof.reference_broker.protocols.stomp.grammar import GRAMMARS, OPENING, Grammar
from brokerproof.reference_broker.protocols.stomp.parser import FrameParser
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.reference_broker.settings.acceptor import StompLimits
from brokerproof.suites.units.drivers.broker import patient

V10, V11, V12 = (GRAMMARS[version] for version in Version)
GENEROUS = StompLimits()
LIMITS = StompLimits(headers=3, line=12, body=20)
Outcome = tuple[list[tuple[str, tuple[tuple[str, str], ...], bytes]], str | None]


def parse(grammar: Grammar, *chunks: bytes, limits: StompLimits = GENEROUS) -> Outcome:
    """Return the frames read, and the requirement of the refusal that ended reading, if any."""
    parser = FrameParser(grammar, limits)
    frames: list[tuple[str, tuple[tuple[str, str], ...], bytes]] = []
    try:
        for chunk in chunks:
            parser.feed(chunk)
            while (frame := parser.next()) is not None:
                frames.append((frame.head.command, frame.head.headers, frame.body))
            assert parser.buffered <= (limits.headers + 2) * (
                limits.line + 2
            ) + limits.body + 2 + len(chunk)
    except Refusal as problem:
        return frames, problem.requirement
    return frames, None


def one(grammar: Grammar, data: bytes) -> tuple[tuple[tuple[str, str], ...], bytes]:
    frames, refused = parse(grammar, data)
    assert refused is None
    ((_, headers, body),) = frames
    return headers, body


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    return [data[a:b] for a, b in pairwise(edges) if b > a]


pieces = st.sampled_from(
    [
        b"SEND\n", b"SEND\r\n", b"CONNECT\n", b"ACK\n", b"BOGUS\n", b"SUBSCRIBE\n", b"destination:/a\n", b"receipt:7\r\n",  # noqa: E501
        b"a\\nb:c\\cd\n", b"a\\rb:\\\\\n", b"x:\\t\n", b"content-length:3\n", b"content-length:25\n", b"content-length:x\n",  # noqa: E501
        b"no colon\n", b":v\n", b"a:b:c\n", b"\xff:\xfe\n", b"long-name:0123456789\n", b"\n", b"\r\n", b"\r", b"\n\0",  # noqa: E501
        b"\0", b"abc", b"abc\0", b"a\0c\0", b"x" * 21, b"y" * 19 + b"\0", b"\n\n\0", b"h:1\nh:2\nh:3\n",  # noqa: E501
    ]
)  # fmt: skip
streams = st.lists(pieces, max_size=14).map(b"".join) | st.binary(max_size=60)


@patient
@given(
    st.sampled_from([OPENING, V10, V11, V12]), streams, st.lists(st.integers(0, 200), max_size=8)
)
@example(V12, b"ACK\nid:1\n\nab\0", [10])
@example(V12, b"SEND\n\n" + b"x" * 21, [6])
def test_fragments_give_the_same_frames_and_the_same_refusal(
    grammar: Grammar, data: bytes, cuts: list[int]
) -> None:
    whole = parse(grammar, data, limits=LIMITS)
    assert parse(grammar, *cut(data, cuts), limits=LIMITS) == whole
    assert parse(grammar, *(bytes([byte]) for byte in data), limits=LIMITS) == whole


def written(version: Version, text: str) -> bytes:
    """Return ``text`` escaped by the specification's table, implemented again for this test."""
    for raw, escape in [("\\", "\\\\"), ("\n", "\\n"), (":", "\\c")] + (
        [("\r", "\\r")] if version == 2 else []
    ):
        text = text.replace(raw, escape)
    return text.encode()


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda n: n != "content-length"
)
values = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@pytest.mark.parametrize(
    ("grammar", "data", "headers", "body"),
    [
        (V10, b"SEND\na:b\r\n\n\0", (("a", "b\r"),), b""),
        (V11, b"\n\nSEND\na:\\n\\c\\\\n\n\n\0", (("a", "\n:\\n"),), b""),
        (V12, b"\r\n\nSEND\r\na:\\r\r\nb:\n\r\n\r\n\0\r\n", (("a", "\r"), ("b", "")), b"\r\n"),
        (OPENING, b"CONNECT\r\na: b\\c:d\r\n\r\n\0", (("a", " b\\c:d"),), b""),
    ],
)  # fmt: skip
def test_legal_frames_that_no_vector_has(
    grammar: Grammar, data: bytes, headers: tuple[tuple[str, str], ...], body: bytes
) -> None:
    assert one(grammar, data) == (headers, body)


@pytest.mark.parametrize(
    ("grammar", "data", "requirement"),
    [
        (V10, b"NACK\n\n\0", "STOMP10-FRAME-06"),
        (V11, b"SEND\r\n\r\n\0\n\n\0", "STOMP11-FRAME-03"),
        (V11, b"NOPE\n\n\0", "STOMP11-ONCE-02"),
        (V12, b"send\n\n\0", "STOMP12-CLIENT-02"),
        (V12, b"MESSAGE\n\n\0", "STOMP12-CLIENT-02"),
        (V12, b"CONNECT\n\n\0", "STOMP12-CLIENT-02"),
        (OPENING, b"GET / HTTP/1.1\n", "STOMP12-CONNECT-03"),
        (OPENING, b"SEND\n\n\0", "STOMP12-CONNECT-03"),
        (V12, b"SEND\na:b\r\r\n\n\0", "STOMP12-FRAME-05"),
        (V12, b"SEND\na:\xed\xa0\x80\n\n\0", "STOMP12-ENC-01"),
        (V12, b"BEGIN\ntransaction:t\n\nx", "STOMP12-BODY-02"),
        (V11, b"BEGIN\ncontent-length:1\n\n", "STOMP11-BODY-02"),
        (OPENING, b"CONNECT\n\nx", "STOMP12-BODY-02"),
        (V12, b"SEND\ncontent-length: 1\n\n", "STOMP12-HDR-02"),
        (V12, b"SEND\ncontent-length:\n\n", "STOMP12-HDR-02"),
        (V12, "SEND\ncontent-length:٣\n\n".encode(), "STOMP12-HDR-02"),
        (V12, b"SEND\ncontent-length:" + b"9" * 5000 + b"\n\n", "STOMP12-LIMIT-02"),
        (V12, b"SEND\ncontent-length:268435457\n\n", "STOMP12-LIMIT-02"),
    ],
)
def test_refused_frames_that_no_vector_has(grammar: Grammar, data: bytes, requirement: str) -> None:
    assert parse(grammar, data) == ([], requirement)
    assert parse(grammar, *(bytes([byte]) for byte in data)) == ([], requirement)


@pytest.mark.parametrize(
    ("data", "ok"),
    [
        (b"SEND\nname:0123456\n\n\0", True),
        (b"SEND\nname:01234567\n\n\0", False),
        (b"SEND\nname:0123456\r\n\n\0", True),
        (b"SEND\nname:0123456\r", True),
        (b"SEND\nname:01234567\r", False),
        (b"SEND\nname:01234567", False),
        (b"SEND\na:1\nb:2\nc:3\n\n\0", True),
        (b"SEND\na:1\nb:2\nc:3\nd:4\n", False),
        (b"SEND\na:1\nb:2\nc:3\nd:4\n\n\0", False),
        (b"SEND\n\n" + b"x" * 20 + b"\0", True),
        (b"SEND\n\n" + b"x" * 20, True),
        (b"SEND\n\n" + b"x" * 21, False),
        (b"SEND\n\n" + b"x" * 21 + b"\0", False),
    ],
)
def test_limits_to_the_byte(data: bytes, ok: bool) -> None:
    """One below, at, and one above each limit, also for input that never ends
    (STOMP12-LIMIT-02)."""
    expected = None if ok else "STOMP12-LIMIT-02"
    assert parse(V12, data, limits=LIMITS)[1] == expected
    assert parse(V12, *(bytes([byte]) for byte in data), limits=LIMITS)[1] == expected


receipt_lines = st.sampled_from(
    [
        b"receipt:1", b"receipt:22", b"receipt:", b"receipt:a\\cb", b"receipt:\\t", b"receipt:a:b", b"receipt:\xff",  # noqa: E501
        b"receipt:3\r", b"receipt:4\r5", b"receipt", b"receipts:1", b"receipt: 6", b"receipt:" + b"7" * 12,  # noqa: E501
    ]
)  # fmt: skip
send_heads = st.lists(
    receipt_lines | st.sampled_from([b"destination:a", b"destination:b\r", b"content-length:2"]),
    max_size=4,
).map(lambda lines: b"\n".join([b"SEND", *lines]))


@patient
@given(
    st.sampled_from([V10, V11, V12]),
    st.sampled_from([LIMITS, GENEROUS]),
    st.lists(send_heads, min_size=2, max_size=8),
)
@example(V12, GENEROUS, [b"SEND\nreceipt:1\ndestination:a", b"SEND\nreceipt:2\ndestination:a"])
@example(
    V12,
    GENEROUS,
    [b"SEND\ndestination:a\nreceipt:1\nreceipt:2", b"SEND\ndestination:a\nreceipt:3\nreceipt:2"],
)
@example(V12, GENEROUS, [b"SEND\nreceipt:1", b"SEND\nreceipt:\xff"])
@example(V12, LIMITS, [b"SEND\nreceipt:1", b"SEND\nreceipt:" + b"7" * 12])
@example(V12, GENEROUS, [b"SEND\nreceipt:1\r\na:b", b"SEND\nreceipt:2\na:b", b"SEND\nreceipt:2\r"])
def test_a_head_is_read_alike_whatever_was_read_before(
    grammar: Grammar, limits: StompLimits, heads: list[bytes]
) -> None:
    frames = [head + b"\n\nhi\0" for head in heads]
    alone = [parse(grammar, frame, limits=limits) for frame in frames]
    refused = next(
        (number for number, (_, why) in enumerate(alone) if why is not None), len(frames) - 1
    )
    together = parse(grammar, b"".join(frames), limits=limits)
    assert together == (
        [frame for frames, _ in alone[: refused + 1] for frame in frames],
        alone[refused][1],
    )


def test_what_send_knows_of_a_head_survives_another_receipt_and_nothing_else() -> None:
    parser = FrameParser(V12, GENEROUS)
    frame = b"SEND\ndestination:%b\nreceipt:%b\n\nhi\0"
    parser.feed(frame % (b"a", b"1") + frame % (b"a", b"2") + frame % (b"b", b"2"))
    first = parser.next()
    assert first is not None
    first.head.envelope = Envelope("a", "a", None, (), text=True)
    second, third = parser.next(), parser.next()
    assert second is not None
    assert third is not None
    assert second.head.envelope is first.head.envelope
    assert (first.get("receipt"), second.get("receipt")) == ("1", "2")
    assert third.head.envelope is None


odd_lines = st.sampled_from(
    [b"id:1", b"receipt:r-2", b"content-length:0", b"content-length:x", b"Id:1", b"id:", b"id: 1", b"id:a:b", b"id:a\\cb", b":1",  # noqa: E501
     b"id", b"id:1\r", b"id:\xc3\xa9", b"id:\xff", b"id:\0", b"i\rd:1", b"i_d:1", b"x:" + b"9" * 12]
)  # fmt: skip


@patient
@given(
    st.sampled_from([V10, V11, V12]),
    st.sampled_from([LIMITS, GENEROUS]),
    st.sampled_from([b"ACK", b"SEND", b"ACK\r", b"ack", b"CONNECT", b"\xff"]),
    st.lists(odd_lines, max_size=5),
)
@example(V12, LIMITS, b"ACK", [b"id:1"] * 5)
def test_a_head_read_at_once_is_the_head_read_line_by_line(
    grammar: Grammar, limits: StompLimits, command: bytes, lines: list[bytes]
) -> None:
    frame = b"\n".join([command, *lines]) + b"\n\n\0"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FrameParser, "_read_plain", lambda self, block, headers: "")
        by_line = parse(grammar, frame, limits=limits)
    assert parse(grammar, frame, limits=limits) == by_line


@given(st.sampled_from([V11, V12]), st.integers(1, 6))
def test_a_head_of_plain_headers_is_not_read_line_by_line(grammar: Grammar, count: int) -> None:
    parser = FrameParser(grammar, GENEROUS)
    lines = [b"id:%d" % number for number in range(count)]
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(FrameParser, "_read_lines")
        parser.feed(b"\n".join([b"ACK", *lines]) + b"\n\n\0")
        frame = parser.next()
    assert frame is not None
    assert frame.head.headers == tuple(("id", str(number)) for number in range(count))
