"""A broker that is already running somewhere, reached by its endpoints: it is neither started,
stopped nor configured."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from brokerproof.harness.catalogue import capabilities
from brokerproof.harness.model.broker_io import LimitsSet
from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.targets import full_addresses
from brokerproof.harness.targets.endpoint import Endpoint
from brokerproof.harness.targets.external import dialogue, greeting, queues
from brokerproof.harness.targets.external.dialogue import NotSpoken
from brokerproof.harness.targets.external.greeting import Credentials, Greeting
from brokerproof.harness.targets.external.listening_process import listening_process
from brokerproof.harness.targets.external.rabbitmqctl import Rabbitmqctl
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.full_addresses import SHIPPED, FullAddresses
from brokerproof.harness.targets.rabbitmq.target import NATIVE_AMQP
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.targets.target import Identity, Parameters, TargetFacts
from brokerproof.harness.worlds.world import World

_PROTOCOLS = {"stomp": "STOMP", "amqp": "AMQP", "http": "HTTP", "core": "CORE", "ws": "WEBSOCKET"}
"""Protocols as an acceptor's parameters name them."""
_ALARMS = frozenset({"alarms", "memory-paging", "amqp-alarm-window", "connection-flow"})
"""Capabilities of a target that can be put under alarm."""


class AddressTarget(SocketTarget):
    """The broker behind ``endpoints``, by name.

    ``acceptors`` are parameters by the name of an endpoint, ``release`` is the broker's where it
    names none, ``rabbitmqctl`` the command by which alarms are raised, ``queue_type`` that of
    queues which have to be there before they are used. ``local``: see :attr:`is_local`.
    """

    def __init__(
        self,
        identity: Identity,
        endpoints: Mapping[str, Endpoint],
        config: Path | None = None,
        *,
        acceptors: Mapping[str, Parameters] | None = None,
        release: str = "",
        rabbitmqctl: Sequence[str] = (),
        queue_type: str = "classic",
        local: bool = False,
    ) -> None:
        super().__init__(_narrowed(identity, endpoints, bool(rabbitmqctl)), config)
        # Which of the capabilities of addresses it has is a matter of the addresses that are named.
        everything = dataclasses.replace(identity, addresses=SHIPPED)
        self._possible = _narrowed(everything, endpoints, bool(rabbitmqctl)).capabilities
        self._given = dict(endpoints)
        self.is_local = local
        self._acceptors = acceptors or {}
        self._release = release
        self._control = Rabbitmqctl(rabbitmqctl)
        self._queue_type = queue_type
        self._declares = False
        """True if a queue has to be there before an AMQP 1.0 link is."""
        self.tls = {
            name: endpoint.tls for name, endpoint in endpoints.items() if endpoint.tls is not None
        }

    def start(self, folder: Path) -> TargetFacts:
        for endpoint in self._given.values():
            dialogue.dial(endpoint).close()
        self.identity = dataclasses.replace(self.identity, tag=f"-{secrets.token_hex(2)}")
        greetings = self._greetings()
        self.endpoints = {
            name: (endpoint.host, endpoint.port) for name, endpoint in self._given.items()
        }
        broker = next((greeted.broker for greeted in greetings if greeted.broker), "")
        version = next((greeted.version for greeted in greetings if greeted.version), "")
        version = version or self._release
        self._declares = (
            "declared_node" in self.identity.profile.parameters
            and _major(version) >= NATIVE_AMQP
            and any(greeted.protocol == "amqp091" for greeted in greetings)
        )
        first = next(iter(self._given.values()))
        self.watch_the_host(listening_process(first.host, first.port))
        return TargetFacts(
            broker=broker or "unknown",
            version=version or "unknown",
            configuration="unknown" if self.config is None else self.config.name,
            endpoint=first.where,
            tls="; ".join(sorted({tls.words() for tls in self.tls.values()})),
            addresses=self.identity.addresses.settings(),
        )

    def _greetings(self) -> list[Greeting]:
        """Properties that the broker announces over the protocols that cases use by default.
        Capabilities of a protocol that an endpoint does not speak are given up."""
        identity, credentials = self.identity, self._credentials()
        greetings = []
        stomp = self._given.get(identity.default_acceptor)
        if stomp is not None and stomp.protocol == "stomp":
            greetings.append(greeting.stomp(stomp, credentials))
        amqp = self._given.get(identity.default_amqp_acceptor)
        if amqp is None:
            return greetings
        spoken = []
        for protocol, greet in (("amqp", greeting.amqp), ("amqp091", greeting.amqp091)):
            if not any(_protocol(name) == protocol for name in identity.capabilities):
                continue
            try:
                spoken.append(greet(amqp, credentials))
            except NotSpoken as problem:
                self._give_up(protocol, str(problem))
            except SetUpFailed:
                if not greetings:
                    raise  # otherwise the probes of the run find out what is wrong
        if not spoken and not greetings and self.identity.capabilities & identity.capabilities:
            raise SetUpFailed(f"{amqp.where} speaks neither AMQP 1.0 nor AMQP 0-9-1 with us")
        return [*greetings, *spoken]

    def use_addresses(self, addresses: FullAddresses, absent: Mapping[str, str]) -> None:
        """Take up what was found out about addresses since :meth:`start`; ``absent`` are
        capabilities that the target turned out not to have, and why."""
        identity = self.identity
        by_address = addresses.capabilities & self._possible
        kept = identity.capabilities - full_addresses.CAPABILITIES.keys() - absent.keys()
        self.identity = dataclasses.replace(
            identity,
            addresses=addresses,
            capabilities=kept | (by_address - absent.keys()),
            absent={**identity.absent, **absent},
        )

    def _credentials(self) -> Credentials:
        identity = self.identity
        host = str(identity.profile.parameters.get("stomp_host", "localhost"))
        return Credentials(identity.login, identity.passcode, host)

    def _give_up(self, protocol: str, reason: str) -> None:
        """Drop the capabilities of a protocol that the broker does not speak."""
        identity = self.identity
        lost = {name for name in identity.capabilities if _protocol(name) == protocol}
        self.identity = dataclasses.replace(
            identity,
            capabilities=identity.capabilities - lost,
            absent={**identity.absent, **dict.fromkeys(lost, reason)},
        )

    def _unknown(self, name: str) -> Parameters:
        protocol = _PROTOCOLS.get(self._given[name].protocol, "OPENWIRE")
        if name == self.identity.default_acceptor:
            protocol = "STOMP"
        stated = {**self.identity.profile.parameters, **self._acceptors.get(name, {})}
        return {**stated, "protocols": protocol}

    def provide(self, name: str, routing: RoutingType) -> None:
        """Declare the queue ``name`` on brokers that want it declared."""
        if self._declares and routing is RoutingType.ANYCAST:
            amqp = self._given[self.identity.default_amqp_acceptor]
            queues.declare(amqp, self._credentials(), name, self._queue_type)

    def raise_alarm(self, world: World, resource: str, node: str = "") -> None:
        self._control.raise_alarm(resource)

    def clear_alarm(self, world: World, resource: str, node: str = "") -> None:
        self._control.clear_alarm(resource)

    def set_limits(self, world: World, limits: LimitsSet) -> None:
        self._control.set_limits(limits)


def _major(version: str) -> int:
    first = version.partition(".")[0]
    return int(first) if first.isdecimal() else NATIVE_AMQP


def _protocol(name: str) -> str:
    known = capabilities.listed().get(name)
    return known.protocol if known else ""


def _narrowed(identity: Identity, endpoints: Mapping[str, Endpoint], has_control: bool) -> Identity:
    """``identity`` without what nobody configured: capabilities of protocols that no endpoint
    speaks, of endpoints and addresses that are not named, and of our own fixtures."""
    parameters = identity.profile.parameters
    spoken = {endpoint.protocol for endpoint in endpoints.values()}
    if identity.default_amqp_acceptor in endpoints:
        spoken.add("amqp091")
    else:
        spoken.discard("amqp")
    if identity.default_acceptor not in endpoints:
        spoken.discard("stomp")
    elif endpoints[identity.default_acceptor].protocol == "ws":
        spoken.add("stomp")
    elif "websocket-acceptors" in identity.capabilities:
        spoken.add("ws")
    carrier = parameters.get("websocket_acceptor")
    if carrier is not None and carrier not in endpoints:
        spoken.discard("ws")
    by_address = identity.addresses.capabilities
    has: set[str] = set()
    for name in identity.capabilities | by_address:
        known = capabilities.listed().get(name)
        unconfigured = known is not None and (
            known.ours
            or bool(known.protocol and known.protocol not in spoken)
            or bool(known.endpoints and not known.endpoints & endpoints.keys())
            or (name in full_addresses.CAPABILITIES and name not in by_address)
            or (name in _ALARMS and not has_control)
        )
        if not unconfigured:
            has.add(name)
    return dataclasses.replace(identity, capabilities=frozenset(has))
