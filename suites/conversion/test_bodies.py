"""Bodies, in both directions: text becomes a string, and bytes become data."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from brokerproof.suites.api import Bench, case, listed, over
from brokerproof.suites.api.amqp10 import Delivery, Value, symbol, uint
from brokerproof.suites.api.stomp import MESSAGE
from brokerproof.suites.conversion.protocol_pairs import (
    CONVERSION,
    message,
    post,
    queue,
    send,
    to_amqp,
    to_stomp,
)
from brokerproof.suites.steps.queues import patterned

STOMP_SUBSCRIPTION = "STOMP12-SUB-02"
BARE_MESSAGE = "AMQP10-MSG-02"
STOMP_HEADERS_KEPT = "STOMP12-MSG-08"
LARGE_STOMP_MESSAGE = "ARTEMIS-STOMP-large-1"

SEVERAL_SECTIONS = "ARTEMIS-CROSSING-body-3"
BODY_CONVERSION = "ARTEMIS-CROSSING-body-1"
OTHER_BODIES_ARE_BYTES = "ARTEMIS-CROSSING-body-2"
CONTENT_LENGTH_MEANS_BYTES = "ARTEMIS-STOMP-jms-1"
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
BODIES = st.one_of(
    st.binary(max_size=60), st.sampled_from([b"", b"text", b"a\0b", b"\xff\xfe", bytes(range(256))])
)


def _section(body: object) -> str:
    return "a data section" if isinstance(body, bytes) else "a text"


def kind(delivery: Delivery) -> str:
    names = [name for name, _ in delivery.message.sections]
    return (
        " ".join(name for name in names if name in ("data", "amqp-value", "amqp-sequence"))
        or "nothing"
    )


@case(BODY_CONVERSION, CONTENT_LENGTH_MEANS_BYTES, needs=CONVERSION)
@over(
    examples=30,
    always=lambda target: [{"text": ""}, {"text": "text"}, {"text": "ü€" * 200}],
    text=TEXTS,
)
def test_text_of_stomp_is_a_string(target: Bench, text: str) -> None:
    """A body without content-length is sent over STOMP. Over AMQP it arrives as amqp-value, a
    string of the same text."""
    delivery = to_amqp(target, text.encode(), counted=False)
    detail = (
        f"{text[:40]!r} without content-length arrived as {kind(delivery)},"
        f" {delivery.message.body!r}"[:300]
    )
    target.record_finding(
        (BODY_CONVERSION, CONTENT_LENGTH_MEANS_BYTES),
        kind(delivery) == "amqp-value" and delivery.message.body == text,
        detail,
    )


@case(BODY_CONVERSION, CONTENT_LENGTH_MEANS_BYTES, needs=CONVERSION)
@over(
    examples=30,
    always=lambda target: [{"body": b"text"}, {"body": b"a\0b"}, {"body": b"\xff" * 3000}],
    body=BODIES,
)
def test_octets_of_stomp_are_data(target: Bench, body: bytes) -> None:
    """A body with content-length is sent over STOMP. Over AMQP it arrives as data of the same
    bytes."""
    delivery = to_amqp(target, body)
    detail = (
        f"{body[:40]!r} with content-length arrived as {kind(delivery)}, {delivery.message.body!r}"[
            :300
        ]
    )
    target.record_finding(
        (BODY_CONVERSION, CONTENT_LENGTH_MEANS_BYTES),
        kind(delivery) == "data" and delivery.message.body == body,
        detail,
    )


@case(BODY_CONVERSION, CONTENT_LENGTH_MEANS_BYTES, needs=CONVERSION | {"stomp-1.0"})
@over(
    examples=30,
    always=lambda target: [{"body": "text"}, {"body": b"octets"}, {"body": ""}, {"body": b""}],
    body=st.one_of(TEXTS, BODIES),
)
def test_content_length_tells_stomp_1_0_what_it_was(target: Bench, body: str | bytes) -> None:
    """A string or data is sent over AMQP. Over STOMP 1.0 the same bytes arrive, with a
    content-length if they were data."""
    frame = to_stomp(target, message(body), "1.0")
    data = body if isinstance(body, bytes) else body.encode()
    detail = f"the body {body!r} arrived as {frame.body[:80]!r}"
    target.record_finding(BODY_CONVERSION, frame.body == data, detail)
    has = frame.get("content-length")
    fine = (has == str(len(data))) if isinstance(body, bytes) else has is None
    length = "no content-length" if has is None else f"content-length {has}"
    words = f"{_section(body)} of {len(data)} bytes arrived with {length}"
    target.record_finding(CONTENT_LENGTH_MEANS_BYTES, fine, words)


@case(BODY_CONVERSION, SEVERAL_SECTIONS, needs=CONVERSION)
@over(
    always=lambda target: [{"spoken": "1.2", "body": b"in three parts", "parts": 3}],
    examples=20,
    spoken=st.sampled_from(["1.1", "1.2"]),
    body=st.one_of(TEXTS, BODIES, st.sampled_from([patterned(100_000), "ü" * 60_000])),
    parts=st.integers(1, 3),
)
def test_bodies_of_amqp_come_whole(
    target: Bench, spoken: str, body: str | bytes, parts: int
) -> None:
    """A string, or bytes in one data section or several, is sent over AMQP. Over STOMP the same
    bytes arrive."""
    data = body if isinstance(body, bytes) else body.encode()
    if isinstance(body, bytes) and parts > 1:
        size = -(-len(body) // parts) or 1
        payload = b"".join(
            message(body[at : at + size]) for at in range(0, max(1, len(body)), size)
        )
    else:
        payload = message(body)
    frame = to_stomp(target, payload, spoken)
    what = f"{_section(body)} of {len(data)} bytes, in {parts} parts,"
    target.record_finding(
        SEVERAL_SECTIONS if isinstance(body, bytes) and parts > 1 else BODY_CONVERSION,
        frame.body == data,
        f"{what} arrived as {len(frame.body)} bytes: {frame.body[:60]!r}",
    )


UNKNOWN: Mapping[str, Any] = {
    "a number": uint(7),
    "a symbol": symbol("name"),
    "a long": Value("long", -5),
    "a boolean": True,
}
"""Bodies for which the conventions have no rule."""
STRANGE: Mapping[str, Any] = {
    **UNKNOWN,
    "a list": ["one", True],
    "a map": {"key": "value"},
    "nothing": Value("null", None),
}


@case(STOMP_SUBSCRIPTION, needs=CONVERSION)
@over(
    always=lambda target: [{"kind": name} for name in STRANGE],
    examples=7,
    kind=st.sampled_from(sorted(STRANGE)),
)
def test_a_message_with_any_body_comes(target: Bench, kind: str) -> None:
    """A list, map, number or null is sent over AMQP as amqp-value. Over STOMP a MESSAGE arrives,
    and then the next message."""
    through = queue(target)
    peer = target.stomp()
    peer.subscribe(through.destination)
    post(target, through, message(STRANGE[kind]))
    answer = peer.watch_for(MESSAGE)
    observed = peer.instead() if answer is None else answer.brief()
    detail = f"after {kind} in an amqp-value: {observed}; expected MESSAGE"
    target.record_finding(STOMP_SUBSCRIPTION, answer is not None, detail)
    if peer.ended is None:
        post(target, through, message(b"behind"))
        peer.message(body=b"behind", proves=STOMP_SUBSCRIPTION)


@case(OTHER_BODIES_ARE_BYTES, CONTENT_LENGTH_MEANS_BYTES, needs=CONVERSION | {"stomp-1.0"})
@over(
    always=lambda target: [{"kind": name} for name in UNKNOWN],
    examples=4,
    kind=st.sampled_from(sorted(UNKNOWN)),
)
def test_bodies_that_the_conventions_do_not_know_are_octets(target: Bench, kind: str) -> None:
    """A number, boolean or symbol is sent over AMQP as amqp-value. Over STOMP 1.0 it arrives with a
    content-length, which marks bytes."""
    frame = to_stomp(target, message(UNKNOWN[kind]), "1.0")
    has = frame.get("content-length")
    target.record_finding(
        (OTHER_BODIES_ARE_BYTES, CONTENT_LENGTH_MEANS_BYTES),
        has == str(len(frame.body)),
        f"{kind} arrived as {frame.body!r} with content-length {has}",
    )


@case(BODY_CONVERSION, CONTENT_LENGTH_MEANS_BYTES, needs=CONVERSION)
@over(examples=16, body=st.one_of(TEXTS, BODIES))
def test_a_body_that_crosses_twice_is_as_it_was(target: Bench, body: str | bytes) -> None:
    """A body is sent over STOMP and received over AMQP, then sent over AMQP and received over
    STOMP. It is unchanged."""
    data = body if isinstance(body, bytes) else body.encode()
    first = to_amqp(target, data, counted=isinstance(body, bytes))
    frame = to_stomp(target, first.message.bare)
    detail = f"{body!r} became {kind(first)} and then {frame.body[:80]!r}"
    target.record_finding((BODY_CONVERSION, CONTENT_LENGTH_MEANS_BYTES), frame.body == data, detail)


@case(BARE_MESSAGE, STOMP_HEADERS_KEPT, needs=CONVERSION)
@over(examples=12, count=st.integers(1, 6), first=st.sampled_from(["stomp", "amqp"]))
def test_both_protocols_share_a_queue_in_order(target: Bench, count: int, first: str) -> None:
    """STOMP and AMQP producers take turns on one queue, and an AMQP and a STOMP consumer share it.
    Each message arrives once, unchanged, in order."""
    through = queue(target)
    stomp = target.stomp()
    sent = []
    for number in range(count):
        body = b"%d" % number
        if (number % 2 == 0) == (first == "stomp"):
            send(stomp, through, body, {"kind": "odd"})
        else:
            post(target, through, message(body, application_properties={"kind": "odd"}))
        sent.append(body)
    peer = target.amqp()
    link = peer.receiver(through.node, credit=(count + 1) // 2)
    half = [peer.delivery(link) for _ in range((count + 1) // 2)]
    for delivery in half:
        peer.disposition(delivery)
    peer.settle()
    stomp.subscribe(through.destination, ack="auto")
    rest = [stomp.message() for _ in range(count // 2)]
    received = [delivery.message.body for delivery in half] + [frame.body for frame in rest]
    target.record_finding(
        (BARE_MESSAGE, STOMP_HEADERS_KEPT),
        received == sent,
        f"of {len(half)} messages over AMQP and {len(rest)} over STOMP, {listed(received)} arrived;"
        f" expected {listed(sent)}",
    )
    kinds = [frame.get("kind") for frame in rest]
    target.record_finding(
        STOMP_HEADERS_KEPT,
        all(kind == "odd" for kind in kinds),
        f"the header `kind` of the {len(rest)} messages sent over STOMP: {listed(map(str, kinds))}",
    )


@case(BODY_CONVERSION, LARGE_STOMP_MESSAGE, needs=CONVERSION | {"large-messages"})
@over(
    examples=0, always=lambda target: [{"counted": True}, {"counted": False}], counted=st.booleans()
)
def test_large_bodies_cross_whole(target: Bench, counted: bool) -> None:
    """A body larger than any frame is sent over STOMP, with content-length or without, and arrives
    whole over AMQP as data or a string. An equally large one is sent over AMQP and arrives whole
    over STOMP."""
    body = b"".join(b"%07d," % number for number in range(60_000))
    expected: object = body if counted else body.decode()
    delivery = to_amqp(target, body, counted=counted)
    what = f"{len(body)} bytes {'with' if counted else 'without'} content-length"
    right = (
        kind(delivery) == ("data" if counted else "amqp-value")
        and delivery.message.body == expected
    )
    detail = f"{what} arrived as {kind(delivery)} of {len(delivery.payload)} bytes"
    target.record_finding((BODY_CONVERSION, LARGE_STOMP_MESSAGE), right, detail)
    back = to_stomp(target, message(expected))
    detail = f"of {_section(expected)} of {len(body)} bytes, {len(back.body)} arrived"
    target.record_finding((BODY_CONVERSION, LARGE_STOMP_MESSAGE), back.body == body, detail)
