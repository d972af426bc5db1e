"""Builds a plan, and the terms that all drivers share, from a target and the user's options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokerproof.harness.load.conductor import Terms
from brokerproof.harness.load.plan import KIB, BadPlan, Fault, Headers, Place, Plan, Sizes, roles
from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.model.time import NS_PER_S
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.targets.target import Identity, host_of_amqp091, sasl_of

PROTOCOL = "stomp"


@dataclass(frozen=True)
class LoadOptions:
    """Options of a load; see ``brokerproof load``. If ``connections`` is 0, each role has its
    own."""

    protocol: str = PROTOCOL
    producers: int = 4
    consumers: int = 4
    connections: int = 0
    queues: int = 2
    rate: int = 0
    sizes: Sizes = KIB
    ack: str = "client-individual"
    window: int = 0
    in_flight: int = 200
    messages: int = 0
    confirmed: bool = True
    faults: tuple[Fault, ...] = ()
    drivers: int = 1
    seed: int = 0


def plan(target: SocketTarget, wishes: LoadOptions, label: str) -> Plan:
    """Build the plan. Queue names contain ``label``, so the queues hold no other messages. Creates
    queues on brokers that require it. Raises :class:`BadPlan`."""
    identity = target.identity
    if wishes.producers + wishes.consumers == 0:
        raise BadPlan(
            "a load without producers and consumers does nothing; give it --producers or"
            " --consumers"
        )
    if wishes.protocol not in identity.capabilities:
        raise BadPlan(f"target {identity.name} does not speak {wishes.protocol}")
    names = [f"brokerproof.load.{label}.{number}" for number in range(wishes.queues)]
    lines = wishes.connections or wishes.producers + wishes.consumers
    producers, consumers = roles(
        wishes.producers, wishes.consumers, wishes.queues, lines, wishes.messages
    )
    if wishes.protocol == "amqp":
        for name in names:
            target.provide(name, RoutingType.ANYCAST)
    return Plan(
        protocol=wishes.protocol,
        acceptor=(
            identity.default_acceptor
            if wishes.protocol == "stomp"
            else identity.default_amqp_acceptor
        ),
        host=_host(identity, wishes.protocol),
        login=identity.login or "",
        passcode=identity.passcode or "",
        places=tuple(_place(identity, name, wishes.protocol) for name in names),
        producers=producers,
        consumers=consumers,
        lines=lines,
        sizes=wishes.sizes,
        interval=wishes.producers * NS_PER_S // wishes.rate if wishes.rate else 0,
        ack=wishes.ack,
        window=wishes.window,
        window_header=_window_header(identity),
        in_flight=wishes.in_flight,
        confirmed=wishes.confirmed,
        faults=wishes.faults,
        seed=wishes.seed,
        sasl=sasl_of(identity.profile.parameters, identity.login),
    )


def terms(target: SocketTarget, acceptor: str, record: Mapping[str, Any] | None) -> Terms:
    """Return the terms with the endpoints and TLS settings for the drivers. Raises :class:`BadPlan`
    for a target without that acceptor."""
    if acceptor not in target.endpoints:
        raise BadPlan(f"target {target.identity.name} has no acceptor {acceptor!r}")
    tls = {
        name: {
            "authority": None if tls.authority is None else str(tls.authority),
            "verify": tls.verify,
            "own": None if tls.own is None else str(tls.own),
            "certificates": None if tls.certificates is None else str(tls.certificates),
        }
        for name, tls in target.tls.items()
        if name == acceptor
    }
    return Terms({acceptor: target.endpoints[acceptor]}, tls, record)


def _host(identity: Identity, protocol: str) -> str:
    parameters = identity.profile.parameters
    return str(
        host_of_amqp091(parameters)
        if protocol == "amqp091"
        else parameters.get("stomp_host", "localhost")
    )


def _place(identity: Identity, name: str, protocol: str) -> Place:
    parameters = identity.profile.parameters
    if protocol == "amqp091":
        return Place(name)  # the clients of the queue declare it
    if protocol == "amqp":
        capabilities = tuple(str(parameters.get("anycast_node_capabilities", "")).split())
        return Place(
            str(parameters.get("anycast_node", "{name}")).format(name=name),
            capabilities=capabilities,
        )
    return Place(
        str(parameters.get("anycast_destination", "/queue/{name}")).format(name=name),
        _headers(str(parameters.get("anycast_send_headers", ""))),
        _headers(str(parameters.get("anycast_subscribe_headers", ""))),
    )


def _headers(text: str) -> Headers:
    pairs: Sequence[tuple[str, str, str]] = [
        part.partition(":") for part in text.split(";") if part
    ]
    return tuple((name, value) for name, _, value in pairs)


def _window_header(identity: Identity) -> str:
    """Return the SUBSCRIBE header that requests a window from this broker family; empty if the
    family has none."""
    parameters = identity.profile.parameters
    if "prefetch_header" in parameters:
        return str(parameters["prefetch_header"])
    return "consumer-window-size" if "stomp_consumer_window_size" in parameters else ""
