"""Messages (3.2): header defaults, bare message, annotations, ttl, priorities, message-format."""

import hashlib
from collections.abc import Mapping
from functools import partial
from typing import Any

from hypothesis import strategies as st

from brokerproof.harness.protocols.amqp10 import messages
from brokerproof.harness.protocols.amqp10.types import Item, binary, plain, ubyte, ulong
from brokerproof.suites.amqp10.steps import (
    QUIET,
    bodies,
    bystander,
    collect,
    granted,
    is_over,
    reaction,
    ready_sender,
    unbroken,
)
from brokerproof.suites.api import (
    NS_PER_MS,
    PATIENCE,
    Bench,
    RoutingType,
    Target,
    case,
    listed,
    ms,
    over,
    seconds,
    shown,
)
from brokerproof.suites.api.amqp10 import (
    AmqpPeer,
    Array,
    Delivery,
    Link,
    Value,
    either,
    frame,
    string,
    symbol,
    uint,
)
from brokerproof.suites.steps.queues import patterned

CLOSE_WRITTEN = "AMQP10-CLOSE-01"
BARE_MESSAGE, KEPT = "AMQP10-MSG-02", "AMQP10-NODE-03"
HEADER_DEFAULTS = "AMQP10-MSG-01"
FAILED_ATTEMPTS = "AMQP10-MSG-09"
ANNOTATIONS_PASSED_ON = "AMQP10-MSG-10"
OPTIONAL_ANNOTATION_IGNORED = "AMQP10-MSG-15"
ANNOTATION_NOT_UNDERSTOOD = "AMQP10-MSG-11"
TTL_REMAINING = "AMQP10-MSG-08"
PRIORITIES = "AMQP10-MSG-07"
MESSAGE_FORMAT = "AMQP10-XFER-07"

STANDARD = {"durable": False, "priority": 4, "delivery-count": 0}
"""The values that an absent header stands for."""


UNUSUAL = (
    *(Value(f"decimal{bits}", bytes(bits // 8)) for bits in (32, 64, 128)),
    *(Value(kind, float(text)) for kind in ("float", "double") for text in ("nan", "inf", "-0")),
)
"""Numbers that some programming languages lack."""


def numbers() -> st.SearchStrategy[Item]:
    """Equal numbers in wide and narrow encodings; each must stay unchanged."""
    return st.one_of(
        st.sampled_from(
            [uint(0), uint(0, 0x52), uint(0, 0x70), uint(255), uint(255, 0x70), uint(2**32 - 1)]
        ),
        st.sampled_from(
            [ulong(0), ulong(1, 0x80), ulong(2**64 - 1), ubyte(7), Value("boolean", True, 0x56)]
        ),
        st.sampled_from(UNUSUAL),
        st.sampled_from(["float", "double"]).flatmap(
            lambda kind: st.floats(width=32 if kind == "float" else 64).map(partial(Value, kind))
        ),
        st.integers(-(2**63), 2**63 - 1).map(lambda value: Value("long", value)),
        st.integers(-(2**40), 2**40).map(lambda value: Value("timestamp", value)),
    )


def texts() -> st.SearchStrategy[Item]:
    """Strings, symbols and binaries in short and long encodings."""
    return st.one_of(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20).map(string),
        st.sampled_from(
            [
                string("short", 0xB1),
                symbol("name", 0xB3),
                binary(b"octets", 0xB0),
                symbol("amqp:thing"),
            ]
        ),
        st.binary(max_size=20).map(binary),
    )


def simple() -> st.SearchStrategy[Item]:
    """Values that are not collections."""
    return st.one_of(numbers(), texts(), st.just(Value("null", None)))


def values() -> st.SearchStrategy[Item]:
    """Any value, including collections of simple values, in short and long encodings."""
    return st.one_of(
        simple(),
        st.lists(simple(), max_size=3).map(lambda items: Value("list", tuple(items), 0xD0)),
        st.lists(simple(), max_size=3).map(lambda items: Value("list", tuple(items))),
        st.lists(simple(), max_size=3).map(
            lambda items: Value(
                "map", tuple((string(f"key {at}"), item) for at, item in enumerate(items))
            )
        ),
        st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=3).map(
            lambda items: Array(0x70, tuple(map(uint, items)))
        ),
    )


def properties(target: Target) -> st.SearchStrategy[dict[str, Any]]:
    """Properties of all kinds, with message-ids of each of the four types. The user-id is the
    client's login, because a broker may check it (3.2.4)."""
    login = target.identity.login
    ids = st.one_of(
        st.text("abc-:", min_size=1, max_size=12).map(string),
        st.integers(0, 2**64 - 1).map(ulong),
        st.binary(min_size=1, max_size=12).map(binary),
        st.uuids().map(lambda value: Value("uuid", value)),
    )
    return st.fixed_dictionaries(
        {},
        optional={
            "message-id": ids,
            "user-id": st.just(b"\0\xff" if login is None else login.encode()),
            "subject": st.text("xyz ", max_size=10),
            "reply-to": st.sampled_from(["answers", "queue://a/b"]),
            "correlation-id": ids,
            "content-type": st.sampled_from(["text/plain", "application/octet-stream"]),
            "content-encoding": st.just("gzip"),
            "creation-time": st.integers(0, 2**40),
            "group-sequence": st.integers(0, 2**32 - 1),
            "reply-to-group-id": st.text("gr", max_size=5),
        },
    )


def bare_messages(target: Target) -> st.SearchStrategy[tuple[Item, ...]]:
    """The sections of a bare message, in order: properties, application-properties, and a body of
    one of the three kinds."""

    def section(name: str) -> Any:
        return lambda value: messages.section(name, value)

    head = st.tuples(
        st.one_of(st.none(), properties(target).map(section("properties"))),
        st.one_of(
            st.none(),
            st.dictionaries(st.text("ab", min_size=1, max_size=4), simple(), max_size=3)
            .map(
                lambda items: Value(
                    "map", tuple((string(key), value) for key, value in items.items())
                )
            )
            .map(section("application-properties")),
        ),
    )
    body = st.one_of(
        st.lists(st.binary(max_size=300).map(binary).map(section("data")), min_size=1, max_size=3),
        st.lists(
            st.lists(simple(), max_size=3).map(
                lambda items: section("amqp-sequence")(Value("list", tuple(items)))
            ),
            min_size=1,
            max_size=2,
        ),
        values().map(section("amqp-value")).map(lambda value: [value]),
    )
    return st.tuples(head, body).map(
        lambda both: tuple(section for section in (*both[0], *both[1]) if section is not None)
    )


def sent(
    target: Bench,
    peer: AmqpPeer,
    link: Link,
    payload: bytes,
    *,
    proves: str | None = None,
    **fields: Any,
) -> None:
    """Send these bytes as one message, in as many frames as needed. Control: the message is
    accepted. A connection that ends without a close breaks requirement ``proves``."""
    granted(target, peer, link)
    most = peer.endpoint.most_payload
    pieces = [payload[at : at + most] for at in range(0, len(payload), most)] or [b""]
    number = 0
    for at, piece in enumerate(pieces):
        more = at < len(pieces) - 1 or None
        number = peer.transfer(link, piece, more=more, **(fields if at == 0 else {}))
    if proves is not None:
        outcomes = link.session.outcomes
        unbroken(
            target, peer, lambda: bool(outcomes.get(number)), proves, "a message in good order"
        )
    peer.confirmed(link.session, number)


def carried(target: Bench, payload: bytes, **fields: Any) -> Delivery:
    """Send these bytes through a new queue; return the delivery. Control: it arrives."""
    node = target.node()
    peer = target.amqp()
    receiver = peer.receiver(node)
    sent(target, peer, peer.sender(node), payload, **fields)
    peer.flow(receiver, link_credit=1)
    return delivered(target, peer, receiver)


def delivered(target: Bench, peer: AmqpPeer, receiver: Link) -> Delivery:
    """Return the delivery of an accepted message. A broker that ends a link, session or connection
    instead breaks a requirement; if nothing arrives, a control fails."""
    target.wait_until(lambda: bool(peer.deliveries) or is_over(peer), PATIENCE)
    broken = is_over(peer) and not peer.deliveries
    target.require(KEPT, not broken, f"after a message was accepted: {peer.instead()}")
    return peer.delivery(receiver)


@case(BARE_MESSAGE, KEPT, CLOSE_WRITTEN, needs={"amqp"})
@over(
    examples=120,
    sections=bare_messages,
    header=st.booleans(),
    footer=st.booleans(),
    topic=st.booleans(),
)
def test_the_bare_message_goes_on_as_it_came(
    target: Bench, sections: tuple[Item, ...], header: bool, footer: bool, topic: bool
) -> None:
    """A message with properties, application-properties and a body of any kind, its values in short
    and long forms, is sent through a queue or a topic. The same bytes arrive, from properties to
    the end of the body. If the broker ends the connection because of such a message, it first sends
    a close."""
    bare = messages.encode(sections)
    before = messages.encode([messages.section("header", {"durable": False})]) if header else b""
    after = messages.encode([messages.section("footer", {"x-opt-sum": "1"})]) if footer else b""
    node = target.node(RoutingType.MULTICAST if topic else RoutingType.ANYCAST)
    peer = target.amqp()
    receiver = peer.receiver(node, credit=1)
    peer.settle()
    sent(target, peer, peer.sender(node), before + bare + after, proves=CLOSE_WRITTEN)
    unbroken(
        target, peer, lambda: bool(peer.deliveries), CLOSE_WRITTEN, "a well-formed message arrived"
    )
    received_bare = delivered(target, peer, receiver).message.bare
    detail = f"sent {bare.hex()}, got {received_bare.hex()}"
    target.record_finding(BARE_MESSAGE, received_bare == bare, detail)


@case(BARE_MESSAGE, KEPT, needs={"amqp"})
@over(
    examples=20,
    size=st.sampled_from([0, 1, 247, 248, 255, 256, 4000, 100_000, 300_000]),
    sections=st.integers(1, 3),
)
def test_bodies_of_any_size_go_on_as_they_came(target: Bench, size: int, sections: int) -> None:
    """Bodies near the limits of frames and constructors, in one data section or several, arrive
    with the same bytes."""
    share = size // sections
    parts = [
        bytes([at + 1]) * (share + (size % sections if at == 0 else 0)) for at in range(sections)
    ]
    bare = messages.encode(messages.section("data", part) for part in parts)
    received_bare = carried(target, bare).message.bare
    same = received_bare == bare
    target.record_finding(
        BARE_MESSAGE,
        same,
        f"{len(bare)} bytes were sent; {len(received_bare)} arrived,"
        f" {'unchanged' if same else 'changed'}",
    )


@case(BARE_MESSAGE, needs={"amqp"})
@over(
    examples=20,
    always=lambda target: [{"size": 300, "pieces": [3, 100], "links": links} for links in (1, 2)],
    size=st.sampled_from([1, 300, 5000]),
    pieces=st.lists(st.sampled_from([0, 1, 2, 3, 100]), min_size=1, max_size=5),
    links=st.integers(1, 3),
)
def test_a_message_in_pieces_goes_on_as_it_came(
    target: Bench, size: int, pieces: list[int], links: int
) -> None:
    """A message is sent in several transfers: some of a few bytes, some empty, and the last with
    the rest. Other links of the session send transfers in between, as 2.7.5 allows. Each message
    arrives with the same bytes."""
    peer, nodes = target.amqp(), [target.node() for _ in range(links)]
    payloads = [messages.message(bytes((at + n) % 251 for at in range(size))) for n in range(links)]
    senders = [peer.sender(node) for node in nodes]
    for link in senders:
        granted(target, peer, link)
    ends = [sum(pieces[:number]) for number in range(len(pieces) + 1)]
    ends += range(ends[-1] + (most := peer.endpoint.most_payload), len(payloads[0]), most)
    for at, end in zip(ends, [*ends[1:], None], strict=True):
        for link, payload in zip(senders, payloads, strict=True):
            peer.transfer(link, payload[at:end], more=end is not None or None)
    other = target.amqp()
    for node, payload in zip(nodes, payloads, strict=True):
        got = collect(target, other, other.receiver(node, credit=1), 1, quiet=0)
        target.control(bool(got) or links > 1, f"no message arrived; {peer.instead()}")
        arrived = bytes(got[0].payload) if got else b""
        target.record_finding(
            BARE_MESSAGE,
            payload in arrived,
            f"a message of {len(payload)} bytes in {len(ends)} transfers (links: {links}):"
            f" {len(arrived)} bytes arrived, {'' if payload in arrived else 'not '}as sent;"
            f" {peer.instead()}",
        )


@case(BARE_MESSAGE, KEPT, needs={"amqp", "large-messages"})
@over(
    examples=0, always=lambda target: [{"sections": 1}, {"sections": 3}], sections=st.integers(1, 3)
)
def test_a_body_far_larger_than_any_frame_goes_on_as_it_came(target: Bench, sections: int) -> None:
    """A body of 1 MiB (5 over real sockets), in one data section or several, arrives unchanged."""
    size = (1 if target.virtual else 5) * 1024 * 1024
    parts = [hashlib.shake_128(b"%d" % at).digest(size // sections) for at in range(sections)]
    bare = messages.encode(messages.section("data", part) for part in parts)
    received_bare = carried(target, bare).message.bare
    same = received_bare == bare
    words = "unchanged" if same else "changed"
    detail = f"{len(bare)} bytes were sent; {len(received_bare)} arrived, {words}"
    target.record_finding(BARE_MESSAGE, same, detail)


@case(HEADER_DEFAULTS, FAILED_ATTEMPTS, KEPT, needs={"amqp"})
@over(
    examples=40,
    header=st.one_of(
        st.none(),
        st.fixed_dictionaries(
            {}, optional={"durable": st.booleans(), "priority": st.sampled_from([0, 3, 4, 5, 9])}
        ),
    ),
)
def test_a_header_that_is_not_there_has_the_defaults(
    target: Bench, header: Mapping[str, Any] | None
) -> None:
    """A message is sent without header, or with some of its fields. It arrives with those fields
    and otherwise the defaults: priority 4, no ttl, delivery-count 0 and not durable, unless the
    broker documents others. For a broker of an unknown family, configured defaults cannot be
    seen."""
    given = [] if header is None else [messages.section("header", header)]
    delivery = carried(target, messages.encode([*given, messages.section("data", b"x")]))
    received_header = delivery.message.fields("header")
    durable = target.profile.parameters.get("amqp_default_durable", STANDARD["durable"])
    defaults = {**STANDARD, "durable": durable}
    if durable == "unknown":
        defaults = {"delivery-count": STANDARD["delivery-count"]}
    expected = {**defaults, **(header or {})}
    have = {key: received_header.get(key, STANDARD[key]) for key in expected}
    target.record_finding(
        HEADER_DEFAULTS,
        have == expected,
        f"sent the header {shown(header)}, got {shown(received_header)}; expected the meaning"
        f" {shown(expected)}",
    )
    detail = f"the message had no ttl and arrived with the header {shown(received_header)}"
    target.record_finding(HEADER_DEFAULTS, "ttl" not in received_header, detail)
    words = f"at first, the delivery-count is {have['delivery-count']}"
    target.record_finding(FAILED_ATTEMPTS, have["delivery-count"] == 0, words)


@case(ANNOTATIONS_PASSED_ON, OPTIONAL_ANNOTATION_IGNORED, KEPT, needs={"amqp"})
@over(
    examples=40,
    always=lambda target: [{"notes": {f"x-opt-{at}": one for at, one in enumerate(UNUSUAL)}}],
    notes=st.dictionaries(
        st.sampled_from(["x-opt-one", "x-opt-two", "x-opt-brokerproof"]), simple(), min_size=1
    ),
)
def test_annotations_are_passed_on(target: Bench, notes: dict[str, Item]) -> None:
    """A message with unknown x-opt- message-annotations is accepted and arrives with them."""
    annotations = messages.section("message-annotations", notes)
    delivery = carried(target, messages.encode([annotations, messages.section("data", b"x")]))
    have = delivery.message.map("message-annotations")
    expected = {key: plain(value) for key, value in notes.items()}
    fine = {key: repr(have.get(key)) for key in expected} == {
        key: repr(value)  # NaN differs from itself
        for key, value in expected.items()
    }
    detail = f"sent the message-annotations {shown(expected)}, got {shown(have)}"
    target.record_finding(ANNOTATIONS_PASSED_ON, fine, detail)
    body = delivery.message.body
    words = f"a message with {', '.join(sorted(notes))} was accepted and arrived as {shown(body)}"
    target.record_finding(OPTIONAL_ANNOTATION_IGNORED, body == b"x", words)


@case(ANNOTATION_NOT_UNDERSTOOD, CLOSE_WRITTEN, needs={"amqp"})
@over(examples=6, section=st.sampled_from(["message-annotations", "delivery-annotations"]))
def test_an_annotation_that_must_be_understood_is_refused(target: Bench, section: str) -> None:
    """A message has an unknown annotation whose key does not begin with x-opt-. The link is
    detached with not-implemented; another connection still works. Before that, the link accepts an
    unknown annotation that may be ignored."""
    with bystander(target):
        node = target.node()
        peer = target.amqp()
        link = peer.sender(node)
        known = messages.message(b"x", **{section: {"x-opt-known-to-nobody": True}})
        sent(target, peer, link, known, proves=CLOSE_WRITTEN)
        granted(target, peer, link)
        peer.transfer(link, messages.message(b"x", **{section: {"brokerproof-key": True}}))
        answer = peer.watch_for(
            either(frame("detach"), frame("disposition"), frame("end"), frame("close"))
        )
        while answer is not None and answer.name == "disposition" and answer.get("first") == 0:
            answer = peer.watch_for(
                either(frame("detach"), frame("disposition"), frame("end"), frame("close"))
            )
        observed = reaction(peer, answer)
        fine = (
            answer is not None
            and answer.name == "detach"
            and answer.condition == "amqp:not-implemented"
        )
        words = f"after a message with brokerproof-key in its {section}: {observed}"
        detail = f"{words}; expected detach (amqp:not-implemented)"
        target.record_finding(ANNOTATION_NOT_UNDERSTOOD, fine, detail)


@case(TTL_REMAINING, needs={"amqp"})
@over(examples=12, ttl=st.sampled_from([20_000, 60_000, 2**31]), wait=st.sampled_from([300, 700]))
def test_what_is_left_of_a_ttl_goes_on(target: Bench, ttl: int, wait: int) -> None:
    """A message with a ttl waits in a queue. Its ttl on arrival is lower by about the waiting
    time."""
    node = target.node()
    peer = target.amqp()
    receiver = peer.receiver(node)
    link = ready_sender(target, peer, node)
    began = target.now()
    sent(target, peer, link, messages.message(b"x", header={"ttl": ttl}))
    stored = target.now()
    target.advance(ms(wait))
    asked = target.now()
    peer.flow(receiver, link_credit=1)
    left = peer.delivery(receiver).message.fields("header").get("ttl")
    low = ttl - (target.now() - began) // NS_PER_MS - 1
    high = ttl - (asked - stored) // NS_PER_MS + 1
    margin = 0 if target.virtual else 50
    fine = left is not None and low - margin <= left <= high + margin
    rest = "counts-down" if fine else {None: "none", ttl: "unchanged"}.get(left)
    if rest:
        target.record_behaviour("amqp.rest-of-ttl", rest)
    words = f"a ttl of {ttl} arrived as {left} after {wait} ms; expected {low} to {high}"
    target.record_finding(TTL_REMAINING, fine, words)


@case(PRIORITIES, needs={"amqp", "priorities"})
@over(examples=20, order=st.permutations(list(range(10))))
def test_ten_priorities_are_told_apart(target: Bench, order: list[int]) -> None:
    """A queue with ten priorities holds one message of each. They arrive in order of priority, so
    the broker distinguishes all ten."""
    node = target.node()
    peer = target.amqp()
    link = peer.sender(node)
    for priority in order:
        sent(target, peer, link, messages.message(b"%d" % priority, header={"priority": priority}))
    other = target.amqp()
    got = collect(target, other, other.receiver(node, credit=10), 10)
    priorities = [delivery.message.fields("header").get("priority", 4) for delivery in got]
    fits = priorities == sorted(order, reverse=True) and bodies(got) == [
        b"%d" % priority for priority in priorities
    ]
    target.record_finding(
        PRIORITIES,
        fits,
        f"ten messages of the priorities {listed(order)} arrived in the order {listed(priorities)}",
    )


@case(MESSAGE_FORMAT, BARE_MESSAGE, needs={"amqp"})
@over(examples=8, size=st.sampled_from([1, 400, 3000]))
def test_the_message_format_is_told(target: Bench, size: int) -> None:
    """A message of format 0, in one transfer or several, arrives with message-format 0."""
    payload = messages.message(patterned(size))
    node = target.node()
    peer = target.amqp(max_frame_size=512)
    receiver = peer.receiver(node)
    sent(target, peer, peer.sender(node), payload)
    peer.flow(receiver, link_credit=1)
    delivery = peer.delivery(receiver)
    first, *others = delivery.frames
    later = [
        transfer.get("message-format")
        for transfer in others
        if transfer.get("message-format") is not None
    ]
    fine = first.get("message-format") == 0 and all(message_format == 0 for message_format in later)
    target.record_finding(
        MESSAGE_FORMAT,
        fine,
        f"message-format in {len(delivery.frames)} transfers: first"
        f" {shown(first.get('message-format'))}, then {shown(later)}",
    )
    words = f"{len(payload)} bytes were sent; {len(delivery.message.bare)} arrived"
    target.record_finding(BARE_MESSAGE, delivery.message.bare == payload, words)


@case(FAILED_ATTEMPTS, HEADER_DEFAULTS, needs={"amqp", "amqp-redelivery"})
@over(examples=6, lost=st.integers(1, 3))
def test_a_message_that_was_on_its_way_is_whole_afterwards(target: Bench, lost: int) -> None:
    """The connection of a receiver that holds a message is lost. The next receiver gets the message
    whole, with a delivery-count no higher than the number of earlier receivers."""
    node = target.node()
    peer = target.amqp()
    sent(target, peer, peer.sender(node), messages.message(b"held"))
    for number in range(lost + 1):
        other = target.amqp()
        got = other.delivery(other.receiver(node, credit=1), body=b"held", within=seconds(20))
        header = got.message.fields("header")
        count = header.get("delivery-count", 0)
        words = f"with {number} receivers before it, the delivery-count is {count}"
        target.record_finding(FAILED_ATTEMPTS, 0 <= count <= number, words)
        detail = f"the header is {shown(header)}"
        target.record_finding(HEADER_DEFAULTS, header.get("priority", 4) == 4, detail)
        other.close_socket()
        target.advance(QUIET)
