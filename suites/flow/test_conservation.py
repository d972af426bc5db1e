"""Conservation: an address that was used and emptied is as large as a fresh one.

Messages enter and leave in every possible way: accepted, released, rejected, returned by a close,
refused, aborted, rolled back, paged, dropped, expired. Once all are gone, the broker's management
reports a size of 0, and the address accepts as many messages up to its limit as a fresh one.
"""

from collections.abc import Callable, Mapping

from hypothesis import strategies as st

from brokerproof.harness.clients.artemis_management import ADMIN
from brokerproof.suites.amqp10.steps import collect, granted
from brokerproof.suites.amqp10.transaction_steps import control, post
from brokerproof.suites.api import PATIENCE, Bench, case, ms, over, shown
from brokerproof.suites.api.amqp10 import Node, message
from brokerproof.suites.api.stomp import Destination
from brokerproof.suites.steps import small_addresses

POLICIES = "ARTEMIS-PAGING-8"
FREE_AGAIN = "ARTEMIS-PAGING-9"

SIZE = 1500
"""Bytes of a body: about fourteen fill an address."""
MOST = 20
"""More messages of :data:`SIZE` than any of these addresses holds."""
SOME = 3
ROUNDS = 3
SHORT_MS = 500
"""The lifetime of messages that expire."""


class Used:
    """An address of one kind, and ways for messages to enter and leave it."""

    def __init__(self, target: Bench, kind: str) -> None:
        self.target = target
        self.kind = kind
        self.history: list[str] = []
        self.to: Destination = small_addresses.destination(target, kind)
        self.place: Node = small_addresses.same(self.to)

    def send(self, count: int, size: int = SIZE) -> list[str | None]:
        """Send ``count`` messages one by one; return their outcomes."""
        peer, link = small_addresses.producer(self.target, self.place)
        outcomes = [
            small_addresses.send(self.target, peer, link, small_addresses.body(number, size))
            for number in range(count)
        ]
        peer.close_socket()
        return outcomes

    def settle(self, outcome: str | None) -> None:
        """Send some messages and settle all with ``outcome``; None: leave without settling."""
        self.send(SOME)
        peer = self.target.amqp()
        link = peer.receiver(self.place, credit=SOME)
        for delivery in collect(self.target, peer, link, SOME, quiet=0):
            if outcome is not None:
                peer.disposition(delivery, outcome)
        peer.settle()
        peer.close_socket()

    def expire(self, outcome: str | None) -> None:
        """Let messages expire while they wait, or at a consumer that settles them with
        ``outcome``."""
        peer, link = small_addresses.producer(self.target, self.place)
        for number in range(SOME):
            granted(self.target, peer, link)
            body = small_addresses.body(number, SIZE)
            payload = message(body, header={"ttl": SHORT_MS})
            peer.confirmed(link.session, peer.transfer(link, payload), None)
        held = []
        if outcome is not None:
            receiver = peer.receiver(self.place, credit=SOME)
            held = collect(self.target, peer, receiver, SOME, quiet=0)
        self.target.advance(ms(2 * SHORT_MS))
        for delivery in held:
            peer.disposition(delivery, outcome)
        peer.settle()
        peer.close_socket()

    def transact(self, end: str) -> None:
        """Post messages in an AMQP transaction that ``end`` ends: ``fail``, ``doomed`` (a post that
        cannot be processed makes the discharge fail), or ``session`` (its connection ends)."""
        peer = self.target.amqp()
        coordinator, link = control(self.target, peer), peer.sender(self.place)
        id = coordinator.declare()
        for number in range(SOME):
            post(self.target, peer, link, id, small_addresses.body(number, SIZE))
        if end == "doomed":
            post(self.target, peer, peer.sender(None), id, b"for nobody", settled=True)
        peer.settle()
        if end != "session":
            coordinator.await_answer(coordinator.say("discharge", txn_id=id, fail=end == "fail"))
        peer.close_socket()

    def acknowledge_and_abort(self) -> None:
        """Acknowledge a message in a STOMP transaction that is aborted."""
        self.send(SOME)
        peer = self.target.stomp()
        peer.subscribe(self.to, ack="client-individual")
        message = peer.message()
        peer.request("BEGIN", {"transaction": peer.transaction})
        peer.ack(message, {"transaction": peer.transaction}, receipt=True)
        peer.request("ABORT", {"transaction": peer.transaction})
        peer.close_socket()

    def post_and_roll_back(self, end: str) -> None:
        """Send messages in a STOMP transaction that ``end`` ends: ABORT, COMMIT, or a close."""
        peer = self.target.stomp()
        peer.request("BEGIN", {"transaction": peer.transaction})
        for number in range(SOME):
            data = small_addresses.body(number, SIZE)
            peer.publish(self.to, data, {"transaction": peer.transaction}, receipt=False)
        peer.settle()
        if end:
            peer.request(end, {"transaction": peer.transaction})
        peer.close_socket()

    def abort_transfers(self) -> None:
        peer, link = small_addresses.producer(self.target, self.place)
        self.target.wait_until(lambda: link.credit > 0, PATIENCE)
        peer.transfer(link, bytes(SIZE), more=True)
        peer.transfer(link, b"", aborted=True)
        peer.settle()
        peer.close_socket()

    def empty(self) -> None:
        """Consume all messages, including redelivered ones, until the size is 0."""
        for _ in range(ROUNDS):  # a later round consumes late returns
            small_addresses.drain_queue(self.target, self.place, 0)
            state, free = self.target.admin().until(
                self.place.address, lambda state: state.size == 0
            )
            if free or state.messages == 0:
                break
        words = f"messages are left; the address has {state}"
        self.target.control(free or state.messages == 0, words)
        history = ", ".join(self.history) or "sent and taken"
        detail = (
            f"once all messages of an address ({self.kind}) are gone, the address has {state};"
            f" messages were {history}"
        )
        self.target.require(FREE_AGAIN, free, detail)

    def capacity(self) -> int:
        """Return how many messages the address accepts up to its limit; then empty it again."""
        if self.kind == "page":
            admin, count, paging = self.target.admin(), 0, False
            while not paging and count < MOST:
                self.send(1)
                count += 1
                paging = admin.address(self.place.address).paging
        else:
            states = self.send(MOST)
            count = states.count("accepted")
        if self.kind == "drop":
            count = len(small_addresses.drain_queue(self.target, self.place, 0))
        self.empty()
        return count


WAYS: Mapping[str, Callable[[Used], object]] = {
    "accepted": lambda used: used.settle("accepted"),
    "released": lambda used: used.settle("released"),
    "modified": lambda used: used.settle("modified"),
    "rejected": lambda used: used.settle("rejected"),
    "left unsettled": lambda used: used.settle(None),
    "acknowledged and aborted": Used.acknowledge_and_abort,
    "sent and aborted": lambda used: used.post_and_roll_back("ABORT"),
    "sent and committed": lambda used: used.post_and_roll_back("COMMIT"),
    "sent and left": lambda used: used.post_and_roll_back(""),
    "begun and aborted": Used.abort_transfers,
    "expired where they waited": lambda used: used.expire(None),
    "expired with a consumer": lambda used: used.expire("released"),
    "posted and rolled back": lambda used: used.transact("fail"),
    "posted for nobody too": lambda used: used.transact("doomed"),
    "posted and left": lambda used: used.transact("session"),
    "filled beyond the limit": lambda used: used.send(MOST),
}
KINDS = ("fail", "drop", "page", "limited.fail")


@case(POLICIES, FREE_AGAIN, needs={"amqp", "stomp-1.2", "address-full", ADMIN})
@over(
    examples=10,
    always=lambda target: [
        {"kind": "limited.fail", "ways": ["released", "left unsettled"]},
        {"kind": "page", "ways": ["filled beyond the limit"]},
        *(
            {"kind": kind, "ways": list(WAYS)[at::3]}
            for kind, at in (("fail", 0), ("limited.fail", 1), ("drop", 2), ("limited.fail", 0))
        ),
    ],
    situations=(*KINDS, *WAYS),
    kind=st.sampled_from(KINDS),
    ways=st.lists(st.sampled_from(list(WAYS)), min_size=1, max_size=4),
)
def test_a_used_address_is_as_large_as_a_fresh_one(
    target: Bench, kind: str, ways: list[str]
) -> None:
    """Messages enter and leave an address until none is left. Its size is 0 (even a small leak
    would show), and it accepts as many messages up to its limit as a fresh address of its kind."""
    fresh = Used(target, kind).capacity()
    used = Used(target, kind)
    target.reached(kind)
    for way in ways:
        used.history.append(way)
        WAYS[way](used)
        target.reached(way)
        used.empty()  # a full address may refuse credit to the next way's link
        outcomes = used.send(SOME)
        target.require(
            POLICIES,
            outcomes == ["accepted"] * SOME,
            f"{kind}, after messages were {', '.join(used.history)}, and all are gone: of {SOME}"
            f" messages, for which a fresh one has room, the outcomes are {shown(outcomes)}",
        )
        used.empty()
    again = used.capacity()
    target.record_finding(
        POLICIES,
        again == fresh,
        f"{kind}: after messages were {', '.join(ways)}, {again} messages fill the address;"
        f" {fresh} fill a fresh one",
    )
