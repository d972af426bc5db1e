"""Steps of AMQP 1.0 transactions: declare, discharge, and work under a transaction's id."""

from dataclasses import dataclass

from brokerproof.harness.protocols.amqp10 import codec, messages
from brokerproof.harness.protocols.amqp10.habits import Habits
from brokerproof.suites.amqp10.steps import QUIET, bodies, collect, granted
from brokerproof.suites.api import PATIENCE, Bench
from brokerproof.suites.api.amqp10 import (
    SENDER,
    AmqpPeer,
    Delivery,
    Described,
    Frame,
    Link,
    Node,
    either,
    frame,
)

OUTCOMES = ["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"]
BEHIND = b"behind all others"
SEEN_AGAIN = {"amqp", "amqp-transactions", "amqp-redelivery"}
"""Needed to look into a queue: receive its messages unsettled, then return them."""
TROUBLE = either(frame("detach"), frame("end"), frame("close"))


@dataclass(frozen=True)
class Control:
    target: Bench
    peer: AmqpPeer
    link: Link

    def say(self, what: str, *, settled: bool = False, pieces: int = 1, **fields: object) -> int:
        """Send a declare or discharge in ``pieces`` transfers; return its delivery-id."""
        granted(self.target, self.peer, self.link)
        payload = messages.message(codec.composite(what, fields))
        *parts, last = Habits(pieces=pieces).cut(payload, len(payload))
        for part in parts:
            self.peer.transfer(self.link, part, settled=settled or None, more=True)
            self.target.advance(QUIET)  # it is read before the next
        return self.peer.transfer(self.link, last, settled=settled or None)

    def answered(self, delivery: int, proves: str | tuple[str, ...] | None = None) -> Frame:
        """The disposition that settles the delivery, in whatever state."""
        return self.peer.confirmed(self.link.session, delivery, None, proves=proves)

    def await_answer(self, delivery: int) -> None:
        """Wait until this delivery is settled or something has ended."""
        self.target.wait_until(
            lambda: (
                self.link.session.outcomes.get(delivery) is not None
                or self.peer.ended is not None
                or any(map(TROUBLE.accepts, self.peer.inbox))
            ),
            PATIENCE,
        )

    def declare(self) -> bytes:
        """Declare a transaction and return its id. Control: the broker declares it."""
        answer = self.answered(self.say("declare"))
        self.target.control(
            answer.kind("state") == "declared", f"a declare was answered with {answer.brief()}"
        )
        return bytes(answer.part("state")["txn-id"])

    def discharge(self, id: bytes, fail: bool) -> Frame:
        """Commit or roll back. Control: the broker accepts the discharge."""
        answer = self.answered(self.say("discharge", txn_id=id, fail=fail))
        self.target.control(
            answer.kind("state") == "accepted", f"a discharge was answered with {answer.brief()}"
        )
        return answer


def control(target: Bench, peer: AmqpPeer, channel: int = 0) -> Control:
    """Return a control link, on a new session if ``channel`` is given."""
    source, to = codec.composite("source", {"outcomes": OUTCOMES}), codec.composite("coordinator")
    session = peer.begin(channel) if channel else peer.session
    return Control(target, peer, peer.attach(SENDER, session=session, source=source, target=to))


def within(id: bytes, outcome: str | Described | None = None) -> Described:
    state = codec.composite(outcome) if isinstance(outcome, str) else outcome
    return codec.composite("transactional-state", {"txn-id": id, "outcome": state})


def post(
    target: Bench, peer: AmqpPeer, link: Link, id: bytes, body: bytes, *, settled: bool = False
) -> int:
    granted(target, peer, link)
    return peer.transfer(link, messages.message(body), state=within(id), settled=settled or None)


def waiting(target: Bench, node: Node, count: int) -> list[bytes]:
    """Return the messages of a queue that another connection can receive, and release them.

    If none is expected, send one more message: it distinguishes an empty queue from a slow broker.
    """
    other = target.amqp()
    if not count:
        other.publish(other.sender(node), BEHIND)
    got = collect(target, other, other.receiver(node, credit=count + 10), max(count, 1))
    for body, delivery in zip(bodies(got), got, strict=True):
        other.disposition(delivery, "accepted" if body == BEHIND else "released")
    other.close()
    detail = f"{BEHIND.decode()} was accepted and could not be received"
    target.control(count > 0 or BEHIND in bodies(got), detail)
    return [body for body in bodies(got) if body != BEHIND]


def disposition_of(peer: AmqpPeer, link: Link, delivery: int) -> Frame | None:
    """Return the first disposition about one of the client's deliveries, settled or not, and keep
    it in the inbox."""

    def names(reply: Frame) -> bool:
        if (
            reply.name != "disposition"
            or reply.channel != link.session.theirs
            or not reply.get("role")
        ):
            return False
        first = int(reply["first"])
        return (delivery - first) % 2**32 <= (int(reply.get("last", first)) - first) % 2**32

    peer.world.wait_until(
        lambda: peer.ended is not None or any(names(reply) for reply in peer.inbox),
        peer.world.now() + PATIENCE,
    )
    return next((reply for reply in peer.inbox if names(reply)), None)


def holding(target: Bench, node: Node, count: int) -> tuple[AmqpPeer, Link, list[Delivery]]:
    peer = target.amqp()
    link = peer.receiver(node, credit=count)
    got = collect(target, peer, link, count, quiet=0)
    target.control(len(got) == count, f"{len(got)} of {count} messages arrived; {peer.instead()}")
    return peer, link, got


def is_rejected(peer: AmqpPeer, link: Link, delivery: int) -> bool:
    outcome_frame = link.session.outcomes.get(delivery)
    if outcome_frame is None:
        return False
    outcome = outcome_frame.part("state").get("outcome")
    return outcome_frame.kind("state") == "rejected" or "rejected" in str(outcome)


def plain_id(state: dict[str, object]) -> bytes | None:
    txn_id = state.get("txn-id")
    return txn_id if isinstance(txn_id, bytes) else None
