"""STOMP over WebSocket: STOMP's requirements apply on an acceptor for both protocols.

The boundaries of WebSocket messages and frames have no meaning for STOMP; only the bytes do.
"""

import pytest
from hypothesis import strategies as st

from brokerproof.harness.protocols.websocket import codec
from brokerproof.harness.protocols.websocket.codec import Op
from brokerproof.harness.protocols.websocket.raw_peer import WebSocketChannel
from brokerproof.suites.api import Bench, Where, case, ms, over
from brokerproof.suites.api.stomp import MESSAGE, frame
from brokerproof.suites.steps.silence import judge_close, unread_for
from brokerproof.suites.steps.strategies import near, periods
from brokerproof.suites.steps.traces import beats_received
from brokerproof.suites.steps.websockets import (
    Victim,
    connect_frame,
    limit_of,
    limited_places,
    messages,
    padded_send,
    send_frame,
    session,
)
from brokerproof.suites.stomp.error_recovery_steps import MOMENT, Bystander

FRAGMENTS_ACCEPTED = "RFC6455-FRAG-01"
ANY_FRAGMENTATION = "RFC6455-FRAG-04"
PROTECTED = "RFC6455-LIMIT-01"
CLOSE_CODE = "RFC6455-CLOSE-05"
TEXT_IS_UTF_8 = "RFC6455-DATA-01"
SERVER_BEATS = "ARTEMIS-STOMP-ttl-9"
TTL_OF_HEART_BEAT = "ARTEMIS-STOMP-ttl-3"

ACCEPTED = "ARTEMIS-STOMP-ws-1"
LIMIT = "ARTEMIS-STOMP-ws-2"
KIND = "ARTEMIS-STOMP-ws-3"
VERSIONS = dict.fromkeys(("1.0", "1.1", "1.2"), ACCEPTED)
KINDS = st.sampled_from([Op.BINARY, Op.TEXT])


@case(VERSIONS, needs={"websocket", "websocket-acceptors"})
def test_a_session_over_websocket_is_a_session(target: Bench, version: str) -> None:
    """A client uses every STOMP frame over WebSocket, in binary and in text messages. The broker
    answers each as over TCP, and messages are exchanged with a TCP client."""
    plain = target.stomp(version)
    for op in (Op.BINARY, Op.TEXT):
        to = target.destination()
        socket = target.websocket()
        peer = target.peer(version, over=socket)
        assert isinstance(peer.channel, WebSocketChannel)
        peer.channel.op = op
        peer.connect(target.connect_headers(version), proves=ACCEPTED)
        peer.subscribe(to, ack="client", proves=ACCEPTED)
        plain.publish(to, b"from plain")
        peer.ack(peer.message(body=b"from plain", proves=ACCEPTED), receipt=True)
        peer.request("BEGIN", {"transaction": peer.transaction}, proves=ACCEPTED)
        peer.publish(to, b"over websocket", {"transaction": peer.transaction}, proves=ACCEPTED)
        peer.request("COMMIT", {"transaction": peer.transaction}, proves=ACCEPTED)
        peer.ack(peer.message(body=b"over websocket", proves=ACCEPTED), receipt=True)
        peer.request("UNSUBSCRIBE", {"id": "0"}, proves=ACCEPTED)
        plain.subscribe(to, f"back-{op}")
        peer.publish(to, b"to plain", proves=ACCEPTED)
        plain.message(body=b"to plain", proves=ACCEPTED)
        peer.request("DISCONNECT", proves=ACCEPTED)


@case(FRAGMENTS_ACCEPTED, ANY_FRAGMENTATION, ACCEPTED, needs={"websocket", "websocket-acceptors"})
@over(
    examples=60, op=KINDS, sizes=st.lists(st.integers(1, 40), max_size=12), together=st.booleans()
)
def test_frames_of_websocket_and_of_stomp_need_not_meet(
    target: Bench, op: Op, sizes: list[int], together: bool
) -> None:
    """CONNECT and two SENDs are sent in one or two messages cut into fragments of any size. Each is
    answered as if it had arrived whole."""
    to, socket = target.destination(), target.websocket()
    peer = target.peer(over=socket)
    first, second = (
        connect_frame(target),
        send_frame(to, b"one", "one") + b"\n" + send_frame(to, b"two", "two"),
    )
    for part in [first + second] if together else [first, second]:
        socket.message(part, op=op, sizes=sizes)
    proves = (
        (FRAGMENTS_ACCEPTED, ANY_FRAGMENTATION, ACCEPTED)
        if sizes
        else (ANY_FRAGMENTATION, ACCEPTED)
    )
    peer.expect(frame("CONNECTED"), proves=proves)
    for name in ("one", "two"):
        peer.expect(frame("RECEIPT", {"receipt-id": name}), proves=proves)
    if not sizes:
        socket.message(send_frame(to, b"three", "three"), op=op, sizes=[5])
        peer.expect(frame("RECEIPT", {"receipt-id": "three"}), proves=FRAGMENTS_ACCEPTED)


@case(FRAGMENTS_ACCEPTED, needs={"websocket", "websocket-acceptors"})
@pytest.mark.parametrize("before", [0, 9, 30], ids=["first", "after the command", "in the headers"])
def test_an_empty_fragment_means_nothing(target: Bench, before: int) -> None:
    """CONNECT is sent in fragments, one of them empty. It is answered with CONNECTED."""
    socket = target.websocket()
    peer = target.peer(over=socket)
    socket.message(connect_frame(target), op=Op.TEXT, sizes=[before, 0] if before else [0])
    peer.expect(frame("CONNECTED"), proves=FRAGMENTS_ACCEPTED)


@case(ANY_FRAGMENTATION, ACCEPTED, needs={"websocket", "websocket-acceptors"})
def test_a_stomp_frame_may_stretch_over_several_messages(target: Bench) -> None:
    """Each byte of a SEND is sent in a separate message. It is processed as one SEND."""
    requirements = (ANY_FRAGMENTATION, ACCEPTED)
    to = target.destination()
    _, peer = session(target)
    peer.subscribe(to)
    for byte in send_frame(to, b"in small pieces", "pieces"):
        peer.write(bytes([byte]), as_event=False)
    peer.expect(frame("RECEIPT", {"receipt-id": "pieces"}), proves=requirements)
    peer.message(body=b"in small pieces", proves=requirements)


@case(LIMIT, PROTECTED, CLOSE_CODE, needs={"websocket", "websocket-acceptors"})
@over(examples=40, where=limited_places, over_by=near([1, 1000], low=1), op=KINDS)
def test_frames_up_to_the_limit_are_taken_and_no_larger_ones(
    target: Bench, where: Where, over_by: int, op: Op
) -> None:
    """A SEND in a frame of exactly the acceptor's limit is confirmed, and so is a larger message in
    three frames. A frame above the limit fails the connection, ideally with code 1009; another
    connection is still served."""
    limit = limit_of(target, where.acceptor)
    bystander = Bystander(target, "1.2")
    victim = Victim(target, acceptor=where.acceptor)
    for sizes, total in (((), limit), ((limit, limit), 2 * limit + 100)):
        victim.socket.message(padded_send(victim.to, total), op=op, sizes=sizes)
        victim.stomp.expect(frame("RECEIPT", {"receipt-id": "padded"}), proves=LIMIT)
    victim.drain(2)
    # Only the frame header is sent: unread payload would cause a reset, which could lose the Close.
    whole = padded_send(victim.to, limit + over_by)
    unmasked = bytes(4)
    victim.socket.write(codec.encode(op, b"", mask=unmasked, announce=len(whole)))
    if not target.wait_until(lambda: victim.socket.ended is not None, MOMENT):
        victim.socket.write(whole)
    what = f"a frame of {limit + over_by} bytes with a limit of {limit}"
    victim.judge_failed((LIMIT, PROTECTED), 1009, what)
    bystander.check()


@case(KIND, needs={"websocket", "websocket-fixtures"})
def test_an_acceptor_may_send_text(target: Bench) -> None:
    """The acceptor ws-text sends text messages, the default one binary messages. Their content is
    the same."""
    for acceptor, op in (("ws-text", Op.TEXT), (None, Op.BINARY)):
        to = target.destination()
        socket, peer = session(target, acceptor)
        peer.subscribe(to)
        peer.publish(to, "größer als 1".encode())
        peer.message(body="größer als 1".encode())
        kinds = {kind for kind, _ in messages(socket.frames)}
        got = ", ".join(Op(kind).name for kind in sorted(kinds))
        words = f"the broker sent messages of type {got}; the acceptor is configured for {op.name}"
        target.record_finding(KIND, kinds == {op}, words)


@case(TEXT_IS_UTF_8, needs={"websocket", "websocket-text"})
@over(
    examples=30,
    always=lambda target: [{"body": b"\xff"}],
    body=st.one_of(st.binary(min_size=1, max_size=20), st.text(min_size=1, max_size=20)),
)
def test_text_messages_are_utf8_whatever_the_body(target: Bench, body: bytes | str) -> None:
    """On an acceptor that sends text, a message with a body of arbitrary bytes is delivered. Every
    text message is valid UTF-8 as a whole."""
    acceptor = target.profile.parameters.get("websocket_text_acceptor")
    data = body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass")
    to = target.destination()
    socket, peer = session(target, None if acceptor is None else str(acceptor))
    peer.subscribe(to)
    producer = target.stomp()
    producer.publish(to, data)
    producer.publish(to, "schön".encode())
    peer.watch_for(MESSAGE)
    peer.watch_for(MESSAGE)
    texts = [payload for op, payload in messages(socket.frames) if op == Op.TEXT]
    bad = [payload for payload in texts if not _is_utf8(payload)]
    target.control(bool(texts), "no text message arrived from the acceptor that sends text")
    words = f"of {len(texts)} text messages, not in UTF-8: {repr(bad[0]) if bad else 'none'}"
    target.record_finding(TEXT_IS_UTF_8, not bad, words)


@case(SERVER_BEATS, ACCEPTED, needs={"websocket", "websocket-acceptors", "heart-beat"})
def test_heart_beats_come_over_websocket(target: Bench) -> None:
    """CONNECT over WebSocket asks for a heartbeat every 500 ms. For 2.5 seconds data arrives within
    each agreed interval plus its margin."""
    socket = target.websocket()
    peer = target.stomp(heart_beat="2000,500", over=socket)
    assert peer.connected is not None
    since = target.now()
    agreed = ms(int((peer.connected.get("heart-beat") or "0,0").split(",")[0]))
    target.control(agreed > 0, f"the server promises no beats: {peer.connected.brief()}")
    for _ in range(5):
        target.advance(ms(500))
        peer.beat()
    beats = beats_received(target, peer, since)
    target.judge_period(
        SERVER_BEATS,
        "longest time without a beat",
        [since, *beats],
        (0, agreed),
        until=target.now(),
    )
    target.record_finding(
        ACCEPTED, len(beats) >= 2, f"{len(beats)} heartbeats in 2.5 s over WebSocket"
    )


@case(TTL_OF_HEART_BEAT, needs={"websocket", "websocket-acceptors", "connection-ttl"})
@over(examples=20, cx=periods(500, 1000, 1500))
def test_silence_over_websocket_ends_within_its_interval(target: Bench, cx: int) -> None:
    """A client over WebSocket promises heartbeats every cx ms and then sends nothing. The
    connection is closed within the same interval as over TCP."""
    expected = target.negotiated((cx, 0), "1.2", None)
    socket = target.websocket()
    silent = target.stomp(heart_beat=f"{cx},0", over=socket)
    since = silent.spoke_at
    assert since is not None
    low, high = target.silence_interval(expected.ttl_ms)
    bounds = low, high + unread_for(target, silent)
    agreed = f"a TTL of {expected.ttl_ms} ms"
    judge_close(target, silent, TTL_OF_HEART_BEAT, since, bounds, agreed)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
