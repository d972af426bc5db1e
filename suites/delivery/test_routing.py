"""Routing types of destinations, set by headers, acceptor prefixes, or address-settings."""

import pytest
from hypothesis import strategies as st

from brokerproof.suites.api import PATIENCE, Bench, case, listed, over
from brokerproof.suites.api.stomp import Destination, StompPeer
from brokerproof.suites.steps.queues import (
    QUIET,
    bodies,
    collect,
    expected_arrivals,
    numbered,
    publish_all,
)
from brokerproof.suites.steps.refusals import bystander, refused

ROUTING_HEADERS = "ARTEMIS-STOMP-routing-1"
NAME_IS_ADDRESS = "ARTEMIS-STOMP-routing-3"
SUBSCRIPTION_TYPE = "ARTEMIS-STOMP-routing-7"
DEFAULT_ROUTING = "ARTEMIS-STOMP-routing-2"
PREFIXES = "ARTEMIS-STOMP-routing-4"
ADDRESS_MATCH = "ARTEMIS-STOMP-routing-6"
AUTO_CREATED = "ARTEMIS-STOMP-routing-5"
HOST_IGNORED = "ARTEMIS-STOMP-host-1"
ALL_VERSIONS = "ARTEMIS-STOMP-versions-1"

KINDS = ("ANYCAST", "MULTICAST")
FIXTURES = {"routing-headers", "routing-fixtures"}
"""``routing-fixtures``: the broker runs with our broker.xml, which has address-settings for
``anycast.#`` and ``multicast.#`` and an acceptor with the prefixes ``queue/`` and ``topic/``.
``wildcard-fixtures``: it runs with our override.xml, whose address-settings use other wildcard
characters."""
SEND, SUBSCRIBE = "destination-type", "subscription-type"


def place(name: str, kind: str | None) -> Destination:
    """A destination whose type is stated by headers; None: not stated."""
    if kind is None:
        return Destination(name)
    return Destination(name, ((SEND, kind),), ((SUBSCRIBE, kind),))


def fresh(target: Bench, kind: str | None, prefix: str = "") -> Destination:
    """Return an unused destination whose name has this ``prefix``."""
    return place(prefix + target.destination().name, kind)


def copies(
    target: Bench, producer: StompPeer, to: Destination, listeners: list[StompPeer], expected: int
) -> int:
    """Return how many copies of ten messages two subscriptions get: ten from a queue, twenty from a
    topic."""
    before = sum(listener.messages_seen for listener in listeners)
    publish_all(producer, to, numbered(10))
    target.wait_until(
        lambda: sum(listener.messages_seen for listener in listeners) - before >= expected, PATIENCE
    )
    target.advance(QUIET)
    return sum(len(listener.take_messages()) for listener in listeners)


def two_listeners(target: Bench, to: Destination, acceptor: str | None = None) -> list[StompPeer]:
    """Two subscriptions on two connections."""
    listeners = [target.stomp("1.2", acceptor=acceptor) for _ in range(2)]
    for listener in listeners:
        listener.subscribe(to)
    return listeners


EXPECTED = {"ANYCAST": 10, "MULTICAST": 20}


@case(ROUTING_HEADERS, NAME_IS_ADDRESS, needs={"routing-headers"})
@pytest.mark.parametrize("kind", KINDS)
def test_the_headers_decide_what_a_new_destination_is(target: Bench, kind: str) -> None:
    """Two consumers subscribe to a new name with subscription-type, and ten messages are sent with
    destination-type. ANYCAST delivers ten in total, MULTICAST ten to each."""
    to = fresh(target, kind)
    listeners = two_listeners(target, to)
    got = copies(target, target.stomp("1.2"), to, listeners, EXPECTED[kind])
    detail = f"{kind}: two subscriptions got {got} copies of ten messages"
    target.record_finding((ROUTING_HEADERS, NAME_IS_ADDRESS), got == EXPECTED[kind], detail)


@case(ROUTING_HEADERS, needs={"routing-headers"})
@pytest.mark.parametrize("header", [SEND, SUBSCRIBE])
@over(
    examples=20,
    value=st.one_of(
        st.sampled_from(
            [
                "anycast",
                "Multicast",
                "multicast",
                "QUEUE",
                "TOPIC",
                "ANYCAST ",
                "ANYCAST,MULTICAST",
                "",
            ]
        ),
        st.text("ACIMNSTULY", min_size=1, max_size=9).filter(lambda text: text not in KINDS),
    ),
)
def test_any_other_value_is_refused(target: Bench, header: str, value: str) -> None:
    """SEND with a destination-type, or SUBSCRIBE with a subscription-type, other than ANYCAST or
    MULTICAST is not confirmed. With a valid value it is confirmed first."""
    good, bad = fresh(target, "ANYCAST"), fresh(target, None)
    with bystander(target, "1.2"):
        peer = target.stomp("1.2")
        if header == SEND:
            peer.publish(good, b"good")
            refused(
                target,
                peer,
                "SEND",
                {"destination": bad.name, header: value},
                b"bad",
                refuses=ROUTING_HEADERS,
            )
        else:
            peer.subscribe(good, "good")
            fields = {"id": "bad", "destination": bad.name, header: value}
            refused(target, peer, "SUBSCRIBE", fields, refuses=ROUTING_HEADERS)


@case(DEFAULT_ROUTING, needs=FIXTURES)
@pytest.mark.parametrize("kind", KINDS)
def test_without_headers_the_address_setting_decides(target: Bench, kind: str) -> None:
    """SUBSCRIBE and SEND without routing headers use a name whose first word is anycast or
    multicast. The default routing types of the matching address-setting apply."""
    to = fresh(target, None, prefix=f"{kind.lower()}.")
    listeners = two_listeners(target, to)
    got = copies(target, target.stomp("1.2"), to, listeners, EXPECTED[kind])
    detail = f"{to.name} without headers: two subscriptions got {got} copies of ten messages"
    target.record_finding(DEFAULT_ROUTING, got == EXPECTED[kind], detail)


@case(DEFAULT_ROUTING, needs=FIXTURES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_message_that_says_nothing_goes_where_the_address_setting_says(
    target: Bench, kind: str
) -> None:
    """Before any SUBSCRIBE, a SEND without routing headers goes to a new name whose first word is
    anycast or multicast. An anycast message waits in the queue; a multicast message is lost."""
    to = fresh(target, None, prefix=f"{kind.lower()}.")
    producer, consumer = target.stomp("1.2"), target.stomp("1.2")
    producer.publish(to, b"early")
    consumer.subscribe(to)
    producer.publish(to, b"late")
    expected = [b"early", b"late"] if kind == "ANYCAST" else [b"late"]
    received = bodies(collect(target, consumer, len(expected)))
    target.record_finding(
        DEFAULT_ROUTING,
        received == expected,
        f"{listed(received)} arrived from {to.name}; expected {listed(expected)}",
        expectation=expected_arrivals(consumer, received, expected),
    )


@case(NAME_IS_ADDRESS, needs={"routing-headers"})
def test_one_name_is_one_address(target: Bench) -> None:
    """Two connections use the same name: messages of one reach the other. A name that differs in
    one letter, or only in case, is another address."""
    to = fresh(target, "ANYCAST")
    names = (to.name, to.name + "x", to.name.upper())
    listeners = [target.stomp("1.2") for _ in names]
    for listener, name in zip(listeners, names, strict=True):
        listener.subscribe(place(name, "ANYCAST"))
    producer = target.stomp("1.2")
    for name in names:  # twice: round robin would hide that two names are one queue
        publish_all(producer, place(name, "ANYCAST"), [name.encode()] * 2)
    received = [bodies(collect(target, listener, 2)) for listener in listeners]
    target.record_finding(
        NAME_IS_ADDRESS,
        received == [[name.encode()] * 2 for name in names],
        f"messages for {listed(names)} arrived as {'; '.join(map(listed, received))}",
    )


@case(SUBSCRIPTION_TYPE, needs={"routing-headers"})
@pytest.mark.parametrize("first", KINDS)
def test_one_address_can_be_queue_and_topic(target: Bench, first: str) -> None:
    """One name is used as queue and as topic concurrently. ANYCAST messages arrive at the queue's
    consumer, MULTICAST messages at the topic's subscriber."""
    name = target.destination().name
    listeners = {
        kind: target.stomp("1.2") for kind in (first, *(kind for kind in KINDS if kind != first))
    }
    for kind, listener in listeners.items():
        listener.subscribe(place(name, kind))
    producer = target.stomp("1.2")
    for number in range(2):
        for kind in KINDS:
            producer.publish(place(name, kind), f"{kind} {number}".encode())
    received = {kind: bodies(collect(target, listener, 2)) for kind, listener in listeners.items()}
    expected = {kind: [f"{kind} {number}".encode() for number in range(2)] for kind in listeners}
    got = (f"its {kind} subscriber got {listed(of)}" for kind, of in received.items())
    detail = f"of messages to {name} as queue and topic, {' and '.join(got)}"
    detail += "; each should get two messages of its own type"
    target.record_finding(SUBSCRIPTION_TYPE, received == expected, detail)


@case(PREFIXES, needs=FIXTURES)
@pytest.mark.parametrize(("prefix", "kind"), [("queue/", "ANYCAST"), ("topic/", "MULTICAST")])
def test_a_prefix_decides_and_is_no_part_of_the_name(target: Bench, prefix: str, kind: str) -> None:
    """On an acceptor with the prefixes queue/ and topic/, a prefixed name is used without headers.
    Messages are routed as the prefix says, to the address of the name without prefix."""
    plain = fresh(target, kind)
    prefixed = place(prefix + plain.name, None)
    listeners = two_listeners(target, prefixed, acceptor="prefixes")
    got = copies(
        target, target.stomp("1.2", acceptor="prefixes"), prefixed, listeners, EXPECTED[kind]
    )
    detail = f"{prefixed.name}: two subscriptions got {got} copies of ten messages"
    target.record_finding(PREFIXES, got == EXPECTED[kind], detail)
    got = copies(target, target.stomp("1.2"), plain, listeners, EXPECTED[kind])
    target.record_finding(
        PREFIXES,
        got == EXPECTED[kind],
        f"ten messages were sent to {plain.name} on another acceptor; the two subscriptions to"
        f" {prefixed.name} got {got} copies",
    )
    for listener in listeners:
        listener.request("UNSUBSCRIBE", {"id": "0"})
    outside = target.stomp("1.2")
    outside.subscribe(plain)
    target.stomp("1.2", acceptor="prefixes").publish(prefixed, b"across")
    received = bodies(collect(target, outside, 1))
    target.record_finding(
        PREFIXES,
        received == [b"across"],
        f"after a send to {prefixed.name}, a subscription to {plain.name} got {listed(received)}",
        expectation=expected_arrivals(outside, received, [b"across"]),
    )


@case(PREFIXES, needs=FIXTURES)
def test_elsewhere_a_prefix_is_part_of_the_name(target: Bench) -> None:
    """On an acceptor without prefixes a message is sent to queue/NAME. It does not reach NAME."""
    plain = fresh(target, "ANYCAST")
    whole = place(f"queue/{plain.name}", "ANYCAST")
    of_plain, of_whole, producer = target.stomp("1.2"), target.stomp("1.2"), target.stomp("1.2")
    of_plain.subscribe(plain)
    of_whole.subscribe(whole)
    producer.publish(whole, b"whole")
    producer.publish(plain, b"plain")
    received = bodies(collect(target, of_whole, 1)), bodies(collect(target, of_plain, 1))
    detail = f"{whole.name} got {listed(received[0])}; {plain.name} got {listed(received[1])}"
    target.record_finding(PREFIXES, received == ([b"whole"], [b"plain"]), detail)


@case(ADDRESS_MATCH, needs=FIXTURES)
@over(
    examples=30,
    words=st.lists(st.text("abcxyz019", min_size=1, max_size=5), min_size=1, max_size=4),
    other=st.sampled_from(["x.", "/", "-", "x", ""]),
)
def test_an_address_setting_matches_whole_words(
    target: Bench, words: list[str], other: str
) -> None:
    """Names with the first word anycast match the address-setting anycast.#, however many words
    follow. Names that begin otherwise are multicast, the default."""
    tail = ".".join([*words, target.destination().name])
    for name, kind in ((f"anycast.{tail}", "ANYCAST"), (f"anycast{other}{tail}", "MULTICAST")):
        to = place(name, None)
        got = copies(target, target.stomp("1.2"), to, two_listeners(target, to), EXPECTED[kind])
        target.record_finding(
            ADDRESS_MATCH,
            got == EXPECTED[kind],
            f"{name} should be {kind}: two subscriptions without headers got {got} copies of ten"
            " messages",
        )


@case(ADDRESS_MATCH, needs=FIXTURES)
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("multicast.{}", "MULTICAST"),
        ("multicast.anycast.{}", "ANYCAST"),
        ("multicast.anycast", "ANYCAST"),
        ("multicast.{}.one", "ANYCAST"),
        ("multicast.not.one", "MULTICAST"),
        ("multicast.{}.one.more", "MULTICAST"),
        ("multicast.{}.ones", "MULTICAST"),
        ("multicast.one", "MULTICAST"),
        ("anycast.more.{}", "ANYCAST"),
    ],
)
def test_the_most_specific_address_setting_counts(target: Bench, name: str, kind: str) -> None:
    """Several address-settings match a name. A literal match takes precedence over one with *, and
    that over one with #; of two with #, the longer applies."""
    to = place(name.format(target.destination().name), None)
    listeners = two_listeners(target, to)
    got = copies(target, target.stomp("1.2"), to, listeners, EXPECTED[kind])
    for listener in listeners:
        listener.request("UNSUBSCRIBE", {"id": "0"})
    target.record_finding(
        ADDRESS_MATCH,
        got == EXPECTED[kind],
        f"{to.name} should be {kind}: two subscriptions without headers got {got} copies of ten"
        " messages",
    )


@case(ADDRESS_MATCH, needs={"routing-headers", "wildcard-fixtures"})
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("anycast/{}", "ANYCAST"),
        ("anycast/{}/deeper/still", "ANYCAST"),
        ("anycast.{}", "MULTICAST"),
        ("anycastx/{}", "MULTICAST"),
        ("one/{}/word", "ANYCAST"),
        ("one/{}.dots.are.letters/word", "ANYCAST"),
        ("one/{}/more/word", "MULTICAST"),
        ("one/{}/words", "MULTICAST"),
        ("one/word", "MULTICAST"),
    ],
)
def test_the_characters_of_matches_can_be_configured(target: Bench, name: str, kind: str) -> None:
    """The override.xml sets slash, % and + as wildcard characters. Names that match anycast/% and
    one/+/word are queues, all other names topics."""
    to = place(name.format(target.destination().name), None)
    got = copies(target, target.stomp("1.2"), to, two_listeners(target, to), EXPECTED[kind])
    target.record_finding(
        ADDRESS_MATCH,
        got == EXPECTED[kind],
        f"{to.name} should be {kind}: two subscriptions without headers got {got} copies of ten"
        " messages",
    )


@case(AUTO_CREATED, needs={"routing-headers"})
def test_a_send_to_a_new_queue_is_kept(target: Bench) -> None:
    """Messages are sent to a new anycast name and the producer leaves. A later consumer gets
    all."""
    to, producer, consumer = fresh(target, "ANYCAST"), target.stomp("1.2"), target.stomp("1.2")
    publish_all(producer, to, numbered(3))
    producer.request("DISCONNECT")
    producer.close_socket()
    consumer.subscribe(to)
    received = bodies(collect(target, consumer, 3))
    target.record_finding(
        AUTO_CREATED,
        sorted(received) == numbered(3),
        f"m0, m1, m2 were sent before there was a subscription; {listed(received)} arrived",
        expectation=expected_arrivals(consumer, received, numbered(3), "in any order"),
    )


@case(AUTO_CREATED, needs={"routing-headers"})
def test_a_send_to_a_new_topic_is_kept_for_nobody(target: Bench) -> None:
    """A message is sent to a new multicast name. A later subscriber gets only later messages."""
    to, producer, consumer = fresh(target, "MULTICAST"), target.stomp("1.2"), target.stomp("1.2")
    producer.publish(to, b"early", proves=AUTO_CREATED)
    consumer.subscribe(to)
    producer.publish(to, b"late")
    received = bodies(collect(target, consumer, 1))
    target.record_finding(
        AUTO_CREATED,
        received == [b"late"],
        f"the subscriber arrived between two messages and got {listed(received)}",
        expectation=expected_arrivals(consumer, received, [b"late"]),
    )


@case(HOST_IGNORED, needs={"routing-headers"})
@over(
    examples=20,
    host=st.one_of(
        st.sampled_from(["", "localhost", "/", "no such host", "127.0.0.1", "ünïcödé", "a" * 300]),
        st.text("abcdefghijklmnopqrstuvwxyz.-0123456789", min_size=1, max_size=40),
    ),
    spoken=st.sampled_from(["1.1", "1.2"]),
)
def test_the_host_of_connect_changes_nothing(target: Bench, host: str, spoken: str) -> None:
    """CONNECT with any host is accepted, and the session reaches the same destinations."""
    to = fresh(target, "ANYCAST")
    peer, other = target.peer(spoken), target.stomp(spoken)
    peer.connect(target.connect_headers(spoken, {"host": host}), proves=HOST_IGNORED)
    peer.subscribe(to, proves=HOST_IGNORED)
    other.publish(to, b"hello")
    peer.message(body=b"hello", proves=HOST_IGNORED)


@case(ALL_VERSIONS, needs={"routing-headers"})
def test_all_three_versions_are_spoken(target: Bench) -> None:
    """A client of each STOMP version connects. Clients of any two versions exchange messages."""
    peers = {version: target.peer(version) for version in ("1.0", "1.1", "1.2")}
    queues = {version: fresh(target, "ANYCAST") for version in peers}
    for version, peer in peers.items():
        connected = peer.connect(target.connect_headers(version), proves=ALL_VERSIONS)
        value = connected.get("version") or "1.0"
        detail = f"a client of version {version} was answered with version {value}"
        target.record_finding(ALL_VERSIONS, value == version, detail)
        peer.subscribe(queues[version])
    for version, peer in peers.items():
        for name, queue in queues.items():
            peer.publish(queue, f"{version} to {name}".encode())
    for name, peer in peers.items():
        received = bodies(collect(target, peer, 3))
        expected = [f"{version} to {name}".encode() for version in peers]
        target.record_finding(
            ALL_VERSIONS,
            sorted(received) == expected,
            f"the client of {name} got {listed(received)}; expected {listed(expected)}",
            expectation=expected_arrivals(peer, received, expected, "in any order"),
        )
