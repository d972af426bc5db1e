"""Headers as pairs of text: which entry counts, what is never trimmed, and what passes through from
SEND to MESSAGE."""

from __future__ import annotations

from hypothesis import strategies as st

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import case, over
from brokerproof.harness.model.time import ms, seconds
from brokerproof.harness.protocols.stomp.raw_peer import Destination, StompPeer, frame
from brokerproof.suites.stomp.error_recovery_steps import MOMENT

Pairs = list[tuple[str, str]]

WORDS = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789-_.", min_size=1, max_size=12)
VALUES = st.one_of(
    st.just(""), WORDS, st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=40)
)


def connected(target: Bench, version: str) -> tuple[StompPeer, StompPeer, Destination]:
    """A producer, a consumer that is subscribed, and where; one message has gone from the one to
    the other."""
    consumer, to = target.stomp(version), target.destination()
    consumer.subscribe(to)
    producer = target.stomp(version)
    producer.publish(to, b"control")
    consumer.message(body=b"control")
    return producer, consumer, to


@case(
    {
        "1.0": ("STOMP10-FRAME-02", "STOMP10-FRAME-03"),
        "1.1": ("STOMP11-SEND-06", "STOMP11-ENC-01"),
        "1.2": ("STOMP12-FH-12", "STOMP12-FH-13", "STOMP12-SEND-06", "STOMP12-ENC-01"),
    }
)
@over(
    examples=20,
    headers=st.lists(
        st.tuples(WORDS, VALUES), min_size=1, max_size=12, unique_by=lambda each: each[0]
    ),
)
def test_headers_of_the_user_pass_through(target: Bench, version: str, headers: Pairs) -> None:
    """SEND has headers that no specification knows, with any text for values. MESSAGE has every one
    of them."""
    _pass_through(target, version, headers)


def _pass_through(target: Bench, version: str, headers: Pairs) -> None:
    own = [(f"x-{name}", _plain(value) if version == "1.0" else value) for name, value in headers]
    producer, consumer, to = connected(target, version)
    producer.publish(to, b"body", own, receipt=False)
    message = consumer.message(body=b"body", proves=target.cited)
    lost = [
        f"{name!r}: {value!r} became {message.get(name)!r}"
        for name, value in own
        if message.get(name) != value
    ]
    target.record_finding(
        target.cited, not lost, "; ".join(lost) or f"MESSAGE has all {len(own)} headers of the SEND"
    )


def _plain(value: str) -> str:
    """``value`` within the grammar of 1.0 and what its text leaves open: ASCII, not empty, no
    blanks at the ends."""
    return "<" + "".join(each for each in value if 32 <= ord(each) < 127) + ">"


@case({"1.1": "STOMP11-FRAME-03", "1.2": "STOMP12-FRAME-05"})
def test_a_value_may_be_empty(target: Bench, version: str) -> None:
    """A header line of SEND ends with its colon. MESSAGE has that header, and its value is
    empty."""
    producer, consumer, to = connected(target, version)
    producer.publish(to, b"body", (("x-empty", ""), ("x-last", "value")), proves=target.cited)
    message = consumer.message(body=b"body", proves=target.cited)
    target.record_finding(
        target.cited,
        message.get("x-empty") == "",
        f"an empty value came back as {message.get('x-empty')!r}",
    )
    target.control(message.get("x-last") == "value", "the header behind the empty one is itself")


BLANKS = st.sampled_from([" ", "  ", "\t", " \t "])


@case({"1.1": "STOMP11-ENC-09", "1.2": "STOMP12-ENC-10"})
@over(examples=20, before=BLANKS, behind=BLANKS, only=st.booleans(), named=st.booleans())
def test_blanks_at_the_ends_of_headers_stay(
    target: Bench, version: str, before: str, behind: str, only: bool, named: bool
) -> None:
    """A header value of SEND begins and ends with blanks, or is nothing else; so may its name.
    MESSAGE has both as they were: nothing is trimmed and nothing added."""
    name = f"{before}x-blank{behind}" if named else "x-blank"
    value = before + behind if only else f"{before}value{behind}"
    producer, consumer, to = connected(target, version)
    producer.publish(to, b"body", {name: value}, receipt=False)
    message = consumer.message(body=b"body", proves=target.cited)
    target.record_finding(
        target.cited,
        message.get(name) == value,
        f"{name!r}: {value!r} is in MESSAGE {_like(message.headers, 'x-blank')}",
    )


def _like(headers: tuple[tuple[str, str], ...], name: str) -> str:
    found = [each for each in headers if name in each[0]]
    return ", ".join(f"{name!r}: {value!r}" for name, value in found) or "missing"


@case("STOMP10-FRAME-08")
@over(examples=10, before=st.sampled_from(["", " ", "  "]), behind=st.sampled_from(["", " ", "  "]))
def test_blanks_around_a_value_of_1_0_are_kept_or_trimmed(
    target: Bench, before: str, behind: str
) -> None:
    """A 1.0 value has blanks at its ends. The text leaves open whether they belong to it: the value
    comes back with them, or without them at either end or both; not otherwise changed."""
    producer, consumer, to = connected(target, "1.0")
    value = f"{before}in between{behind}"
    producer.publish(to, b"body", {"x-blank": value}, receipt=False)
    came = consumer.message(body=b"body").get("x-blank")
    possible = {value, value.lstrip(), value.rstrip(), value.strip()}
    target.record_finding(target.cited, came in possible, f"{value!r} came back as {came!r}")


@case({"1.1": "STOMP11-FRAME-02", "1.2": "STOMP12-FRAME-03"})
def test_a_header_name_in_other_case_is_another_header(target: Bench, version: str) -> None:
    """SEND has Destination beside destination, Receipt beside receipt, Content-Length beside a body
    it does not fit. The message goes to destination alone, one RECEIPT comes, the body is whole,
    and the others pass through."""
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
    producer.expect(frame("RECEIPT", {"receipt-id": "right"}), proves=target.cited)
    message = consumer.message(proves=target.cited)
    target.record_finding(
        target.cited,
        message.body == b"whole body",
        f"with Content-Length:2 the body was {message.body!r}",
    )
    target.record_finding(
        target.cited,
        message.get("destination") != elsewhere.name and message.get("subscription") != "elsewhere",
        f"with Destination beside it, destination was {message.get('destination')!r}",
    )
    lost = [name for name, value in other if message.get(name) != value]
    target.record_finding(
        target.cited, not lost, f"of the headers in capitals MESSAGE lacks {lost}"
    )
    producer.settle()
    producer.expect_nothing(
        for_=MOMENT, of=frame("RECEIPT", {"receipt-id": "wrong"}), proves=target.cited
    )
    consumer.expect_nothing(for_=ms(1), proves=target.cited, why="the message was published once")


@case("STOMP12-REPEAT-02", "STOMP12-REPEAT-03")
@over(examples=20, later=st.lists(st.sampled_from(["second", "", "third"]), min_size=1, max_size=3))
def test_the_first_entry_of_a_repeated_header_counts(target: Bench, later: list[str]) -> None:
    """SEND has several entries with one name. MESSAGE gives that header the first value; the later
    ones are gone or stand behind it."""
    producer, consumer, to = connected(target, "1.2")
    producer.publish(
        to, b"body", [("x-word", "first"), *(("x-word", each) for each in later)], receipt=False
    )
    message = consumer.message(body=b"body", proves=target.cited)
    values = [value for name, value in message.headers if name == "x-word"]
    target.record_finding(
        target.cited,
        values[:1] == ["first"],
        f"x-word was first, then {later}; MESSAGE has {values}",
    )


@case("STOMP12-REPEAT-02")
def test_the_first_of_several_destinations_counts(target: Bench) -> None:
    """SEND names two destinations and two receipts. The message is published to the first, and the
    first receipt is answered."""
    producer, consumer, to = connected(target, "1.2")
    second = target.destination()
    consumer.subscribe(second, "second")
    headers = [
        ("destination", to.name),
        ("receipt", "first"),
        ("destination", second.name),
        ("receipt", "second"),
    ]
    producer.send("SEND", (*headers, *to.send_headers), b"body")
    producer.expect(frame("RECEIPT", {"receipt-id": "first"}), proves=target.cited)
    message = consumer.message(body=b"body", proves=target.cited)
    target.record_finding(
        target.cited,
        message.get("subscription") != "second",
        f"destination was {to.name!r}, then {second.name!r}; the message came by subscription "
        f"{message.get('subscription')!r}",
    )


@case("STOMP12-REPEAT-02")
def test_the_first_of_several_accept_versions_counts(target: Bench) -> None:
    """CONNECT has accept-version:1.2, and another one behind it that says 1.1. The session has
    version 1.2."""
    target.stomp("1.2")
    peer = target.peer("1.2")
    connected = peer.connect(
        (*target.connect_headers("1.2"), ("accept-version", "1.1")), proves=target.cited
    )
    said = connected.get("version")
    target.record_finding(
        target.cited,
        said == "1.2",
        f"accept-version was 1.2, then 1.1; CONNECTED says version:{said}",
    )


@case("STOMP12-REPEAT-02")
def test_the_first_of_several_content_lengths_counts(target: Bench) -> None:
    """SEND says content-length twice: first the size of its body, then less. The body is whole."""
    producer, consumer, to = connected(target, "1.2")
    body = b"eleven\x00oct."
    lengths = (("content-length", str(len(body))), ("content-length", "3"))
    headers = (("destination", to.name), *to.send_headers, *lengths)
    producer.send("SEND", headers, body)
    message = consumer.watch_for(frame("MESSAGE"), within=seconds(5))
    came = "nothing" if message is None else f"{message.body!r}"
    target.record_finding(
        target.cited,
        message is not None and message.body == body,
        f"content-length 11, then 3: {came} was delivered",
    )


@case(
    {
        "1.0": ("STOMP10-RECEIPT-01", "STOMP10-RECEIPT-02"),
        "1.1": ("STOMP11-HDR-12", "STOMP11-HDR-13"),
        "1.2": ("STOMP12-HDR-16", "STOMP12-HDR-17"),
    }
)
@over(examples=30, value=VALUES.filter(bool))
def test_a_receipt_may_be_asked_for_under_any_value(
    target: Bench, version: str, value: str
) -> None:
    """Frames ask for a receipt under a value of the client's choice. RECEIPT has that value as its
    receipt-id."""
    asked = _plain(value) if version == "1.0" else value
    producer, _, to = connected(target, version)
    producer.send("BEGIN", {"transaction": "t", "receipt": f"{asked}1"})
    producer.expect(frame("RECEIPT", {"receipt-id": f"{asked}1"}), proves=target.cited)
    producer.send("SEND", (("destination", to.name), *to.send_headers, ("receipt", asked)), b"body")
    producer.expect(frame("RECEIPT", {"receipt-id": asked}), proves=target.cited)


@case({"1.1": ("STOMP11-HDR-10", "STOMP11-ENC-01"), "1.2": ("STOMP12-HDR-14", "STOMP12-ENC-01")})
@over(examples=30, text=st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=60))
def test_text_in_utf_8_is_understood(target: Bench, version: str, text: str) -> None:
    """Text in the names and values of headers and in a body, all in UTF-8 and of every length a
    character can have. It comes back as it was sent."""
    mixed = f"é€𝄞{text}"
    producer, consumer, to = connected(target, version)
    headers = (("content-type", "text/plain;charset=utf-8"), (f"x-{mixed}", mixed))
    producer.publish(to, mixed.encode(), headers, receipt=False)
    message = consumer.message(proves=target.cited)
    target.record_finding(
        target.cited[:1],
        message.body == mixed.encode(),
        f"the body {mixed!r} came back as {message.body!r}",
    )
    came = message.get(f"x-{mixed}")
    target.record_finding(
        target.cited, came == mixed, f"the header {mixed!r} came back as {came!r}"
    )
