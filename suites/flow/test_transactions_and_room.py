"""Transactions at an address that blocks when full: they occupy its room until they end.

The room of an address is the number of messages that it accepts. A transaction fills all or part of
it, and its messages are charged once; at a full address a producer waits. However the transaction
ends, the address has as much room as an unused one once everything is consumed.
"""

from dataclasses import dataclass

from hypothesis import strategies as st

from brokerproof.harness.protocols.amqp10 import messages
from brokerproof.suites.amqp10 import transaction_steps
from brokerproof.suites.amqp10.steps import granted, ready_sender
from brokerproof.suites.api import PATIENCE, Bench, case, listed, over
from brokerproof.suites.api.core import CorePeer, delivery
from brokerproof.suites.api.stomp import Destination, StompPeer, frame
from brokerproof.suites.flow.test_stomp_blocking import consumer, offer
from brokerproof.suites.steps import small_addresses
from brokerproof.suites.steps.core import CORE, number_of, sized
from brokerproof.suites.steps.queue_model import IN_VIRTUAL_TIME
from brokerproof.suites.steps.queues import QUIET, bodies, collect

BLOCKS = "ARTEMIS-FLOW-block-1"
UNBLOCKS = "ARTEMIS-PAGING-12"
REFILLED = "ARTEMIS-FLOW-amqp-1"
REJECTED = "ARTEMIS-FLOW-amqp-4"
BODY = 5000
"""Bytes; five such messages exceed a full address."""
MOST = 12
STOMP, AMQP = "stomp", "amqp"
COMMIT, ROLLBACK, CLOSED, LOST = "commit", "rollback", "closed", "lost"
FULL = "a transaction fills its own address"
WAITED = "a producer waits for the end of a transaction"
HALF = "a transaction leaves room"
ACKNOWLEDGED = "a transaction with messages also has an acknowledgement"
SITUATIONS = (FULL, WAITED, HALF, ACKNOWLEDGED)


@dataclass(frozen=True)
class Plan:
    """A transaction of ``protocol`` with ``count`` messages, and the way it ends. ``acknowledges``:
    it also consumes a message of the same address (CORE)."""

    protocol: str
    count: int
    end: str
    acknowledges: bool = False


PLANS = st.builds(
    Plan,
    st.sampled_from([STOMP, AMQP, CORE]),
    st.sampled_from([1, 2, 7]),
    st.sampled_from([COMMIT, ROLLBACK, CLOSED, LOST]),
    st.booleans(),
)
ALWAYS = [
    *(
        Plan(protocol, 7, end)
        for protocol in (STOMP, AMQP, CORE)
        for end in (COMMIT, ROLLBACK, CLOSED, LOST)
    ),
    *(Plan(CORE, 3, end, acknowledges=True) for end in (COMMIT, ROLLBACK, CLOSED, LOST)),
]


def room(target: Bench, to: Destination, peer: StompPeer) -> int:
    """Return how many messages (at most :data:`MOST`) an address now accepts, and consume them."""
    taken = 0
    while taken < MOST:
        since = target.now()
        receipt = offer(peer, to, small_addresses.body(taken, BODY))
        expected = frame("RECEIPT", {"receipt-id": receipt})
        # A broker that got no CPU time meanwhile could not confirm, either.
        if (
            peer.watch_for(expected, within=QUIET) is None
            and peer.watch_for(expected, within=target.world.lateness(since)) is None
        ):
            break
        taken += 1
    sent = taken + (taken < MOST)
    reader = consumer(target, to)
    collect(target, reader, sent)
    stops(reader)
    return taken


def stops(reader: StompPeer) -> None:
    """End a consumer; wait until the broker confirms it."""
    reader.request("UNSUBSCRIBE", {"id": "0"})
    reader.close_socket()


class Transaction:
    """A transaction whose messages are numbered from 100 on."""

    def __init__(self, target: Bench, to: Destination, plan: Plan) -> None:
        self.target, self.to, self.plan = target, to, plan
        self.stomp = target.stomp()
        if plan.protocol == STOMP:
            self.stomp.request("BEGIN", {"transaction": self.stomp.transaction})
            for body in self._bodies():
                self.stomp.publish(to, body, {"transaction": self.stomp.transaction}, proves=BLOCKS)
        elif plan.protocol == AMQP:
            peer = self.amqp = target.amqp()
            self.control = transaction_steps.control(target, peer)
            self.id = self.control.declare()
            link = ready_sender(target, peer, small_addresses.same(to), plan.count)
            for body in self._bodies():
                state = transaction_steps.within(self.id)
                peer.transfer(link, messages.message(body), state=state, settled=True)
            peer.settle()
        else:
            core: CorePeer = target.core(auto_commit_sends=False, auto_commit_acks=False)
            self.core = core
            if plan.acknowledges:
                self._acknowledge(core)
            for number in range(plan.count):
                core.publish(sized(to.name, 100 + number, BODY))

    def _bodies(self) -> list[bytes]:
        return [small_addresses.body(100 + number, BODY) for number in range(self.plan.count)]

    def _acknowledge(self, core: CorePeer) -> None:
        """Acknowledge the waiting message, number 99."""
        core.create_consumer(self.to.name)
        core.credit(-1)
        packet = core.expect(delivery(0))
        self.target.control(number_of(packet) == 99, f"{packet.brief()} should be message 99")
        core.acknowledge(packet)

    def end(self) -> None:
        end = self.plan.end
        if self.plan.protocol == STOMP:
            if end in (CLOSED, LOST):
                if end == CLOSED:
                    self.stomp.request("DISCONNECT", proves=BLOCKS)
                self.stomp.close_socket()
            else:
                command = "COMMIT" if end == COMMIT else "ABORT"
                self.stomp.request(command, {"transaction": self.stomp.transaction}, proves=BLOCKS)
        elif self.plan.protocol == AMQP:
            if end == LOST:
                self.amqp.close_socket()
            elif end == CLOSED:
                self.amqp.detach(self.control.link)
            else:
                self.control.discharge(self.id, fail=end == ROLLBACK)
        elif end == LOST:
            self.core.close_socket()
        elif end == CLOSED:
            self.core.close()
        elif end == COMMIT:
            self.core.call("commit")
        else:
            self.core.call("rollback", {"last-delivered": False})
        if self.plan.protocol == CORE and self.plan.acknowledges and end in (COMMIT, ROLLBACK):
            self.core.close_consumer()
            self.core.delivered()


@case(BLOCKS, UNBLOCKS, needs={"stomp-1.2", "address-full", "stomp-blocking", "amqp", CORE})
@over(
    examples=8,
    situations=SITUATIONS,
    always=lambda target: [{"plan": plan} for plan in ALWAYS],
    plan=PLANS,
)
def test_a_transaction_gives_back_the_room_that_it_held(target: Bench, plan: Plan) -> None:
    """A transaction sends to an address under BLOCK, up to or beyond its limit, and ends in one of
    four ways. Until then a producer waits if the address is full; it continues by itself when a
    rollback makes room. All committed messages arrive, and the address regains its room. One
    scenario: it takes a full address and its recovery."""
    fresh = room(target, small_addresses.destination(target, "block"), target.stomp())
    target.control(2 < fresh < 7, f"an unused address should accept three to six, not {fresh}")
    to = small_addresses.destination(target, "block")
    target.core().create_queue(to.name)
    acknowledges = plan.protocol == CORE and plan.acknowledges
    producer = target.stomp()
    if acknowledges:
        producer.publish(to, small_addresses.body(99, BODY))
        target.reached(ACKNOWLEDGED)
    transaction = Transaction(target, to, plan)
    full = plan.count + acknowledges >= fresh
    target.reached(FULL if full else HALF)
    receipt = offer(producer, to, small_addresses.body(1, 300))
    confirmed = frame("RECEIPT", {"receipt-id": receipt})
    if full:
        producer.expect_nothing(
            for_=QUIET, of=confirmed, proves=BLOCKS, why="a transaction fills the address"
        )
        target.reached(WAITED)
        if plan.protocol == CORE:
            transaction.core.request_credits(to.name, BODY)
    else:
        producer.expect(confirmed, proves=BLOCKS)
    transaction.end()
    committed = plan.end == COMMIT
    if full and not committed:
        producer.expect(confirmed, proves=UNBLOCKS)
        if plan.protocol == CORE and plan.end == ROLLBACK:
            transaction.core.granted(to.name, proves=UNBLOCKS)
    due = [1, *range(100, 100 + plan.count)] if committed else [1]
    if acknowledges and not committed:
        due.append(99)
    reader = consumer(target, to)
    numbers = [
        small_addresses.number_of(body) for body in bodies(collect(target, reader, len(due)))
    ]
    stops(reader)
    detail = f"after {plan.end}, {listed(sorted(numbers))} arrived; expected {listed(sorted(due))}"
    target.record_finding(BLOCKS, sorted(numbers) == sorted(due), detail)
    if full and committed:
        producer.expect(confirmed, proves=UNBLOCKS)
    target.wait_until(lambda: producer.ended is not None, QUIET)
    lives = plan.protocol == STOMP and plan.end in (COMMIT, ROLLBACK)
    after = transaction.stomp if lives else producer
    left = room(target, to, after)
    until = target.now() + PATIENCE
    while left < fresh and plan.end == LOST and target.now() < until:
        # No document says how soon a broker notices that a connection has ended.
        target.advance(QUIET)
        left = room(target, to, after)
    detail = f"an unused address accepts {fresh} messages; this one accepts {left} after {plan.end}"
    target.record_finding(BLOCKS, left == fresh, detail)


@case(REFILLED, needs={"amqp", "amqp-credit", "address-full", "transactions", IN_VIRTUAL_TIME})
def test_credit_is_filled_up_within_a_transaction(target: Bench) -> None:
    """A producer with ten credits posts 25 messages in one transaction. The broker grants more
    credit before the discharge; all messages arrive after it."""
    node = target.node()
    peer = target.amqp(acceptor="amqp-credits-10")
    control = transaction_steps.control(target, peer)
    id, link = control.declare(), peer.sender(node)
    granted(target, peer, link)
    for number in range(25):
        more = target.wait_until(lambda: link.credit > 0, PATIENCE)
        target.require(REFILLED, more, f"{number} messages were posted; no credit is left")
        transaction_steps.post(target, peer, link, id, b"%d" % number)
        peer.settle()
    control.discharge(id, fail=False)
    count = len(transaction_steps.waiting(target, node, 25))
    target.control(count == 25, f"{count} of 25 messages arrived after the discharge")


@case(REJECTED, needs={"amqp", "amqp-credit", "address-full", "transactions", IN_VIRTUAL_TIME})
def test_the_reject_threshold_holds_in_transactions(target: Bench) -> None:
    """An address past max-size-bytes-reject-threshold rejects even a message in a transaction."""
    node = small_addresses.node(target, "reject")
    peer = target.amqp()
    control = transaction_steps.control(target, peer)
    id, link = control.declare(), peer.sender(node)
    granted(target, peer, link, MOST + 1)
    states = []
    for number in range(MOST):
        body = small_addresses.body(number, BODY)
        states.append(peer.confirmed(link.session, peer.post(link, body), None).kind("state"))
        if states[-1] != "accepted":
            break
    detail = f"an address that rejects answered {', '.join(map(str, states))}"
    target.control(states[-1] == "rejected", detail)
    sent = transaction_steps.post(target, peer, link, id, small_addresses.body(99, BODY))
    answer = peer.confirmed(link.session, sent, None)
    detail = f"past the threshold, a post in a transaction was answered with {answer.brief()}"
    target.record_finding(REJECTED, "rejected" in answer.brief(), detail)
