"""Bodies: their length, their content, and which frames may have one."""

import re

from hypothesis import strategies as st

from brokerproof.harness.protocols.stomp import codec
from brokerproof.suites.api import (
    PATIENCE,
    Bench,
    Match,
    case,
    either,
    listed,
    over,
    seconds,
    shown,
)
from brokerproof.suites.api.stomp import Destination, Frame, StompPeer, frame
from brokerproof.suites.steps.refusals import error_from, is_too_large
from brokerproof.suites.stomp.byte_steps import Cut, cuts, length_in_words, write_in_pieces
from brokerproof.suites.stomp.error_recovery_steps import fate

COUNTED_BODY = {"1.0": "STOMP10-SEND-05", "1.1": "STOMP11-HDR-03", "1.2": "STOMP12-HDR-03"}
LENGTH_OF_BODY = {
    "1.0": ("STOMP10-SEND-06",),
    "1.1": ("STOMP11-HDR-02", "STOMP11-HDR-01"),
    "1.2": ("STOMP12-HDR-06", "STOMP12-HDR-05"),
}
BODY_ALLOWED = {"1.1": "STOMP11-BODY-01", "1.2": "STOMP12-BODY-01"}
NUL_ENDS_BODY = {"1.0": "STOMP10-SEND-07", "1.1": "STOMP11-FRAME-01", "1.2": "STOMP12-FRAME-02"}
NUL_FOLLOWS_BODY = {"1.0": "STOMP10-SEND-06", "1.1": "STOMP11-HDR-04", "1.2": "STOMP12-HDR-04"}
BODY_IS_BYTES = {"1.0": "STOMP10-MESSAGE-04", "1.1": "STOMP11-MSG-07", "1.2": "STOMP12-MSG-09"}
NO_NUL_AFTER_BODY = {
    "1.0": "STOMP10-READING-BODY-01",
    "1.1": "STOMP11-READING-BODY-01",
    "1.2": "STOMP12-READING-BODY-01",
}
FAILED_SEND = {"1.1": "STOMP11-SEND-07", "1.2": "STOMP12-SEND-07"}
LENGTH_ALLOWED = "STOMP12-HDR-02"
SUBSCRIBE_BODY_IGNORED = "STOMP10-SUBSCRIBE-06"
NO_BODY = {"1.0": "STOMP10-RECEIPT-03", "1.1": "STOMP11-BODY-02", "1.2": "STOMP12-BODY-02"}
CONTENT_TYPE = {"1.1": "STOMP11-HDR-05", "1.2": "STOMP12-HDR-07"}
MIME_TYPE = {"1.1": "STOMP11-HDR-06", "1.2": "STOMP12-HDR-08"}
CONTENT_LENGTH = {"1.1": "STOMP11-HDR-01", "1.2": "STOMP12-HDR-05"}

TYPES = (
    *(("amq-msg-type", "text"), ("amq-msg-type", "bytes"), ("transformation", "jms-map-json")),
    *(("content-type", "text/plain;charset=utf-16"), ("content-encoding", "gzip")),
)
"""Headers by which a broker may convert a body."""
UNREADABLE = frame("UNREADABLE")
SWALLOWS: Match[Frame] = Match("two in one", lambda message: b"\0MESSAGE\n" in message.body)
FURTHER = 100
"""Messages that complete a MESSAGE whose content-length is too large by several KiB."""
MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(\s*;.*)?", re.ASCII)
PIECES = (
    b"\x00",
    b"\n",
    b"\r\n",
    b"\x00\n",
    b"\n\n",
    b"\x00\x00",
    b"\xff",
    b"\\c",
    b"SEND\n\n\x00",
    b"content-length:3\n\n",
)


def subscribed(target: Bench, version: str) -> tuple[StompPeer, Destination]:
    consumer, to = target.stomp(version), target.destination()
    consumer.subscribe(to)
    return consumer, to


def encoded(
    to: Destination, version: str, headers: tuple[tuple[str, str | int], ...], body: bytes
) -> bytes:
    """Return a SEND with exactly these headers and those that name the destination."""
    return codec.encode(
        "SEND", (("destination", to.name), *to.send_headers, *headers), body, version=version
    )


@case(COUNTED_BODY, LENGTH_OF_BODY, BODY_ALLOWED)
@over(
    examples=30,
    pieces=st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=40)), max_size=12),
    large=st.sampled_from([0, 0, 0, 1021, 4096, 65_537]),
    where=cuts(5),
)
def test_content_length_counts_octets_whatever_they_are(
    target: Bench, version: str, pieces: list[bytes], large: int, where: tuple[Cut, ...]
) -> None:
    """SEND with content-length and a body of arbitrary bytes, up to 64 KiB and split anywhere,
    arrives as MESSAGE with that body and length. The next frame is understood. One scenario: the
    requirements describe one exchange."""
    body = b"\x00" + b"".join(pieces) + b"\x00\xfe" * (large // 2)
    consumer, to = subscribed(target, version)
    producer = target.stomp(version)
    data = encoded(to, version, (("content-length", len(body)),), body) + encoded(
        to, version, (), b"next"
    )
    write_in_pieces(target, producer, data, where)
    target.wait_until(lambda: bool(consumer.messages_seen or producer.ended), PATIENCE)
    if producer.ended is not None and is_too_large(target, version, len(body)):
        target.record_not_applicable(target.cited, f"it refuses a body of {len(body)} bytes")
        return
    message = consumer.message(proves=COUNTED_BODY[version])
    target.record_finding(
        target.cited, message.body == body, f"{_brief(body)} arrived as {_brief(message.body)}"
    )
    length = message.get("content-length")
    words = f"MESSAGE with a body of {len(body)} bytes has {length_in_words(length)}"
    target.record_finding(LENGTH_OF_BODY[version], length == str(len(body)), words)
    consumer.message(body=b"next", proves=COUNTED_BODY[version])


def _brief(body: bytes) -> str:
    return f"{body[:40]!r} ({len(body)} bytes)"


@case(NUL_ENDS_BODY)
@over(
    examples=30,
    texts=st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60),
        min_size=1,
        max_size=5,
    ),
)
def test_without_content_length_the_first_nul_ends_the_body(
    target: Bench, version: str, texts: list[str]
) -> None:
    """Several SENDs without content-length are sent in one write. Each body ends at the first NUL
    and arrives unchanged."""
    consumer, to = subscribed(target, version)
    producer = target.stomp(version)
    bodies = [f"{number} {text}".encode() for number, text in enumerate(texts)]
    producer.write(b"".join(encoded(to, version, (), body) for body in bodies))
    for body in bodies:
        consumer.message(body=body, proves=NUL_ENDS_BODY[version])


@case(NUL_FOLLOWS_BODY)
@over(
    examples=6,
    always=lambda target: [{"header": header, "body": b"\xff\xfeab"} for header in TYPES],
    header=st.sampled_from(TYPES),
    body=st.binary(max_size=60),
)
def test_a_message_has_the_length_of_the_body_that_it_has(
    target: Bench, version: str, header: tuple[str, str], body: bytes
) -> None:
    """SEND has a content-length, a body that may be binary, and a vendor's header for its type. It
    is refused, or its MESSAGE has the content-length of the body it carries and ends with NUL: the
    plain MESSAGE after it can be read."""
    consumer, to = subscribed(target, version)
    producer = target.stomp(version)
    producer.write(encoded(to, version, (header, ("content-length", len(body))), body))
    found = None
    if error_from(producer) is None and producer.ended is None:
        producer.publish(to, b"plain")
        found = consumer.watch_for(either(frame("MESSAGE", body=b"plain"), UNREADABLE))
        if found is None:
            # A content-length that is too large covers the next frames: further ones complete it.
            for _ in range(FURTHER):
                producer.publish(to, b"further", receipt=False)
            found = consumer.watch_for(either(SWALLOWS, UNREADABLE))
    if found is None:
        target.record_not_applicable(NUL_FOLLOWS_BODY[version], f"a SEND with {header} failed")
        return
    swallowed = SWALLOWS.accepts(found)
    got = found.get("reason") or f"the next frame {'is in it' if swallowed else 'arrived'}"
    held = not (swallowed or UNREADABLE.accepts(found))
    target.record_finding(
        NUL_FOLLOWS_BODY[version], held, f"MESSAGE for a SEND with {':'.join(header)}: {got}"
    )


@case(BODY_IS_BYTES)
@over(
    examples=20,
    body=st.binary(min_size=1, max_size=60).map(
        lambda body: b"<\xff\xc3\x28" + body.replace(b"\0", b"") + b">"
    ),
)
def test_a_body_without_content_length_need_not_be_text(
    target: Bench, version: str, body: bytes
) -> None:
    """A body without content-length, not UTF-8 and without NUL, arrives in MESSAGE unchanged."""
    consumer, to = subscribed(target, version)
    producer = target.stomp(version)
    producer.publish(to, b"\xff control")
    consumer.message(body=b"\xff control")
    producer.write(encoded(to, version, (), body))
    message = consumer.message(proves=BODY_IS_BYTES[version])
    target.record_finding(
        BODY_IS_BYTES[version],
        message.body == body,
        f"the body {body!r} arrived as {message.body!r}",
    )


@case(NO_NUL_AFTER_BODY)
@over(examples=30, missing=st.integers(1, 4), where=cuts(4))
def test_a_body_longer_than_content_length_is_no_frame(
    target: Bench, version: str, missing: int, where: tuple[Cut, ...]
) -> None:
    """SEND has a content-length that is 1 to 4 bytes too small, so no NUL follows the counted
    bytes. The broker refuses it or waits: it delivers nothing and answers no later frames."""
    consumer, to = subscribed(target, version)
    body = b"0123456789"
    producer = target.stomp(version)
    producer.publish(to, body)
    consumer.message(body=body)
    data = encoded(
        to, version, (("content-length", len(body) - missing), ("receipt", "wrong")), body
    )
    write_in_pieces(target, producer, data, where)
    seen = fate(target, producer, within=seconds(2))
    after = target.stomp(version)
    after.publish(to, b"after")
    consumer.message(body=b"after")
    delivered = [message.body for message in consumer.take_messages()]
    if body[:-missing] in delivered:
        target.record_behaviour("stomp.short-content-length", "cuts-the-body")
    elif seen.refused or not seen.answered:
        taken = "refuses" if seen.refused else "waits"
        target.record_behaviour("stomp.short-content-length", taken)
    target.record_finding(
        NO_NUL_AFTER_BODY[version],
        (seen.refused or not seen.answered) and body[:-missing] not in delivered,
        f"after a SEND with content-length:{len(body) - missing} and {len(body)} bytes of body,"
        f" {listed(delivered)} arrived, and {seen}",
    )


@case(FAILED_SEND)
@over(
    examples=30,
    always=lambda target: [{"length": "-1", "where": ()}, {"length": "four", "where": ()}],
    length=st.sampled_from(["", "four", "-1", "-4", "4x", "0x4", "4.0", "1e1", "+-4", "٤x"]),
    where=cuts(4),
)
def test_a_send_whose_content_length_is_no_number_is_refused(
    target: Bench, version: str, length: str, where: tuple[Cut, ...]
) -> None:
    """SEND whose content-length is not a number is answered with ERROR, the connection closes and
    nothing is published, unless the broker manages to read a number and processes the SEND. The
    same SEND with the correct length is accepted before and after."""
    consumer, to = subscribed(target, version)

    def accepted() -> None:
        peer = target.stomp(version)
        peer.write(encoded(to, version, (("content-length", 4),), b"good"))
        consumer.message(body=b"good")

    accepted()
    offender = target.stomp(version)
    write_in_pieces(
        target, offender, encoded(to, version, (("content-length", length),), b"evil"), where
    )
    seen = fate(target, offender)
    accepted()
    delivered = [message.body for message in consumer.take_messages()]
    if length == "four" and (delivered or seen.refused):
        taken = "delivers" if delivered else "refuses"
        target.record_behaviour("stomp.content-length-in-letters", taken)
    if delivered and seen.error is None and seen.ended is None:
        target.record_not_applicable(
            FAILED_SEND[version],
            f"SEND with content-length:{length!r} was processed: {listed(delivered)} arrived",
        )
        return
    target.record_finding(
        FAILED_SEND[version],
        seen.explained and seen.ended is not None,
        f"after SEND with content-length:{length!r}, {seen};"
        " expected ERROR and the end of the connection",
    )
    words = f"after SEND with content-length:{length!r}, {listed(delivered)} arrived"
    target.record_finding(FAILED_SEND[version], not delivered, words)


@case(LENGTH_ALLOWED, COUNTED_BODY["1.2"])
def test_frames_without_a_body_may_say_so_with_content_length(target: Bench) -> None:
    """Frames without a body carry content-length:0 and ask for a receipt. Each gets its RECEIPT."""
    requirements = (LENGTH_ALLOWED, COUNTED_BODY["1.2"])
    peer, to = target.stomp("1.2"), target.destination()
    zero = ("content-length", "0")
    headers = (("destination", to.name), *to.subscribe_headers, ("id", "0"), ("ack", "client"))
    peer.request("SUBSCRIBE", (*headers, zero), proves=requirements)
    peer.request("SEND", (("destination", to.name), *to.send_headers, zero), proves=requirements)
    peer.request("ACK", (*peer.naming(peer.message(body=b"")), zero), proves=requirements)
    peer.request("BEGIN", (("transaction", peer.transaction), zero), proves=requirements)
    peer.request("ABORT", (("transaction", peer.transaction), zero), proves=requirements)
    peer.request("UNSUBSCRIBE", (("id", "0"), zero), proves=requirements)
    peer.request("DISCONNECT", (zero,), proves=requirements)


@case(SUBSCRIBE_BODY_IGNORED)
def test_a_body_of_subscribe_is_ignored_in_1_0(target: Bench) -> None:
    """After a SUBSCRIBE without a body, a 1.0 SUBSCRIBE with one is confirmed and gets messages."""
    peer, to = target.stomp("1.0"), target.destination()
    peer.subscribe(target.destination(), "without a body")
    headers = (
        ("destination", to.name),
        ("id", "0"),
        *to.subscribe_headers,
        ("receipt", "subscribed"),
    )
    peer.send("SUBSCRIBE", headers, b"to be ignored")
    peer.expect(frame("RECEIPT", {"receipt-id": "subscribed"}), proves=SUBSCRIBE_BODY_IGNORED)
    peer.publish(to, b"body")
    peer.message(body=b"body", proves=SUBSCRIBE_BODY_IGNORED)


@case(NO_BODY)
def test_connected_and_receipt_have_no_body(target: Bench, version: str) -> None:
    """Neither CONNECTED nor any RECEIPT has a body."""
    peer, to = target.stomp(version), target.destination()
    assert peer.connected is not None
    receipts: list[Frame] = [] if version == "1.0" else [peer.connected]
    receipts.append(
        peer.request("SUBSCRIBE", (("destination", to.name), ("id", "0"), *to.subscribe_headers))
    )
    receipts.append(peer.request("SEND", (("destination", to.name), *to.send_headers), b"body"))
    receipts.append(peer.request("DISCONNECT"))
    wrong = [receipt.brief() for receipt in receipts if receipt.body]
    words = f"with a body: {wrong}" if wrong else f"{len(receipts)} frames without a body"
    target.record_finding(NO_BODY[version], not wrong, words)


@case(CONTENT_TYPE, MIME_TYPE)
@over(
    examples=20,
    media=st.sampled_from(
        [
            "text/plain",
            "text/html;charset=utf-16",
            "application/xml;charset=utf-8",
            "image/png",
            "a/b",
        ]
    ),
)
def test_content_type_describes_the_body(target: Bench, version: str, media: str) -> None:
    """A SEND with content-type arrives as MESSAGE with the same content-type. An ERROR with a body
    has a content-type that is a MIME type."""
    consumer, to = subscribed(target, version)
    producer = target.stomp(version)
    producer.publish(to, b"body", {"content-type": media}, receipt=False)
    message = consumer.message(body=b"body", proves=(CONTENT_TYPE[version], MIME_TYPE[version]))
    received = message.get("content-type")
    words = f"SEND said content-type:{media}; MESSAGE says {shown(received)}"
    target.record_finding((CONTENT_TYPE[version], MIME_TYPE[version]), received == media, words)
    stranger = target.peer(version)
    stranger.send("CONNECT", target.connect_headers(version, {"accept-version": "0.1"}))
    for offender in (producer, stranger):
        offender.send("COMMIT", {"transaction": "never begun"})
        error = fate(target, offender, within=seconds(2)).error
        if error is not None and error.body:
            own = error.get("content-type")
            target.record_finding(
                CONTENT_TYPE[version],
                own is not None,
                f"an ERROR with a body has content-type {own}",
            )
            held = own is None or MEDIA_TYPE.fullmatch(own) is not None
            target.record_finding(
                MIME_TYPE[version], held, f"an ERROR with a body has content-type {own}"
            )


@case(CONTENT_LENGTH)
@over(examples=20, body=st.binary(min_size=1, max_size=50).map(lambda data: data.hex().encode()))
def test_a_message_with_a_body_has_its_content_length(
    target: Bench, version: str, body: bytes
) -> None:
    """A SEND with a body and no content-length arrives as MESSAGE with the correct one."""
    consumer, to = subscribed(target, version)
    target.stomp(version).write(encoded(to, version, (), body))
    message = consumer.message(body=body, proves=CONTENT_LENGTH[version])
    received = message.get("content-length")
    words = f"MESSAGE with a body of {len(body)} bytes has {length_in_words(received)}"
    target.record_finding(CONTENT_LENGTH[version], received == str(len(body)), words)
