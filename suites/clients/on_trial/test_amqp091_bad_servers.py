"""How an AMQP 0-9-1 client reacts to frames that no server may send (4.2.3 to 4.2.7)."""

from collections.abc import Iterable

import pytest

from brokerproof.harness.cases.client_trials import Amqp091Trial
from brokerproof.harness.protocols.amqp091 import codec
from brokerproof.harness.protocols.amqp091.codec import BODY, HEADER, HEARTBEAT, METHOD
from brokerproof.suites.api import Bench, case, seconds
from brokerproof.suites.api.amqp091 import Method, method

TRIAL = {"amqp091-client"}
UNKNOWN_TYPE, QUIET_BEHIND_TYPE = "AMQP091-FRAME-01", "AMQP091-FRAME-02"
WRONG_END, QUIET_BEHIND_END = "AMQP091-FRAME-03", "AMQP091-FRAME-04"
TOO_LARGE = "AMQP091-FRAME-05"
CONNECTION_CLASS = "AMQP091-FRAME-06"
UNKNOWN_METHOD = "AMQP091-FRAME-07"
UNREADABLE = "AMQP091-FRAME-08"
NOT_WHOLE = "AMQP091-CONTENT-01"
ON_CHANNEL_0 = "AMQP091-CONTENT-02"
HEARTBEAT_CHANNEL = "AMQP091-HB-01"

FRAME = tuple[int, bytes]
TEN: FRAME = (HEADER, codec.encode_content_header(10))


def consuming(target: Bench, **limits: int) -> tuple[Amqp091Trial, Method]:
    """Return a client whose consumer has received a control message, and the client's
    basic.consume."""
    trial = target.amqp091_client()
    trial.connect(**limits)
    consume = trial.consume()
    trial.server.deliver(consume, b"control")
    trial.message()
    return trial, consume


def judge_no_frame(target: Bench, type: int, end: int, ends: str, quiet: str) -> None:
    """Judge whether these invalid bytes make the client close and send nothing more."""
    trial, consume = consuming(target)
    seen = len(trial.server.methods)
    trial.server.send_frame(type, consume.channel, codec.encode_method("basic.qos-ok"), end=end)
    target.wait_until(lambda: trial.server.ended is not None, seconds(5))
    said = [one.name for one in trial.server.methods[seen:]]
    closed = trial.server.ended is not None or "connection.close" in said
    words = f"the client sent {', '.join(said) or 'nothing'}"
    state = "ended" if closed else "stays open"
    target.record_finding(ends, closed, f"the connection {state}; {words}")
    target.record_finding(quiet, not said, words)


def judge_exception(
    target: Bench, frames: Iterable[FRAME], codes: tuple[int, ...], proves: str, channel: int = 1
) -> None:
    """Judge whether frames in the middle of a consumer's deliveries are answered with
    connection.close and one of these codes (any code if none is given). Control: an earlier message
    arrives."""
    trial, consume = consuming(target, frame_max=4096)
    server = trial.server
    for type, payload in frames:
        server.send_frame(type, channel and consume.channel, payload)
    close = method("connection.close", channel=0)
    target.wait_until(
        lambda: server.ended is not None or any(map(close.accepts, server.inbox)), seconds(3)
    )
    closes = server.taken("connection.close", 0)
    code = closes[0]["reply-code"] if closes else None
    target.record_finding(
        proves,
        bool(closes) and (not codes or code in codes),
        f"expected connection.close with {' or '.join(map(str, codes)) or 'any code'}, got"
        f" {code or 'none'};"
        f" the connection {'stays open' if server.ended is None else 'ended'}",
    )


def delivery(consumer: bytes = b"") -> FRAME:
    return (METHOD, codec.encode_method("basic.deliver", {"delivery-tag": 2}) + consumer)


@case(UNKNOWN_TYPE, QUIET_BEHIND_TYPE, needs=TRIAL)
@pytest.mark.parametrize("type", [0, 9])
def test_a_frame_of_an_unknown_type_ends_it(target: Bench, type: int) -> None:
    """On a frame of type 0 or 9 the client ends the connection and sends nothing more."""
    judge_no_frame(target, type, codec.END, UNKNOWN_TYPE, QUIET_BEHIND_TYPE)


@case(WRONG_END, QUIET_BEHIND_END, needs=TRIAL)
def test_a_frame_without_its_end_ends_it(target: Bench) -> None:
    """On a frame that does not end with CE the client ends the connection and sends nothing
    more."""
    judge_no_frame(target, METHOD, 0, WRONG_END, QUIET_BEHIND_END)


@case(TOO_LARGE, needs=TRIAL)
def test_a_frame_above_frame_max_is_an_error(target: Bench) -> None:
    """A body of 6,000 bytes arrives in one frame, but frame-max is 4096. The client closes with
    501."""
    header = (HEADER, codec.encode_content_header(6000))
    judge_exception(target, [delivery(), header, (BODY, b"x" * 6000)], (501,), TOO_LARGE)


@case(CONNECTION_CLASS, needs=TRIAL)
def test_methods_of_class_connection_belong_to_channel_0(target: Bench) -> None:
    """connection.tune arrives on one of the application's channels. The client closes with 503."""
    tune = codec.encode_method("connection.tune", {"frame-max": 4096})
    judge_exception(target, [(METHOD, tune)], (503,), CONNECTION_CLASS)


@case(UNKNOWN_METHOD, needs=TRIAL)
def test_a_method_that_nobody_knows_is_an_error(target: Bench) -> None:
    """On a method with an unknown number the client sends connection.close with any code."""
    judge_exception(target, [(METHOD, b"\0\x3c\xff\xff")], (), UNKNOWN_METHOD)


@case(UNREADABLE, needs=TRIAL)
def test_a_method_that_cannot_be_read_is_an_error(target: Bench) -> None:
    """On a basic.deliver that ends within its fields the client sends connection.close with any
    code."""
    judge_exception(target, [(METHOD, delivery()[1][:-4])], (), UNREADABLE)


@case(NOT_WHOLE, needs=TRIAL)
@pytest.mark.parametrize("fault", ["body alone", "no header", "two headers", "wrong class"])
def test_contents_that_are_not_whole_are_errors(target: Bench, fault: str) -> None:
    """A body arrives without its method, a method without its header, two headers, or a header of
    another class. The client closes with 505; 501 is also accepted for the class, 503 for a body
    alone."""
    frames = {
        "body alone": [(BODY, b"x")],
        "no header": [delivery(), (BODY, b"x")],
        "two headers": [delivery(), TEN, TEN],
        "wrong class": [delivery(), (HEADER, codec.encode_content_header(10, class_id=50))],
    }[fault]
    also = {"wrong class": (501,), "body alone": (503,)}.get(fault, ())
    judge_exception(target, frames, (505, *also), NOT_WHOLE)


@case(ON_CHANNEL_0, needs=TRIAL)
def test_content_on_channel_0_is_an_error(target: Bench) -> None:
    """On a content header on channel 0 the client closes with 504."""
    judge_exception(target, [TEN], (504,), ON_CHANNEL_0, channel=0)


@case(HEARTBEAT_CHANNEL, needs=TRIAL)
def test_a_heart_beat_on_another_channel_is_an_error(target: Bench) -> None:
    """A heartbeat arrives on one of the application's channels. The client closes (501 or 503)."""
    judge_exception(target, [(HEARTBEAT, b"")], (501, 503), HEARTBEAT_CHANNEL)
