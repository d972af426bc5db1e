"""The address and routing type that a source or target names.

The routing type is given by a capability (``queue`` or ``topic``, as in JMS clients and Artemis),
or else by the acceptor's longest matching prefix, or else by the address itself (the router knows).
A prefix is always removed.
"""

from collections.abc import Iterable

from brokerproof.harness.model.enums import RoutingType
from brokerproof.reference_broker.kernel.family import BrokerFamily
from brokerproof.reference_broker.kernel.queue_and_topic_names import qualified
from brokerproof.reference_broker.protocols.amqp10 import refusal
from brokerproof.reference_broker.protocols.amqp10.refusal import Refusal
from brokerproof.reference_broker.settings.acceptor import Acceptor

CAPABILITIES = {
    "queue": RoutingType.ANYCAST,
    "temporary-queue": RoutingType.ANYCAST,
    "topic": RoutingType.MULTICAST,
    "temporary-topic": RoutingType.MULTICAST,
}


def wanted_routing(capabilities: Iterable[str]) -> RoutingType | None:
    """Return the routing type that one of ``capabilities`` requests, or None."""
    return next(
        (CAPABILITIES[capability] for capability in capabilities if capability in CAPABILITIES),
        None,
    )


def where(
    acceptor: Acceptor, family: BrokerFamily, name: str, capabilities: Iterable[str] = ()
) -> tuple[str, RoutingType | None]:
    """Return address and routing type of ``name``. Raises :class:`Refusal` for a mere prefix."""
    prefixes = [(prefix, RoutingType.ANYCAST) for prefix in acceptor.anycast_prefix]
    prefixes += [(prefix, RoutingType.MULTICAST) for prefix in acceptor.multicast_prefix]
    fitting = [prefix for prefix in prefixes if prefix[0] and name.startswith(prefix[0])]
    prefix, routing = max(fitting, key=lambda prefix: len(prefix[0]), default=("", None))
    if len(prefix) == len(name):
        raise Refusal(refusal.NOT_FOUND, f"address {refusal.shown(name)} has no name")
    requested = wanted_routing(capabilities)
    if family.qualified_names:
        routing = routing or requested or RoutingType.ANYCAST  # a qualified name wins
    else:
        routing = requested or routing
    return placed(family, name[len(prefix) :], routing), routing


def placed(family: BrokerFamily, name: str, routing: RoutingType | None) -> str:
    """Return the address of ``name``. Qualified names differ in their routing type."""
    return qualified(name, routing) if family.qualified_names else name


def dynamic_name(container: str, link: str, number: int) -> str:
    """Return a name for a dynamic node, which contains its owner's name (AMQP10-TERM-03)."""
    return f"dynamic.{container}.{link}.{number}"
