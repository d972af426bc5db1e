"""Paging is invisible: a message read from a page arrives like one that never left memory.

The same messages are sent to an address in memory and to one that pages, and the same consumer
reads both. The deliveries may differ only in parts that name the address or the delivery: any other
change that a broker makes to a message, it must make at both. The differing part decides which
requirement is broken.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from brokerproof.suites.amqp10.steps import collect
from brokerproof.suites.api import PATIENCE, Bench, Target, case, over, shown
from brokerproof.suites.api.amqp10 import Delivery, message, uint
from brokerproof.suites.api.stomp import Destination, Frame
from brokerproof.suites.conversion.protocol_pairs import Queue, post
from brokerproof.suites.steps import paging, small_addresses
from brokerproof.suites.steps.queue_model import IN_VIRTUAL_TIME

NONE_LOST = "ARTEMIS-PAGING-11"
MARKED = "ARTEMIS-REDELIVERY-marked-1"
HEADERS = "STOMP12-MSG-08"
BODY = "STOMP12-MSG-09"
TEXT = "ARTEMIS-STOMP-jms-1"
BARE = "AMQP10-MSG-02"
ANNOTATIONS = "AMQP10-MSG-10"
DEFAULTS = "AMQP10-MSG-01"
COUNTED = "AMQP10-MSG-09"
CROSSED = "ARTEMIS-CROSSING-properties-2"
CROSSED_BODY = "ARTEMIS-CROSSING-body-1"

NEEDS = {"stomp-1.2", "amqp", "crossing", "address-full", "admin", "paging", IN_VIRTUAL_TIME}
"""Virtual time only, until the differences on real brokers have been examined."""

FILLERS = 30
"""Preceding messages that make the address page."""
LARGE = 110_000
"""Bytes of a body that is stored as a large message."""
FAR_MS = "4000000000000"
"""An expiry time in the year 2096."""
TTL_MS, ROUGHLY_MS = 1_030_000, 60_000
"""The ttl of messages, and the unit in which the remaining time is compared."""

Parts = Mapping[str, object]
"""Parts of a delivery, by the requirement that judges them unless the message crossed protocols."""


@dataclass(frozen=True)
class Sent:
    """A SEND with these headers, or the AMQP message ``payload``."""

    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    counted: bool = True
    payload: bytes = b""

    def to(self, target: Bench, place: Queue) -> None:
        """Send the message, with a confirmation."""
        if self.payload:
            post(target, place, self.payload)
            return
        length = (("content-length", str(len(self.body))),) if self.counted else ()
        where = (("destination", place.destination.name), *place.destination.send_headers)
        peer = target.stomp()
        peer.request("SEND", (*where, *self.headers, *length), self.body)
        peer.close_socket()


KINDS: Mapping[str, Sent] = {
    "text": Sent(body=b"words", counted=False),
    "bytes": Sent(body=b"with\0zero"),
    "an empty body": Sent((("colour", "red"),)),
    "repeated headers": Sent((("colour", "red"), ("size", "1"), ("colour", "blue")), b"first"),
    "headers with a meaning": Sent(
        (
            *(("persistent", "true"), ("priority", "7"), ("expires", FAR_MS)),
            *(("correlation-id", "c"), ("reply-to", "r"), ("type", "t"), ("JMSXGroupID", "g")),
        ),
        b"known",
    ),
    "escapes": Sent(
        (("a:b", "back\\slash"), ("line", "one\ntwo"), ("blank", " "), ("no", "")), b"x"
    ),
    "a large body": Sent((("colour", "red"),), b"0123456789" * (LARGE // 10)),
    "a large text": Sent(body=b"words " * (LARGE // 6), counted=False),
    "all sections": Sent(
        payload=message(
            "a value",
            header={"durable": True, "priority": 3, "ttl": TTL_MS},
            message_annotations={"x-opt-own": "kept"},
            properties={"subject": "s", "reply-to": "r", "absolute-expiry-time": int(FAR_MS)},
            application_properties={"number": uint(7), "truth": True, "text": "t"},
            footer={"x-opt-end": uint(1)},
        )
    ),
    "data": Sent(payload=message(b"data", header={"ttl": TTL_MS})),
    "no header": Sent(payload=message("bare")),
    "large data": Sent(payload=message(b"0123456789" * (LARGE // 10), properties={"subject": "s"})),
}


# --- what arrives ---------------------------------------------------------------------------------

OWN = frozenset({"destination", "message-id", "subscription", "ack", "redelivered", "timestamp"})
"""Headers that name the address or the delivery, or the time of sending."""
LENGTH = "content-length"
FIELDS, CONTENT = "application-properties", "the body"
"""Parts of a bare message that was sent over STOMP."""


def frame_parts(frame: Frame, name: str) -> Parts:
    """The parts of a MESSAGE; ``name`` is the address."""
    headers = tuple(
        (header, value.replace(name, "?")) for header, value in frame.headers if header not in OWN
    )
    return {
        MARKED: frame.get("redelivered") == "true",
        HEADERS: tuple(header for header in headers if header[0] != LENGTH),
        TEXT: frame.get(LENGTH) is None,
        BODY: frame.body,
    }


def delivery_parts(delivery: Delivery, name: str) -> Parts:
    """The parts of an AMQP delivery. The ttl in the header is roughly the time left."""
    header = dict(delivery.message.fields("header"))
    first = header.pop("first-acquirer", None)
    count = header.pop("delivery-count", 0)
    if header.get("ttl") is not None:
        header["ttl"] = int(header["ttl"]) // ROUGHLY_MS
    annotations = str(delivery.message.first("message-annotations"))
    bare = delivery.message.bare.replace(name.encode(), b"?" * len(name))
    return {
        MARKED: bool(first),
        COUNTED: count,
        DEFAULTS: tuple(sorted(header.items())),
        ANNOTATIONS: annotations.replace(name, "?"),
        BARE: bare,
        FIELDS: str(delivery.message.first("application-properties")).replace(name, "?"),
        CONTENT: str([delivery.message.first(section) for section in ("data", "amqp-value")]),
    }


class Reader:
    """A consumer that reads all messages of an address twice: at first delivery and at
    redelivery."""

    def __init__(self, target: Bench, place: Queue, protocol: str) -> None:
        self.target = target
        self.place = place
        self.protocol = protocol

    def read(self, count: int) -> list[Parts]:
        """Return the parts of ``count`` messages after the fillers, and those of their
        redelivery."""
        once = self._once(count, settle=False)
        return [*once, *self._once(count, settle=True)]

    def _once(self, count: int, *, settle: bool) -> list[Parts]:
        name = self.place.destination.name
        if self.protocol == "amqp":
            peer = self.target.amqp()
            link = peer.receiver(self.place.node, credit=count)
            deliveries = collect(self.target, peer, link, count)
            for delivery in deliveries if settle else ():
                peer.disposition(delivery)
            peer.settle()
            peer.close()
            return [delivery_parts(delivery, name) for delivery in deliveries]
        stomp = self.target.stomp(self.protocol)
        headers = {"consumer-window-size": "-1"}
        stomp.subscribe(self.place.destination, ack="client", headers=headers)
        self.target.wait_until(
            lambda: stomp.messages_seen >= count or stomp.ended is not None, PATIENCE
        )
        frames = stomp.take_messages()
        if settle and frames:
            stomp.ack(frames[-1], receipt=True)
        stomp.request("DISCONNECT")
        stomp.close_socket()
        return [frame_parts(frame, name) for frame in frames]


def decided_by(part: str, kind: str, reader: str) -> str:
    """The requirement on ``part`` of a message for this reader; if the message crosses protocols,
    the requirement on the crossing; empty if the part does not concern this reader."""
    crosses = bool(KINDS[kind].payload) is not (reader == "amqp")
    match part:
        case "ARTEMIS-STOMP-jms-1":
            return TEXT if reader == "1.0" else ""
        case "STOMP12-MSG-09" if crosses:
            return CROSSED_BODY
        case "STOMP12-MSG-08" | "AMQP10-MSG-10" | "AMQP10-MSG-01" if crosses:
            return CROSSED
        case "AMQP10-MSG-02" if crosses:
            return ""
        case "application-properties":
            return CROSSED if crosses else ""
        case "the body":
            return CROSSED_BODY if crosses else ""
    return part


def corners(target: Target) -> list[dict[str, object]]:
    return [{"kinds": list(KINDS)}]


def sending(target: Bench, to: Destination, kinds: list[str]) -> Queue:
    """Send fillers and then one message of each kind to an address; consume the fillers."""
    place = Queue(to, small_addresses.same(to))
    paging.send(to, target.stomp(), range(FILLERS))
    for kind in kinds:
        KINDS[kind].to(target, place)
    return place


def without_fillers(target: Bench, place: Queue) -> None:
    """Consume the messages ahead of those to be compared."""
    peer = target.amqp()
    link = peer.receiver(place.node, credit=FILLERS)
    for delivery in collect(target, peer, link, FILLERS, quiet=0):
        peer.disposition(delivery)
    peer.settle()
    peer.close()


def judge(target: Bench, reader: str, kinds: list[str]) -> None:
    """Send messages to an address in memory and to one that pages, and compare what a ``reader``
    receives. The differing part decides which requirement is broken."""
    paged = small_addresses.destination(target, "page")
    plain = target.destination(name=target.fresh_name().ljust(len(paged.name), "x"))
    in_memory, on_pages = sending(target, plain, kinds), sending(target, paged, kinds)
    if not paging.paged(target, target.admin(), on_pages.destination.name):
        return
    for queue in (in_memory, on_pages):
        without_fillers(target, queue)
    expected = Reader(target, in_memory, reader).read(len(kinds))
    words = f"{len(kinds)} messages should arrive twice from memory; {len(expected)} deliveries did"
    target.control(len(expected) == 2 * len(kinds), words)
    received = Reader(target, on_pages, reader).read(len(kinds))
    for kind in kinds:
        target.reached(kind)
    words = f"{len(kinds)} messages were paged; {reader} read them twice and got {len(received)}"
    target.record_finding(NONE_LOST, len(received) == len(expected), words)
    for number, (right, seen) in enumerate(zip(expected, received, strict=False)):
        time, kind = number // len(kinds), kinds[number % len(kinds)]
        what = f"{kind}, delivery {1 + time}, read by {reader}"
        for part, value in right.items():
            requirement = decided_by(part, kind, reader)
            if requirement in target.cited:
                detail = f"{what}: {_brief(seen[part])} from a page, {_brief(value)} from memory"
                target.record_finding(requirement, value == seen[part], detail)


def _brief(part: object) -> str:
    text = shown(part)
    return text if len(text) < 200 else f"{text[:200]} … ({len(text)} characters)"


SOME_KINDS = st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=4)


@case(NONE_LOST, MARKED, HEADERS, BODY, CROSSED, CROSSED_BODY, needs=NEEDS)
@over(examples=2, always=corners, situations=tuple(KINDS), kinds=SOME_KINDS)
def test_a_paged_message_is_as_it_was_for_stomp(target: Bench, kinds: list[str]) -> None:
    """Messages of several kinds are sent to an address in memory and to one that pages. A STOMP 1.2
    consumer receives the same from both, at first delivery and at redelivery.

    One scenario: the differing part decides which requirement is broken."""
    judge(target, "1.2", kinds)


@case(NONE_LOST, TEXT, needs=NEEDS | {"stomp-1.0"})
@over(examples=2, always=corners, situations=tuple(KINDS), kinds=SOME_KINDS)
def test_paged_text_is_text(target: Bench, kinds: list[str]) -> None:
    """Messages of several kinds are sent to an address in memory and to one that pages. A STOMP 1.0
    consumer gets a content-length with the same messages from both."""
    judge(target, "1.0", kinds)


@case(
    *(NONE_LOST, MARKED, COUNTED, DEFAULTS, ANNOTATIONS, BARE, CROSSED, CROSSED_BODY), needs=NEEDS
)
@over(examples=2, always=corners, situations=tuple(KINDS), kinds=SOME_KINDS)
def test_a_paged_message_is_as_it_was_for_amqp(target: Bench, kinds: list[str]) -> None:
    """Messages of several kinds are sent to an address in memory and to one that pages. An AMQP
    consumer receives the same sections from both, at first delivery and at redelivery.

    One scenario: the differing part decides which requirement is broken."""
    judge(target, "amqp", kinds)
