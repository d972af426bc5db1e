"""Expiry of messages: none expires before its time to live has passed, and all expire after it."""

from collections.abc import Sequence

from hypothesis import strategies as st

from brokerproof.suites.amqp10.steps import bodies, collect, granted
from brokerproof.suites.api import Bench, Target, case, listed, ms, over
from brokerproof.suites.api.amqp10 import Node, message
from brokerproof.suites.conversion.protocol_pairs import to_stomp
from brokerproof.suites.steps import small_addresses
from brokerproof.suites.steps.queue_model import MEMORY, place_names

ONE_CONSUMER = "ARTEMIS-CONCEPTS-queue-1"
TTL_ENDS = "AMQP10-MSG-16"
INSTANT_ENDS = "ARTEMIS-EXPIRY-1"

MINUTE = 60_000
"""Milliseconds."""
MOST = 2**32 - 1
"""The longest ttl of AMQP 1.0, in milliseconds: 49 days."""


@case(ONE_CONSUMER, needs={"amqp", "queue-semantics"})
@over(
    examples=6,
    always=lambda target: [{"ttl": 2**31}],
    ttl=st.sampled_from([2**31 - 1, 2**31, 2**31 + MINUTE, MOST]),
)
def test_a_message_lives_as_long_as_its_ttl_says(target: Bench, ttl: int) -> None:
    """A queue gets messages with TTLs of a minute, of weeks, and of a minute. A consumer that
    attaches immediately afterwards gets all three."""
    node, peer = target.node(), target.amqp()
    link = peer.sender(node)
    for number, ttl_ms in enumerate((MINUTE, ttl, MINUTE)):
        granted(target, peer, link)
        delivery = peer.transfer(link, message(b"%d" % number, header={"ttl": ttl_ms}))
        peer.confirmed(link.session, delivery)
    consumer = target.amqp()
    receiver = consumer.receiver(node, credit=10)
    received = [bytes(delivery.message.body) for delivery in collect(target, consumer, receiver, 3)]
    detail = f"0 and 2 have a ttl of a minute; {listed(received)} arrived; {consumer.instead()}"
    target.control({b"0", b"2"} <= set(received), detail)
    words = f"of 0, 1, 2 with ttls of {MINUTE}, {ttl} and {MINUTE} ms, {listed(received)} arrived"
    target.record_finding(ONE_CONSUMER, received == [b"0", b"1", b"2"], words)


SHORT, WAIT = 1000, 2000
"""Milliseconds: the lifetime of a message that expires, and the wait until it has expired."""
LASTING, BRIEF = "lasts", "expires"
FATES = st.lists(st.sampled_from([LASTING, BRIEF]), min_size=1, max_size=6)


def some_places(target: Target) -> list[str]:
    """Return a place in memory and, if there is one, a place that pages after three messages."""
    return place_names(target)[:2]


def corners(target: Target) -> list[dict[str, object]]:
    """Histories with short lifetimes first, in the middle and last, at each place."""
    fates = [BRIEF, LASTING, BRIEF, BRIEF, LASTING, BRIEF]
    return [{"place": place, "returned": True, "fates": fates} for place in some_places(target)]


@case(TTL_ENDS, needs={"amqp"})
@over(
    examples=8,
    always=corners,
    place=lambda target: st.sampled_from(some_places(target)),
    returned=st.booleans(),
    fates=FATES,
)
def test_a_message_whose_ttl_is_over_is_not_delivered(
    target: Bench, place: str, returned: bool, fates: list[str]
) -> None:
    """Some messages of a queue have a ttl of a second, the rest one of a minute. A consumer may
    hold one of the former, and releases it after two seconds. A consumer that attaches after that
    gets exactly the messages with a ttl of a minute."""
    node = target.node() if place == MEMORY else small_addresses.node(target, place)
    peer, link = small_addresses.producer(target, node)
    holder = target.amqp()
    held = []
    lives = [BRIEF, *fates] if returned else fates
    for number, fate in enumerate([*lives, LASTING]):
        granted(target, peer, link)
        ttl = MINUTE if fate == LASTING else SHORT
        payload = message(small_addresses.body(number, 20), header={"ttl": ttl})
        peer.confirmed(link.session, peer.transfer(link, payload))
        if returned and number == 0:
            receiver = holder.receiver(node, credit=1)
            held = collect(target, holder, receiver, 1, quiet=0)
            if not held:
                target.record_note(f"the message was not delivered within {SHORT} ms")
    target.advance(ms(WAIT))
    for delivery in held:
        holder.disposition(delivery, "released")
    holder.settle()
    expected = [number for number, fate in enumerate([*lives, LASTING]) if fate == LASTING]
    _judge_arrivals(
        target,
        TTL_ENDS,
        node,
        expected,
        f"place {place}, first message {'held by a consumer' if held else 'not held'}",
    )


def _judge_arrivals(
    target: Bench, requirement: str, node: Node, expected: Sequence[int], words: str
) -> None:
    """Judge whether a consumer gets no messages but those of ``expected``. Control: it gets
    these."""
    consumer = target.amqp()
    receiver = consumer.receiver(node, credit=20)
    arrived = [
        small_addresses.number_of(data)
        for data in bodies(collect(target, consumer, receiver, len(expected)))
    ]
    target.control(
        set(expected) <= set(arrived),
        f"{listed(expected)} have a ttl of a minute and should arrive; {listed(arrived)} did;"
        f" {consumer.instead()}",
    )
    target.record_finding(
        requirement,
        sorted(arrived) == list(expected),
        f"{WAIT} ms later, {listed(arrived)} arrived; only {listed(expected)} had a ttl of a minute"
        f" ({words})",
    )


STOMP, ABSOLUTE, TTL = "expires of STOMP", "absolute-expiry-time", "ttl"


@case(INSTANT_ENDS, needs={"stomp-1.2", "amqp", "crossing", "queue-semantics"})
@over(
    examples=6,
    always=lambda target: [{"ways": [STOMP, ABSOLUTE, TTL]}],
    ways=st.lists(st.sampled_from([STOMP, ABSOLUTE, TTL]), min_size=1, max_size=4),
)
def test_a_message_whose_instant_of_expiry_is_past_is_not_delivered(
    target: Bench, ways: list[str]
) -> None:
    """For each way to state an expiry time in a protocol, a message that expires in a second is
    sent, and then one that expires in a minute. After two seconds a consumer gets only the second
    message."""
    to = target.destination()
    node = small_addresses.same(to)
    instant = to_stomp(target, message(b"now", header={"ttl": MINUTE})).get("expires") or ""
    target.control(instant.isdecimal(), f"a ttl should arrive as an instant: expires:{instant}")
    now = int(instant) - MINUTE
    stomp = target.stomp()
    peer, link = small_addresses.producer(target, node)
    lives = [(way, life) for way in ways for life in (SHORT, MINUTE)]
    for number, (way, life) in enumerate(lives):
        body = small_addresses.body(number, 20)
        if way == STOMP:
            stomp.publish(to, body, {"expires": str(now + life)})
            continue
        granted(target, peer, link)
        sections: dict[str, dict[str, object]] = (
            {"header": {"ttl": life}}
            if way == TTL
            else {"properties": {"absolute-expiry-time": now + life}}
        )
        peer.confirmed(link.session, peer.transfer(link, message(body, **sections)))
    target.advance(ms(WAIT))
    expected = [number for number, (_, life) in enumerate(lives) if life == MINUTE]
    _judge_arrivals(target, INSTANT_ENDS, node, expected, f"instants by {', '.join(ways)}")
