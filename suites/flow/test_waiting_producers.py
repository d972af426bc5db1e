"""Producers that wait at full addresses under BLOCK, over AMQP, STOMP and CORE.

All producers continue when their address has room, and none is forgotten (ARTEMIS-FLOW-block-1,
ARTEMIS-PAGING-12). A consumer makes room in one step: one disposition settles everything that its
address holds. So no later event could resume a producer by accident. The broker may choose which
producer continues first.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hypothesis import strategies as st

from brokerproof.harness.protocols.stomp.codec import encode
from brokerproof.suites.amqp10.steps import QUIET, collect
from brokerproof.suites.api import PATIENCE, RECONFIGURABLE, Bench, Target, Where, case, over, shown
from brokerproof.suites.api.amqp10 import AmqpPeer, Delivery, Link, Node
from brokerproof.suites.api.core import CorePeer, packet
from brokerproof.suites.api.stomp import Destination, StompPeer, frame
from brokerproof.suites.steps import small_addresses
from brokerproof.suites.steps.core import CORE, FIXTURES
from brokerproof.suites.steps.small_addresses import limit_of

BLOCKS = "ARTEMIS-FLOW-block-1"
NO_CREDIT = "ARTEMIS-FLOW-amqp-2"
UNBLOCKS = "ARTEMIS-PAGING-12"

BODY = 4000
"""Bytes of a body: six such messages fill an address."""
PLACES = 3
SEVERAL = "several wait at one address"
LEFT = "who has waited longest leaves"
BEHIND = "an address stays full at which somebody has waited longer"
TWO_AT_ONCE = "two addresses have room at once"


@dataclass
class Held:
    """A full address, and the consumer that holds all its messages unsettled."""

    to: Destination
    peer: AmqpPeer
    link: Link
    deliveries: list[Delivery]
    emptied: bool = False

    def empty(self) -> None:
        """Settle everything with one frame."""
        first, last = self.deliveries[0], self.deliveries[-1]
        self.peer.disposition(first, last=last.id)
        self.emptied = True


def _held(target: Bench) -> Held:
    to = small_addresses.destination(target, "block")
    place = small_addresses.same(to)
    filler, link = small_addresses.producer(target, place)
    count = -(-limit_of(target) // BODY)
    for number in range(count):
        state = small_addresses.send(target, filler, link, small_addresses.body(number, BODY))
        target.control(state == "accepted", f"message {number} to fill an address was {state}")
    filler.close_socket()
    peer = target.amqp()
    taking = peer.receiver(place, credit=count + 20)
    deliveries = collect(target, peer, taking, count, quiet=0)
    target.control(len(deliveries) == count, f"{count} messages fill it; {len(deliveries)} arrived")
    return Held(to, peer, taking, deliveries)


@dataclass
class Waiter:
    """A producer that waits at ``at``. ``went_on`` returns True once the producer has its credit,
    or its messages have been accepted."""

    way: str
    at: Held
    went_on: Callable[[], bool]
    leave: Callable[[], object]
    gone: bool = field(default=False)


def _by_link(target: Bench, at: Held) -> Waiter:
    """A link that is attached while the address is full."""
    peer, link = small_addresses.producer(target, small_addresses.same(at.to))
    return Waiter("link", at, lambda: link.credit > 0, peer.close_socket)


def _by_detached_link(target: Bench, at: Held) -> Waiter:
    """A link that is attached while the address is full, and is later detached."""
    peer, link = small_addresses.producer(target, small_addresses.same(at.to))
    return Waiter("link that detaches", at, lambda: link.credit > 0, lambda: peer.detach(link))


def _by_ended_session(target: Bench, at: Held) -> Waiter:
    """A link of a second session that ends."""
    peer = target.amqp()
    place: Node = small_addresses.same(at.to)
    session = peer.begin(1)
    link = peer.sender(place, session=session)
    return Waiter("session that ends", at, lambda: link.credit > 0, lambda: peer.end(session))


def _by_send(target: Bench, at: Held) -> Waiter:
    """Two SENDs in one write: the broker holds back the first; the second waits after it."""
    peer: StompPeer = target.stomp()
    first, second = peer.next_receipt(), peer.next_receipt()
    headers = [("destination", at.to.name), *at.to.send_headers]
    body = small_addresses.body(99, 10)
    peer.write(
        b"".join(
            encode("SEND", [*headers, ("receipt", receipt)], body) for receipt in (first, second)
        )
    )

    def went_on() -> bool:
        seen = [frame("RECEIPT", {"receipt-id": receipt}) for receipt in (first, second)]
        return all(any(map(match.accepts, peer.inbox)) for match in seen)

    return Waiter("SEND", at, went_on, peer.close_socket)


def _by_core(target: Bench, at: Held) -> Waiter:
    """Two requests for credit, one after the other."""
    peer: CorePeer = target.core()
    for credits in (300, 200):
        peer.request_credits(at.to.name, credits)

    def went_on() -> bool:
        granted = packet("producer-credits", address=at.to.name)
        return sum(int(grant["credits"]) for grant in filter(granted.accepts, peer.inbox)) >= 500

    return Waiter("CORE", at, went_on, peer.close_socket)


@dataclass(frozen=True)
class Way:
    """A kind of producer, for targets with the capabilities in ``needs``."""

    open: Callable[[Bench, Held], Waiter]
    needs: frozenset[str] = frozenset({"amqp"})
    by_credit: bool = True


WAYS: Mapping[str, Way] = {
    "link": Way(_by_link),
    "link that detaches": Way(_by_detached_link),
    "session that ends": Way(_by_ended_session),
    "SEND": Way(_by_send, frozenset({"stomp-blocking"}), by_credit=False),
    "CORE": Way(_by_core, frozenset({CORE, FIXTURES}), by_credit=False),
}


def ways(target: Target) -> list[str]:
    capabilities = target.identity.capabilities
    return [name for name, way in WAYS.items() if way.needs <= capabilities]


Waiting = list[tuple[int, str]]
"""Producers in the order in which they begin to wait: the number of a place, and a way."""


def _corners(target: Target) -> list[dict[str, object]]:
    known = ways(target)
    return [
        {"waiting": [(0, way) for way in known], "leaving": None, "emptied": [0]},
        {"waiting": [(0, "link")] * 3, "leaving": 0, "emptied": [0]},
        {"waiting": [(0, "link that detaches")] * 2, "leaving": 0, "emptied": [0]},
        {"waiting": [(0, "session that ends"), (0, "link")], "leaving": 0, "emptied": [0]},
        {"waiting": [(0, "link"), *((1, way) for way in known)], "leaving": None, "emptied": [1]},
        {"waiting": [(0, "link"), (1, "link")] * 2, "leaving": None, "emptied": [0, 1]},
    ]


@case(BLOCKS, UNBLOCKS, NO_CREDIT, needs={"amqp", "amqp-credit", "address-full"})
@over(
    examples=8,
    always=_corners,
    situations=(SEVERAL, LEFT, BEHIND, TWO_AT_ONCE),
    waiting=lambda target: st.lists(
        st.tuples(st.integers(0, PLACES - 1), st.sampled_from(ways(target))), min_size=2, max_size=5
    ),
    leaving=st.one_of(st.none(), st.integers(0, 4)),
    emptied=st.lists(st.integers(0, PLACES - 1), min_size=1, max_size=PLACES, unique=True),
)
def test_all_who_wait_go_on_when_there_is_room(
    target: Bench, waiting: Waiting, leaving: int | None, emptied: list[int]
) -> None:
    """Producers of several kinds wait at full addresses, and one of them leaves. Some of the
    addresses are emptied, each with one frame. All producers at these continue by themselves;
    producers at other addresses do not, and the one that left gets no credit."""
    places = {number: _held(target) for number in {place for place, _ in waiting}}
    waiters = [WAYS[way].open(target, places[place]) for place, way in waiting]
    target.advance(QUIET)
    early = [waiter.way for waiter in waiters if waiter.went_on()]
    detail = f"at full addresses, {', '.join(early) or 'no producers'} continued"
    target.require(BLOCKS, not early, detail)
    if leaving is not None:
        left = waiters[leaving % len(waiters)]
        left.leave()
        left.gone = True
        target.advance(QUIET)
    with_room = [places[number] for number in emptied if number in places]
    for held in with_room:
        held.empty()
    due = [waiter for waiter in waiters if waiter.at.emptied and not waiter.gone]
    here = target.wait_until(lambda: all(waiter.went_on() for waiter in due), PATIENCE)
    late = [waiter.way for waiter in due if not waiter.went_on()]
    _note(target, waiters, with_room)
    target.record_finding(
        UNBLOCKS,
        here,
        f"{len(with_room)} of {len(places)} addresses have room, and {len(due)} producers wait"
        f" there; of these, {', '.join(late) or 'none'} did not continue",
    )
    target.advance(QUIET)
    early = [waiter.way for waiter in waiters if not waiter.at.emptied and waiter.went_on()]
    detail = f"while their address was still full, {', '.join(early) or 'no producers'} continued"
    target.record_finding(BLOCKS, not early, detail)
    lost = [waiter.way for waiter in waiters if waiter.gone and waiter.went_on()]
    words = f"producers that left and were granted credit afterwards: {', '.join(lost) or 'none'}"
    target.record_finding(NO_CREDIT, not lost, words)


def _note(target: Bench, waiters: list[Waiter], with_room: list[Held]) -> None:
    """Record which situations have occurred."""
    due = [waiter for waiter in waiters if waiter.at.emptied and not waiter.gone]
    if len({id(waiter.at) for waiter in due}) < len(due):
        target.reached(SEVERAL)
    if due and waiters[0].gone and waiters[0].at is due[-1].at:
        target.reached(LEFT)
    if due and not waiters[0].at.emptied:
        target.reached(BEHIND)
    if len({id(waiter.at) for waiter in due}) > 1:
        target.reached(TWO_AT_ONCE)


def crowded(target: Target) -> st.SearchStrategy[Where]:
    """A broker whose addresses share a limit in bytes, in messages or in both."""
    acceptor = target.identity.default_amqp_acceptor
    limits = [{"global_max_size_bytes": 20_000}, {"global_max_messages": COUNT}, BOTH]
    return st.sampled_from([Where(acceptor, {"broker": limit}) for limit in limits])


COUNT = 6
"""Messages of :data:`BODY` bytes that fill all addresses together, by number and by size."""
BOTH = {"global_max_size_bytes": 20_000, "global_max_messages": COUNT}


@case(UNBLOCKS, NO_CREDIT, needs={"amqp", "amqp-credit", "address-full", RECONFIGURABLE})
@over(examples=6, where=crowded, small=st.booleans())
def test_room_at_one_address_is_room_for_all(target: Bench, where: Where, small: bool) -> None:
    """At an address whose producers do not wait, large messages or many messages reach the limit of
    all addresses together. Producers of another address, which has its own limit, get no credit
    until a consumer has emptied the first; then all of them get credit."""
    limits = (where.overrides or {})["broker"]
    size = 10 if small and "global_max_messages" in limits else BODY
    full = target.node()
    filler, link = small_addresses.producer(target, full)
    for number in range(COUNT):
        state = small_addresses.send(target, filler, link, small_addresses.body(number, size))
        target.control(state == "accepted", f"message {number} to fill the broker was {state}")
    place = small_addresses.node(target, "block")
    waiting = [small_addresses.producer(target, place) for _ in range(2)]
    target.advance(QUIET)
    credit = [late.credit for _, late in waiting]
    words = f"messages of {size} bytes elsewhere use up {shown(limits)}; credits: {shown(credit)}"
    target.record_finding(NO_CREDIT, not any(credit), words)
    peer = target.amqp()
    held = collect(target, peer, peer.receiver(full, credit=COUNT), COUNT, quiet=0)
    target.control(len(held) == COUNT, f"{COUNT} messages fill it; {len(held)} arrived")
    peer.disposition(held[0], last=held[-1].id)
    here = target.wait_until(lambda: all(late.credit > 0 for _, late in waiting), PATIENCE)
    credit = [late.credit for _, late in waiting]
    detail = f"all messages elsewhere are consumed; credits: {shown(credit)}"
    target.record_finding(UNBLOCKS, here, detail)
