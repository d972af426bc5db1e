"""Frames become columns of the trace, many at once: the same that the harness's own codecs read one by one."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from harness.load import amqp_columns, stomp_columns
from harness.load.tape import EOL, RECEIVED, SENT, Stretch, Tape, blocks
from harness.trace.stamp import stamp
from harness.wire import amqp, amqp_messages, amqp_types, stomp


def stretch(folder: Path, frames: list[tuple[int, int, int, bytes]], sizes: list[int] | None = None) -> Stretch:
    """Frames with instant, connection and direction, over a tape."""
    found = Stretch()
    written: list[Path] = []
    tape = Tape(folder, written.append)
    for place, (at, conn, direction, octets) in enumerate(frames):
        tape.frames(0, direction, at, conn, [octets], None if sizes is None else [sizes[place]])
    tape.close()
    for path in written:
        for block in blocks(memoryview(path.read_bytes())):
            found.add(block)
    assert found.rows == len(frames)
    return found


def rows(columns: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        dict(zip(columns, values, strict=True))
        for values in zip(*(each.to_pylist() for each in columns.values()), strict=True)
    ]


STOMP = [
    stomp.encode("CONNECTED", {"version": "1.2", "session": "a:b", "heart-beat": "0,0"}),
    stomp.encode(
        "SEND", [("destination", "q"), ("destination", "twice"), ("receipt", "1.1")], stamp(1, 7) + b"x" * 300
    ),
    stomp.encode("MESSAGE", {"ack": "a:1\\2", "message-id": "ID:3\n4", "content-length": "4"}, b"\n\nab"),
    stomp.encode("RECEIPT", {"receipt-id": "1.1"}),
    stomp.encode("ERROR", {"message": "née"}, "é\n".encode()),
    stomp.encode("ACK", {"id": "x"}, eol=b"\r\n"),
    stomp.encode("MESSAGE", {"empty": ""}, b""),
]


def test_stomp_as_its_codec_reads_it(tmp_path: Path) -> None:
    dice = random.Random(3)
    octets = [dice.choice(STOMP) for _ in range(200)]
    found = rows(
        stomp_columns.columns(stretch(tmp_path, [(at, at % 3, at % 2, each[:-1]) for at, each in enumerate(octets)]))
    )
    for at, (row, each) in enumerate(zip(found, octets, strict=True)):
        (frame,) = stomp.Reader("1.2").feed(each)
        assert isinstance(frame, stomp.Frame)
        assert row["kind"] == ("FrameSent" if at % 2 == SENT else "FrameReceived")
        assert (row["at_ns"], row["conn"], row["command"]) == (at, at % 3, frame.command)
        assert sorted((header["name"], header["value"]) for header in row["headers"]) == sorted(frame.headers)
        assert (row["body"], row["body_size"], row["size"]) == (frame.body[:96], len(frame.body), len(each))


def test_signs_of_life_and_what_was_cut_keep_their_sizes(tmp_path: Path) -> None:
    whole = stomp.encode("MESSAGE", {"ack": "1"}, b"b" * 5000)[:-1]
    frames = [
        (1, 1, RECEIVED, b""),
        (2, 1, RECEIVED, whole[:120]),
        (3, 1, SENT, b""),
        (4, 1, RECEIVED, b"a line\nwithout a colon"),
    ]
    found = rows(stomp_columns.columns(stretch(tmp_path, frames, [3, len(whole) + EOL, 1, 22])))
    assert [each["kind"] for each in found] == ["HeartBeatReceived", "FrameReceived", "HeartBeatSent", "FrameReceived"]
    assert [each["size"] for each in found] == [3, len(whole) + 2, 1, 23]
    assert found[0]["command"] is found[0]["headers"] is found[0]["body"] is None
    assert (found[1]["body_size"], found[1]["command"]) == (5000, "MESSAGE")
    assert found[3]["command"] == stomp_columns.UNREADABLE


def amqp_frames() -> list[bytes]:
    def performative(name: str, payload: bytes = b"", channel: int = 0, **fields: Any) -> bytes:
        return amqp.encode_frame(amqp_types.encode(amqp.composite(name, fields)) + payload, channel=channel)

    message = amqp_messages.message(stamp(3, 9) + b"y" * 200, header={"durable": True})
    accepted, rejected = amqp.composite("accepted"), amqp.composite("rejected", error=("amqp:not-found", "no such"))
    return [
        amqp.protocol_header(3),
        performative("open", **{"container-id": "c", "properties": {"product": "p"}}),
        performative("begin", **{"next-outgoing-id": 0, "incoming-window": 5, "outgoing-window": 2**31 - 1}),
        performative(
            "transfer", message, 3, **{"handle": 0, "delivery-id": 300, "delivery-tag": b"\1\2", "settled": False}
        ),
        performative(
            "transfer",
            message,
            **{"handle": 70000, "delivery-id": 0, "delivery-tag": b"", "settled": True, "more": True},
        ),
        performative("transfer", b"", **{"handle": 1, "aborted": True}),
        performative("transfer", message, **{"handle": 1, "delivery-id": 8, "state": accepted, "batchable": True}),
        performative(
            "disposition", **{"role": True, "first": 4, "last": 2**32 - 1, "settled": True, "state": accepted}
        ),
        performative("disposition", **{"role": False, "first": 4, "state": rejected}),
        performative("flow", **{"incoming-window": 1, "next-outgoing-id": 2, "outgoing-window": 3}),
        performative(
            "flow",
            **{"next-incoming-id": 9, "incoming-window": 1, "next-outgoing-id": 2, "outgoing-window": 3, "handle": 0},
            **{"delivery-count": 7, "link-credit": 1000, "echo": True, "properties": {"a": 1.5}},
        ),
        amqp.encode_frame(amqp_types.encode(amqp.composite("sasl-outcome", code=0)), type=amqp.SASL_FRAME),
        performative("close", error=("amqp:internal-error", "why")),
    ]


def test_amqp_as_its_codec_reads_it(tmp_path: Path) -> None:
    dice = random.Random(5)
    octets = [dice.choice(amqp_frames()) for _ in range(300)]
    found = rows(amqp_columns.columns(stretch(tmp_path, [(at, 1, at % 2, each) for at, each in enumerate(octets)])))
    for row, each in zip(found, octets, strict=True):
        (frame,) = amqp.Reader().feed(each)
        assert isinstance(frame, amqp.Frame)
        assert row["command"] == frame.name
        assert tuple((header["name"], header["value"]) for header in row["headers"]) == frame.listed()
        assert (row["body"], row["body_size"]) == (frame.payload[:96], len(frame.payload))
        assert row["size"] == len(each)


def test_amqp_that_is_none_is_told_and_empty_frames_are_beats(tmp_path: Path) -> None:
    torn = bytearray(amqp_frames()[3])
    torn[11] = 0xC1  # a map where the list should be
    frames = [
        (1, 1, RECEIVED, amqp.encode_frame(b"")),
        (2, 1, RECEIVED, bytes(torn)),
        (3, 1, SENT, amqp_frames()[3][:90]),
    ]
    found = rows(amqp_columns.columns(stretch(tmp_path, frames, [8, len(torn), len(torn)])))
    assert [each["kind"] for each in found] == ["HeartBeatReceived", "FrameReceived", "FrameSent"]
    assert found[1]["command"] == amqp_columns.UNREADABLE
    assert (found[2]["command"], found[2]["size"]) == ("transfer", len(torn))
    (whole,) = amqp.Reader().feed(amqp_frames()[3])
    assert isinstance(whole, amqp.Frame)
    assert found[2]["body_size"] == len(whole.payload)
