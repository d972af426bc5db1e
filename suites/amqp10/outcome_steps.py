"""Steps for cases about outcomes: states, sources, and the deliveries left after a close."""

from brokerproof.harness.protocols.amqp10 import codec
from brokerproof.suites.amqp10.steps import barrier, collect, is_over
from brokerproof.suites.api import Bench, Target
from brokerproof.suites.api.amqp10 import AmqpPeer, Delivery, Described, Node, frame

OUTCOMES = ("accepted", "rejected", "released", "modified")
SYMBOLS = frozenset(f"amqp:{outcome}:list" for outcome in OUTCOMES)
RECEIVED = codec.composite("received", section_number=0, section_offset=0)
STATES = {
    "accepted": codec.composite("accepted"),
    "released": codec.composite("released"),
    "failed": codec.composite("modified", delivery_failed=True),
}


def failures(delivery: Delivery) -> int:
    """Return the delivery-count of the header; 0 if there is none."""
    return int(delivery.message.fields("header").get("delivery-count", 0))


def supported_states(target: Target) -> list[str]:
    """The names of the states that the target can be expected to apply."""
    capable = "amqp-modified" in target.identity.capabilities
    return [state for state in sorted(STATES) if capable or state != "failed"]


def after_close(target: Bench, peer: AmqpPeer, node: Node, count: int) -> list[Delivery]:
    """Return what another connection receives once ``peer`` has closed. By then all messages that
    ``peer`` released are available, whatever the broker did before."""
    if not is_over(peer) and barrier(peer) is None:
        peer.close(answered=False)
        peer.watch_for(frame("close"))  # An error may overtake it.
    other = target.amqp()
    return collect(target, other, other.receiver(node, credit=count + 10), count)


def source(node: Node, **fields: object) -> Described:
    """Return a source with the node's address and these fields."""
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    named |= {"address": node.address, "capabilities": node.capabilities or None}
    return codec.composite("source", named)
