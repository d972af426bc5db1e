"""How a destination comes to be a queue or a topic: by headers, by prefixes of the acceptor, by
address-settings."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import case, over
from brokerproof.harness.protocols.conversation import PATIENCE
from brokerproof.harness.protocols.stomp.raw_peer import Destination, StompPeer
from brokerproof.suites.steps.queues import QUIET, bodies, collect, numbered, publish_all
from brokerproof.suites.steps.refusals import bystander, refused

KINDS = ("ANYCAST", "MULTICAST")
FIXTURES = {"routing-headers", "routing-fixtures"}
"""``routing-fixtures``: the broker runs with our broker.xml, which has address-settings for
``anycast.#`` and ``multicast.#`` and an acceptor with the prefixes ``queue/`` and ``topic/``.
``wildcard-fixtures``: it runs with our override.xml, whose address-settings are written with other
characters."""
SEND, SUBSCRIBE = "destination-type", "subscription-type"


def place(name: str, kind: str | None) -> Destination:
    """A destination that says by headers what it is, or does not (None)."""
    if kind is None:
        return Destination(name)
    return Destination(name, ((SEND, kind),), ((SUBSCRIBE, kind),))


def fresh(target: Bench, kind: str | None, prefix: str = "") -> Destination:
    """A destination that nobody has used, with ``prefix`` before its name."""
    return place(prefix + target.destination().name, kind)


def copies(
    target: Bench, producer: StompPeer, to: Destination, listeners: list[StompPeer], expected: int
) -> int:
    """How many copies two subscriptions get of ten messages together: ten from a queue, twenty from
    a topic."""
    before = sum(each.messages_seen for each in listeners)
    publish_all(producer, to, numbered(10))
    target.wait_until(
        lambda: sum(each.messages_seen for each in listeners) - before >= expected, PATIENCE
    )
    target.advance(QUIET)
    return sum(len(each.take_messages()) for each in listeners)


def two_listeners(target: Bench, to: Destination, acceptor: str | None = None) -> list[StompPeer]:
    """Two subscriptions on two connections."""
    listeners = [target.stomp("1.2", acceptor=acceptor) for _ in range(2)]
    for each in listeners:
        each.subscribe(to)
    return listeners


EXPECTED = {"ANYCAST": 10, "MULTICAST": 20}


@case("ARTEMIS-STOMP-routing-1", "ARTEMIS-STOMP-routing-3", needs={"routing-headers"})
@pytest.mark.parametrize("kind", KINDS)
def test_the_headers_decide_what_a_new_destination_is(target: Bench, kind: str) -> None:
    """Two consumers subscribe with subscription-type and ten messages are sent with
    destination-type to a name nobody has used. ANYCAST: the two share one queue and get ten.
    MULTICAST: each has its own and they get twenty."""
    to = fresh(target, kind)
    listeners = two_listeners(target, to)
    got = copies(target, target.stomp("1.2"), to, listeners, EXPECTED[kind])
    target.record_finding(
        target.cited,
        got == EXPECTED[kind],
        f"{kind}: two subscriptions got {got} copies of ten messages",
    )


@case("ARTEMIS-STOMP-routing-1", needs={"routing-headers"})
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
    """destination-type on SEND, or subscription-type on SUBSCRIBE, has a value other than ANYCAST
    and MULTICAST, such as one in small letters. The frame must not be confirmed. With a valid value
    it is, before."""
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
                refuses=target.cited,
            )
        else:
            peer.subscribe(good, "good")
            fields = {"id": "bad", "destination": bad.name, header: value}
            refused(target, peer, "SUBSCRIBE", fields, refuses=target.cited)


@case("ARTEMIS-STOMP-routing-2", needs=FIXTURES)
@pytest.mark.parametrize("kind", KINDS)
def test_without_headers_the_address_setting_decides(target: Bench, kind: str) -> None:
    """Nothing is said about routing. For a name below anycast. or multicast. the default routing
    types of the matching address-setting decide, for who sends and for who subscribes."""
    to = fresh(target, None, prefix=f"{kind.lower()}.")
    listeners = two_listeners(target, to)
    got = copies(target, target.stomp("1.2"), to, listeners, EXPECTED[kind])
    target.record_finding(
        target.cited,
        got == EXPECTED[kind],
        f"{to.name} without headers: two subscriptions got {got} copies of ten messages",
    )


@case("ARTEMIS-STOMP-routing-2", needs=FIXTURES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_message_that_says_nothing_goes_where_the_address_setting_says(
    target: Bench, kind: str
) -> None:
    """A message is sent without a header to a new name below anycast. or multicast., before anybody
    subscribes. For anycast it waits in the queue; for multicast nobody was there to get it."""
    to = fresh(target, None, prefix=f"{kind.lower()}.")
    producer, consumer = target.stomp("1.2"), target.stomp("1.2")
    producer.publish(to, b"early")
    consumer.subscribe(to)
    producer.publish(to, b"late")
    expected = [b"early", b"late"] if kind == "ANYCAST" else [b"late"]
    came = bodies(collect(target, consumer, len(expected)))
    target.record_finding(
        target.cited, came == expected, f"{to.name} should bring {expected!r}, it brought {came!r}"
    )


@case("ARTEMIS-STOMP-routing-3", needs={"routing-headers"})
def test_one_name_is_one_address(target: Bench) -> None:
    """Connections that have nothing to do with each other use one name. What one sends reaches the
    other; a name that differs in one letter, or only in its case, is another address."""
    to = fresh(target, "ANYCAST")
    names = (to.name, to.name + "x", to.name.upper())
    listeners = [target.stomp("1.2") for _ in names]
    for each, name in zip(listeners, names, strict=True):
        each.subscribe(place(name, "ANYCAST"))
    producer = target.stomp("1.2")
    for name in names:  # twice: if two names were one queue, taking turns would hide it
        publish_all(producer, place(name, "ANYCAST"), [name.encode()] * 2)
    came = [bodies(collect(target, each, 2)) for each in listeners]
    target.record_finding(
        target.cited,
        came == [[name.encode()] * 2 for name in names],
        f"messages for {names!r} came as {came!r}",
    )


@case("ARTEMIS-STOMP-routing-3", needs={"routing-headers"})
@pytest.mark.parametrize("first", KINDS)
def test_one_address_can_be_queue_and_topic(target: Bench, first: str) -> None:
    """One name is used in both ways at the same time, first in one and then in the other. What is
    sent to it as ANYCAST comes to the consumer of the queue, what is sent as MULTICAST to the
    subscriber of the topic, and nothing is lost."""
    name = target.destination().name
    listeners = {
        kind: target.stomp("1.2") for kind in (first, *(each for each in KINDS if each != first))
    }
    for kind, each in listeners.items():
        each.subscribe(place(name, kind))
    producer = target.stomp("1.2")
    for number in range(2):
        for kind in KINDS:
            producer.publish(place(name, kind), f"{kind} {number}".encode())
    came = {kind: bodies(collect(target, each, 2)) for kind, each in listeners.items()}
    expected = {kind: [f"{kind} {number}".encode() for number in range(2)] for kind in listeners}
    target.record_finding(target.cited, came == expected, f"{name} as queue and topic: {came!r}")


@case("ARTEMIS-STOMP-routing-4", needs=FIXTURES)
@pytest.mark.parametrize(("prefix", "kind"), [("queue/", "ANYCAST"), ("topic/", "MULTICAST")])
def test_a_prefix_decides_and_is_no_part_of_the_name(target: Bench, prefix: str, kind: str) -> None:
    """On the acceptor with the prefixes queue/ and topic/ a name is used with one of them and
    without headers. It is routed as the prefix says, and it is the same address that others reach
    without the prefix by another acceptor."""
    plain = fresh(target, kind)
    prefixed = place(prefix + plain.name, None)
    listeners = two_listeners(target, prefixed, acceptor="prefixes")
    got = copies(
        target, target.stomp("1.2", acceptor="prefixes"), prefixed, listeners, EXPECTED[kind]
    )
    target.record_finding(
        target.cited,
        got == EXPECTED[kind],
        f"{prefixed.name}: two subscriptions got {got} copies of ten messages",
    )
    got = copies(target, target.stomp("1.2"), plain, listeners, EXPECTED[kind])
    target.record_finding(
        target.cited,
        got == EXPECTED[kind],
        f"sent to {plain.name} on another acceptor: the two subscriptions to {prefixed.name} got"
        f" {got} copies of ten",
    )
    for each in listeners:
        each.request("UNSUBSCRIBE", {"id": "0"})
    outside = target.stomp("1.2")
    outside.subscribe(plain)
    target.stomp("1.2", acceptor="prefixes").publish(prefixed, b"across")
    came = bodies(collect(target, outside, 1))
    target.record_finding(
        target.cited,
        came == [b"across"],
        f"sent to {prefixed.name}, a subscription to {plain.name} got {came!r}",
    )


@case("ARTEMIS-STOMP-routing-4", needs=FIXTURES)
def test_elsewhere_a_prefix_is_part_of_the_name(target: Bench) -> None:
    """An acceptor without prefixes takes queue/NAME as a name like any other: what is sent to it
    does not reach NAME."""
    plain = fresh(target, "ANYCAST")
    whole = place(f"queue/{plain.name}", "ANYCAST")
    of_plain, of_whole, producer = target.stomp("1.2"), target.stomp("1.2"), target.stomp("1.2")
    of_plain.subscribe(plain)
    of_whole.subscribe(whole)
    producer.publish(whole, b"whole")
    producer.publish(plain, b"plain")
    came = bodies(collect(target, of_whole, 1)), bodies(collect(target, of_plain, 1))
    target.record_finding(
        target.cited,
        came == ([b"whole"], [b"plain"]),
        f"{whole.name} and {plain.name} got {came!r}",
    )


@case("ARTEMIS-STOMP-routing-6", needs=FIXTURES)
@over(
    examples=30,
    words=st.lists(st.text("abcxyz019", min_size=1, max_size=5), min_size=1, max_size=4),
    other=st.sampled_from(["x.", "/", "-", "x", ""]),
)
def test_an_address_setting_matches_whole_words(
    target: Bench, words: list[str], other: str
) -> None:
    """The address-setting anycast.# speaks of every name whose first word is anycast, however many
    words follow; words are cut at the delimiter, which is a dot unless configured. A name that goes
    on otherwise is not meant: it is multicast, the default."""
    tail = ".".join([*words, target.destination().name])
    for name, kind in ((f"anycast.{tail}", "ANYCAST"), (f"anycast{other}{tail}", "MULTICAST")):
        to = place(name, None)
        got = copies(target, target.stomp("1.2"), to, two_listeners(target, to), EXPECTED[kind])
        target.record_finding(
            target.cited,
            got == EXPECTED[kind],
            f"{name} should be {kind}: two subscriptions without headers got {got} copies of ten"
            " messages",
        )


@case("ARTEMIS-STOMP-routing-6", needs=FIXTURES)
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
    """Several address-settings match a name: multicast.#, multicast.anycast.#, multicast.*.one and
    multicast.not.one say different things about routing. A literal match comes before one with *,
    that before one with #, and of those the longer one first. anycast.more.# says nothing about
    routing, so what anycast.# says counts."""
    to = place(name.format(target.destination().name), None)
    listeners = two_listeners(target, to)
    got = copies(target, target.stomp("1.2"), to, listeners, EXPECTED[kind])
    for each in listeners:
        each.request("UNSUBSCRIBE", {"id": "0"})
    target.record_finding(
        target.cited,
        got == EXPECTED[kind],
        f"{to.name} should be {kind}: two subscriptions without headers got {got} copies of ten"
        " messages",
    )


@case("ARTEMIS-STOMP-routing-6", needs={"routing-headers", "wildcard-fixtures"})
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
    """Our override.xml cuts names at slashes and writes % for any words and + for one. The
    address-settings anycast/% and one/+/word make queues of the names that they match by these
    characters, and topics stay what they do not match."""
    to = place(name.format(target.destination().name), None)
    got = copies(target, target.stomp("1.2"), to, two_listeners(target, to), EXPECTED[kind])
    target.record_finding(
        target.cited,
        got == EXPECTED[kind],
        f"{to.name} should be {kind}: two subscriptions without headers got {got} copies of ten"
        " messages",
    )


@case("ARTEMIS-STOMP-routing-5", needs={"routing-headers"})
def test_a_send_to_a_new_queue_is_kept(target: Bench) -> None:
    """Messages are sent to an anycast name that nobody has used, and the producer goes. Address and
    queue were made for them: a consumer that comes afterwards gets them all."""
    to, producer, consumer = fresh(target, "ANYCAST"), target.stomp("1.2"), target.stomp("1.2")
    publish_all(producer, to, numbered(3))
    producer.request("DISCONNECT")
    producer.leave()
    consumer.subscribe(to)
    came = bodies(collect(target, consumer, 3))
    target.record_finding(
        target.cited,
        sorted(came) == numbered(3),
        f"three were sent before anybody subscribed; {came!r} came",
    )


@case("ARTEMIS-STOMP-routing-5", needs={"routing-headers"})
def test_a_send_to_a_new_topic_is_kept_for_nobody(target: Bench) -> None:
    """A message is sent to a multicast name that nobody has used. Only an address is made: a
    subscriber that comes afterwards gets nothing of it, and gets what is sent from then on."""
    to, producer, consumer = fresh(target, "MULTICAST"), target.stomp("1.2"), target.stomp("1.2")
    producer.publish(to, b"early", proves=target.cited)
    consumer.subscribe(to)
    producer.publish(to, b"late")
    came = bodies(collect(target, consumer, 1))
    target.record_finding(
        target.cited,
        came == [b"late"],
        f"the subscriber came between two messages and got {came!r}",
    )


@case("ARTEMIS-STOMP-host-1", needs={"routing-headers"})
@over(
    examples=20,
    host=st.one_of(
        st.sampled_from(["", "localhost", "/", "no such host", "127.0.0.1", "ünïcödé", "a" * 300]),
        st.text("abcdefghijklmnopqrstuvwxyz.-0123456789", min_size=1, max_size=40),
    ),
    spoken=st.sampled_from(["1.1", "1.2"]),
)
def test_the_host_of_connect_changes_nothing(target: Bench, host: str, spoken: str) -> None:
    """CONNECT names any host at all. The connection is accepted, and it reaches the same
    destinations as one that names another host."""
    to = fresh(target, "ANYCAST")
    peer, other = target.peer(spoken), target.stomp(spoken)
    peer.connect(target.connect_headers(spoken, {"host": host}), proves=target.cited)
    peer.subscribe(to, proves=target.cited)
    other.publish(to, b"hello")
    peer.message(body=b"hello", proves=target.cited)


@case("ARTEMIS-STOMP-versions-1", needs={"routing-headers"})
def test_all_three_versions_are_spoken(target: Bench) -> None:
    """A client of each version connects, and each of them exchanges messages with each other by way
    of one queue each."""
    peers = {version: target.peer(version) for version in ("1.0", "1.1", "1.2")}
    queues = {version: fresh(target, "ANYCAST") for version in peers}
    for version, peer in peers.items():
        connected = peer.connect(target.connect_headers(version), proves=target.cited)
        said = connected.get("version") or "1.0"
        target.record_finding(
            target.cited, said == version, f"a client of {version} was answered with version {said}"
        )
        peer.subscribe(queues[version])
    for version, peer in peers.items():
        for name, queue in queues.items():
            peer.publish(queue, f"{version} to {name}".encode())
    for name, peer in peers.items():
        came = bodies(collect(target, peer, 3))
        expected = [f"{version} to {name}".encode() for version in peers]
        target.record_finding(
            target.cited, sorted(came) == expected, f"the client of {name} got {came!r}"
        )
