"""Flow control towards consumers: the prefetch (basic.qos; RabbitMQ: consumer prefetch)."""

from dataclasses import dataclass, field

from hypothesis import strategies as st

from brokerproof.suites.amqp091.steps import QUIET, Kind, arrive, fill, queue_of, settling
from brokerproof.suites.api import PATIENCE, Bench, case, over, shown
from brokerproof.suites.api.amqp091 import Amqp091Peer, method

PREFETCH_LIMIT = "AMQP091-QOS-01"
PREFETCH_REPLENISHED = "AMQP091-QOS-02"
PREFETCH_PER_CONSUMER = "RABBITMQ-AMQP091-QOS-01"
PREFETCH_NOT_FOR_NO_ACK = "AMQP091-QOS-03"

LIMITS = st.sampled_from([1, 1, 2, 3, 5, 10, 0])


@case(PREFETCH_LIMIT, PREFETCH_REPLENISHED, PREFETCH_PER_CONSUMER, needs={"amqp091"})
@over(
    examples=25,
    limit=LIMITS,
    count=st.sampled_from([1, 2, 5, 12]),
    steps=st.lists(st.integers(1, 4), max_size=4),
    kind=Kind.any,
)
def test_a_consumer_has_as_much_as_its_prefetch(
    target: Bench, kind: Kind, limit: int, count: int, steps: list[int]
) -> None:
    """If more messages wait than a consumer's prefetch allows, it gets exactly as many as allowed,
    and one more for each that it acknowledges; 0 means no limit."""
    peer = target.amqp091(channels=2)
    queue = kind.queue(target, peer)
    fill(peer, queue, [b"%d" % at for at in range(count)])
    peer.call("basic.qos", {"prefetch-count": limit}, channel=2)
    peer.consume(queue, channel=2)
    waiting: list[int] = []
    arrived = 0
    for acks in [0, *steps]:
        if acks and waiting:
            tag = waiting[min(acks, len(waiting)) - 1]
            peer.ack(tag, multiple=True, channel=2)
            waiting = [waiting_tag for waiting_tag in waiting if waiting_tag > tag]
        should = min(count, arrived + (limit - len(waiting) if limit else count)) - arrived
        tags = [delivery["delivery-tag"] for delivery in arrive(peer, should, channel=2)]
        arrived += len(tags)
        waiting += tags
        detail = (
            f"prefetch {limit}, {count} messages: {len(tags)} arrived, {len(waiting)} wait"
            f" for their"
            " acknowledgement"
        )
        target.record_finding(PREFETCH_LIMIT, not limit or len(waiting) <= limit, detail)
        target.record_finding(
            (PREFETCH_REPLENISHED, PREFETCH_PER_CONSUMER),
            len(tags) == should,
            f"{detail}; expected {should}",
        )


@dataclass
class _Consumer:
    limit: int
    waiting: list[int] = field(default_factory=list)


@case(PREFETCH_LIMIT, PREFETCH_PER_CONSUMER, needs={"amqp091", "amqp091-consumer-prefetch"})
@over(
    examples=12,
    limits=st.lists(st.sampled_from([1, 2, 4]), min_size=2, max_size=3),
    whole=st.sampled_from([0, 2, 3]),
)
def test_consumers_of_a_channel_have_a_prefetch_each_and_one_together(
    target: Bench, limits: list[int], whole: int
) -> None:
    """Consumers of one channel each have a prefetch; the channel may have one too. No consumer
    exceeds its own, and while messages wait, together they hold exactly as many as both limits
    allow.

    The channel's prefetch is set last, as in RabbitMQ's documentation, because setting one for
    consumers resets it.
    """
    peer = target.amqp091(channels=2)
    limits = [limits[0]] * len(limits) if whole else limits
    queues = [queue_of(peer) for _ in limits]
    for queue in queues:
        fill(peer, queue, [b"x"] * 8)
    consumers: dict[str, _Consumer] = {}
    if whole:
        peer.call("basic.qos", {"prefetch-count": limits[0]}, channel=2)
        peer.call("basic.qos", {"prefetch-count": whole, "global": True}, channel=2)
    for queue, limit in zip(queues, limits, strict=True):
        if not whole:
            peer.call("basic.qos", {"prefetch-count": limit}, channel=2)
        consumers[peer.consume(queue, channel=2)] = _Consumer(limit)
    together = min(sum(limits), whole) if whole else sum(limits)
    for _ in range(3):
        free = together - sum(len(consumer.waiting) for consumer in consumers.values())
        for delivery in arrive(peer, free, channel=2):
            consumers[delivery["consumer-tag"]].waiting.append(delivery["delivery-tag"])
        have = [len(consumer.waiting) for consumer in consumers.values()]
        detail = (
            f"with prefetches of {shown(limits)} and {whole or 'none'} for the channel, the"
            f" consumers have {shown(have)}"
        )
        target.record_finding(
            PREFETCH_LIMIT,
            all(len(consumer.waiting) <= consumer.limit for consumer in consumers.values()),
            detail,
        )
        target.record_finding(PREFETCH_LIMIT, not whole or sum(have) <= whole, detail)
        target.record_finding(
            PREFETCH_PER_CONSUMER,
            sum(have) == together,
            f"{detail}; together they should have {together}",
        )
        first = next((consumer for consumer in consumers.values() if consumer.waiting), None)
        if first is not None:
            peer.ack(first.waiting.pop(0), channel=2)


@case(PREFETCH_PER_CONSUMER, needs={"amqp091", "amqp091-consumer-prefetch"})
def test_a_prefetch_is_for_consumers_that_begin_afterwards(target: Bench) -> None:
    """basic.qos raises the prefetch from 2 to 5. The existing consumer keeps 2; a later one gets
    5."""
    peer = target.amqp091(channels=2)
    first, second = queue_of(peer), queue_of(peer)
    for queue in (first, second):
        fill(peer, queue, [b"x"] * 10)
    peer.call("basic.qos", {"prefetch-count": 2}, channel=2)
    peer.consume(first, channel=2)
    peer.call("basic.qos", {"prefetch-count": 5}, channel=2)
    before = len(arrive(peer, 2, channel=2))
    peer.consume(second, channel=2)
    after = len(arrive(peer, 5, channel=2))
    words = f"the consumers have {before} and {after}; expected 2 and 5"
    target.record_finding(PREFETCH_PER_CONSUMER, (before, after) == (2, 5), words)


@case(PREFETCH_NOT_FOR_NO_ACK, needs={"amqp091"})
@over(examples=3, whole=st.booleans())
def test_without_acknowledgement_there_is_no_prefetch(target: Bench, whole: bool) -> None:
    """A no-ack consumer on a channel with a prefetch of 1 gets all messages."""
    peer = target.amqp091(channels=2)
    queue = queue_of(peer)
    fill(peer, queue, [b"x"] * 10)
    peer.call("basic.qos", {"prefetch-count": 1, "global": whole}, channel=2)
    peer.consume(queue, channel=2, no_ack=True)
    received = len(arrive(peer, 10, channel=2))
    target.record_finding(
        PREFETCH_NOT_FOR_NO_ACK, received == 10, f"{received} of 10 messages arrived with no-ack"
    )


@case(PREFETCH_REPLENISHED, needs={"amqp091"})
@over(
    examples=6,
    limit=st.sampled_from([1, 3, 10]),
    multiple=st.booleans(),
    way=lambda target: st.sampled_from(settling(target, ["ack", "nack", "reject"])),
    kind=Kind.any,
)
def test_all_messages_come_as_they_are_settled(
    target: Bench, kind: Kind, limit: int, multiple: bool, way: str
) -> None:
    """A consumer with a prefetch settles each message by ack, nack or reject. It gets every
    message, and never holds more than the prefetch."""
    count = 40
    peer = target.amqp091(channels=2)
    queue = kind.queue(target, peer)
    fill(peer, queue, [b"%d" % at for at in range(count)])
    peer.call("basic.qos", {"prefetch-count": limit}, channel=2)
    peer.consume(queue, channel=2)
    arrived: set[int] = set()
    deliveries = most = 0
    while len(arrived) < count and deliveries < 2 * count:
        here = _at_least_one(target, peer)
        if not here:
            break
        most = max(most, len(here))
        deliveries += len(here)
        arrived |= {body for body, _ in here}
        if multiple and way != "reject":
            peer.send(f"basic.{way}", {"delivery-tag": here[-1][1], "multiple": True}, channel=2)
        else:
            for _, tag in here:
                peer.send(f"basic.{way}", {"delivery-tag": tag}, channel=2)
    detail = (
        f"prefetch {limit}, {way}: {len(arrived)} of {count} messages arrived in {deliveries}"
        f" deliveries, at most {most} at once"
    )
    if way != "ack" and most <= limit and deliveries > len(arrived):
        # Messages wait behind redelivered ones, and the prefetch's rule does not limit
        # redeliveries.
        target.record_not_applicable(
            PREFETCH_REPLENISHED, f"{detail}: refused messages were redelivered"
        )
        return
    target.record_finding(
        PREFETCH_REPLENISHED, arrived == set(range(count)) and most <= limit, detail
    )


@case(PREFETCH_LIMIT, PREFETCH_REPLENISHED, needs={"amqp091"})
@over(
    examples=6,
    always=lambda target: [
        {"limit": 2, "rounds": 3, "way": way, "kind": kind, "most": 0}
        for way in ("reject", "recover")
        for kind in Kind.each(target)
    ],
    limit=st.sampled_from([1, 2, 5]),
    rounds=st.integers(1, 6),
    way=lambda target: st.sampled_from(
        settling(target, ["reject", "recover", "nack", "nack multiple"])
    ),
    kind=Kind.any,
    most=st.sampled_from([0, 1, 100]),
)
def test_what_is_given_back_makes_room(
    target: Bench, kind: Kind, limit: int, rounds: int, way: str, most: int
) -> None:
    """A consumer repeatedly requeues all the messages that its prefetch allows; some may be dropped
    because they returned too often. Each time it gets as many as the prefetch allows, the same or
    others."""
    peer = target.amqp091(channels=2)
    queue = kind.queue(target, peer, {"x-delivery-limit": most} if kind.type == "quorum" else {})
    fill(peer, queue, [b"%d" % at for at in range(limit * (rounds + 1))])
    peer.call("basic.qos", {"prefetch-count": limit}, channel=2)
    peer.consume(queue, channel=2)
    verb, multiple = way.split()[0], "multiple" in way
    for given in range(rounds + 1):
        tags = [delivery["delivery-tag"] for delivery in arrive(peer, limit, channel=2)]
        detail = (
            f"prefetch {limit}: after all messages were given back {given} times by {way},"
            f" {len(tags)} arrived"
        )
        target.record_finding(PREFETCH_LIMIT, len(tags) <= limit, detail)
        if not target.record_finding(PREFETCH_REPLENISHED, len(tags) >= limit, detail):
            return
        if way == "recover":
            peer.call("basic.recover", {"requeue": True}, channel=2)
            continue
        for tag in tags[-1:] if multiple else tags:
            fields = {"delivery-tag": tag, "requeue": True}
            more = {"multiple": multiple} if verb == "nack" else {}
            peer.send(f"basic.{verb}", fields | more, channel=2)


def _at_least_one(target: Bench, peer: Amqp091Peer) -> list[tuple[int, int]]:
    match_delivery = method("basic.deliver", channel=2)
    target.wait_until(lambda: any(match_delivery.accepts(reply) for reply in peer.inbox), PATIENCE)
    return [(int(delivery.body), delivery["delivery-tag"]) for delivery in peer.deliveries(2)]


@case(PREFETCH_LIMIT, needs={"amqp091"})
@over(examples=4, limit=st.sampled_from([1, 4]), kind=Kind.any)
def test_acknowledgements_that_never_come_hold_a_consumer_back(
    target: Bench, kind: Kind, limit: int
) -> None:
    """A consumer at its prefetch acknowledges nothing. It gets no further message, and another
    consumer gets the rest."""
    peer = target.amqp091(channels=3)
    queue = kind.queue(target, peer)
    fill(peer, queue, [b"x"] * 10)
    peer.call("basic.qos", {"prefetch-count": limit}, channel=2)
    peer.consume(queue, channel=2)
    arrived = len(arrive(peer, limit, channel=2))
    target.control(arrived >= limit, f"{limit} messages should arrive; {arrived} did")
    target.record_finding(PREFETCH_LIMIT, arrived == limit, f"{arrived} of {limit} arrived")
    peer.expect_nothing(
        for_=QUIET * 3,
        of=method("basic.deliver", channel=2),
        proves=PREFETCH_LIMIT,
        why="nothing was acknowledged",
    )
    peer.consume(queue, channel=3, no_ack=True)
    rest = len(arrive(peer, 10 - limit, channel=3))
    target.control(
        rest == 10 - limit, f"another consumer should get {10 - limit} messages; it got {rest}"
    )
