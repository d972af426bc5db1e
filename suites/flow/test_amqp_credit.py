"""Artemis: the credit of AMQP producers (amqpCredits, amqpLowCredits), and full addresses.

The test client counts its remaining credit, which every flow of the broker updates. A producer that
waits for each answer sees the exact moment of a refill; for a burst only the bound is certain
(ARTEMIS-FLOW-amqp-1).
"""

from collections.abc import Callable

from hypothesis import strategies as st

from brokerproof.suites.amqp10.steps import QUIET, collect, granted, ready_sender
from brokerproof.suites.api import PATIENCE, RECONFIGURABLE, Bench, Target, Where, case, over, shown
from brokerproof.suites.api.amqp10 import AmqpPeer, Link, Node, frame
from brokerproof.suites.steps.traces import frames_received

CREDIT = "ARTEMIS-FLOW-amqp-1"
FULL = "ARTEMIS-FLOW-amqp-2"
OVERSHOOT = "ARTEMIS-FLOW-amqp-3"
REFUSED = "ARTEMIS-FLOW-amqp-4"
BODY = bytes(5000)
"""Bytes of each message to an address that should fill up quickly."""


def limits(target: Bench, acceptor: str) -> tuple[int, int]:
    """amqpCredits and amqpLowCredits of an acceptor."""
    parameters = target.parameters(acceptor)
    return int(str(parameters["amqp_credits"])), int(str(parameters["amqp_low_credits"]))


def small(target: Target) -> st.SearchStrategy[Where]:
    """Acceptors with a stated credit, a fixture's or a drawn one: from always full to never low."""
    fixed = st.just(Where("amqp-credits-10"))
    if RECONFIGURABLE not in target.identity.capabilities:
        return fixed
    numbers = st.integers(1, 20).flatmap(
        lambda most: st.tuples(st.just(most), st.integers(0, most - 1))
    )
    drawn = numbers.map(
        lambda both: Where(
            "amqp", {"acceptor": {"amqp_credits": both[0], "amqp_low_credits": both[1]}}
        )
    )
    return st.one_of(fixed, drawn)


def told(target: Bench, peer: AmqpPeer) -> list[int]:
    """The link-credit of every flow of the broker for a link, in order."""
    flows = [dict(event.headers) for event in frames_received(target, peer, "flow")]
    return [int(flow["link-credit"]) for flow in flows if "link-credit" in flow]


def producer(target: Bench, acceptor: str, node: Node | None = None) -> tuple[AmqpPeer, Link]:
    """A sender on this acceptor, once the broker has answered the attach."""
    peer = target.amqp(acceptor=acceptor)
    return peer, peer.sender(node or target.node())


def _has_credit(link: Link, above: int = 0) -> Callable[[], bool]:
    return lambda: link.credit > above


@case(CREDIT, needs={"amqp", "amqp-credit"})
def test_a_producer_gets_the_documented_credit(target: Bench) -> None:
    """On an acceptor without credit settings, the first flow grants the amqpCredits of the
    manual."""
    most, _ = limits(target, "amqp")
    peer, link = producer(target, "amqp")
    first = peer.expect(frame("flow", link=link), proves=CREDIT)
    given = first.get("link-credit")
    detail = f"the first flow grants {given} credits; {most} are documented"
    target.record_finding(CREDIT, given == most, detail)


@case(CREDIT, needs={"amqp", "amqp-credit"})
@over(examples=40, where=small, rounds=st.integers(1, 3), settled=st.booleans())
def test_credit_is_filled_up_at_the_low_mark(
    target: Bench, where: Where, rounds: int, settled: bool
) -> None:
    """A producer sends one message at a time, and each costs one credit. At amqpLowCredits, not
    before, a flow restores the credit to amqpCredits."""
    most, low = limits(target, where.acceptor)
    peer, link = producer(target, where.acceptor)
    granted(target, peer, link)
    detail = f"the producer got {link.credit} credits; expected {most}"
    target.record_finding(CREDIT, link.credit == most, detail)
    for _ in range(rounds):
        for left in range(most - 1, low - 1, -1):
            peer.publish(link, b"paced", settled=settled)
            peer.settle()
            if left > low:
                words = f"{link.credit} credits are left; expected {left} of {most}"
                target.require(CREDIT, link.credit == left, words)
        target.wait_until(lambda: link.credit == most or peer.ended is not None, PATIENCE)
        detail = (
            f"with {low} credits left, flows raised them to {link.credit}; expected {most};"
            f" {peer.instead()}"
        )
        target.require(CREDIT, link.credit == most, detail)
    surplus = [credit for credit in told(target, peer) if credit > most]
    detail = f"flows granted up to {max(told(target, peer))} credits of {most}"
    target.record_finding(CREDIT, not surplus, detail)


@case(CREDIT, needs={"amqp", "amqp-credit", RECONFIGURABLE})
@over(
    examples=12,
    always=lambda target: [{"where": Where("amqp-credits-10"), "aborted": 3}],
    where=small,
    aborted=st.integers(1, 25),
)
def test_deliveries_that_are_aborted_cost_no_credit_for_good(
    target: Bench, where: Where, aborted: int
) -> None:
    """A producer aborts deliveries, then sends one message at a time down to amqpLowCredits. A flow
    restores its credit to amqpCredits, as if it had aborted none."""
    most, low = limits(target, where.acceptor)
    peer, link = producer(target, where.acceptor)
    for _ in range(aborted):
        granted(target, peer, link)
        peer.transfer(link, b"begun", more=True)
        peer.transfer(link, b"", aborted=True)
        peer.settle()
    granted(target, peer, link)
    for _ in range(2 * most):
        if link.credit <= low:
            break
        peer.publish(link, b"paced")
        peer.settle()
        if link.credit == most:
            break
    target.wait_until(lambda: link.credit == most or peer.ended is not None, PATIENCE)
    detail = (
        f"after {aborted} aborted deliveries and paced messages, there are {link.credit} credits;"
        f" expected {most}; {peer.instead()}"
    )
    target.record_finding(CREDIT, link.credit == most, detail)


@case(CREDIT, needs={"amqp", "amqp-credit"})
@over(
    examples=40,
    where=small,
    bursts=st.lists(st.tuples(st.integers(1, 25), st.booleans()), min_size=1, max_size=6),
)
def test_no_more_credit_is_outstanding_than_was_said(
    target: Bench, where: Where, bursts: list[tuple[int, bool]]
) -> None:
    """A producer sends bursts of settled and unsettled messages. Its credit never exceeds
    amqpCredits. Once the broker has answered everything, the credit exceeds amqpLowCredits."""
    most, low = limits(target, where.acceptor)
    peer, link = producer(target, where.acceptor)
    for size, settled in bursts:
        granted(target, peer, link)
        waiting = [
            peer.post(link, b"burst", settled=settled) for _ in range(min(size, link.credit))
        ]
        for delivery_id in [] if settled else waiting:
            peer.confirmed(link.session, delivery_id)
        target.wait_until(lambda: link.credit > low or peer.ended is not None, PATIENCE)
        detail = (
            f"after {len(waiting)} answered messages, the link has {link.credit} credits; the low"
            f" mark is {low} of {most}"
        )
        target.require(CREDIT, low < link.credit <= most, detail)
    peer.settle()
    words = f"flows granted up to {max(told(target, peer))} of {most} credits"
    target.record_finding(CREDIT, max(told(target, peer)) <= most, words)


@case(CREDIT, needs={"amqp", "amqp-credit"})
@over(examples=20, sizes=st.lists(st.sampled_from([0, 1, 1000, 20_000]), min_size=7, max_size=7))
def test_a_credit_is_a_message_of_any_size(target: Bench, sizes: list[int]) -> None:
    """A producer sends messages of different sizes in one frame or many. Each costs one credit."""
    most, low = limits(target, "amqp-credits-10")
    peer = target.amqp(acceptor="amqp-credits-10", max_frame_size=512)
    link = ready_sender(target, peer, target.node(), most)
    for number, size in enumerate(sizes[: most - low - 1], 1):
        peer.publish(link, bytes(size))
        peer.settle()
        words = f"{number} messages were sent; {link.credit} of {most} credits are left"
        target.require(CREDIT, link.credit == most - number, words)


def full(target: Bench, kind: str = "block") -> Node:
    """A new queue of an address with a small limit."""
    node = target.node()
    return Node(f"{target.full_address(kind)}{node.address}", node.capabilities)


@case(FULL, OVERSHOOT, needs={"amqp", "amqp-credit", "address-full"})
@over(
    examples=3,
    always=lambda target: [{"late": False, "unused": 1}],
    late=st.booleans(),
    unused=st.integers(0, 3),
)
def test_a_full_address_gives_no_credit_until_there_is_room(
    target: Bench, late: bool, unused: int
) -> None:
    """Large messages fill an address under BLOCK before the credit is used up. All messages that
    the credit allows are accepted, and no producer gets more credit until a consumer makes room.
    Unused credit then counts."""
    node = full(target)
    most, low = limits(target, "amqp-credits-10")
    unused = min(unused, low)
    sent = most - unused
    peer, link = producer(target, "amqp-credits-10", node)
    granted(target, peer, link, most)
    for _ in range(sent):
        peer.publish(link, BODY, proves=OVERSHOOT)
    peer.settle()
    peer.inbox.clear()
    peer.expect_nothing(
        for_=QUIET, of=frame("flow", link=link), proves=FULL, why="the address is full"
    )
    words = f"while the address is full, the link has {link.credit} credits; expected {unused}"
    target.record_finding(FULL, link.credit == unused, words)
    other, second = producer(target, "amqp-credits-10", node) if late else (peer, link)
    if late:
        other.expect_nothing(
            for_=QUIET, of=frame("flow", link=second), proves=FULL, why="the address is full"
        )
    consumer = target.amqp()
    taking = consumer.receiver(node, credit=most)
    got = collect(target, consumer, taking, sent, quiet=0)
    detail = f"{len(got)} of {sent} messages that were accepted arrived"
    target.record_finding(OVERSHOOT, len(got) == sent, detail)
    for delivery in got:
        consumer.disposition(delivery)
    consumer.settle()
    for whose, who in ((peer, link), (other, second)):
        target.wait_until(_has_credit(who, unused if who is link else 0), PATIENCE)
        words = f"once there was room again, {who.credit} credits arrived; {whose.instead()}"
        target.record_finding(FULL, 0 < who.credit <= most, words)


@case(REFUSED, needs={"amqp", "amqp-credit", "address-full"})
def test_messages_are_rejected_above_the_threshold(target: Bench) -> None:
    """With max-size-bytes-reject-threshold 40960, messages of 5000 bytes are accepted below it and
    rejected with resource-limit-exceeded soon after."""
    node = full(target, "reject")
    peer, link = producer(target, "amqp", node)
    states: list[str | None] = []
    while len(states) < 12 and "rejected" not in states:
        granted(target, peer, link)
        result = peer.confirmed(link.session, peer.post(link, BODY), None)
        states.append(result.kind("state"))
        if states[-1] == "rejected":
            condition = result.part("state").get("error")
            words = f"rejected with {shown(condition)}"
            target.record_finding(REFUSED, "resource-limit-exceeded" in str(condition), words)
    taken = states.count("accepted")
    detail = f"messages of 5000 bytes were {', '.join(map(str, states))}"
    target.record_finding(REFUSED, states[-1] == "rejected" and taken >= 5, detail)


@case(CREDIT, needs={"amqp", "amqp-credit", "address-full"})
def test_a_producer_that_was_rejected_gets_credit_again(target: Bench) -> None:
    """A producer uses up its credit at a full address under FAIL. Once a consumer has consumed all
    messages, the producer gets credit and its message is accepted."""
    most, _ = limits(target, "amqp-credits-10")
    node = full(target, "fail")
    peer, link = producer(target, "amqp-credits-10", node)
    granted(target, peer, link)
    states: list[str | None] = []
    while link.credit > 0 and len(states) < 3 * most:
        states.append(peer.confirmed(link.session, peer.post(link, BODY), None).kind("state"))
        target.wait_until(lambda: link.credit > 0 or peer.ended is not None, QUIET)
    accepted, rejected = states.count("accepted"), states.count("rejected")
    detail = f"the address is full under FAIL; the messages were {', '.join(map(str, states))}"
    target.control(accepted > 0 and rejected > 0, detail)
    consumer = target.amqp()
    taking = consumer.receiver(node, credit=accepted)
    got = collect(target, consumer, taking, accepted)
    target.control(len(got) == accepted, f"{len(got)} of {accepted} accepted messages arrived")
    for delivery in got:
        consumer.disposition(delivery)
    consumer.settle()
    target.wait_until(lambda: link.credit > 0 or peer.ended is not None, PATIENCE)
    words = f"{accepted} messages were accepted, {rejected} rejected, and all were consumed"
    detail = f"{words}; then {link.credit} credits arrived; {peer.instead()}"
    target.require(CREDIT, link.credit > 0, detail)
    state = peer.confirmed(link.session, peer.post(link, BODY), None).kind("state")
    target.record_finding(CREDIT, state == "accepted", f"{words}: the next one was {state}")
