"""Small addresses, by kind (harness/targets/full_addresses.py), and the charge for a message there.

Brokers charge different amounts for a message, so the charge is measured first: by querying the
broker's management or, without one, by searching for the largest message after which another one is
still accepted. Then a case can hit a threshold exactly.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

from brokerproof.harness.clients.artemis_management import ADMIN, Admin
from brokerproof.harness.protocols.amqp10.codec import composite
from brokerproof.suites.amqp10.steps import QUIET, collect, granted
from brokerproof.suites.api import PATIENCE, Bench, RoutingType
from brokerproof.suites.api.amqp10 import AmqpPeer, Link, Node
from brokerproof.suites.api.stomp import Destination

ANYCAST, MULTICAST = RoutingType.ANYCAST, RoutingType.MULTICAST

MESSAGES = 3
"""max-size-messages of the kind "limited"."""
PAGED_MESSAGES = 20
"""page-limit-messages of the kind "paged-messages"."""


def limit_of(target: Bench) -> int:
    """Return max-size-bytes of the addresses that are limited in bytes."""
    return target.target.identity.addresses.max_size_bytes


def threshold_of(target: Bench) -> int:
    """Return max-size-bytes-reject-threshold of the kind "reject"."""
    return target.target.identity.addresses.max_size_bytes_reject_threshold


def page_of(target: Bench) -> int:
    """Return page-size-bytes of all these addresses."""
    return target.target.identity.addresses.page_size_bytes


def read_ahead_of(target: Bench) -> int:
    """Return max-read-page-bytes, whose default is two pages (ARTEMIS-PAGING-16)."""
    return 2 * page_of(target)


def page_limit_of(target: Bench) -> int:
    """Return page-limit-bytes of the kind "pages", in whole pages."""
    addresses = target.target.identity.addresses
    return addresses.page_limit_bytes // addresses.page_size_bytes


SMALLEST = 256
"""From this size on, each byte of a body costs one; shorter bodies have a shorter length field."""


def node(target: Bench, kind: str, routing: RoutingType = ANYCAST) -> Node:
    """Return a fresh AMQP address of kind block, fail, drop, page, limited.block, pages.fail …"""
    fresh = target.node(routing)
    return Node(f"{target.full_address(kind)}{fresh.address}", fresh.capabilities)


def destination(target: Bench, kind: str, routing: RoutingType = ANYCAST) -> Destination:
    fresh = target.destination(routing)
    return Destination(
        f"{target.full_address(kind)}{fresh.name}", fresh.send_headers, fresh.subscribe_headers
    )


def same(to: Destination) -> Node:
    """Return the AMQP name of an address created for STOMP."""
    kind = "topic" if any("MULTICAST" in value for _, value in to.send_headers) else "queue"
    return Node(to.name, (kind,))


def source(fields: dict[str, Any]) -> Any:
    return composite("source", fields)


def body(number: int, size: int) -> bytes:
    return (b"%d." % number).ljust(size, b".")[: max(size, len(b"%d." % number))]


def number_of(data: bytes) -> int:
    return int(bytes(data).partition(b".")[0])


def producer(target: Bench, to: Node, acceptor: str | None = None) -> tuple[AmqpPeer, Link]:
    """Return a sender on a separate connection."""
    peer = target.amqp(acceptor=acceptor)
    return peer, peer.sender(to)


def send(target: Bench, peer: AmqpPeer, link: Link, data: bytes) -> str | None:
    """Send one message; return the state of its outcome, or None if it was settled without one."""
    granted(target, peer, link)
    return peer.confirmed(link.session, peer.post(link, data), None).kind("state")


def overhead(target: Bench) -> int:
    """Measure the charge for an AMQP message beyond its body (from :data:`SMALLEST` on)."""
    result = _asked(target) if ADMIN in target.capabilities else _searched(target)
    target.record_note(f"an AMQP message is charged the bytes of its body and {result} more")
    return result


def _asked(target: Bench) -> int:
    scratch = node(target, "page")
    peer, link = producer(target, scratch)
    target.control(
        send(target, peer, link, body(0, 1000)) == "accepted",
        "the message to be weighed should be accepted",
    )
    return target.admin().size(scratch.address) - 1000


def _searched(target: Bench) -> int:
    """Search by bisection: the largest body after which an address under FAIL still accepts a
    message is charged one byte less than the limit."""

    def room_is_left(size: int) -> bool:
        peer, link = producer(target, node(target, "fail"))
        target.control(
            send(target, peer, link, body(0, size)) == "accepted",
            "an empty address should accept a message",
        )
        after = send(target, peer, link, body(1, SMALLEST))
        peer.close_socket()
        return after == "accepted"

    sizes = range(SMALLEST + 1, limit_of(target))
    largest = SMALLEST + bisect_left(sizes, True, key=lambda size: not room_is_left(size))
    return limit_of(target) - 1 - largest


def filling(total: int, extra: int, sizes: Sequence[int]) -> list[bytes]:
    """Return bodies of these sizes and one more, which together are charged ``total`` bytes. Each
    costs ``extra`` bytes beyond its size."""
    last = total - extra - sum(size + extra for size in sizes)
    if last < SMALLEST:
        raise ValueError(f"{list(sizes)} leave no room for a last body within {total} bytes")
    return [body(at, size) for at, size in enumerate([*sizes, last])]


def scratch_name(target: Bench, rest: str, length: int) -> str:
    """Return a name of ``length`` characters that ends in ``rest``; its address is never full."""
    page = target.full_address("page")
    left = length - len(page)
    return page + rest.rjust(left, "x")[-left:]


class Scale:
    """Measures the charge for SENDs to a STOMP destination at addresses with names of the same
    length, because names may be charged too."""

    def __init__(self, target: Bench, admin: Admin, to: Destination) -> None:
        self._admin, self._to, self._peer = admin, to, target.stomp()
        self._target, self._own = target, target.fresh_name()
        self._known: dict[int, int] = {}

    def weight(self, size: int) -> int:
        """Return the charge for a body of ``size`` bytes, headers included."""
        if size not in self._known:
            rest = f"{self._own}~{len(self._known)}"
            name = scratch_name(self._target, rest, len(self._to.name))
            self._peer.publish(Destination(name, self._to.send_headers), body(0, size))
            self._known[size] = self._admin.size(name)
        return self._known[size]

    def of(self, goal: int) -> int:
        """Return the largest body (of at least 2 bytes) that is charged at most ``goal`` bytes."""
        return 2 + bisect_right(range(3, goal), goal, key=self.weight)

    def sizes(self, goal: int) -> list[int]:
        """Return the sizes of bodies that together are charged ``goal`` bytes, or the nearest lower
        amount that the broker's accounting allows: some brokers charge for whole buffers."""
        filler = self.weight(300)
        fillers = [300] * max(0, goal // filler - 2)
        left = goal - filler * len(fillers)
        best: list[int] = []
        for before in ([], [300], [400], [500], [700], [900]):
            rest = left - sum(map(self.weight, before))
            if rest < self.weight(2):
                continue
            result = [*before, self.of(rest)]
            if not best or sum(map(self.weight, result)) > sum(map(self.weight, best)):
                best = result
            if sum(map(self.weight, result)) == left:
                break
        return fillers + best


def room_again(target: Bench, address: str) -> None:
    """Wait until acknowledged messages are no longer charged; brokers may need a while."""
    if ADMIN in target.capabilities:
        state, free = target.admin().until(address, lambda state: state.size == 0)
        target.control(free, f"everything is acknowledged and the address still holds {state}")
    else:
        target.advance(QUIET)


def drain_queue(target: Bench, place: Node, count: int) -> list[int]:
    """Consume the messages of a queue (``count`` are expected) and return their numbers in order.
    Each is acknowledged on arrival, because held messages reduce what is read from pages
    (ARTEMIS-PAGING-16). The consumer stays, because a queue without a consumer may be deleted.
    """
    consumer = target.amqp()
    link = consumer.receiver(place)
    received: list[int] = []
    while True:
        if link.credit < 10:
            consumer.flow(link, link_credit=20)
        got = collect(
            target, consumer, link, 1, quiet=0, within=PATIENCE if len(received) < count else QUIET
        )
        for delivery in got:
            consumer.disposition(delivery)
        received += [number_of(delivery.message.body) for delivery in got]
        if not got:
            consumer.flow(link, link_credit=0)
            consumer.settle()
            return received
