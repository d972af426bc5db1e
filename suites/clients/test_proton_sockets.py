"""Proton over its own sockets: ``BlockingConnection`` and ``Container``."""

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from brokerproof.harness.clients.proton_events import Arrived, ProtonEvent, event_named
from brokerproof.suites.amqp10.steps import QUIET, bodies, collect, fill, numbered
from brokerproof.suites.api import Bench, Match, case, listed, over
from brokerproof.suites.api.amqp10 import Node

if TYPE_CHECKING:
    from brokerproof.harness.clients.proton_sockets import ContainerPeer

BARE_MESSAGE = "AMQP10-MSG-02"
SETTLED = "AMQP10-XFER-14"
CLOSE_WRITTEN = "AMQP10-CLOSE-01"
RELEASED_AVAILABLE = "AMQP10-OUT-09"
ACCEPTED_NOT_RESENT = "AMQP10-TERM-08"
NO_TRANSFER_WITHOUT_CREDIT = "AMQP10-CREDIT-09"
DRAIN_ANSWERED = "AMQP10-CREDIT-12"
DRAIN_IS_PROMPT = "AMQP10-CREDIT-24"
POST_INVISIBLE_BEFORE_COMMIT = "AMQP10-TXN-06"
RETIRED_ON_COMMIT = "AMQP10-TXN-09"
KEPT_ON_ROLLBACK = "AMQP10-TXN-10"


def heard(*names: str) -> Match[ProtonEvent]:
    """Match a container callback with any of these names."""
    return Match(" or ".join(names), lambda event: event.name in names)


def encoded(message: Any) -> bytes:
    """Return the bytes of a Proton message with one data section. Its body is only a view of memory
    that is freed with the message."""
    return bytes(message.body)


def left(target: Bench, node: Node, count: int) -> list[bytes]:
    """Return the bodies that another connection receives; ``count`` are expected."""
    peer = target.amqp()
    return bodies(collect(target, peer, peer.receiver(node, credit=count + 5), count))


def received(target: Bench, peer: "ContainerPeer", node: Node, count: int) -> list[Arrived]:
    """Return the next messages of a receiver that has credit for them. Control: they arrive."""
    peer.receive(node.address, count, capabilities=node.capabilities)
    arrivals = [peer.expect(event_named("message")).subject for _ in range(count)]
    detail = f"{count} messages arrived"
    target.control(all(isinstance(arrival, Arrived) for arrival in arrivals), detail)
    return arrivals


@case(BARE_MESSAGE, SETTLED, CLOSE_WRITTEN, needs={"amqp", "sockets"})
@over(
    examples=3,
    sizes=st.lists(st.sampled_from([0, 1, 1000, 40_000, 200_000]), min_size=1, max_size=4),
)
def test_a_blocking_connection_sends_and_receives(target: Bench, sizes: list[int]) -> None:
    """A BlockingConnection sends messages and waits until each is accepted. Another receives them
    unchanged and in order and accepts them; both close."""
    node, peer, other = target.node(), target.proton_blocking(), target.proton_blocking()
    sender = peer.sender(node.address, capabilities=node.capabilities)
    most = (sender.link.remote_max_message_size or 2**20) - 100  # the overhead besides the body
    sent = [bytes([number]) * min(size, most) for number, size in enumerate(sizes)]
    for body in sent:
        peer.publish(sender, body, proves=SETTLED)
    receiver = other.receiver(node.address, credit=len(sent), capabilities=node.capabilities)
    for body in sent:
        payload = encoded(other.receive(receiver, proves=BARE_MESSAGE))
        detail = f"{len(body)} bytes were sent; {len(payload)} arrived"
        target.record_finding(BARE_MESSAGE, payload == body, detail)
        if receiver.fetcher.unsettled:  # a broker may send messages settled
            receiver.accept()
    for client in (peer, other):
        client.close(proves=CLOSE_WRITTEN)


@case(RELEASED_AVAILABLE, ACCEPTED_NOT_RESENT, needs={"amqp", "sockets", "amqp-redelivery"})
def test_what_a_blocking_connection_releases_comes_again(target: Bench) -> None:
    """A BlockingConnection releases one message and accepts another. Only the released one can be
    received again."""
    node = target.node()
    fill(target, node, [b"released", b"accepted"])
    peer = target.proton_blocking()
    receiver = peer.receiver(node.address, credit=2, capabilities=node.capabilities)
    target.control(
        encoded(peer.receive(receiver)) == b"released", "the first message should arrive first"
    )
    receiver.release(delivered=False)
    target.control(
        encoded(peer.receive(receiver)) == b"accepted", "the second message should arrive"
    )
    receiver.accept()
    peer.close()
    bodies_left = left(target, node, 1)
    detail = f"afterwards, the queue has {listed(bodies_left)}"
    target.record_finding(RELEASED_AVAILABLE, b"released" in bodies_left, detail)
    target.record_finding(ACCEPTED_NOT_RESENT, b"accepted" not in bodies_left, detail)


@case(NO_TRANSFER_WITHOUT_CREDIT, BARE_MESSAGE, SETTLED, needs={"amqp", "sockets"})
def test_a_container_sends_as_credit_allows_and_receives(target: Bench) -> None:
    """A Container sends 300 messages, more than its first credit; all are accepted. Another
    receives and accepts them in order, never more than its credit."""
    node, sent = target.node(), numbered(300, 100)
    peer, other = target.proton_container(), target.proton_container()
    peer.send_all(node.address, sent, capabilities=node.capabilities)
    for _ in sent:
        peer.expect(heard("accepted"), proves=SETTLED)
    other.receive(node.address, len(sent) - 1, capabilities=node.capabilities)
    arrived = []
    for _ in sent[:-1]:
        arrival = other.expect(event_named("message")).subject
        other.settle(arrival)  # ActiveMQ pages in at most 200 unsettled messages
        arrived.append(encoded(arrival.message))
    target.record_finding(
        BARE_MESSAGE,
        arrived == sent[:-1],
        f"{len(arrived)} of {len(sent) - 1} messages arrived,"
        f" {'' if arrived == sent[:-1] else 'not '}as they were sent",
    )
    target.advance(QUIET)
    late = [event.name for event in other.inbox if event.name == "message"]
    detail = f"beyond {len(sent) - 1} credits, the broker sent {late or 'nothing'}"
    target.record_finding(NO_TRANSFER_WITHOUT_CREDIT, not late, detail)


@case(DRAIN_ANSWERED, DRAIN_IS_PROMPT, needs={"amqp", "sockets"})
@over(examples=4, count=st.integers(0, 3), credit=st.integers(4, 8))
def test_a_container_drains(target: Bench, count: int, credit: int) -> None:
    """A Container drains a queue with fewer messages than its credit. It gets the messages, and the
    remaining credit is used up."""
    node = target.node()
    fill(target, node, numbered(count))
    peer = target.proton_container()
    peer.drain(node.address, credit, capabilities=node.capabilities)
    back = peer.expect(heard("drained"), proves=(DRAIN_ANSWERED, DRAIN_IS_PROMPT)).subject
    arrived = sum(event.name == "message" for event in peer.inbox)
    fine = arrived == count and back == credit - count
    detail = f"with {credit} credits for {count} messages, {arrived} arrived and {back} were left"
    target.record_finding((DRAIN_ANSWERED, DRAIN_IS_PROMPT), fine, detail)


@case(
    POST_INVISIBLE_BEFORE_COMMIT,
    RETIRED_ON_COMMIT,
    KEPT_ON_ROLLBACK,
    needs={"amqp", "sockets", "amqp-transactions"},
)
@over(
    always=lambda target: [{"commit": True, "count": 2}, {"commit": False, "count": 2}],
    examples=4,
    commit=st.booleans(),
    count=st.integers(1, 3),
)
def test_a_container_has_transactions(target: Bench, commit: bool, count: int) -> None:
    """In one transaction a Container sends messages and accepts others. After a commit the sent
    messages are in their queue and the accepted ones are consumed; after an abort the sent ones are
    gone and the accepted ones return."""
    there, back = target.node(), target.node()
    fill(target, back, numbered(count))
    peer = target.proton_container()
    taken = received(target, peer, back, count)
    sent = [b"posted %d" % number for number in range(count)]
    peer.transact(there.address, sent, taken, commit=commit, capabilities=there.capabilities)
    expected_event = "transaction_committed" if commit else "transaction_aborted"
    ends = heard(
        "transaction_committed",
        "transaction_aborted",
        "transaction_declare_failed",
        "transaction_commit_failed",
    )
    ended = peer.expect(ends, proves=POST_INVISIBLE_BEFORE_COMMIT)
    target.require(
        (POST_INVISIBLE_BEFORE_COMMIT, RETIRED_ON_COMMIT, KEPT_ON_ROLLBACK),
        ended.name == expected_event,
        f"the transaction ended as {ended.name}; expected {expected_event}",
    )
    peer.close_socket()
    posted = left(target, there, count if commit else 0)
    detail = f"after {expected_event}, the target has {listed(posted)}"
    target.record_finding(POST_INVISIBLE_BEFORE_COMMIT, posted == (sent if commit else []), detail)
    remaining = left(target, back, 0 if commit else count)
    expected = [] if commit else numbered(count)
    detail = (
        f"after {expected_event}, the source has {listed(remaining)}; expected {listed(expected)}"
    )
    target.record_finding(
        RETIRED_ON_COMMIT if commit else KEPT_ON_ROLLBACK, sorted(remaining) == expected, detail
    )
    target.record_not_applicable(
        KEPT_ON_ROLLBACK if commit else RETIRED_ON_COMMIT, f"the transaction ended as {ended.name}"
    )
