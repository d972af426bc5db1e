"""What RFC 6455 asks of a server, wherever STOMP is spoken over WebSocket: handshake, frames,
control frames, the end.

Only what the document settles is judged. It does not say, for one, what becomes of a frame whose
length is longer than needed, or of a continuation of nothing.
"""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import Where, case, over
from brokerproof.harness.protocols.conversation import PATIENCE
from brokerproof.harness.protocols.stomp.raw_peer import frame
from brokerproof.harness.protocols.websocket import codec
from brokerproof.harness.protocols.websocket.codec import UPGRADE, Op, Reply, WsFrame
from brokerproof.harness.protocols.websocket.raw_peer import (
    CLOSE,
    REPLY,
    SUB_PROTOCOLS,
    WebSocketPeer,
    ws,
)
from brokerproof.suites.steps.websockets import (
    SERVER_RULES,
    Victim,
    judge_frames,
    limited_places,
    send_frame,
    session,
)
from brokerproof.suites.stomp.error_recovery_steps import Bystander

NOT_UTF8 = (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"ok\xc3")
OFFERS = st.lists(
    st.sampled_from([*SUB_PROTOCOLS, "soap", "V12.STOMP", "v13.stomp"]), unique=True, max_size=4
)


@case(
    *(
        "RFC6455-HS-03",
        "RFC6455-HS-04",
        "RFC6455-HS-05",
        "RFC6455-HS-06",
        "RFC6455-HS-07",
        "RFC6455-HS-08",
    ),
    needs={"websocket"},
)
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
    """A request with any key and any offer of sub-protocols: 101 comes, with the headers that the
    client has to insist on, a sub-protocol only if it was offered, and none if nothing fits."""
    status, fields, accept, chosen, none, extensions = target.cited
    socket = target.websocket(upgrade=False)
    key = codec.key(seed)
    socket.ask(key=key, protocols=offered)
    reply = socket.expect(REPLY, proves=status)
    assert isinstance(reply, Reply)
    target.require(status, reply.status == 101, f"offered {offered}, came {reply.brief()}")
    upgrade, connection = (
        reply.values("upgrade"),
        ", ".join(reply.values("connection")).lower().split(", "),
    )
    held = [each.lower() for each in upgrade] == ["websocket"] and "upgrade" in connection
    target.record_finding(fields, held, f"Upgrade: {upgrade}, Connection: {connection}")
    said = reply.values("sec-websocket-accept")
    target.record_finding(accept, said == [codec.accept(key)], f"key {key}: accept is {said}")
    agreed = reply.values("sec-websocket-protocol")
    if not set(offered) & set(SUB_PROTOCOLS):
        target.record_finding(none, not agreed, f"offered {offered}, agreed {agreed}")
    else:
        target.record_finding(
            chosen,
            not agreed or (len(agreed) == 1 and agreed[0] in offered),
            f"{offered}: agreed {agreed}",
        )
    listed = reply.values("sec-websocket-extensions")
    target.record_finding(
        extensions, not listed, f"no extension was offered, the answer lists {listed}"
    )


BAD_REQUESTS: dict[str, dict[str, object]] = {
    "no key": {"key": None},
    "no Host": {"host": None},
    "no version": {"fields": UPGRADE[:2]},
    "Connection without Upgrade": {
        "fields": (UPGRADE[0], ("Connection", "keep-alive"), UPGRADE[2])
    },
    "HTTP 1.0": {"line": "GET {path} HTTP/1.0"},
}
"""Not here: a key that is no base64 of 16 octets, which a server need not decode (section 4.2.2),
and other methods than GET, with which a server may ignore Upgrade."""


@case("RFC6455-HS-01", needs={"websocket"})
@pytest.mark.parametrize("bad", BAD_REQUESTS)
def test_a_bad_handshake_is_answered_with_an_error(target: Bench, bad: str) -> None:
    """A request to open a WebSocket that is right but for one thing: without key, Host or version,
    without Upgrade in Connection, or as HTTP 1.0. An HTTP error comes, and no WebSocket. The same
    request without the defect is accepted, before and after."""
    target.websocket().leave()
    socket = target.websocket(upgrade=False)
    socket.ask(**BAD_REQUESTS[bad])  # type: ignore[arg-type]
    reply = socket.watch_for(REPLY)
    status = reply.status if isinstance(reply, Reply) else None
    target.record_finding(
        "RFC6455-HS-01", status is not None and status >= 400, f"{bad}: {_said(socket, reply)}"
    )
    target.websocket().leave()


@case("RFC6455-HS-02", needs={"websocket"})
@pytest.mark.parametrize("asked", ["0", "12", "14", "255"])
def test_another_version_is_refused_and_ours_named(target: Bench, asked: str) -> None:
    """Sec-WebSocket-Version asks for a version that nobody speaks. An HTTP error comes, with the
    versions to be had, among which is 13. A request for 13 is accepted."""
    socket = target.websocket(upgrade=False)
    socket.ask(fields=(*UPGRADE[:2], ("Sec-WebSocket-Version", asked)))
    reply = socket.watch_for(REPLY)
    spoken: list[str] = []
    if isinstance(reply, Reply):
        spoken = [
            each.strip()
            for value in reply.values("sec-websocket-version")
            for each in value.split(",")
        ]
    held = isinstance(reply, Reply) and reply.status >= 400 and "13" in spoken
    target.record_finding("RFC6455-HS-02", held, f"version {asked}: {_said(socket, reply)}")
    target.websocket().leave()


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
    """Messages with bodies of any size arrive whole. Whatever frames they come in: unmasked, no
    reserved bit, the length in its shortest form, fragments in order, control frames small and
    whole."""
    socket, peer = session(target, where.acceptor)
    to = target.destination()
    peer.subscribe(to)
    target.stomp().publish(to, b"b" * size)
    peer.message(body=b"b" * size)
    socket.send(Op.PING, b"p" * 125)
    socket.expect(ws(Op.PONG))
    judge_frames(target, socket.frames)


@case("RFC6455-CTRL-02", "RFC6455-CTRL-04", "RFC6455-FRAG-02", needs={"websocket"})
@over(examples=60, payloads=st.lists(st.binary(max_size=125), min_size=1, max_size=4))
def test_pings_are_answered_also_amid_a_message(target: Bench, payloads: list[bytes]) -> None:
    """Pings with any payload, at rest and between the fragments of a SEND: a Pong with the same
    payload comes before the next Ping is sent, and the SEND is served."""
    socket, peer = session(target)
    to = target.destination()
    sent = send_frame(to, b"in fragments", "whole")
    for payload in payloads:
        socket.send(Op.PING, payload)
        _pong(target, socket, payload, "RFC6455-CTRL-04")
    step = max(1, len(sent) // (len(payloads) + 1))
    op = Op.BINARY
    for payload in payloads:
        socket.send(op, sent[:step], fin=False)
        op, sent = Op.CONTINUATION, sent[step:]
        socket.send(Op.PING, payload)
        _pong(target, socket, payload, "RFC6455-FRAG-02")
    socket.send(op, sent)
    peer.expect(frame("RECEIPT", {"receipt-id": "whole"}), proves="RFC6455-FRAG-02")


def _pong(target: Bench, socket: WebSocketPeer, payload: bytes, also: str) -> None:
    pong = socket.expect(ws(Op.PONG), proves="RFC6455-CTRL-02")
    assert isinstance(pong, WsFrame)
    target.record_finding(
        also, pong.payload == payload, f"Ping {payload!r} was answered {pong.brief()}"
    )


@case("RFC6455-CTRL-05", needs={"websocket"})
def test_a_pong_that_nobody_asked_for_changes_nothing(target: Bench) -> None:
    """Pongs come unasked, empty and full. The session goes on and nothing is said to them."""
    socket, peer = session(target)
    before = len(socket.frames)
    for payload in (b"", b"p" * 125):
        socket.send(Op.PONG, payload)
    peer.settle()
    said = [each.name for each in socket.frames[before:] if each.is_control]
    target.record_finding(
        "RFC6455-CTRL-05",
        not said,
        f"to Pongs that nobody asked for the server said {said or 'nothing'}",
    )


@case("RFC6455-FRAME-01", "RFC6455-CLOSE-07", needs={"websocket"})
@over(
    examples=15,
    op=st.sampled_from([Op.BINARY, Op.TEXT, Op.PING]),
    payload=st.sampled_from([b"", b"\n", b"x" * 125]),
)
def test_a_frame_without_mask_ends_the_connection(target: Bench, op: Op, payload: bytes) -> None:
    """A frame that is right but not masked, and a SEND behind it that is. The connection ends, the
    SEND is not served, and another connection notices nothing."""
    _misdeed(target, "RFC6455-FRAME-01", None, f"{op.name} without mask", op, payload, masked=False)


@case("RFC6455-FRAME-03", "RFC6455-CLOSE-05", "RFC6455-CLOSE-07", needs={"websocket"})
@over(examples=15, reserved=st.integers(1, 7), op=st.sampled_from([Op.BINARY, Op.TEXT, Op.PING]))
def test_a_reserved_bit_fails_the_connection(target: Bench, reserved: int, op: Op) -> None:
    """No extension was agreed, and a frame has reserved bits set. The connection fails, with 1002
    as the fitting code."""
    what = f"{op.name} with reserved bits {reserved:03b}"
    _misdeed(target, "RFC6455-FRAME-03", 1002, what, op, b"\n", reserved=reserved)


@case("RFC6455-FRAME-04", "RFC6455-CLOSE-05", "RFC6455-CLOSE-07", needs={"websocket"})
@over(
    examples=15,
    op=st.sampled_from([*range(3, 8), *range(11, 16)]),
    payload=st.sampled_from([b"", b"\n"]),
)
def test_an_unknown_opcode_fails_the_connection(target: Bench, op: int, payload: bytes) -> None:
    """A frame with an opcode that nobody defined. The connection fails, with 1002 as the fitting
    code."""
    _misdeed(target, "RFC6455-FRAME-04", 1002, f"opcode {op}", op, payload)


@case("RFC6455-DATA-02", "RFC6455-CLOSE-05", needs={"websocket"})
@over(examples=15, bad=st.sampled_from(NOT_UTF8), sizes=st.lists(st.integers(1, 20), max_size=3))
def test_text_that_is_not_utf8_fails_the_connection(
    target: Bench, bad: bytes, sizes: list[int]
) -> None:
    """A text message, whole or in fragments, carries a SEND whose body is not UTF-8. The connection
    fails, with 1007 as the fitting code. The same SEND in a binary message is served."""
    bystander = Bystander(target, "1.2")
    victim = Victim(target)
    victim.socket.message(send_frame(victim.to, bad, "binary"), sizes=sizes)
    victim.stomp.expect(frame("RECEIPT", {"receipt-id": "binary"}))
    victim.drain(1)
    victim.socket.message(send_frame(victim.to, bad, "text"), op=Op.TEXT, sizes=sizes)
    victim.tell_on()
    victim.judge_failed("RFC6455-DATA-02", 1007, f"text {bad!r}")
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


@case(
    *(
        "RFC6455-CLOSE-01",
        "RFC6455-CLOSE-02",
        "RFC6455-CLOSE-03",
        "RFC6455-CLOSE-04",
        "RFC6455-CLOSE-06",
    ),
    needs={"websocket"},
)
@over(
    examples=40,
    always=lambda _: [{"code": 1000, "reason": "bye"}, {"code": None, "reason": ""}],
    code=st.one_of(st.none(), st.sampled_from([1000, 1001, 1008, 3000, 4999])),
    reason=st.text(max_size=20),
)
def test_a_close_is_answered_and_is_the_end(target: Bench, code: int | None, reason: str) -> None:
    """The client says Close while messages for it keep coming. A Close comes back, no data behind
    it, and the server ends the connection. What the client had not acknowledged goes to somebody
    else."""
    answered, echoed, silent, ended, body = target.cited
    to = target.destination()
    socket, peer = session(target)
    peer.subscribe(to, ack="client")
    producer = target.stomp()
    producer.publish(to, b"one")
    peer.message(body=b"one")
    socket.send(Op.CLOSE, b"" if code is None else code.to_bytes(2) + reason.encode()[:123])
    for number in range(3):
        producer.publish(to, b"late %d" % number, receipt=False)
    close = socket.expect(CLOSE, proves=answered)
    assert isinstance(close, WsFrame)
    target.record_finding(echoed, close.code == code, f"Close {code} was answered {close.brief()}")
    target.record_finding(body, len(close.payload) != 1, f"the Close that came: {close.brief()}")
    target.wait_until(lambda: socket.ended is not None, PATIENCE)
    target.record_finding(
        ended, socket.ended is not None, f"Close {code}, answered, and the connection is open"
    )
    behind = [
        each.name for each in socket.frames[socket.frames.index(close) + 1 :] if not each.is_control
    ]
    target.record_finding(
        silent, not behind, f"behind its Close the server sent {behind or 'nothing'}"
    )
    other = target.stomp()
    other.subscribe(to)
    other.message(body=b"one")


def _said(socket: WebSocketPeer, reply: object) -> str:
    said = reply.brief() if isinstance(reply, Reply) else "no HTTP response came"
    return said + (
        "" if socket.ended is None else f", and the connection ended ({socket.ended.how})"
    )
