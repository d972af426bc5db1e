"""Many frames become trace columns at once. The columns equal those of frames that the harness's
codecs read one by one."""

import random
from pathlib import Path
from typing import Any

import pytest

from brokerproof.harness.load import amqp091_columns, amqp10_columns, stomp_columns
from brokerproof.harness.load.wire_log import EOL, RECEIVED, SENT, LogSlice, WireLog, blocks
from brokerproof.harness.protocols.amqp091 import codec as amqp091_codec
from brokerproof.harness.protocols.amqp091.trace_recorder import Stream, event_of
from brokerproof.harness.protocols.amqp10 import codec as amqp10_codec
from brokerproof.harness.protocols.amqp10 import messages, types
from brokerproof.harness.protocols.stomp import codec as stomp_codec
from brokerproof.harness.trace.event_factory import EventFactory
from brokerproof.harness.trace.events import FrameReceived, FrameSent
from brokerproof.harness.trace.stamp import stamp


def stretch(
    folder: Path, frames: list[tuple[int, int, int, bytes]], sizes: list[int] | None = None
) -> LogSlice:
    found = LogSlice()
    written: list[Path] = []
    tape = WireLog(folder, written.append)
    for place, (at, conn, direction, data) in enumerate(frames):
        tape.frames(0, direction, at, conn, [data], None if sizes is None else [sizes[place]])
    tape.close()
    for path in written:
        for block in blocks(memoryview(path.read_bytes())):
            found.add(block)
    assert found.rows == len(frames)
    return found


def rows(columns: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        dict(zip(columns, values, strict=True))
        for values in zip(*(column.to_pylist() for column in columns.values()), strict=True)
    ]


STOMP = [
    stomp_codec.encode("CONNECTED", {"version": "1.2", "session": "a:b", "heart-beat": "0,0"}),
    stomp_codec.encode(
        "SEND",
        [("destination", "q"), ("destination", "twice"), ("receipt", "1.1")],
        stamp(1, 7) + b"x" * 300,
    ),
    stomp_codec.encode(
        "MESSAGE", {"ack": "a:1\\2", "message-id": "ID:3\n4", "content-length": "4"}, b"\n\nab"
    ),
    stomp_codec.encode("RECEIPT", {"receipt-id": "1.1"}),
    stomp_codec.encode("ERROR", {"message": "née"}, "é\n".encode()),
    stomp_codec.encode("ACK", {"id": "x"}, eol=b"\r\n"),
    stomp_codec.encode("MESSAGE", {"empty": ""}, b""),
]


def test_stomp_as_its_codec_reads_it(tmp_path: Path) -> None:
    dice = random.Random(3)
    data = [dice.choice(STOMP) for _ in range(200)]
    frames = [(at, at % 3, at % 2, each[:-1]) for at, each in enumerate(data)]
    found = rows(stomp_columns.columns(stretch(tmp_path, frames)))
    for at, (row, each) in enumerate(zip(found, data, strict=True)):
        (frame,) = stomp_codec.Reader("1.2").feed(each)
        assert isinstance(frame, stomp_codec.Frame)
        assert row["kind"] == ("FrameSent" if at % 2 == SENT else "FrameReceived")
        assert (row["at_ns"], row["conn"], row["command"]) == (at, at % 3, frame.command)
        assert sorted((header["name"], header["value"]) for header in row["headers"]) == sorted(
            frame.headers
        )
        assert row["body"] == frame.body[:96]
        assert row["body_size"] == len(frame.body)
        assert row["size"] == len(each)


def test_signs_of_life_and_what_was_cut_keep_their_sizes(tmp_path: Path) -> None:
    whole = stomp_codec.encode("MESSAGE", {"ack": "1"}, b"b" * 5000)[:-1]
    frames = [
        (1, 1, RECEIVED, b""),
        (2, 1, RECEIVED, whole[:120]),
        (3, 1, SENT, b""),
        (4, 1, RECEIVED, b"a line\nwithout a colon"),
    ]
    found = rows(stomp_columns.columns(stretch(tmp_path, frames, [3, len(whole) + EOL, 1, 22])))
    expected = ["HeartBeatReceived", "FrameReceived", "HeartBeatSent", "FrameReceived"]
    assert [row["kind"] for row in found] == expected
    assert [row["size"] for row in found] == [3, len(whole) + 2, 1, 23]
    assert found[0]["command"] is found[0]["headers"] is found[0]["body"] is None
    assert (found[1]["body_size"], found[1]["command"]) == (5000, "MESSAGE")
    assert found[3]["command"] == stomp_columns.UNREADABLE


def amqp_frames() -> list[bytes]:
    def performative(name: str, payload: bytes = b"", channel: int = 0, **fields: Any) -> bytes:
        encoded = types.encode(amqp10_codec.composite(name, **fields))
        return amqp10_codec.encode_frame(encoded + payload, channel=channel)

    message = messages.message(stamp(3, 9) + b"y" * 200, header={"durable": True})
    accepted = amqp10_codec.composite("accepted")
    rejected = amqp10_codec.composite("rejected", error=("amqp:not-found", "no such"))
    ids = {"next_outgoing_id": 2, "incoming_window": 1, "outgoing_window": 3}
    link = {"handle": 0, "delivery_count": 7, "link_credit": 1000}
    first = {"handle": 0, "delivery_id": 300, "delivery_tag": b"\1\2"}
    tagged = {"handle": 70000, "delivery_id": 0, "delivery_tag": b""}
    outcome = types.encode(amqp10_codec.composite("sasl-outcome", code=0))
    return [
        amqp10_codec.protocol_header(3),
        performative("open", container_id="c", properties={"product": "p"}),
        performative("begin", next_outgoing_id=0, incoming_window=5, outgoing_window=2**31 - 1),
        performative("transfer", message, 3, **first, settled=False),
        performative("transfer", message, **tagged, settled=True, more=True),
        performative("transfer", b"", handle=1, aborted=True),
        performative("transfer", message, handle=1, delivery_id=8, state=accepted, batchable=True),
        performative(
            "disposition", role=True, first=4, last=2**32 - 1, settled=True, state=accepted
        ),
        performative("disposition", role=False, first=4, state=rejected),
        performative("flow", **ids),
        performative("flow", next_incoming_id=9, **ids, **link, echo=True, properties={"a": 1.5}),
        amqp10_codec.encode_frame(outcome, type=amqp10_codec.SASL_FRAME),
        performative("close", error=("amqp:internal-error", "why")),
    ]


def test_amqp_as_its_codec_reads_it(tmp_path: Path) -> None:
    dice = random.Random(5)
    data = [dice.choice(amqp_frames()) for _ in range(300)]
    frames = [(at, 1, at % 2, each) for at, each in enumerate(data)]
    found = rows(amqp10_columns.columns(stretch(tmp_path, frames)))
    for row, each in zip(found, data, strict=True):
        (frame,) = amqp10_codec.Reader().feed(each)
        assert isinstance(frame, amqp10_codec.Frame)
        assert row["command"] == frame.name
        got = tuple((header["name"], header["value"]) for header in row["headers"])
        assert got == frame.listed()
        assert (row["body"], row["body_size"]) == (frame.payload[:96], len(frame.payload))
        assert row["size"] == len(each)


def test_amqp_that_is_none_is_told_and_empty_frames_are_beats(tmp_path: Path) -> None:
    torn = bytearray(amqp_frames()[3])
    torn[11] = 0xC1  # a map where the list should be
    frames = [
        (1, 1, RECEIVED, amqp10_codec.encode_frame(b"")),
        (2, 1, RECEIVED, bytes(torn)),
        (3, 1, SENT, amqp_frames()[3][:90]),
    ]
    found = rows(amqp10_columns.columns(stretch(tmp_path, frames, [8, len(torn), len(torn)])))
    assert [row["kind"] for row in found] == ["HeartBeatReceived", "FrameReceived", "FrameSent"]
    assert found[1]["command"] == amqp10_columns.UNREADABLE
    assert (found[2]["command"], found[2]["size"]) == ("transfer", len(torn))
    (whole,) = amqp10_codec.Reader().feed(amqp_frames()[3])
    assert isinstance(whole, amqp10_codec.Frame)
    assert found[2]["body_size"] == len(whole.payload)


def amqp091_contents() -> list[list[bytes]]:
    """Return methods as a load stores them: the method, its content header, and a complete or
    truncated body."""

    def call(name: str, channel: int = 1, **fields: Any) -> bytes:
        return amqp091_codec.encode_frame(
            amqp091_codec.METHOD, channel, amqp091_codec.encode_method(name, fields)
        )

    def head(size: int, **properties: Any) -> bytes:
        return amqp091_codec.encode_frame(
            amqp091_codec.HEADER, 1, amqp091_codec.encode_content_header(size, properties)
        )

    body = stamp(3, 9) + b"y" * 200
    publish = call("basic.publish", routing_key="q", exchange="")
    delivery = {"consumer_tag": "c1", "delivery_tag": 2**40 + 7, "redelivered": True}
    deliver = call("basic.deliver", **delivery, routing_key="né")
    login = {"client_properties": {"product": "p"}, "mechanism": "PLAIN", "response": b"***"}
    return [
        [publish, head(len(body)), body],
        [call("basic.publish", routing_key="q2", mandatory=True), head(0), b""],
        [deliver, head(len(body)), body],
        [deliver, head(len(body), delivery_mode=2, headers={"a": [1, "b"]}), body],
        [call("basic.ack", 300, delivery_tag=2**63, multiple=True)],
        [call("basic.nack", delivery_tag=3, requeue=True)],
        [call("queue.declare", queue="q", durable=True, arguments={"x-max-length": 5})],
        [call("connection.start-ok", 0, **login)],
        [amqp091_codec.protocol_header()],
        [amqp091_codec.encode_frame(amqp091_codec.HEARTBEAT, 0)],
    ]


def test_amqp_0_9_1_as_the_tap_tells_it(tmp_path: Path) -> None:
    dice = random.Random(7)
    chosen = [dice.choice(amqp091_contents()) for _ in range(300)]

    def whole(row: list[bytes]) -> bytes:
        pieces = [body for body in row[2:] if body]
        framed = [amqp091_codec.encode_frame(amqp091_codec.BODY, 1, body) for body in pieces]
        return b"".join([*row[:2], *framed])

    wire = [whole(row) for row in chosen]
    kept = [b"".join([*row[:2], *(body[:96] for body in row[2:])]) for row in chosen]
    frames = [(at, 1, at % 2, data) for at, data in enumerate(kept)]
    found = rows(amqp091_columns.columns(stretch(tmp_path, frames, list(map(len, wire)))))
    factory = EventFactory(1)
    for at, (row, data) in enumerate(zip(found, wire, strict=True)):
        (method,) = Stream().feed(data)
        event = event_of(factory, at, at % 2 == SENT, method)
        assert row["kind"] == type(event).__name__
        assert row["size"] == len(data)
        if isinstance(event, FrameSent | FrameReceived):
            assert (row["command"], row["protocol"]) == (event.command, event.protocol)
            got = tuple((header["name"], header["value"]) for header in row["headers"])
            assert got == event.headers
            assert (row["body"], row["body_size"]) == (event.body[:96], event.body_size)


def test_what_is_no_method_or_was_interrupted_says_so(tmp_path: Path) -> None:
    publish, head, body = amqp091_contents()[0]
    torn = bytearray(amqp091_contents()[4][0])
    torn[7:11] = b"\0\x3c\0\xff"
    frames = [
        (1, 1, RECEIVED, publish + head + body[:60]),
        (2, 1, RECEIVED, publish),
        (3, 1, RECEIVED, bytes(torn)),
    ]
    sizes = [len(publish + head) + 68 + EOL, len(publish) + EOL, len(torn)]
    found = rows(amqp091_columns.columns(stretch(tmp_path, frames, sizes)))
    for row in found[:2]:
        assert {"name": "complete", "value": "false"} in row["headers"]
    assert [row["body_size"] for row in found[:2]] == [60, 0]
    assert [row["size"] for row in found] == [len(publish + head) + 68, len(publish), len(torn)]
    assert found[2]["command"] == amqp091_columns.UNREADABLE


def test_what_is_usual_in_amqp_0_9_1_is_taken_apart_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(amqp091_columns, "_slow")  # reading one by one takes ten times as long
    frames = [
        (at, 1, at % 2, b"".join(amqp091_contents()[each]))
        for at, each in enumerate([0, 1, 2, 4] * 5)
    ]
    assert len(rows(amqp091_columns.columns(stretch(tmp_path, frames)))) == len(frames)
