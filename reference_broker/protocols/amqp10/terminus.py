"""What a source or target names: an address, and in which way it is used.

The way comes from a capability (``queue`` or ``topic``, as JMS clients and Artemis have it), else
from the acceptor's longest prefix that fits, else from the address itself (the router knows). A
prefix is taken off in any case.
"""

from __future__ import annotations

from collections.abc import Iterable

from brokerproof.harness.model.enums import RoutingType
from brokerproof.reference_broker.kernel.destinations import qualified
from brokerproof.reference_broker.kernel.family import BrokerFamily
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
    """The routing type that one of ``capabilities`` asks for, or None."""
    return next(
        (CAPABILITIES[capability] for capability in capabilities if capability in CAPABILITIES),
        None,
    )


def where(
    acceptor: Acceptor, family: BrokerFamily, name: str, capabilities: Iterable[str] = ()
) -> tuple[str, RoutingType | None]:
    """The address and the routing type that ``name`` stands for. Raises :class:`Refusal` if only a
    prefix is there."""
    prefixes = [(each, RoutingType.ANYCAST) for each in acceptor.anycast_prefix]
    prefixes += [(each, RoutingType.MULTICAST) for each in acceptor.multicast_prefix]
    fitting = [prefix for prefix in prefixes if prefix[0] and name.startswith(prefix[0])]
    prefix, routing = max(fitting, key=lambda each: len(each[0]), default=("", None))
    if len(prefix) == len(name):
        raise Refusal(refusal.NOT_FOUND, f"address {refusal.shown(name)} has no name")
    wanted = wanted_routing(capabilities)
    if family.qualified_names:
        routing = routing or wanted or RoutingType.ANYCAST  # a name that says what it is wins
    else:
        routing = wanted or routing
    return placed(family, name[len(prefix) :], routing), routing


def placed(family: BrokerFamily, name: str, routing: RoutingType | None) -> str:
    """The address of ``name``, where one of each routing type is another."""
    return qualified(name, routing) if family.qualified_names else name


def dynamic_name(container: str, link: str, number: int) -> str:
    """A name for a node made on request; it tells whose it is (AMQP10-TERM-03)."""
    return f"dynamic.{container}.{link}.{number}"
