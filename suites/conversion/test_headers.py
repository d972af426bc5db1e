"""Headers and properties: durability, priority, expiry, ids, and application properties."""

from typing import Any

from hypothesis import strategies as st

from brokerproof.suites.api import NS_PER_MS, Bench, case, listed, over, shown
from brokerproof.suites.api.amqp10 import Value, uint
from brokerproof.suites.conversion.protocol_pairs import CONVERSION, message, to_amqp, to_stomp

HEADER_DEFAULTS = "AMQP10-MSG-01"
TTL_REMAINING = "AMQP10-MSG-08"

HEADER_CONVERSION = "ARTEMIS-CROSSING-header-1"
PROPERTY_CONVERSION = "ARTEMIS-CROSSING-properties-1"
APPLICATION_PROPERTIES = "ARTEMIS-CROSSING-properties-2"
WORDS = st.text("abcxyz-ü .", min_size=1, max_size=12).map(str.strip).filter(bool)
FAR = 4_000_000_000_000
"""Milliseconds since 1970: in the year 2096."""
NAMES = st.text("abcxyz_", min_size=1, max_size=8).map("own_".__add__)
PROPERTY = {"correlation-id": "correlation-id", "reply-to": "reply-to", "type": "subject"}
"""STOMP headers and the corresponding AMQP properties."""


@case(HEADER_CONVERSION, HEADER_DEFAULTS, needs=CONVERSION)
@over(
    examples=30,
    always=lambda target: [{"durable": None, "priority": None}, {"durable": True, "priority": 9}],
    durable=st.sampled_from([True, False, None]),
    priority=st.sampled_from([None, 0, 3, 4, 5, 9]),
)
def test_durability_and_priority_go_to_amqp(
    target: Bench, durable: bool | None, priority: int | None
) -> None:
    """A message is sent over STOMP with persistent and priority, or without. Its AMQP header has
    the same values, by default not durable and priority 4."""
    headers = {} if durable is None else {"persistent": str(durable).lower()}
    headers |= {} if priority is None else {"priority": str(priority)}
    received = to_amqp(target, b"x", headers).message.fields("header")
    have = (received.get("durable", False), received.get("priority", 4))
    expected = (bool(durable), 4 if priority is None else priority)
    detail = f"a SEND with {shown(headers)} arrived with the header {shown(received)}"
    target.record_finding(HEADER_CONVERSION, have == expected, detail)
    if not headers:
        words = f"a message without a header arrived with the header {shown(received)}"
        target.record_finding(HEADER_DEFAULTS, have == expected, words)
    detail = f"at first, the header is {shown(received)}"
    target.record_finding(HEADER_DEFAULTS, received.get("delivery-count", 0) == 0, detail)


@case(HEADER_CONVERSION, needs=CONVERSION)
@over(
    examples=30,
    always=lambda target: [{"durable": True, "priority": 9}],
    durable=st.sampled_from([True, False, None]),
    priority=st.sampled_from([None, 0, 3, 4, 5, 9]),
)
def test_durability_and_priority_go_to_stomp(
    target: Bench, durable: bool | None, priority: int | None
) -> None:
    """A message is sent over AMQP with durable and priority, or without. Over STOMP persistent and
    priority have the same values; the defaults, false and 4, may be absent."""
    header = {"durable": durable, "priority": priority}
    frame = to_stomp(
        target,
        message(b"x", header={key: value for key, value in header.items() if value is not None}),
    )
    persistent, received_priority = frame.get("persistent"), frame.get("priority")
    right = persistent == "true" if durable else persistent in (None, "false")
    words = f"durable={shown(durable)} arrived with persistent:{shown(persistent)}"
    target.record_finding(HEADER_CONVERSION, right, words)
    right = (
        received_priority == str(priority)
        if priority not in (None, 4)
        else received_priority in (None, "4")
    )
    words = f"priority={shown(priority)} arrived with priority:{shown(received_priority)}"
    target.record_finding(HEADER_CONVERSION, right, words)


@case(HEADER_CONVERSION, needs=CONVERSION)
@over(examples=8, expires=st.integers(FAR, FAR + 10**12))
def test_an_instant_of_expiry_crosses(target: Bench, expires: int) -> None:
    """A message expires at a time in the far future. STOMP's expires and AMQP's
    absolute-expiry-time have the same value, in both directions."""
    properties = to_amqp(target, b"x", {"expires": str(expires)}).message.fields("properties")
    value = properties.get("absolute-expiry-time")
    detail = f"expires:{expires} arrived with the absolute-expiry-time {value}"
    target.record_finding(HEADER_CONVERSION, value == expires, detail)
    expires_header = to_stomp(
        target, message(b"x", properties={"absolute-expiry-time": expires})
    ).get("expires")
    detail = f"absolute-expiry-time {expires} arrived with expires:{expires_header}"
    target.record_finding(HEADER_CONVERSION, expires_header == str(expires), detail)


@case(HEADER_CONVERSION, TTL_REMAINING, needs=CONVERSION)
@over(
    examples=8,
    ttls=st.tuples(st.sampled_from([60_000, 3_600_000]), st.sampled_from([100_000, 10_000_000])),
)
def test_a_time_to_live_crosses(target: Bench, ttls: tuple[int, int]) -> None:
    """Two messages with different ttls are sent over AMQP. Over STOMP each has an expires header,
    and the two values differ as much as the ttls and the times of sending. A message sent over
    STOMP with such a header arrives over AMQP with the remaining ttl."""
    sent: list[int] = []
    instants: list[int] = []
    for ttl in ttls:
        sent.append(target.now())
        expires_header = to_stomp(target, message(b"x", header={"ttl": ttl})).get("expires") or ""
        target.require(
            HEADER_CONVERSION,
            expires_header.isdecimal() and int(expires_header) > 0,
            f"a ttl of {ttl} arrived with expires:{expires_header}",
        )
        instants.append(int(expires_header))
    done = target.now()
    apart = instants[1] - instants[0] - (ttls[1] - ttls[0])
    most = (done - sent[0]) // NS_PER_MS + 1
    target.record_finding(
        HEADER_CONVERSION,
        -1 <= apart <= most,
        f"messages with the ttls {listed(ttls)} sent within {most} ms arrived with expires"
        f" {listed(instants)}",
    )
    rest = to_amqp(target, b"x", {"expires": str(instants[0])}).message.fields("header").get("ttl")
    low = ttls[0] - (target.now() - sent[0]) // NS_PER_MS - 1
    fine = rest is not None and low <= rest <= ttls[0] + 1
    detail = f"a message with {low} to {ttls[0]} ms left to live arrived with the ttl {rest}"
    target.record_finding(TTL_REMAINING, fine, detail)


@case(PROPERTY_CONVERSION, needs=CONVERSION)
@over(
    examples=30,
    always=lambda target: [{"headers": dict.fromkeys(PROPERTY, "word")}],
    headers=st.fixed_dictionaries({}, optional=dict.fromkeys(PROPERTY, WORDS)),
)
def test_known_headers_are_properties_of_amqp(target: Bench, headers: dict[str, str]) -> None:
    """A message is sent over STOMP with some or all of correlation-id, reply-to and type. Over AMQP
    correlation-id, reply-to and subject have the same values; absent ones stay absent."""
    properties = to_amqp(target, b"x", headers).message.fields("properties")
    for header, name in PROPERTY.items():
        value, expected = properties.get(name), headers.get(header)
        detail = f"{header}:{expected} arrived as {name}={value}"
        target.record_finding(PROPERTY_CONVERSION, value == expected, detail)


@case(PROPERTY_CONVERSION, needs=CONVERSION)
@over(
    examples=30,
    always=lambda target: [{"texts": dict.fromkeys(PROPERTY, "word")}],
    texts=st.fixed_dictionaries({}, optional=dict.fromkeys(PROPERTY, WORDS)),
)
def test_known_properties_are_headers_of_stomp(target: Bench, texts: dict[str, str]) -> None:
    """A message is sent over AMQP with some or all of correlation-id, reply-to and subject. Over
    STOMP correlation-id, reply-to and type have the same values; reply-to may have a prefix, as in
    queue://name."""
    properties = {PROPERTY[header]: text for header, text in texts.items()}
    frame = to_stomp(target, message(b"x", properties=properties))
    for header in PROPERTY:
        value, expected = frame.get(header), texts.get(header)
        same = value == expected or (
            header == "reply-to" and expected is not None and f"{value}".endswith(f"://{expected}")
        )
        detail = f"{PROPERTY[header]}={expected} arrived as {header}:{value}"
        target.record_finding(PROPERTY_CONVERSION, same, detail)


@case(APPLICATION_PROPERTIES, needs=CONVERSION)
@over(
    examples=30,
    always=lambda target: [{"headers": {"own_header": "ü: and\nnewline"}}],
    headers=st.dictionaries(
        NAMES, st.one_of(WORDS, st.sampled_from(["", "a:b", "1", "true"])), max_size=4
    ),
)
def test_headers_of_an_application_are_application_properties(
    target: Bench, headers: dict[str, str]
) -> None:
    """A message is sent over STOMP with headers of the application. Over AMQP they are
    application-properties with these names, strings with the same values."""
    have = to_amqp(target, b"x", headers).message.map("application-properties")
    kept = {name: have.get(name) for name in headers}
    words = f"the headers {shown(headers)} arrived as {shown(have)}"
    target.record_finding(APPLICATION_PROPERTIES, kept == headers, words)


VALUES: tuple[tuple[Any, str], ...] = (
    ("text", "text"),
    ("", ""),
    (True, "true"),
    (uint(7), "7"),
    (Value("int", -7), "-7"),
    (Value("long", 2**40), str(2**40)),
    (Value("ubyte", 200), "200"),
)


@case(APPLICATION_PROPERTIES, needs=CONVERSION)
@over(
    always=lambda target: [{"chosen": {f"own_{at}": at for at in range(len(VALUES))}}],
    examples=20,
    chosen=st.dictionaries(NAMES, st.integers(0, len(VALUES) - 1), max_size=4),
)
def test_application_properties_are_headers(target: Bench, chosen: dict[str, int]) -> None:
    """A message is sent over AMQP with application-properties: strings, numbers, a boolean. Over
    STOMP they are headers with these names, written as text."""
    properties = {name: VALUES[which][0] for name, which in chosen.items()}
    frame = to_stomp(target, message(b"x", application_properties=properties or None))
    expected = {name: VALUES[which][1] for name, which in chosen.items()}
    have = {name: frame.get(name) for name in chosen}
    words = f"application-properties {shown(expected)} arrived as the headers {shown(have)}"
    target.record_finding(APPLICATION_PROPERTIES, have == expected, words)
