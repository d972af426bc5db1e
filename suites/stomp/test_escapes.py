"""Header text in each version: MESSAGE repeats the text of SEND; undefined escapes are fatal.

1.0 has no escapes: a backslash is a backslash, and the value begins at the first colon. 1.1 escapes
LF, colon and backslash; 1.2 escapes CR as well. CONNECT and CONNECTED are never escaped, so that
1.0 peers can read them.
"""

from hypothesis import strategies as st

from brokerproof.suites.api import Bench, RoutingType, case, ms, over
from brokerproof.suites.api.stomp import Frame, StompPeer, frame
from brokerproof.suites.steps.queues import collect
from brokerproof.suites.stomp.byte_steps import Cut, cuts, raw_frame, raw_line, tap, write_in_pieces
from brokerproof.suites.stomp.error_recovery_steps import MOMENT, Bystander, fate

UNESCAPED = {
    "1.1": ("STOMP11-ENC-04", "STOMP11-ENC-05", "STOMP11-ENC-06"),
    "1.2": ("STOMP12-ENC-04", "STOMP12-ENC-05", "STOMP12-ENC-06", "STOMP12-ENC-07"),
}
OF_THESE = {"1.1": "\n:\\", "1.2": "\r\n:\\"}
"""The character that each requirement in :data:`UNESCAPED` is about, in the same order."""
ESCAPED = {"1.1": ("STOMP11-ENC-08", "STOMP11-ENC-02"), "1.2": ("STOMP12-ENC-09", "STOMP12-ENC-02")}
HEADER_ENCODING = {"1.1": "STOMP11-ENC-01", "1.2": "STOMP12-ENC-01"}
VALUE_1_0 = "STOMP10-FRAME-03"
ESCAPED_1_1 = "STOMP11-ENC-08"
ESCAPED_1_2 = "STOMP12-ENC-09"
AS_IT_IS_1_0 = "STOMP10-READING-TEXT-01"
NO_ESCAPES_IN_CONNECT = {"1.1": "STOMP11-ENC-03", "1.2": "STOMP12-ENC-03"}

NEIGHBOURS = (
    "n",
    "c",
    "r",
    "t",
    "\\n",
    "\\c",
    "\\\\",
    " ",
    "\t",
    "é",
    "€",
    "𝄞",
    "a",
    "Z",
    "0",
    "/",
    "=",
    '"',
)
"""Texts to put next to escaped characters: some look like an escape, some have 2 to 4 bytes."""


@st.composite
def escaped_texts(draw: st.DrawFn) -> list[str]:
    """Draw pieces of text with every character that 1.1 escapes, in any order."""
    pieces = ["\\", "\n", ":", *draw(st.lists(st.sampled_from(NEIGHBOURS), max_size=6))]
    return list(draw(st.permutations(pieces)))


def for_version(pieces: list[str], version: str) -> str:
    """Join ``pieces`` into one text that contains every character that ``version`` escapes and a
    non-ASCII character. The text neither begins nor ends with a blank."""
    middle = "".join(pieces)
    return f"<é{middle}\r{middle[::-1]}>" if version == "1.2" else f"<é{middle}>"


def exchange(
    target: Bench, version: str, headers: dict[str, str]
) -> tuple[StompPeer, Frame | None, bytes]:
    """Send a SEND with ``headers``. Return the consumer, its MESSAGE, and the server's bytes."""
    consumer, to = target.stomp(version), target.destination()
    received = tap(consumer)
    consumer.subscribe(to)
    producer = target.stomp(version)
    producer.publish(to, b"control", {"x-word": "value"})
    consumer.expect(frame("MESSAGE", {"x-word": "value"}, body=b"control"))
    producer.publish(to, b"body", headers, receipt=False)
    message = consumer.watch_for(frame("MESSAGE", body=b"body"))
    if message is None:
        fate(target, producer)
        target.record_note(
            f"no MESSAGE arrived: {consumer.instead()}; the sender: {producer.instead()}"
        )
    return consumer, message, bytes(received)


@case(UNESCAPED, ESCAPED, HEADER_ENCODING)
@over(examples=30, name=escaped_texts(), value=escaped_texts())
def test_any_header_text_survives_from_send_to_message(
    target: Bench, version: str, name: list[str], value: list[str]
) -> None:
    """A header whose name and value contain every character that the version escapes arrives in
    MESSAGE unchanged, and the server writes each such character as the version's escape. One
    scenario: one header has every escape; further headers have one each and show which escape is
    wrong."""
    key, text = f"x-{for_version(name, version)}", for_version(value, version)
    alone = {
        requirement: (f"x-{character}-{number}", f"<{character}>")
        for number, (requirement, character) in enumerate(
            zip(UNESCAPED[version], OF_THESE[version], strict=True)
        )
    }
    consumer, message, raw = exchange(target, version, {**dict(alone.values()), key: text})
    if message is not None:
        for requirement, (header, sent) in alone.items():
            received = message.get(header)
            target.require(
                requirement,
                received == sent,
                _fate_of(header, sent, received),
                expectation=consumer.wanted(frame("MESSAGE", {header: sent}, body=b"body")),
            )
    received = None if message is None else message.get(key)
    target.require(
        target.cited,
        received == text,
        _fate_of(key, text, received),
        expectation=consumer.wanted(frame("MESSAGE", {key: text}, body=b"body")),
    )
    line = raw_line(key, text, version)
    written = b"\n" + line + b"\n" in raw.replace(b"\r\n", b"\n")
    detail = f"MESSAGE {'has' if written else 'lacks'} the line {line!r}"
    target.record_finding(ESCAPED[version], written, detail)


def _fate_of(name: str, value: str, received: str | None) -> str:
    how = "did not arrive" if received is None else f"arrived as {received!r}"
    return f"the header {name!r} with the value {value!r} {how}"


BETWEEN = {"1.0": "STOMP10-READING-TEXT-01", "1.1": "STOMP11-ENC-08", "1.2": "STOMP12-ENC-09"}


@case(BETWEEN)
@over(examples=20, sender=st.sampled_from(["1.0", "1.1", "1.2"]), pieces=escaped_texts())
def test_header_text_survives_between_versions(
    target: Bench, version: str, sender: str, pieces: list[str]
) -> None:
    """A SEND of one version arrives as a MESSAGE of another with the same header value, if both
    versions can express it. Backslashes from a 1.0 sender are judged only in 1.0, which has no
    escapes."""
    text = "".join(
        piece
        for piece in pieces
        if "1.0" not in (version, sender) or (piece.isascii() and piece != "\n")
    )
    if sender == "1.0" and version != "1.0":
        text = text.replace("\\", "")
    consumer, to = target.stomp(version), target.destination()
    consumer.subscribe(to)
    producer = target.stomp(sender)
    producer.publish(to, b"control")
    consumer.message(body=b"control")
    producer.publish(to, b"body", {"x-word": f"<{text}>"}, receipt=False)
    received = consumer.message(body=b"body", proves=BETWEEN[version]).get("x-word")
    detail = f"from {sender} to {version}: '<{text!r}>' arrived as {received!r}"
    target.record_finding(BETWEEN[version], received == f"<{text}>", detail)


@case(AS_IT_IS_1_0, ESCAPED_1_1, ESCAPED_1_2, needs={"multicast"})
def test_each_subscriber_gets_header_text_in_its_own_writing(target: Bench) -> None:
    """A topic with subscribers of all three versions, who subscribe in two orders, gets messages
    with colons and backslashes in a header. Each subscriber reads the same text."""
    text = "<a:b\\c\\n>"
    requirements = {"1.0": AS_IT_IS_1_0, "1.1": ESCAPED_1_1, "1.2": ESCAPED_1_2}
    producer = target.stomp("1.1")
    for versions in (("1.2", "1.0", "1.1"), ("1.0", "1.1", "1.2")):
        topic = target.destination(RoutingType.MULTICAST)
        consumers = {version: target.stomp(version) for version in versions}
        for consumer in consumers.values():
            consumer.subscribe(topic)
        bodies = [b"first", b"second"]
        for body in bodies:
            producer.publish(topic, body, {"x-word": text})
        for version, requirement in requirements.items():
            for body in bodies:
                message = consumers[version].message(body=body, proves=requirement)
                received = message.get("x-word")
                detail = f"a subscriber of {version} got {received!r} for {text!r}"
                target.record_finding(requirement, received == text, detail)


@case(VALUE_1_0)
def test_an_end_of_line_in_a_header_makes_no_second_header_in_1_0(target: Bench) -> None:
    """A 1.2 client sends a header value with an escaped LF followed by text that resembles a
    header. A 1.0 subscriber gets no message, or one in which that text is not a header."""
    consumer, to = target.stomp("1.0"), target.destination()
    consumer.subscribe(to)
    producer = target.stomp("1.2")
    producer.publish(to, b"body", {"x-word": "one\nx-forged:two"})
    producer.publish(to, b"behind")
    received = [*collect(target, consumer, 2)]
    forged = [message.brief() for message in received if message.get("x-forged") is not None]
    whole = b"behind" in [message.body for message in received]
    words = f"{len(received)} of 2 messages arrived; the header x-forged, which nobody sent, is in:"
    words += f" {'; '.join(forged) or 'none'}"
    target.record_finding(VALUE_1_0, not forged and whole, words)


NAMES_1_0 = st.text("abcXYZ012-_.\\/=\"'!$%&()*+,;<>?@[]^`{|}~ ", min_size=1, max_size=20)
VALUES_1_0 = st.text("abc:\\nrc /=\"'!$%&()*+,;<>?@[]^`{|}~.", max_size=20)


@case(VALUE_1_0, AS_IT_IS_1_0)
@over(
    examples=20,
    always=lambda target: [{"name": "word", "value": "\\q"}],  # no escape of a later version
    name=NAMES_1_0,
    value=VALUES_1_0,
)
def test_1_0_takes_header_text_as_it_is(target: Bench, name: str, value: str) -> None:
    """A 1.0 SEND has a header with arbitrary ASCII; the grammar allows colons and backslashes in
    its value. The header arrives in MESSAGE with the same bytes."""
    key, text = (
        f"x{name}x",
        f"<a:b\\c{value}>",
    )  # no blanks at the ends: 1.0 does not say whether they are trimmed
    consumer, message, _ = exchange(target, "1.0", {key: text})
    wanted = consumer.wanted(frame("MESSAGE", {key: text}, body=b"body"))
    detail = f"a SEND with the header {key!r}: {text!r} {_fate(message)}"
    target.record_finding(VALUE_1_0, message is not None, detail, expectation=wanted)
    if message is None:
        return
    received = message.get(key)
    detail = f"the header {key!r}: {text!r} arrived as {received!r}"
    target.record_finding(AS_IT_IS_1_0, received == text, detail, expectation=wanted)


def _fate(message: Frame | None) -> str:
    return "did not arrive" if message is None else "arrived"


UNDEFINED = {"1.1": "STOMP11-ENC-07", "1.2": "STOMP12-ENC-08"}
PLACES = ("value", "name", "receipt", "destination")


def undefined_characters(version: str) -> st.SearchStrategy[str]:
    """Return characters that form no escape after a backslash, most escape-like first."""
    defined = {"1.1": "nc\\", "1.2": "nrc\\"}[version]
    looks_like = [character for character in "rtNCRTabfv0xu 'é" if character not in defined]
    others = st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=defined + ":")
    return st.one_of(st.sampled_from(looks_like), others)


@case(UNDEFINED)
@over(
    examples=30,
    always=lambda target: [{"behind": letter, "place": "value", "where": ()} for letter in "rt"],
    behind=undefined_characters("1.1"),
    place=st.sampled_from(PLACES),
    where=cuts(4),
)
def test_an_undefined_escape_is_a_fatal_error(
    target: Bench, version: str, behind: str, place: str, where: tuple[Cut, ...]
) -> None:
    """SEND with an undefined escape in a header ends the connection and is not published. The same
    SEND with a defined escape is accepted before and after."""
    if behind == "r" and version == "1.2":
        behind = "t"
    refuse(target, version, f"\\{behind}", place, where)


@case(UNDEFINED)
@over(examples=20, behind=st.sampled_from([":", ""]), where=cuts(4))
def test_a_backslash_before_a_delimiter_is_a_fatal_error(
    target: Bench, version: str, behind: str, where: tuple[Cut, ...]
) -> None:
    """SEND with a backslash before a header's colon or end is fatal and is not published."""
    refuse(target, version, f"\\{behind}", "value", where)


def refuse(target: Bench, version: str, escape: str, place: str, where: tuple[Cut, ...]) -> None:
    """Send the defined and the undefined escape in the same ``place``; judge both answers."""
    consumer, to = target.stomp(version), target.destination()
    consumer.subscribe(to)
    bystander = Bystander(target, version)

    def send_frame(written: str, receipt: str, body: bytes) -> bytes:
        named = to.name + written if place == "destination" else to.name
        lines = [
            f"destination:{named}".encode(),
            *(raw_line(*header, version) for header in to.send_headers),
        ]
        lines.append(f"receipt:{receipt}{written if place == 'receipt' else ''}".encode())
        lines.append(f"x-{written}:value".encode() if place == "name" else b"x-word:value")
        if place == "value":
            lines.append(f"x-last:a{written}".encode())
        return raw_frame("SEND", lines, body)

    def accepted(body: bytes) -> None:
        peer = target.stomp(version)
        peer.write(send_frame("\\\\" if place != "destination" else "", "accepted", body))
        peer.expect(
            frame("RECEIPT", {"receipt-id": "accepted" + ("\\" if place == "receipt" else "")})
        )
        consumer.message(body=body)

    accepted(b"before")
    offender = target.stomp(version)
    write_in_pieces(target, offender, send_frame(escape, "refused", b"not sent"), where)
    seen = fate(target, offender)
    behaviour = {"\\t": "stomp.undefined-escape", "\\r": "stomp.escaped-cr-in-1.1"}.get(escape)
    if behaviour and place == "value" and (seen.refused or seen.answered):
        target.record_behaviour(behaviour, "refuses" if seen.refused else "accepts")
    # The case ends here on a violation: our consumer could not read the accepted message.
    what = "a backslash at the end" if escape == "\\" else f"the escape {escape}"
    detail = f"after {what} in a {place} of SEND, {seen}"
    target.require(UNDEFINED[version], seen.ended is not None, detail)
    accepted(b"after")
    consumer.expect_nothing(
        for_=ms(1) if target.virtual else MOMENT,
        of=frame("MESSAGE", body=b"not sent"),
        proves=UNDEFINED[version],
        why=f"the SEND had {escape!r}",
    )
    bystander.check()


@case(NO_ESCAPES_IN_CONNECT)
@over(
    examples=30,
    text=st.lists(
        st.sampled_from(["\\", ":", "\\n", "\\c", "\\t", "\\q", "\\\\", "a", "r"]), min_size=1
    ).map("".join),
)
def test_connect_is_not_unescaped(target: Bench, version: str, text: str) -> None:
    """CONNECT with backslashes and colons in one of the client's own headers gets CONNECTED."""
    target.stomp(version)
    peer = target.peer(version)
    peer.connect(
        (*target.connect_headers(version), ("x-words", text)), proves=NO_ESCAPES_IN_CONNECT[version]
    )
