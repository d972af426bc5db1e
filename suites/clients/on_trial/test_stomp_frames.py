"""Frames that a STOMP client writes and reads for its application."""

import pytest

from brokerproof.harness.clients.client_event import event_named
from brokerproof.harness.clients.driver import body_fields, body_of
from brokerproof.harness.protocols.stomp import codec
from brokerproof.suites.api import Bench, case, listed, seconds, shown
from brokerproof.suites.api.stomp import frame

TRIAL = {"stomp-client"}
SEND = frame("SEND")
DESTINATION = {
    "1.0": ("STOMP10-SEND-01",),
    "1.1": ("STOMP11-SEND-01",),
    "1.2": ("STOMP12-SEND-01", "STOMP12-FH-03"),
}
CONTENT_LENGTH = {"1.0": "STOMP10-SEND-04", "1.1": "STOMP11-SEND-03", "1.2": "STOMP12-SEND-03"}
CONTENT_TYPE = {"1.1": "STOMP11-SEND-04", "1.2": "STOMP12-SEND-04"}
OWN_HEADERS = {"1.1": "STOMP11-SEND-05", "1.2": "STOMP12-SEND-05"}
NUL_NEEDS_LENGTH = {"1.1": "STOMP11-HDR-02", "1.2": "STOMP12-HDR-06"}
NUL_BEHIND_BODY = {"1.0": "STOMP10-SEND-06", "1.1": "STOMP11-HDR-04", "1.2": "STOMP12-HDR-04"}
WRITTEN_ESCAPED = {
    "1.1": ("STOMP11-ENC-02", "STOMP11-ENC-08"),
    "1.2": ("STOMP12-ENC-02", "STOMP12-ENC-09"),
}
READ_ESCAPES = {
    "1.1": ("STOMP11-ENC-04", "STOMP11-ENC-05", "STOMP11-ENC-06"),
    "1.2": ("STOMP12-ENC-04", "STOMP12-ENC-05", "STOMP12-ENC-06", "STOMP12-ENC-07"),
}
UNKNOWN_ESCAPE = {"1.1": "STOMP11-ENC-07", "1.2": "STOMP12-ENC-08"}
BLANKS_STAY = {"1.1": "STOMP11-ENC-09", "1.2": "STOMP12-ENC-10"}
UTF8 = {"1.1": ("STOMP11-ENC-01", "STOMP11-HDR-10"), "1.2": ("STOMP12-ENC-01", "STOMP12-HDR-14")}
FIRST_COUNTS = {"1.1": "STOMP11-REPEAT-02", "1.2": "STOMP12-REPEAT-02"}
LENGTH_COUNTS = {"1.1": "STOMP11-HDR-03", "1.2": "STOMP12-HDR-03"}
WHOLE_FRAMES = {"1.0": "STOMP10-FRAME-01", "1.1": "STOMP11-FRAME-01", "1.2": "STOMP12-FRAME-02"}
CR_LF = "STOMP12-FRAME-01"

# An unescaped CR at the end would be read as part of the line end.
SPECIAL = {"1.1": "a:b\\c\nd", "1.2": "a:b\\c\nd\re\r"}
BLANKS = "  two on either side  "
BODIES_WITH_NUL = {"alone": b"\0", "text": b"a\0b", "binary": b"\xff\0\xfe"}
LETTERS = "Grüße, 漢字, 🐇"


@case(DESTINATION, needs=TRIAL)
def test_send_names_its_destination(target: Bench, version: str) -> None:
    """The application sends a message to a destination. The SEND has a destination header with that
    name."""
    trial = target.stomp_client(version)
    trial.connect()
    trial.driver.done("send", destination="/queue/a", body="x")
    sent = trial.server.received("SEND", proves=DESTINATION[version])
    detail = f"the client sent {sent.brief()}"
    target.record_finding(DESTINATION[version], sent.get("destination") == "/queue/a", detail)


@case(CONTENT_LENGTH, NUL_BEHIND_BODY, needs=TRIAL)
@pytest.mark.parametrize("size", [1, 300, 200_000])
def test_a_body_has_its_length(target: Bench, version: str, size: int) -> None:
    """The application sends a body. Its SEND has the body's content-length and ends with a NUL,
    after which the next SEND can be read."""
    trial = target.stomp_client(version)
    trial.connect()
    trial.driver.done("send", destination="/queue/a", body="x" * size)
    sent = trial.server.received("SEND", proves=NUL_BEHIND_BODY[version])
    detail = f"content-length is {sent.get('content-length')!r} for {size} bytes"
    target.record_finding(CONTENT_LENGTH[version], sent.get("content-length") == str(size), detail)
    trial.driver.done("send", destination="/queue/b", body="y")
    trial.server.expect(frame("SEND", body=b"y"), proves=NUL_BEHIND_BODY[version])


@case(NUL_NEEDS_LENGTH, needs=TRIAL)
@pytest.mark.parametrize("kind", list(BODIES_WITH_NUL))
def test_a_body_with_a_nul_has_its_length(target: Bench, version: str, kind: str) -> None:
    """The application sends a body with a NUL. Unless the library refuses it, the SEND has a
    content-length and the body arrives whole."""
    body = BODIES_WITH_NUL[kind]
    trial = target.stomp_client(version)
    trial.connect()
    if not trial.driver.tried("send", destination="/queue/a", **body_fields(body)):
        target.record_not_applicable(NUL_NEEDS_LENGTH[version], "the library refuses such a body")
        return
    sent = trial.server.received("SEND", proves=NUL_NEEDS_LENGTH[version])
    target.record_finding(
        NUL_NEEDS_LENGTH[version],
        sent.get("content-length") == str(len(body)) and sent.body == body,
        f"the client sent {sent.brief()} for {body!r}",
    )


@case(CONTENT_TYPE, OWN_HEADERS, needs=TRIAL)
def test_a_content_type_and_headers_of_the_application(target: Bench, version: str) -> None:
    """The application sends a text/plain message with a header of its own. The SEND has both."""
    trial = target.stomp_client(version)
    trial.connect()
    trial.driver.done(
        "send",
        destination="/queue/a",
        body="x",
        content_type="text/plain",
        headers={"colour": "red"},
    )
    sent = trial.server.received("SEND")
    given = sent.get("content-type")
    detail = f"content-type is {given!r}"
    target.record_finding(CONTENT_TYPE[version], given == "text/plain", detail)
    target.record_finding(
        OWN_HEADERS[version], sent.get("colour") == "red", f"the client sent {sent.brief()}"
    )


@case(WRITTEN_ESCAPED, needs=TRIAL)
def test_headers_are_escaped(target: Bench, version: str) -> None:
    """The application sends a header with a colon, a backslash and line ends. They are escaped on
    the wire as the version requires; decoded, the value is the application's. A header of letters
    arrives unchanged."""
    trial = target.stomp_client(version)
    trial.connect()
    trial.driver.done("send", destination="/queue/a", body="x", headers={"plain": "letters"})
    trial.server.expect(frame("SEND", {"plain": "letters"}))
    if not trial.driver.tried(
        "send", destination="/queue/b", body="x", headers={"special": SPECIAL[version]}
    ):
        target.record_not_applicable(WRITTEN_ESCAPED[version], "the library refuses such a value")
        return
    sent = trial.server.received("SEND", proves=WRITTEN_ESCAPED[version])
    detail = f"{SPECIAL[version]!r} arrived as {sent.get('special')!r}"
    target.record_finding(WRITTEN_ESCAPED[version], sent.get("special") == SPECIAL[version], detail)


@case(BLANKS_STAY, needs=TRIAL)
def test_blanks_around_a_value_stay(target: Bench, version: str) -> None:
    """The application sends and receives a header with blanks on both sides. They are kept."""
    trial = target.stomp_client(version)
    trial.connect()
    trial.driver.done("send", destination="/queue/a", body="x", headers={"wide": BLANKS})
    sent = trial.server.received("SEND")
    trial.server.deliver(trial.subscribe(), b"x", {"wide": BLANKS})
    received = trial.message().detail["headers"].get("wide")
    detail = f"{BLANKS!r} was sent as {sent.get('wide')!r} and reported as {received!r}"
    target.record_finding(BLANKS_STAY[version], sent.get("wide") == BLANKS == received, detail)


@case(UTF8, needs=TRIAL)
def test_letters_of_any_script_arrive(target: Bench, version: str) -> None:
    """The application sends and receives non-ASCII letters, in header and body, as UTF-8."""
    trial = target.stomp_client(version)
    trial.connect()
    trial.driver.done("send", destination="/queue/a", body=LETTERS, headers={"name": LETTERS})
    sent = trial.server.received("SEND", proves=UTF8[version])
    trial.server.deliver(trial.subscribe(), LETTERS.encode(), {"name": LETTERS})
    message = trial.message()
    target.record_finding(
        UTF8[version],
        sent.get("name") == LETTERS and sent.body == LETTERS.encode(),
        f"the client sent the letters as {sent.brief()}",
    )
    target.record_finding(
        UTF8[version],
        message.detail["headers"].get("name") == LETTERS and body_of(message) == LETTERS.encode(),
        f"the application got the letters as {message.brief()}",
    )


@case(READ_ESCAPES, needs=TRIAL)
def test_escapes_in_a_message_are_read(target: Bench, version: str) -> None:
    """A MESSAGE has a header with every escape of the version. The application gets the characters
    that they represent, in the header's name too. Control: a header without escapes arrives
    unchanged.

    One scenario: all escapes are in one table of the specification.
    """
    trial = target.stomp_client(version)
    trial.connect()
    value = SPECIAL[version]
    trial.server.deliver(
        trial.subscribe(), b"x", {"plain": "letters", "special": value, "a:name": "named"}
    )
    headers = trial.message().detail["headers"]
    target.control(headers.get("plain") == "letters", f"the headers are {shown(headers)}")
    target.record_finding(
        READ_ESCAPES[version],
        headers.get("special") == value and headers.get("a:name") == "named",
        f"{value!r} was reported as {headers.get('special')!r}; the headers are {shown(headers)}",
    )


@case(UNKNOWN_ESCAPE, needs=TRIAL)
def test_an_unknown_escape_is_fatal(target: Bench, version: str) -> None:
    """A MESSAGE has a header with the escape \\t, which no version defines. The client ends the
    connection or reports an error, and delivers no message. Control: the same MESSAGE without the
    escape is delivered first."""
    trial = target.stomp_client(version)
    trial.connect()
    subscription = trial.subscribe()
    trial.server.deliver(subscription, b"good", {"special": "t"})
    trial.message()
    headers = {**trial.server.message_headers(subscription), "content-length": "3"}
    broken = codec.encode("MESSAGE", {**headers, "special": "T"}, b"bad", version=version)
    trial.server.write(broken.replace(b"special:T", b"special:\\t"))
    target.wait_until(
        lambda: trial.lost or bool(trial.driver.reports("error") + trial.driver.reports("message")),
        seconds(3),
    )
    handed_out = trial.driver.reports("message")
    target.record_finding(
        UNKNOWN_ESCAPE[version],
        not handed_out and (trial.lost or bool(trial.driver.reports("error"))),
        "after an unknown escape, the application got the headers"
        f" {shown(handed_out[0].detail['headers'])}"
        if handed_out
        else f"after an unknown escape, the message was dropped; {trial.driver.instead()}",
    )


@case(FIRST_COUNTS, needs=TRIAL)
def test_the_first_of_repeated_headers_counts(target: Bench, version: str) -> None:
    """A MESSAGE has the same header twice. The application gets the first value."""
    trial = target.stomp_client(version)
    trial.connect()
    trial.server.deliver(trial.subscribe(), b"x", [("foo", "first"), ("foo", "second")])
    reported = trial.message().detail["headers"].get("foo")
    detail = f"the application got {reported!r}"
    target.record_finding(FIRST_COUNTS[version], reported == "first", detail)


@case(LENGTH_COUNTS, needs=TRIAL)
@pytest.mark.parametrize("piece", [1, 7, 100_000])
def test_a_body_is_as_long_as_its_length_says(target: Bench, version: str, piece: int) -> None:
    """A MESSAGE with content-length has NULs in its body, and arrives in pieces. The application
    gets all of it, and the next message too."""
    trial = target.stomp_client(version)
    trial.connect()
    subscription = trial.subscribe()
    body = b"\0one\0\0two\n\n\0"
    headers = {**trial.server.message_headers(subscription), "content-length": str(len(body))}
    trial.server.write_pieces(codec.encode("MESSAGE", headers, body, version=version), piece)
    message = trial.driver.expect(event_named("message"), proves=LENGTH_COUNTS[version])
    target.record_finding(
        LENGTH_COUNTS[version],
        body_of(message) == body,
        f"{body!r} was reported as {body_of(message)!r}",
    )
    trial.server.deliver(subscription, b"next")
    trial.driver.expect(event_named("message", body="next"), proves=LENGTH_COUNTS[version])


@case(WHOLE_FRAMES, needs=TRIAL)
@pytest.mark.parametrize("piece", [1, 5, 100_000])
def test_messages_arrive_in_any_pieces(target: Bench, version: str, piece: int) -> None:
    """Three messages without content-length, with line ends between them, arrive in pieces of one
    byte, in pieces of five, or all in one. The application gets three bodies, in order."""
    trial = target.stomp_client(version)
    trial.connect()
    subscription = trial.subscribe()
    data = b""
    for body in (b"one", b"", b"three"):
        headers = trial.server.message_headers(subscription)
        data += codec.encode("MESSAGE", headers, body, version=version) + b"\n\n"
    trial.server.write_pieces(data, piece)
    bodies = [
        body_of(trial.driver.expect(event_named("message"), proves=WHOLE_FRAMES[version]))
        for _ in range(3)
    ]
    detail = f"the bodies are {listed(bodies)}"
    target.record_finding(WHOLE_FRAMES[version], bodies == [b"one", b"", b"three"], detail)


@case(CR_LF, needs=TRIAL | {"stomp-1.2"})
def test_lines_may_end_with_cr_lf(target: Bench) -> None:
    """A 1.2 server ends its lines with CR LF. The application gets the headers without the CR, and
    the body."""
    trial = target.stomp_client("1.2")
    trial.connect()
    subscription = trial.subscribe()
    headers = {**trial.server.message_headers(subscription), "colour": "red"}
    trial.server.send("MESSAGE", headers, b"body", eol=b"\r\n")
    message = trial.driver.expect(event_named("message"), proves=CR_LF)
    target.record_finding(
        CR_LF,
        message.detail["headers"].get("colour") == "red" and body_of(message) == b"body",
        f"the application got {message.brief()}",
    )
