"""Malformed frames and contents, and unusual frame sizes that must work (4.2.3 to 4.2.7)."""

import pytest
from hypothesis import strategies as st

from brokerproof.harness.protocols.amqp091 import codec
from brokerproof.harness.protocols.amqp091.values import Raw
from brokerproof.suites.amqp091.steps import (
    CONNECTION,
    QUIET,
    bind,
    bodies,
    drained,
    exchange_of,
    others_work,
    queue_of,
)
from brokerproof.suites.api import PATIENCE, Bench, case, over
from brokerproof.suites.api.amqp091 import Amqp091Peer, Typed, method

UNKNOWN_FRAME_TYPE = "AMQP091-FRAME-01"
SILENT_AFTER_FRAME_TYPE = "AMQP091-FRAME-02"
WRONG_FRAME_END = "AMQP091-FRAME-03"
SILENT_AFTER_FRAME_END = "AMQP091-FRAME-04"
FRAME_TOO_LARGE = "AMQP091-FRAME-05"
FRAME_MAX_KEPT = "AMQP091-TUNE-05"
BODY_IN_ANY_FRAMES = "AMQP091-CONTENT-03"
BODY_UNCHANGED = "AMQP091-CONTENT-04"
CONNECTION_METHOD_CHANNEL = "AMQP091-FRAME-06"
CONTENT_ON_CHANNEL_0 = "AMQP091-CONTENT-02"
MALFORMED_CONTENT = "AMQP091-CONTENT-01"
UNKNOWN_METHOD = "AMQP091-FRAME-07"
UNREADABLE_ARGUMENTS = "AMQP091-FRAME-08"
HEARTBEAT_CHANNEL = "AMQP091-HB-01"

BODY, HEADER, METHOD, HEARTBEAT = codec.BODY, codec.HEADER, codec.METHOD, codec.HEARTBEAT


@case(
    UNKNOWN_FRAME_TYPE,
    SILENT_AFTER_FRAME_TYPE,
    WRONG_FRAME_END,
    SILENT_AFTER_FRAME_END,
    needs={"amqp091"},
)
@over(
    examples=8,
    always=lambda target: [{"fault": "type 9"}, {"fault": "end 0"}],
    fault=st.sampled_from(["type 0", "type 5", "type 9", "end 0", "end 206 + 1"]),
)
def test_octets_that_are_no_frame_end_it(target: Bench, fault: str) -> None:
    """A frame of an unknown type, or one that does not end with 0xCE, ends the connection. The
    server sends no further frame; another connection still works.

    One scenario: the fault decides which two of the four requirements an example judges.
    """
    peer = target.amqp091()
    what, _, number = fault.partition(" ")
    if what == "type":
        peer.send_frame(int(number), 1, b"hello")
    else:
        peer.send_frame(
            METHOD, 1, codec.encode_method("basic.qos"), end=0 if number == "0" else 207
        )
    proves, word = (
        (UNKNOWN_FRAME_TYPE, SILENT_AFTER_FRAME_TYPE)
        if what == "type"
        else (WRONG_FRAME_END, SILENT_AFTER_FRAME_END)
    )
    ended = target.wait_until(lambda: peer.ended is not None or _closes(peer), PATIENCE)
    target.record_finding(
        proves,
        ended,
        f"after a frame with {fault}: {peer.instead()}; expected the end of the connection",
    )
    detail = f"after a frame with {fault}: {peer.instead()}; expected no answer"
    target.record_finding(word, not peer.inbox, detail)
    others_work(target)


def _closes(peer: Amqp091Peer) -> bool:
    return any(reply.name == "connection.close" for reply in peer.inbox)


@case(FRAME_TOO_LARGE, needs={"amqp091"})
@over(
    examples=8,
    frame_max=st.sampled_from([4096, 5000, 131072]),
    beyond=st.sampled_from([9, 100, 100_000]),
)
def test_a_frame_above_frame_max_is_an_error(target: Bench, frame_max: int, beyond: int) -> None:
    """A frame of exactly frame-max bytes is accepted. A larger one closes the connection with 501
    FRAME_ERROR. The excess is at least 9 bytes, because RabbitMQ deliberately tolerates 8."""
    peer = target.amqp091(frame_max=frame_max)
    frame_max = peer.frame_max
    queue = queue_of(peer)
    whole = b"x" * (frame_max - codec.OVERHEAD)
    peer.publish(whole, queue)
    target.control(
        bodies(drained(peer, queue)) == [whole], f"a frame of {frame_max} bytes should go through"
    )
    peer.send("basic.publish", {"routing-key": queue}, channel=1)
    size = frame_max - codec.OVERHEAD + beyond
    peer.send_frame(HEADER, 1, codec.encode_content_header(size))
    peer.send_frame(BODY, 1, b"x" * size)
    peer.expect(method("connection.close", channel=0, reply_code=501), proves=FRAME_TOO_LARGE)
    others_work(target)


@case(FRAME_MAX_KEPT, BODY_IN_ANY_FRAMES, BODY_UNCHANGED, needs={"amqp091"})
@over(
    examples=12,
    always=lambda target: [
        {"frame_max": 4096, "size": 4089, "pieces": [1, 3000], "queues": 1},
        {"frame_max": 4096, "size": 50_000, "pieces": [], "queues": 3},
        {"frame_max": 4096, "size": 200_000, "pieces": [], "queues": 2},
    ],
    frame_max=st.sampled_from([4096, 4097, 10_000]),
    size=st.sampled_from([0, 1, 4087, 4088, 4089, 8176, 8177, 50_000]),
    pieces=st.lists(st.integers(1, 3000), max_size=6),
    queues=st.integers(1, 3),
)
def test_contents_are_cut_as_agreed(
    target: Bench, frame_max: int, size: int, pieces: list[int], queues: int
) -> None:
    """A client publishes a body in frames of any size, for one queue or several. Each queue
    delivers it with the same bytes, in frames no larger than frame-max."""
    peer = target.amqp091(frame_max=frame_max)
    frame_max = peer.frame_max
    exchange = exchange_of(target, peer, "fanout")
    names = [queue_of(peer) for _ in range(queues)]
    for queue in names:
        bind(peer, queue, exchange)
    body = bytes(position % 251 for position in range(size))
    peer.send("basic.publish", {"exchange": exchange}, channel=1)
    peer.send_frame(HEADER, 1, codec.encode_content_header(size))
    at = 0
    for piece in [*pieces, *[frame_max - codec.OVERHEAD] * (size // 4000 + 1)]:
        if at < size:
            peer.send_frame(BODY, 1, body[at : at + piece])
            at += piece
    peer.declare(names[0], passive=True, proves=BODY_IN_ANY_FRAMES)
    for place, queue in enumerate(names):
        peer.consume(queue, no_ack=True)
        delivery = peer.delivery(proves=BODY_IN_ANY_FRAMES)
        target.record_finding(
            BODY_UNCHANGED,
            delivery.body == body,
            f"{len(delivery.body)} of {size} bytes arrived from queue"
            f" {place}{'' if delivery.body == body else ', not as they were sent'}",
        )
        largest = max(delivery.frames)
        detail = f"the broker's largest frame has {largest} bytes; frame-max is {frame_max}"
        target.record_finding(FRAME_MAX_KEPT, largest <= frame_max, detail)


@case(CONNECTION_METHOD_CHANNEL, needs={"amqp091"})
@over(
    examples=5,
    name=st.sampled_from(
        ["connection.close", "connection.open", "connection.tune-ok", "connection.start-ok"]
    ),
)
def test_methods_of_class_connection_belong_to_channel_0(target: Bench, name: str) -> None:
    """A method of class connection on an open channel closes the connection with 503
    COMMAND_INVALID."""
    peer = target.amqp091()
    peer.send(name, {}, channel=1)
    peer.refused(CONNECTION, 503, proves=CONNECTION_METHOD_CHANNEL)


@case(CONTENT_ON_CHANNEL_0, needs={"amqp091"})
@over(examples=4, type=st.sampled_from([HEADER, BODY]))
def test_content_on_channel_0_is_an_error(target: Bench, type: int) -> None:
    """A content header or body on channel 0 closes the connection with 504 CHANNEL_ERROR."""
    peer = target.amqp091()
    peer.send_frame(type, 0, codec.encode_content_header(0) if type == HEADER else b"body")
    peer.refused(CONNECTION, 504, proves=CONTENT_ON_CHANNEL_0)
    others_work(target)


CONTENTS = [
    "header alone",
    "body alone",
    "no header",
    "no body",
    "two headers",
    "wrong class",
    "too much",
    "other method",
]


@case(MALFORMED_CONTENT, needs={"amqp091"})
@over(examples=16, fault=st.sampled_from(CONTENTS))
def test_contents_that_are_not_whole_are_errors(target: Bench, fault: str) -> None:
    """A content frame without its method, a method without its content, too much content or a frame
    within content closes the connection with 505 UNEXPECTED_FRAME. Also accepted: 501 for a wrong
    class, and 503 (an invalid sequence of frames) for a content frame without its method."""
    peer = target.amqp091()
    queue = queue_of(peer)
    publish = (METHOD, codec.encode_method("basic.publish", {"routing-key": queue}))
    ten = (HEADER, codec.encode_content_header(10))
    qos = (METHOD, codec.encode_method("basic.qos"))
    frames = {
        "header alone": [ten],
        "body alone": [(BODY, b"x")],
        "no header": [publish, (BODY, b"x")],
        "no body": [publish, ten, qos],
        "two headers": [publish, ten, ten],
        "wrong class": [publish, (HEADER, codec.encode_content_header(10, class_id=50))],
        "too much": [publish, ten, (BODY, b"x" * 11), qos],
        "other method": [publish, publish],
    }[fault]
    for type, payload in frames:
        peer.send_frame(type, 1, payload)
    also = {"wrong class": [501], "header alone": [503], "body alone": [503]}.get(fault, [])
    peer.refused(CONNECTION, 505, *also, proves=MALFORMED_CONTENT)
    others_work(target)


@case(UNKNOWN_METHOD, needs={"amqp091"})
@over(
    examples=4,
    numbers=st.sampled_from([b"\0\x63\0\x0a", b"\0\x32\0\x63", b"\0\x3c\xff\xff", b"\0\0\0\0"]),
)
def test_methods_that_nobody_knows_are_errors(target: Bench, numbers: bytes) -> None:
    """A method frame with an unknown class or method number closes the connection."""
    peer = target.amqp091()
    peer.send_frame(METHOD, 1, numbers)
    peer.refused(CONNECTION, proves=UNKNOWN_METHOD)
    others_work(target)


@case(UNREADABLE_ARGUMENTS, needs={"amqp091"})
@pytest.mark.parametrize(
    "fault", ["short", "too short", "string", "table", "nested", "value", "cut"]
)
def test_methods_that_cannot_be_read_are_errors(target: Bench, fault: str) -> None:
    """A method whose arguments end too early, or announce more bytes than follow, closes the
    connection."""
    peer = target.amqp091()
    declare = codec.encode_method("queue.declare", {"queue": "q"})
    table = {"arguments": {"x-max-length": Typed("I", 5)}}
    payload = {
        "short": declare[:-2],
        "too short": b"\0\x32",
        "string": codec.encode_method("queue.declare", {"queue": Raw(b"\xffq")}),
        "table": codec.encode_method("queue.declare", {"arguments": Raw(b"\xff\xff\xff\xff")}),
        "nested": codec.encode_method(
            "queue.declare", {"arguments": {"t": Typed("F", Raw(b"\0\0\xff\xff"))}}
        ),
        "value": codec.encode_method("queue.declare", {"arguments": {"t": Typed("?", b"zzzz")}}),
        "cut": codec.encode_method("queue.declare", {"queue": "q", **table})[:-1],
    }[fault]
    peer.send_frame(METHOD, 1, payload)
    peer.refused(CONNECTION, proves=UNREADABLE_ARGUMENTS)
    others_work(target)


@case(HEARTBEAT_CHANNEL, needs={"amqp091"})
def test_a_heart_beat_on_another_channel_is_an_error(target: Bench) -> None:
    """A heartbeat on channel 1 closes the connection with 501 FRAME_ERROR or 503 COMMAND_INVALID.
    Control: on channel 0 it is accepted, with an agreed interval and without."""
    peer = target.amqp091()
    peer.beat()
    peer.settle()
    peer.beat(codec.encode_frame(HEARTBEAT, 1))
    peer.refused(CONNECTION, 501, 503, proves=HEARTBEAT_CHANNEL)


@case(UNREADABLE_ARGUMENTS, needs={"amqp091"})
@over(
    examples=30,
    data=st.binary(min_size=1, max_size=60),
    type=st.sampled_from([METHOD, HEADER, BODY]),
)
def test_any_octets_are_survived(target: Bench, data: bytes, type: int) -> None:
    """Arbitrary bytes in a frame close the connection or are ignored; other connections work."""
    peer = target.amqp091()
    peer.send_frame(type, 1, data)
    peer.send("channel.flow", {"active": True}, channel=1)
    target.wait_until(lambda: bool(peer.inbox) or peer.ended is not None, PATIENCE)
    detail = f"to {data!r} in a frame of type {type}: {peer.instead()}"
    target.record_finding(UNREADABLE_ARGUMENTS, bool(peer.inbox) or peer.ended is not None, detail)
    target.wait_until(lambda: peer.ended is not None, QUIET if target.virtual else 0)
    others_work(target)
