"""A refused message leaves nothing behind: it is settled, and link and credit work as usual."""

from hypothesis import strategies as st

from brokerproof.suites.amqp10.steps import QUIET, bodies, collect, granted, over_habits
from brokerproof.suites.api import PATIENCE, Bench, Target, case, over
from brokerproof.suites.api.amqp10 import SENDER, AmqpPeer, Link, Node, either, frame, message
from brokerproof.suites.steps import small_addresses

SETTLED = "AMQP10-XFER-14"
CREDIT = "ARTEMIS-FLOW-amqp-1"

FIRST = 0
"""rcv-settle-mode first."""
NOWHERE, FULL = "a message without an address", "a message to a full address"
TROUBLE = either(frame("detach"), frame("end"), frame("close"))


def refusals(target: Target) -> list[str]:
    return [NOWHERE, FULL] if "address-full" in target.identity.capabilities else [NOWHERE]


def producer(target: Bench, peer: AmqpPeer, kind: str) -> tuple[Link, Node]:
    """Return a link on which messages of this kind are refused, and a node that has room again."""
    if kind == NOWHERE:
        link = peer.attach(SENDER, answered=False)  # some brokers refuse it by an end
        peer.watch_for(either(frame("attach", name=link.name), TROUBLE))
        return link, target.node()
    node = small_addresses.node(target, "fail")
    return peer.sender(node), node


def fill(target: Bench, node: Node) -> None:
    """Fill an address under FAIL. Control: the broker eventually refuses a message."""
    peer, link = small_addresses.producer(target, node)
    for number in range(100):
        granted(target, peer, link)
        delivery = peer.post(link, small_addresses.body(number, 3000))
        if _outcome(target, peer, link, delivery) != "accepted":
            return
    target.control(False, f"{node.address} should be full")


def is_made(link: Link) -> bool:
    """True if the broker created the link, that is, if the broker's attach has a target."""
    return link.answer is not None and link.answer.kind("target") is not None


@case(SETTLED, needs={"amqp"})
@over(
    examples=8,
    always=lambda target: [{"kind": kind, "count": 3} for kind in refusals(target)],
    situations=lambda target: tuple(refusals(target)),
    kind=lambda target: st.sampled_from(refusals(target)),
    count=st.integers(1, 5),
)
def test_a_refused_message_is_settled(target: Bench, kind: str, count: int) -> None:
    """The broker refuses messages with rcv-settle-mode first, one by one. It settles each, unless
    it ends the link, the session or the connection. Once the address has room again, the link
    accepts a message, which is delivered."""
    peer = target.amqp()
    link, node = producer(target, peer, kind)
    reader = target.amqp()
    receiver = reader.receiver(node)  # creates the queue
    target.reached(kind)
    if not is_made(link):
        target.record_not_applicable(SETTLED, f"the broker refuses the link for {kind}")
        return
    if kind == FULL:
        fill(target, node)
    for _ in range(count):
        granted(target, peer, link)
        payload = message(small_addresses.body(0, 3000))
        delivery = peer.transfer(link, payload, rcv_settle_mode=FIRST)
        outcome = _outcome(target, peer, link, delivery)
        if outcome is not None:
            target.record_behaviour(f"amqp.{kind.replace(' ', '-')}", outcome)
        if outcome is None and (peer.ended is not None or any(map(TROUBLE.accepts, peer.inbox))):
            target.record_not_applicable(SETTLED, f"{kind} ended the link: {peer.instead()}")
            return
        detail = f"{kind} was {outcome or 'not settled'}; {peer.instead()}"
        target.require(SETTLED, outcome is not None, detail)
    if kind == FULL:
        small_addresses.drain_queue(target, node, 1)
        small_addresses.room_again(target, node.address)
    granted(target, peer, link)
    payload = message(b"taken", properties={"to": node.address})
    delivery = peer.transfer(link, payload, rcv_settle_mode=FIRST)
    outcome = _outcome(target, peer, link, delivery)
    detail = f"after {count} refused messages, the next one was {outcome or 'not settled'}"
    target.record_finding(SETTLED, outcome is not None, detail)
    target.control(outcome == "accepted", f"an address with room should accept: {outcome}")
    reader.flow(receiver, link_credit=10)
    arrived = bodies(collect(target, reader, receiver, 1))
    target.control(b"taken" in arrived, f"the accepted message should arrive; {arrived} did")


def _outcome(target: Bench, peer: AmqpPeer, link: Link, delivery: int) -> str | None:
    """Return the state in which the broker settles ``delivery``; None if it stays unsettled."""
    outcomes = link.session.outcomes
    target.wait_until(
        lambda: (
            outcomes.get(delivery) is not None
            or peer.ended is not None
            or any(map(TROUBLE.accepts, peer.inbox))
        ),
        PATIENCE,
    )
    settled = outcomes.get(delivery)
    return None if settled is None else settled.kind("state") or "settled without a state"


@case(CREDIT, needs={"amqp", "amqp-credit"})
@over_habits(examples=4, rounds=st.integers(2, 4), taken=st.booleans())
def test_refused_messages_give_their_credit_back(target: Bench, rounds: int, taken: bool) -> None:
    """A producer without an address sends several times as many messages as its credit, and the
    broker refuses all or every second one. It renews the producer's credit as it does for accepted
    messages."""
    acceptor = "amqp-credits-10"
    most = int(str(target.parameters(acceptor)["amqp_credits"]))
    node, peer = target.node(), target.amqp(acceptor=acceptor)
    link = peer.attach(SENDER)
    for number in range(rounds * most):
        target.wait_until(lambda: link.credit > 0 or peer.ended is not None, PATIENCE)
        detail = f"{link.credit} credits before message {number}, of {most}; {peer.instead()}"
        target.require(CREDIT, link.credit > 0, detail)
        to = {"to": node.address} if taken and number % 2 else {}
        delivery = peer.transfer(link, message(b"x", properties=to))
        target.control(
            _outcome(target, peer, link, delivery) is not None,
            f"message {number} should be settled; {peer.instead()}",
        )
    target.advance(QUIET)
    target.judge_count(CREDIT, "credit at the end", link.credit, (1, most), "deliveries")
