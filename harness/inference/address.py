"""Measures addresses that fill up: their limit, the cost of a message, the policy at the limit, and
when they accept messages again. The probes use AMQP, in which each message has an outcome and
credit shows that there is room. Let s(k) be the smallest total body size with which k messages fill
an address. Then s(k) + k · overhead is the limit to within one byte, so two values of k give both
the overhead and the limit. Bodies are kept small, because brokers may store large ones elsewhere
and not count them."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.clients.artemis_management import ADMIN, AddressState
from brokerproof.harness.inference.estimate import Estimate, Range
from brokerproof.harness.model.time import Duration, ms
from brokerproof.harness.protocols.amqp10.endpoint_state import Link
from brokerproof.harness.protocols.amqp10.raw_peer import AmqpPeer, Node
from brokerproof.harness.protocols.conversation import PATIENCE, ControlFailed

QUIET: Duration = ms(300)
"""How long a link must stay without credit before an address counts as blocking."""
SLOW: Duration = 8 * QUIET
"""How long to wait for a message that passes through a file."""
SMALLEST = 256
"""From this body size on, each further byte costs one byte more; for smaller bodies, the encoded
length is shorter."""
LARGEST = 1 << 20
"""The highest limit searched for, in bytes."""
WHOLE = 1 << 16
"""The largest body that is sent, in bytes: brokers do not treat it as a large message."""
SEVERAL = 10
"""The second measurement has this many times the messages of the first, because more messages
determine the overhead more precisely."""


@dataclass(frozen=True, slots=True)
class Look:
    """What happened at a fresh address: how many messages were accepted, and whether one more was
    refused, dropped, blocked or paged."""

    accepted: int
    refused: bool
    no_credit: bool
    lost: int
    paged: bool

    @property
    def policy(self) -> str | None:
        """The observed policy of a full address; None while it is not full."""
        shown = {
            "BLOCK": self.no_credit,
            "FAIL": self.refused,
            "DROP": self.lost > 0,
            "PAGE": self.paged,
        }
        return next((name for name, applies in shown.items() if applies), None)


class AddressProbes:
    """Fresh addresses whose names begin with ``prefix``."""

    def __init__(self, bench: Bench, prefix: str, acceptor: str | None) -> None:
        self.bench, self.prefix, self.acceptor = bench, prefix, acceptor
        self.admin = bench.admin() if ADMIN in bench.capabilities else None

    def fresh(self) -> Node:
        made = self.bench.node()
        return Node(self.prefix + made.address, made.capabilities)

    def producer(self, node: Node) -> tuple[AmqpPeer, Link]:
        peer = self.bench.amqp(acceptor=self.acceptor)
        return peer, peer.sender(node)

    def credit(self, link: Link, peer: AmqpPeer, within: Duration) -> bool:
        return (
            self.bench.wait_until(lambda: link.credit > 0 or peer.ended is not None, within)
            and link.credit > 0
        )

    def fill(self, node: Node, bodies: Sequence[int]) -> tuple[AmqpPeer, int, str | None]:
        """Send messages with bodies of this size one by one. Return the number of accepted messages
        and the outcome that ended the filling."""
        peer, link = self.producer(node)
        for number, body in enumerate(bodies):
            if not self.credit(link, peer, PATIENCE if number == 0 else QUIET):
                return peer, number, "no credit"
            delivery = peer.confirmed(link.session, peer.post(link, b"." * body), None)
            if delivery.kind("state") != "accepted":
                return peer, number, delivery.kind("state")
        return peer, len(bodies), None

    def look(self, bodies: Sequence[int], *, lost: bool = True) -> Look:
        """Fill a fresh address with messages of this size, and send one more; return what was
        observed."""
        node = self.fresh()
        peer, accepted, otherwise = self.fill(node, bodies)
        sent = accepted
        late, link = self.producer(node)
        no_credit = not self.credit(link, late, QUIET)
        before = None if self.admin is None else self.admin.address(node.address)
        # A sender with earlier credit may still send to a blocked address; under FAIL it may not.
        able = [
            (producer, way)
            for producer, way in ((peer, peer.session.links[0]), (late, link))
            if way.credit > 0
        ]
        if otherwise is None and able:
            able_peer, way = able[0]
            pending = able_peer.post(way, b"." * SMALLEST)
            state = able_peer.confirmed(way.session, pending, None).kind("state")
            otherwise = None if state == "accepted" else state
            sent += otherwise is None
        refused = otherwise == "rejected"
        gone, paged = 0, False
        if self.admin is not None and before is not None:
            after = self.admin.address(node.address)
            if not refused and not no_credit:
                # Brokers count paged messages in the background, but never count dropped ones.
                within = SLOW if after.pages else QUIET
                after, _ = self.admin.until(node.address, partial(_counts, sent), within)
                gone = sent - after.messages
            # Some brokers page the message that fills the address, others only the next one. A
            # paged message uses no memory.
            paged = before.paging or (otherwise is None and after.size <= before.size)
        elif lost and not refused and not no_credit:
            gone = sent - self.taken(node, sent)
        for producer in (peer, late):
            producer.close_socket()
        # Under DROP an address also reports paging, because its messages take the same path.
        return Look(accepted, refused, no_credit and not refused, gone, paged and not gone)

    def taken(self, node: Node, count: int) -> int:
        """Consume and settle at most ``count`` messages; return how many arrived."""
        peer = self.bench.amqp(acceptor=self.acceptor)
        link = peer.receiver(node, credit=count)
        before = -1
        while before < len(peer.deliveries) < count:
            before = len(peer.deliveries)
            # Wait long enough: a message that is slow to load from disk is not lost.
            self.bench.wait_until(lambda count=before: len(peer.deliveries) > count, SLOW)  # type: ignore[misc]
        got = peer.take_deliveries(link)
        for delivery in got:
            peer.disposition(delivery, "accepted")
        peer.settle()
        peer.close_socket()
        return len(got)

    def full(self, bodies: Sequence[int], policy: str) -> bool:
        """True if messages of these sizes fill an address with that policy."""
        return self.look(bodies, lost=policy == "DROP").policy == policy

    def smallest(self, count: int, policy: str) -> int | None:
        """Return the smallest total body size with which ``count`` messages fill an address; None
        if bodies of :data:`SMALLEST` suffice.

        Bodies of :data:`WHOLE` bytes must fill it."""
        low, high = count * SMALLEST, count * WHOLE
        if self.full(_shared(low, count), policy):
            return None
        return _first(lambda size: self.full(_shared(size, count), policy), low, high)

    def room(self, body: int, count: int) -> int | None:
        """Under BLOCK: return how many of ``count`` messages remain when a waiting producer
        receives credit; None if it never receives any."""
        node = self.fresh()
        peer, accepted, _ = self.fill(node, [body] * count)
        late, link = self.producer(node)
        if self.credit(link, late, QUIET):
            return None
        consumer = self.bench.amqp(acceptor=self.acceptor)
        taking = consumer.receiver(node, credit=accepted)
        self.bench.wait_until(lambda: len(consumer.deliveries) >= accepted, PATIENCE)
        left = accepted
        for delivery in consumer.take_deliveries(taking):
            consumer.disposition(delivery, "accepted")
            consumer.settle()
            left -= 1
            if self.credit(link, late, QUIET):
                break
        else:
            return None
        for each_peer in (peer, late, consumer):
            each_peer.close_socket()
        return left


def _counts(sent: int, state: AddressState) -> bool:
    return state.messages >= sent


def _shared(size: int, count: int) -> list[int]:
    """Split ``size`` into bodies of nearly equal size."""
    share = size // count
    return [share] * (count - 1) + [size - share * (count - 1)]


def of_prefix(parameter: str, prefix: str) -> str:
    """Return the name that a parameter has for addresses with this prefix."""
    return f"{parameter} of {prefix}*"


def infer_address(bench: Bench, prefix: str, acceptor: str | None) -> list[Estimate]:
    """Find the limit of addresses with ``prefix``, provided that it is at most :data:`LARGEST`
    bytes."""
    probes = AddressProbes(bench, prefix, acceptor)
    return [
        replace(estimate, parameter=of_prefix(estimate.parameter, prefix))
        for estimate in _estimates(probes)
    ]


def _estimates(probes: AddressProbes) -> list[Estimate]:
    large = probes.look([16_384] * 64)
    policy = large.policy
    if policy is None:
        words = f"{large.accepted} messages of 16384 bytes were accepted, and all arrived"
        return [Estimate("address_full_policy", None, "", words)]
    estimates = [
        Estimate(
            "address_full_policy", None, "", f"{large.accepted} messages were accepted", policy
        )
    ]
    count = _by_messages(probes, policy)
    if count is not None:
        words = "full with as many messages of 256 bytes as of 16384"
        return [
            *estimates,
            Estimate("max_size_messages", Range.of(count, count), "messages", words),
        ]
    few = 1
    while not probes.full([WHOLE] * few, policy):
        few *= 2
        if few * WHOLE > 2 * LARGEST:
            raise ControlFailed(f"{few // 2} messages of {WHOLE} bytes do not fill the address")
    many = SEVERAL * few
    sums = [probes.smallest(few, policy), probes.smallest(many, policy)]
    if sums[0] is None or sums[1] is None:
        words = f"{few if sums[0] is None else many} messages of {SMALLEST} bytes fill it already"
        return [*estimates, Estimate("max_size_bytes", Range.of(0, LARGEST), "bytes", words)]
    # sum + count * overhead >= limit > sum - 1 + count * overhead, for either count.
    apart = Range.of(many - few, many - few)
    overhead = Range.of(sums[0] - 1 - sums[1], sums[0] + 1 - sums[1]).over(apart)
    limit = Range.of((overhead.low or 0) * few + sums[0] - 1, (overhead.high or 0) * few + sums[0])
    words = f"filled by {few} messages of {sums[0]} bytes in all, or by {many} of {sums[1]}"
    estimates += [
        Estimate("max_size_bytes", limit, "bytes", words),
        Estimate("bytes charged beyond the body", overhead, "bytes", words),
    ]
    if policy == "BLOCK":
        estimates.append(_room(probes, limit, overhead))
    return estimates


def _by_messages(probes: AddressProbes, policy: str) -> int | None:
    """Return the number of messages that fills an address, if small and large messages give the
    same number."""

    def full(count: int, body: int) -> bool:
        return probes.full([body] * count, policy)

    counts = [_first(partial(full, body=body), 0, 64) for body in (16_384, SMALLEST)]
    return counts[0] if counts[0] == counts[1] < 64 else None


def _room(probes: AddressProbes, limit: Range, overhead: Range) -> Estimate:
    """Find the fraction of the limit to which an address must empty before a producer receives
    credit again."""
    name, body = "room again below", 1000
    weight = Range.of((overhead.low or 0) + body, (overhead.high or 0) + body)
    assert limit.high is not None
    assert weight.low is not None
    left = probes.room(body, int(limit.high / weight.low) + 4)
    if left is None:
        return Estimate(name, None, "of the limit", "a waiting producer got no credit back")
    words = f"credit came back with {left} messages of {body} bytes left"
    held = Range.of(left, left + 1).times(weight)
    return Estimate(name, held.over(limit), "of the limit", words)


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the first number above ``low`` for which ``holds`` is true. ``holds`` must be
    monotonic, and true at ``high``."""
    return low + 1 + bisect_left(range(low + 1, high), True, key=holds)
