"""Headers: which repeated entry applies, what is never trimmed, and what MESSAGE repeats."""

from hypothesis import strategies as st

from brokerproof.suites.api import Bench, case, ms, over, seconds
from brokerproof.suites.api.stomp import Destination, StompPeer, frame
from brokerproof.suites.stomp.error_recovery_steps import MOMENT

USER_HEADERS = {
    "1.0": ("STOMP10-READING-TEXT-01",),
    "1.1": ("STOMP11-SEND-06", "STOMP11-ENC-01"),
    "1.2": ("STOMP12-FH-12", "STOMP12-FH-13", "STOMP12-SEND-06", "STOMP12-ENC-01"),
}
EMPTY_VALUE = {"1.1": "STOMP11-FRAME-03", "1.2": "STOMP12-FRAME-05"}
BLANKS_ARE_KEPT = {"1.1": "STOMP11-ENC-09", "1.2": "STOMP12-ENC-10"}
BLANKS_1_0 = "STOMP10-FRAME-08"
NAMES_HAVE_CASE = {"1.1": "STOMP11-FRAME-02", "1.2": "STOMP12-FRAME-03"}
FIRST_COUNTS = {"1.1": "STOMP11-READING-REPEAT-01", "1.2": "STOMP12-REPEAT-02"}
FIRST_ARRIVES = {
    "1.1": ("STOMP11-READING-REPEAT-01",),
    "1.2": ("STOMP12-REPEAT-02", "STOMP12-REPEAT-03"),
}
RECEIPT_REQUEST = {
    "1.0": ("STOMP10-RECEIPT-01", "STOMP10-RECEIPT-02"),
    "1.1": ("STOMP11-HDR-12", "STOMP11-HDR-13"),
    "1.2": ("STOMP12-HDR-16", "STOMP12-HDR-17"),
}
UTF_8 = {"1.1": "STOMP11-HDR-10", "1.2": "STOMP12-HDR-14"}
HEADER_ENCODING = {"1.1": "STOMP11-ENC-01", "1.2": "STOMP12-ENC-01"}

Pairs = list[tuple[str, str]]

WORDS = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789-_.", min_size=1, max_size=12)
VALUES = st.one_of(
    st.just(""), WORDS, st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=40)
)


def connected(target: Bench, version: str) -> tuple[StompPeer, StompPeer, Destination]:
    """Return a producer, a consumer, and their destination, after exchanging one message."""
    consumer, to = target.stomp(version), target.destination()
    consumer.subscribe(to)
    producer = target.stomp(version)
    producer.publish(to, b"control")
    consumer.message(body=b"control")
    return producer, consumer, to


@case(USER_HEADERS)
@over(
    examples=20,
    headers=st.lists(
        st.tuples(WORDS, VALUES), min_size=1, max_size=12, unique_by=lambda header: header[0]
    ),
)
def test_headers_of_the_user_pass_through(target: Bench, version: str, headers: Pairs) -> None:
    """SEND with user-defined headers, whose values are any text, arrives as MESSAGE with each of
    them. One scenario: 1.2 repeats the promise in four places."""
    own = [(f"x-{name}", _plain(value) if version == "1.0" else value) for name, value in headers]
    producer, consumer, to = connected(target, version)
    producer.publish(to, b"body", own, receipt=False)
    message = consumer.message(body=b"body", proves=USER_HEADERS[version])
    lost = [
        f"{name!r}: {value!r} became {message.get(name)!r}"
        for name, value in own
        if message.get(name) != value
    ]
    target.record_finding(
        USER_HEADERS[version],
        not lost,
        "; ".join(lost) or f"MESSAGE has all {len(own)} headers of the SEND",
    )


def _plain(value: str) -> str:
    """Reduce ``value`` to what the text of 1.0 defines: ASCII, not empty, no blanks at the ends."""
    return "<" + "".join(character for character in value if 32 <= ord(character) < 127) + ">"


@case(EMPTY_VALUE)
def test_a_value_may_be_empty(target: Bench, version: str) -> None:
    """SEND with an empty header value arrives as MESSAGE with that header, empty."""
    producer, consumer, to = connected(target, version)
    producer.publish(
        to, b"body", (("x-empty", ""), ("x-last", "value")), proves=EMPTY_VALUE[version]
    )
    message = consumer.message(body=b"body", proves=EMPTY_VALUE[version])
    words = f"an empty value arrived as {message.get('x-empty')!r}"
    target.record_finding(EMPTY_VALUE[version], message.get("x-empty") == "", words)
    target.control(
        message.get("x-last") == "value", "the header after the empty one should be kept"
    )


BLANKS = st.sampled_from([" ", "  ", "\t", " \t "])


@case(BLANKS_ARE_KEPT)
@over(examples=20, before=BLANKS, behind=BLANKS, only=st.booleans(), named=st.booleans())
def test_blanks_at_the_ends_of_headers_stay(
    target: Bench, version: str, before: str, behind: str, only: bool, named: bool
) -> None:
    """SEND with blanks around a header's value or name arrives as MESSAGE with the same blanks."""
    name = f"{before}x-blank{behind}" if named else "x-blank"
    value = before + behind if only else f"{before}value{behind}"
    producer, consumer, to = connected(target, version)
    producer.publish(to, b"body", {name: value}, receipt=False)
    message = consumer.message(body=b"body", proves=BLANKS_ARE_KEPT[version])
    words = f"the header {name!r}: {value!r} arrived as {_like(message.headers, 'x-blank')}"
    target.record_finding(BLANKS_ARE_KEPT[version], message.get(name) == value, words)


def _like(headers: tuple[tuple[str, str], ...], name: str) -> str:
    result = [header for header in headers if name in header[0]]
    return ", ".join(f"{name!r}: {value!r}" for name, value in result) or "missing"


@case(BLANKS_1_0)
@over(examples=10, before=st.sampled_from(["", " ", "  "]), behind=st.sampled_from(["", " ", "  "]))
def test_blanks_around_a_value_of_1_0_are_kept_or_trimmed(
    target: Bench, before: str, behind: str
) -> None:
    """A 1.0 SEND with blanks around a header value arrives as MESSAGE with the value kept or
    trimmed, and otherwise unchanged."""
    producer, consumer, to = connected(target, "1.0")
    value = f"{before}in between{behind}"
    producer.publish(to, b"body", {"x-blank": value}, receipt=False)
    received = consumer.message(body=b"body").get("x-blank")
    possible = {value, value.lstrip(), value.rstrip(), value.strip()}
    if before and behind and received in possible:
        target.record_behaviour(
            "stomp.blanks",
            {value: "keeps", value.strip(): "trims"}.get(received or "", "trims-one-side"),
        )
    target.record_finding(BLANKS_1_0, received in possible, f"{value!r} arrived as {received!r}")


@case(NAMES_HAVE_CASE)
def test_a_header_name_in_other_case_is_another_header(target: Bench, version: str) -> None:
    """SEND has Destination, Receipt and Content-Length in addition to the headers in lower case.
    Only the lower-case ones count; MESSAGE repeats the capitalised ones unchanged."""
    producer, consumer, to = connected(target, version)
    elsewhere = target.destination()
    consumer.subscribe(elsewhere, "elsewhere")
    other = (
        ("Destination", elsewhere.name),
        ("Receipt", "wrong"),
        ("Content-Length", "2"),
        ("MESSAGE-ID", "mine"),
    )
    headers = (*other, ("destination", to.name), *to.send_headers, ("receipt", "right"))
    producer.send("SEND", headers, b"whole body")
    producer.expect(frame("RECEIPT", {"receipt-id": "right"}), proves=NAMES_HAVE_CASE[version])
    message = consumer.message(proves=NAMES_HAVE_CASE[version])
    words = f"with Content-Length:2, the body was {message.body!r}"
    target.record_finding(NAMES_HAVE_CASE[version], message.body == b"whole body", words)
    target.record_finding(
        NAMES_HAVE_CASE[version],
        message.get("destination") != elsewhere.name and message.get("subscription") != "elsewhere",
        f"SEND had a header Destination too; destination arrived as {message.get('destination')!r}",
    )
    lost = [name for name, value in other if message.get(name) != value]
    detail = f"of the headers in capitals, MESSAGE lacks {', '.join(lost) or 'none'}"
    target.record_finding(NAMES_HAVE_CASE[version], not lost, detail)
    producer.settle()
    producer.expect_nothing(
        for_=MOMENT, of=frame("RECEIPT", {"receipt-id": "wrong"}), proves=NAMES_HAVE_CASE[version]
    )
    consumer.expect_nothing(
        for_=ms(1), proves=NAMES_HAVE_CASE[version], why="the message was published once"
    )


@case(FIRST_ARRIVES)
@over(examples=20, later=st.lists(st.sampled_from(["second", "", "third"]), min_size=1, max_size=3))
def test_the_first_entry_of_a_repeated_header_counts(
    target: Bench, version: str, later: list[str]
) -> None:
    """SEND with several entries of one header arrives as MESSAGE with the first value; later
    entries are absent or follow it."""
    requirements = FIRST_ARRIVES[version]
    producer, consumer, to = connected(target, version)
    producer.publish(
        to, b"body", [("x-word", "first"), *(("x-word", value) for value in later)], receipt=False
    )
    message = consumer.message(body=b"body", proves=requirements)
    values = [value for name, value in message.headers if name == "x-word"]
    kept = {("first",): "first", ("first", *later): "all", (later[-1],): "last"}.get(tuple(values))
    if kept:
        target.record_behaviour("stomp.repeated-header", kept)
    words = f"x-word was first, then {', '.join(later)}; MESSAGE has {', '.join(values) or 'none'}"
    target.record_finding(requirements, values[:1] == ["first"], words)


@case(FIRST_COUNTS)
def test_the_first_of_several_destinations_counts(target: Bench, version: str) -> None:
    """SEND with two destinations and two receipts is published to the first destination, and the
    first receipt is answered."""
    producer, consumer, to = connected(target, version)
    second = target.destination()
    consumer.subscribe(second, "second")
    headers = [
        ("destination", to.name),
        ("receipt", "first"),
        ("destination", second.name),
        ("receipt", "second"),
    ]
    producer.send("SEND", (*headers, *to.send_headers), b"body")
    producer.expect(frame("RECEIPT", {"receipt-id": "first"}), proves=FIRST_COUNTS[version])
    message = consumer.message(body=b"body", proves=FIRST_COUNTS[version])
    target.record_finding(
        FIRST_COUNTS[version],
        message.get("subscription") != "second",
        f"destination was {to.name!r}, then {second.name!r}; the message arrived for subscription "
        f"{message.get('subscription')!r}",
    )


@case(FIRST_COUNTS)
def test_the_first_of_several_accept_versions_counts(target: Bench, version: str) -> None:
    """CONNECT with two accept-version headers, 1.1 and 1.2, opens a session of the first
    version."""
    second = "1.1" if version == "1.2" else "1.2"
    target.stomp(version)
    peer = target.peer(version)
    headers = (*target.connect_headers(version), ("accept-version", second))
    value = peer.connect(headers, proves=FIRST_COUNTS[version]).get("version")
    words = f"CONNECT had accept-version:{version}, then {second}; CONNECTED has version:{value}"
    target.record_finding(FIRST_COUNTS[version], value == version, words)


@case(FIRST_COUNTS)
def test_the_first_of_several_content_lengths_counts(target: Bench, version: str) -> None:
    """SEND with the correct content-length and then a smaller one arrives with its whole body."""
    producer, consumer, to = connected(target, version)
    body = b"eleven\x00oct."
    lengths = (("content-length", str(len(body))), ("content-length", "3"))
    headers = (("destination", to.name), *to.send_headers, *lengths)
    producer.send("SEND", headers, body)
    message = consumer.watch_for(frame("MESSAGE"), within=seconds(5))
    received = "nothing" if message is None else f"{message.body!r}"
    if message is not None and message.body in (body, body[:3]):
        counted = "first" if message.body == body else "last"
        target.record_behaviour("stomp.repeated-content-length", counted)
    target.record_finding(
        FIRST_COUNTS[version],
        message is not None and message.body == body,
        f"SEND had content-length:11, then 3; {received} was delivered",
    )


@case(RECEIPT_REQUEST)
@over(examples=30, value=VALUES.filter(bool))
def test_a_receipt_may_be_asked_for_under_any_value(
    target: Bench, version: str, value: str
) -> None:
    """For a receipt header with an arbitrary value, RECEIPT has that value as its receipt-id."""
    asked = _plain(value) if version == "1.0" else value
    producer, _, to = connected(target, version)
    producer.send("BEGIN", {"transaction": producer.transaction, "receipt": f"{asked}1"})
    producer.expect(frame("RECEIPT", {"receipt-id": f"{asked}1"}), proves=RECEIPT_REQUEST[version])
    producer.send("SEND", (("destination", to.name), *to.send_headers, ("receipt", asked)), b"body")
    producer.expect(frame("RECEIPT", {"receipt-id": asked}), proves=RECEIPT_REQUEST[version])


@case(UTF_8, HEADER_ENCODING)
@over(examples=30, text=st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=60))
def test_text_in_utf_8_is_understood(target: Bench, version: str, text: str) -> None:
    """SEND with UTF-8 text in a header's name and value and in its body arrives unchanged."""
    requirements = (UTF_8[version], HEADER_ENCODING[version])
    mixed = f"é€𝄞{text}"
    producer, consumer, to = connected(target, version)
    headers = (("content-type", "text/plain;charset=utf-8"), (f"x-{mixed}", mixed))
    producer.publish(to, mixed.encode(), headers, receipt=False)
    message = consumer.message(proves=requirements)
    words = f"the body {mixed!r} arrived as {message.body!r}"
    target.record_finding(UTF_8[version], message.body == mixed.encode(), words)
    received = message.get(f"x-{mixed}")
    detail = f"the header {mixed!r} arrived as {received!r}"
    target.record_finding(requirements, received == mixed, detail)
