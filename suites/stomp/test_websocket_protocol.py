"""RFC 6455's requirements on a server that speaks STOMP over WebSocket.

The requirements concern the handshake, frames, control frames and the close. Cases judge only what
the RFC settles. It does not say, for example, what happens to a frame whose length is encoded in
more octets than necessary, or to a continuation without a beginning.
"""

import pytest
from hypothesis import strategies as st

from brokerproof.harness.protocols.websocket import codec
from brokerproof.harness.protocols.websocket.codec import UPGRADE, Op, Reply, WsFrame
from brokerproof.harness.protocols.websocket.raw_peer import (
    CLOSE,
    REPLY,
    SUB_PROTOCOLS,
    WebSocketPeer,
    ws,
)
from brokerproof.suites.api import PATIENCE, Bench, Where, case, over, shown
from brokerproof.suites.api.stomp import frame
from brokerproof.suites.steps.queues import patterned
from brokerproof.suites.steps.websockets import (
    SERVER_RULES,
    Victim,
    judge_frames,
    limited_places,
    send_frame,
    session,
)
from brokerproof.suites.stomp.error_recovery_steps import Bystander

STATUS = "RFC6455-HS-03"
FIELDS = "RFC6455-HS-04"
ACCEPT_KEY = "RFC6455-HS-05"
CHOSEN_PROTOCOL = "RFC6455-HS-06"
NO_PROTOCOL = "RFC6455-HS-07"
EXTENSIONS = "RFC6455-HS-08"
BAD_REQUEST = "RFC6455-HS-01"
VERSION_REFUSED = "RFC6455-HS-02"
PING_ANSWERED = "RFC6455-CTRL-02"
SAME_DATA = "RFC6455-CTRL-04"
CONTROL_AMID_FRAGMENTS = "RFC6455-FRAG-02"
UNASKED_PONG = "RFC6455-CTRL-05"
MASK_REQUIRED = "RFC6455-FRAME-01"
NOT_PROCESSED = "RFC6455-CLOSE-07"
RESERVED_BIT = "RFC6455-FRAME-03"
CLOSE_CODE = "RFC6455-CLOSE-05"
UNKNOWN_OPCODE = "RFC6455-FRAME-04"
TEXT_NOT_UTF_8 = "RFC6455-DATA-02"
CLOSE_ANSWERED = "RFC6455-CLOSE-01"
SAME_CODE = "RFC6455-CLOSE-02"
NO_DATA_AFTER_CLOSE = "RFC6455-CLOSE-03"
TCP_CLOSED = "RFC6455-CLOSE-04"
CLOSE_BODY = "RFC6455-CLOSE-06"

NOT_UTF8 = (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"ok\xc3")
OFFERS = st.lists(
    st.sampled_from([*SUB_PROTOCOLS, "soap", "V12.STOMP", "v13.stomp"]), unique=True, max_size=4
)


@case(STATUS, FIELDS, ACCEPT_KEY, CHOSEN_PROTOCOL, NO_PROTOCOL, EXTENSIONS, needs={"websocket"})
@over(
    examples=40,
    always=lambda _: [
        {"offered": [], "seed": b""},
        {"offered": ["soap"], "seed": b""},
        {"offered": ["v12.stomp"], "seed": b""},
    ],
    offered=OFFERS,
    seed=st.binary(max_size=4),
)
def test_a_handshake_is_answered_as_the_client_must_demand(
    target: Bench, offered: list[str], seed: bytes
) -> None:
    """A request with any key and any offer of sub-protocols is answered with 101, the required
    headers, and only a sub-protocol from the offer. One scenario: the requirements describe one
    response."""
    socket = target.websocket(upgrade=False)
    key = codec.key(seed)
    socket.ask(key=key, protocols=offered)
    reply = socket.expect(REPLY, proves=STATUS)
    assert isinstance(reply, Reply)
    target.require(STATUS, reply.status == 101, f"offered {shown(offered)}, got {reply.brief()}")
    upgrade, connection = (
        reply.values("upgrade"),
        ", ".join(reply.values("connection")).lower().split(", "),
    )
    held = [value.lower() for value in upgrade] == ["websocket"] and "upgrade" in connection
    detail = f"Upgrade: {shown(upgrade)}; Connection: {shown(connection)}"
    target.record_finding(FIELDS, held, detail)
    answered_value = reply.values("sec-websocket-accept")
    words = f"for the key {key}, Sec-WebSocket-Accept is {shown(answered_value)}"
    target.record_finding(ACCEPT_KEY, answered_value == [codec.accept(key)], words)
    agreed = reply.values("sec-websocket-protocol")
    if not set(offered) & set(SUB_PROTOCOLS):
        detail = f"offered {shown(offered)}, the server chose {shown(agreed)}"
        target.record_finding(NO_PROTOCOL, not agreed, detail)
    else:
        target.record_finding(
            CHOSEN_PROTOCOL,
            not agreed or (len(agreed) == 1 and agreed[0] in offered),
            f"offered {shown(offered)}, the server chose {shown(agreed)}",
        )
    listed = reply.values("sec-websocket-extensions")
    detail = f"no extension was offered; the answer lists {shown(listed)}"
    target.record_finding(EXTENSIONS, not listed, detail)


BAD_REQUESTS: dict[str, dict[str, object]] = {
    "no key": {"key": None},
    "no Host": {"host": None},
    "no version": {"fields": UPGRADE[:2]},
    "Connection without Upgrade": {
        "fields": (UPGRADE[0], ("Connection", "keep-alive"), UPGRADE[2])
    },
    "HTTP 1.0": {"line": "GET {path} HTTP/1.0"},
}
"""Two mistakes are missing on purpose: a key that is not base64 of 16 bytes, which a server need
not decode (section 4.2.2), and methods other than GET, for which a server may ignore Upgrade."""


@case(BAD_REQUEST, needs={"websocket"})
@pytest.mark.parametrize("bad", BAD_REQUESTS)
def test_a_bad_handshake_is_answered_with_an_error(target: Bench, bad: str) -> None:
    """A request without key, Host, version or Upgrade in Connection, or with HTTP 1.0, is answered
    with an HTTP error. The same request without the defect is accepted before and after."""
    target.websocket().close_socket()
    socket = target.websocket(upgrade=False)
    socket.ask(**BAD_REQUESTS[bad])  # type: ignore[arg-type]
    reply = socket.watch_for(REPLY)
    status = reply.status if isinstance(reply, Reply) else None
    detail = f"handshake with {bad}: {_said(socket, reply)}; expected an HTTP error"
    target.record_finding(BAD_REQUEST, status is not None and status >= 400, detail)
    target.websocket().close_socket()


@case(VERSION_REFUSED, needs={"websocket"})
@pytest.mark.parametrize("asked", ["0", "12", "14", "255"])
def test_another_version_is_refused_and_ours_named(target: Bench, asked: str) -> None:
    """A request with an unknown Sec-WebSocket-Version is answered with an HTTP error that lists the
    supported versions, including 13. A request for version 13 is accepted."""
    socket = target.websocket(upgrade=False)
    socket.ask(fields=(*UPGRADE[:2], ("Sec-WebSocket-Version", asked)))
    reply = socket.watch_for(REPLY)
    spoken: list[str] = []
    if isinstance(reply, Reply):
        spoken = [
            word.strip()
            for value in reply.values("sec-websocket-version")
            for word in value.split(",")
        ]
    held = isinstance(reply, Reply) and reply.status >= 400 and "13" in spoken
    target.record_finding(
        VERSION_REFUSED,
        held,
        f"handshake with version {asked}: {_said(socket, reply)}; expected an error"
        " that names version 13",
    )
    target.websocket().close_socket()


@case(*SERVER_RULES, needs={"websocket"})
@over(
    examples=60,
    where=limited_places,
    size=st.one_of(
        st.integers(0, 260),
        st.sampled_from([999, 1000, 2500]),
        st.integers(65_300, 65_600),
        st.just(300_000),
    ),
)
def test_frames_of_the_server_are_well_formed(target: Bench, where: Where, size: int) -> None:
    """Messages with bodies of any size arrive. Every frame is unmasked, has no reserved bit set and
    uses the shortest length encoding, and fragments and control frames are in order. One scenario:
    the requirements describe the same frames."""
    socket, peer = session(target, where.acceptor)
    to = target.destination()
    peer.subscribe(to)
    target.stomp().publish(to, patterned(size))
    peer.message(body=patterned(size))
    socket.send(Op.PING, b"p" * 125)
    socket.expect(ws(Op.PONG))
    judge_frames(target, socket.frames)


@case(PING_ANSWERED, SAME_DATA, CONTROL_AMID_FRAGMENTS, needs={"websocket"})
@over(examples=60, payloads=st.lists(st.binary(max_size=125), min_size=1, max_size=4))
def test_pings_are_answered_also_amid_a_message(target: Bench, payloads: list[bytes]) -> None:
    """Pings with any payload are sent while idle and between the fragments of a SEND. Each gets a
    Pong with the same payload before the next Ping, and the SEND is processed."""
    socket, peer = session(target)
    to = target.destination()
    sent = send_frame(to, b"in fragments", "whole")
    for payload in payloads:
        socket.send(Op.PING, payload)
        _pong(target, socket, payload, SAME_DATA)
    step = max(1, len(sent) // (len(payloads) + 1))
    op = Op.BINARY
    for payload in payloads:
        socket.send(op, sent[:step], fin=False)
        op, sent = Op.CONTINUATION, sent[step:]
        socket.send(Op.PING, payload)
        _pong(target, socket, payload, CONTROL_AMID_FRAGMENTS)
    socket.send(op, sent)
    peer.expect(frame("RECEIPT", {"receipt-id": "whole"}), proves=CONTROL_AMID_FRAGMENTS)


def _pong(target: Bench, socket: WebSocketPeer, payload: bytes, also: str) -> None:
    pong = socket.expect(ws(Op.PONG), proves="RFC6455-CTRL-02")
    assert isinstance(pong, WsFrame)
    detail = f"Ping {payload!r} was answered with {pong.brief()}"
    target.record_finding(also, pong.payload == payload, detail)


@case(UNASKED_PONG, needs={"websocket"})
def test_a_pong_that_nobody_asked_for_changes_nothing(target: Bench) -> None:
    """Unsolicited Pongs, empty or of full size, get no answer. The session works."""
    socket, peer = session(target)
    before = len(socket.frames)
    for payload in (b"", b"p" * 125):
        socket.send(Op.PONG, payload)
    peer.settle()
    answer = [ws_frame.name for ws_frame in socket.frames[before:] if ws_frame.is_control]
    detail = f"unsolicited Pongs were answered with {answer or 'nothing'}"
    target.record_finding(UNASKED_PONG, not answer, detail)


@case(MASK_REQUIRED, NOT_PROCESSED, needs={"websocket"})
@over(
    examples=15,
    op=st.sampled_from([Op.BINARY, Op.TEXT, Op.PING]),
    payload=st.sampled_from([b"", b"\n", b"x" * 125]),
)
def test_a_frame_without_mask_ends_the_connection(target: Bench, op: Op, payload: bytes) -> None:
    """An unmasked frame ends the connection, and a masked SEND after it is not processed. Another
    connection is still served."""
    _misdeed(
        target, MASK_REQUIRED, None, f"a {op.name} frame without mask", op, payload, masked=False
    )


@case(RESERVED_BIT, CLOSE_CODE, NOT_PROCESSED, needs={"websocket"})
@over(examples=15, reserved=st.integers(1, 7), op=st.sampled_from([Op.BINARY, Op.TEXT, Op.PING]))
def test_a_reserved_bit_fails_the_connection(target: Bench, reserved: int, op: Op) -> None:
    """A frame with reserved bits set, without an agreed extension, fails the connection, ideally
    with code 1002."""
    what = f"a {op.name} frame with reserved bits {reserved:03b}"
    _misdeed(target, RESERVED_BIT, 1002, what, op, b"\n", reserved=reserved)


@case(UNKNOWN_OPCODE, CLOSE_CODE, NOT_PROCESSED, needs={"websocket"})
@over(
    examples=15,
    op=st.sampled_from([*range(3, 8), *range(11, 16)]),
    payload=st.sampled_from([b"", b"\n"]),
)
def test_an_unknown_opcode_fails_the_connection(target: Bench, op: int, payload: bytes) -> None:
    """A frame with an undefined opcode fails the connection, ideally with code 1002."""
    _misdeed(target, UNKNOWN_OPCODE, 1002, f"a frame with opcode {op}", op, payload)


@case(TEXT_NOT_UTF_8, CLOSE_CODE, needs={"websocket"})
@over(examples=15, bad=st.sampled_from(NOT_UTF8), sizes=st.lists(st.integers(1, 20), max_size=3))
def test_text_that_is_not_utf8_fails_the_connection(
    target: Bench, bad: bytes, sizes: list[int]
) -> None:
    """A text message that is not UTF-8, whole or in fragments, fails the connection, ideally with
    code 1007. The same SEND in a binary message is processed."""
    bystander = Bystander(target, "1.2")
    victim = Victim(target)
    victim.socket.message(send_frame(victim.to, bad, "binary"), sizes=sizes)
    victim.stomp.expect(frame("RECEIPT", {"receipt-id": "binary"}))
    victim.drain(1)
    victim.socket.message(send_frame(victim.to, bad, "text"), op=Op.TEXT, sizes=sizes)
    victim.tell_on()
    victim.judge_failed(TEXT_NOT_UTF_8, 1007, f"the text message {bad!r}")
    bystander.check()


def _misdeed(
    target: Bench,
    failed: str,
    code: int | None,
    what: str,
    op: int,
    payload: bytes,
    **oddities: object,
) -> None:
    bystander = Bystander(target, "1.2")
    victim = Victim(target)
    victim.socket.send(op, payload, **oddities)  # type: ignore[arg-type]
    victim.tell_on()
    victim.judge_failed(failed, code, what)
    bystander.check()


@case(CLOSE_ANSWERED, SAME_CODE, NO_DATA_AFTER_CLOSE, TCP_CLOSED, CLOSE_BODY, needs={"websocket"})
@over(
    examples=40,
    always=lambda _: [{"code": 1000, "reason": "bye"}, {"code": None, "reason": ""}],
    code=st.one_of(st.none(), st.sampled_from([1000, 1001, 1008, 3000, 4999])),
    reason=st.text(max_size=20),
)
def test_a_close_is_answered_and_is_the_end(target: Bench, code: int | None, reason: str) -> None:
    """The client sends Close while messages arrive. The server answers with a Close, sends no data
    after it, and closes the connection; unacknowledged messages go to the next consumer. One
    scenario: the requirements describe one exchange."""
    to = target.destination()
    socket, peer = session(target)
    peer.subscribe(to, ack="client")
    producer = target.stomp()
    producer.publish(to, b"one")
    peer.message(body=b"one")
    socket.send(Op.CLOSE, b"" if code is None else code.to_bytes(2) + reason.encode()[:123])
    for number in range(3):
        producer.publish(to, b"late %d" % number, receipt=False)
    close = socket.expect(CLOSE, proves=CLOSE_ANSWERED)
    assert isinstance(close, WsFrame)
    detail = f"Close {code} was answered with {close.brief()}"
    target.record_finding(SAME_CODE, close.code == code, detail)
    detail = f"the Close that arrived: {close.brief()}"
    target.record_finding(CLOSE_BODY, len(close.payload) != 1, detail)
    target.wait_until(lambda: socket.ended is not None, PATIENCE)
    state = "open" if socket.ended is None else "closed"
    words = f"Close {code} was answered, and the connection is {state}"
    target.record_finding(TCP_CLOSED, socket.ended is not None, words)
    behind = [
        ws_frame.name
        for ws_frame in socket.frames[socket.frames.index(close) + 1 :]
        if not ws_frame.is_control
    ]
    detail = f"after its Close, the server sent {behind or 'nothing'}"
    target.record_finding(NO_DATA_AFTER_CLOSE, not behind, detail)
    other = target.stomp()
    other.subscribe(to)
    other.message(body=b"one")


def _said(socket: WebSocketPeer, reply: object) -> str:
    answer = f"got {reply.brief()}" if isinstance(reply, Reply) else "no HTTP response arrived"
    return answer + (
        "" if socket.ended is None else f", and the connection ended ({socket.ended.how})"
    )
