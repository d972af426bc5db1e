"""A broker that is already running, reached at its endpoints; the harness does not start, stop or
configure it."""

import dataclasses
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from brokerproof.harness.catalogue import capabilities
from brokerproof.harness.model.broker_io import LimitsSet
from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.protocols.amqp091 import extensions
from brokerproof.harness.targets import full_addresses
from brokerproof.harness.targets.endpoint import Endpoint
from brokerproof.harness.targets.external import detection, dialogue, queues
from brokerproof.harness.targets.external.dialogue import Deadline, NotSpoken
from brokerproof.harness.targets.external.greeting import FAMILIES, Credentials, Greeting
from brokerproof.harness.targets.external.listening_process import listening_process
from brokerproof.harness.targets.external.rabbitmqctl import Rabbitmqctl
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.full_addresses import SHIPPED, FullAddresses
from brokerproof.harness.targets.rabbitmq.target import NATIVE_AMQP
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.targets.target import Identity, Parameters, TargetFacts, host_of_amqp091
from brokerproof.harness.worlds.world import World

_PROTOCOLS = {"stomp": "STOMP", "amqp": "AMQP", "http": "HTTP", "core": "CORE", "ws": "WEBSOCKET"}
"""Protocols, as an acceptor's parameters name them."""
_EXTENSIONS: Mapping[str, Mapping[str, str]] = {
    "amqp": {"ANONYMOUS-RELAY": "amqp-anonymous"},
    "amqp091": extensions.ANNOUNCED,
}
"""The capability for each announced extension, by protocol and name."""
_ALARMS = frozenset({"alarms", "memory-paging", "amqp-alarm-window", "connection-flow"})
"""Capabilities of a target on which alarms can be raised."""


@dataclass(frozen=True, slots=True)
class Discovered:
    """The broker's own name and release (empty if it gives none), and the sentence that says by
    which rules it is judged (empty if the user stated them)."""

    broker: str
    version: str
    judged_as: str


class AddressTarget(SocketTarget):
    """The broker at ``endpoints``, which are by name.

    ``acceptors`` are parameters by endpoint name; ``release`` is the release of a broker that names
    none; ``rabbitmqctl`` is the command that raises alarms; ``queue_type`` is the type of the
    queues that must exist before they are used. ``local``: see :attr:`is_local`. ``as_family``
    makes a target of a shipped target's family at the same endpoints; None if the user stated a
    family or stated that there is none. ``is_stranger``: only the address is known.
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
        as_family: "Callable[[str], AddressTarget] | None" = None,
        is_stranger: bool = False,
    ) -> None:
        super().__init__(_narrowed(identity, endpoints, bool(rabbitmqctl)), config)
        # The named addresses determine which address-related capabilities the target has.
        everything = dataclasses.replace(identity, addresses=SHIPPED)
        self._possible = _narrowed(everything, endpoints, bool(rabbitmqctl)).capabilities
        self._given = dict(endpoints)
        self.is_local = local
        self._acceptors = acceptors or {}
        self._release = release
        self._control = Rabbitmqctl(rabbitmqctl)
        self._queue_type = queue_type
        self._as_family = as_family
        self.is_stranger = is_stranger
        self._given_up: dict[str, str] = {}
        """Protocols that the broker does not speak, each with the evidence."""
        self.declares = False
        """True if a queue must exist before an AMQP 1.0 link attaches to it."""
        self.tls = {
            name: endpoint.tls for name, endpoint in endpoints.items() if endpoint.tls is not None
        }

    def start(self, folder: Path) -> TargetFacts:
        found = self.discover()
        self.identity = dataclasses.replace(self.identity, tag=f"-{secrets.token_hex(2)}")
        self.endpoints = {
            name: (endpoint.host, endpoint.port) for name, endpoint in self._given.items()
        }
        first = next(iter(self._given.values()))
        self.watch_again()
        return TargetFacts(
            broker=found.broker or "unknown",
            version=found.version or "unknown",
            configuration="unknown" if self.config is None else self.config.name,
            endpoint=first.where,
            tls="; ".join(sorted({tls.words() for tls in self.tls.values()})),
            addresses=self.identity.addresses.settings(),
            judged_as=found.judged_as,
        )

    def watch_again(self) -> None:
        self.stop()
        first = next(iter(self._given.values()))
        self.watch_the_host(listening_process(first.host, first.port))

    def discover(self) -> Discovered:
        """Log in over each protocol that cases use, and adopt the family that the broker names. On
        failure, raises :class:`SetUpFailed` within seconds, whatever the broker does."""
        deadline = Deadline()
        for endpoint in self._given.values():
            dialogue.dial(endpoint, deadline).close()
        greetings = self._greetings(deadline)
        broker = next((greeted.broker for greeted in greetings if greeted.broker), "")
        version = next((greeted.version for greeted in greetings if greeted.version), "")
        version = version or self._release
        named = next((greeted for greeted in greetings if greeted.family), Greeting(""))
        judged_as = ""
        if self._as_family is not None and named.family:
            self._adopt(self._as_family(named.like))
            judged_as = (
                f"judged as {FAMILIES[named.family]} {version}".rstrip()
                + ", as it identifies itself; `--like none` judges by the specifications alone"
            )
        elif self.is_stranger:
            name = f"; its name is {broker} {version}".rstrip() if broker else ""
            judged_as = f"judged by the specifications alone{name}"
        self.identity = self.identity.of_release(self.identity.bound_release(broker, version))
        self._offer(greetings)
        self._log_in_as(greetings)
        self.declares = (
            "declared_node" in self.identity.profile.parameters
            and _major(version) >= NATIVE_AMQP
            and any(greeted.protocol == "amqp091" for greeted in greetings)
        )
        return Discovered(broker, version, judged_as)

    def _adopt(self, other: "AddressTarget") -> None:
        """Become a target of the broker's family at these endpoints, without the protocols that the
        broker does not speak."""
        self.identity = dataclasses.replace(other.identity, name=self.identity.name)
        for protocol, reason in self._given_up.items():
            self._give_up(protocol, reason)
        self.is_stranger, self._as_family = False, None
        self._possible = other._possible
        self._acceptors = other._acceptors
        self._queue_type = other._queue_type

    def _offer(self, greetings: Sequence[Greeting]) -> None:
        """Add the extensions that the broker announces, unless the target file denies them."""
        identity = self.identity
        known = identity.capabilities | identity.absent.keys()
        offered: set[str] = set()
        absent: dict[str, str] = {}
        for greeted in greetings:
            for name, capability in _EXTENSIONS.get(greeted.protocol, {}).items():
                if name in greeted.announced:
                    offered.add(capability)
                elif capability not in known:
                    absent[capability] = f"the broker does not announce {name}"
        announced = identity.capabilities | (offered - identity.absent.keys())
        self.identity = dataclasses.replace(identity, capabilities=announced).without(absent)

    def _log_in_as(self, greetings: Sequence[Greeting]) -> None:
        """Store the virtual hosts and the SASL mechanism that admitted us."""
        profile = self.identity.profile
        parameters = {f"{one.protocol}_host": one.host for one in greetings if one.host}
        parameters |= {f"{one.protocol}_sasl": one.sasl for one in greetings if one.sasl}
        self.identity = dataclasses.replace(
            self.identity,
            profile=dataclasses.replace(profile, parameters={**profile.parameters, **parameters}),
        )

    def _greetings(self, deadline: Deadline) -> list[Greeting]:
        """Return the properties that the broker announces over the protocols that cases use by
        default. Drop the capabilities of a protocol that an endpoint does not speak."""
        identity, credentials = self.identity, self._credentials()
        greetings: list[Greeting] = []
        stomp = self._given.get(identity.default_acceptor)
        if stomp is not None and stomp.protocol == "stomp":
            answers = detection.ask(stomp, ["stomp"], credentials, deadline)
            if answers.problems:
                raise answers.problems["stomp"]
            greetings += answers.spoken
        amqp = self._given.get(identity.default_amqp_acceptor)
        if amqp is None:
            return greetings
        protocols = {_protocol(name) for name in identity.capabilities} & {"amqp", "amqp091"}
        answers = detection.ask(amqp, sorted(protocols), credentials, deadline)
        for protocol, problem in answers.problems.items():
            if answers.spoken or isinstance(problem, NotSpoken):
                self._give_up(protocol, str(problem))
            elif not greetings:
                raise problem  # otherwise the run's probes find the reason
        if not answers.spoken and not greetings and protocols:
            raise SetUpFailed(f"{amqp.where} speaks neither AMQP 1.0 nor AMQP 0-9-1")
        return [*greetings, *answers.spoken]

    def use_addresses(self, addresses: FullAddresses, absent: Mapping[str, str]) -> None:
        """Adopt the addresses found since :meth:`start`; ``absent`` has capabilities that the
        target turned out to lack, with reasons."""
        by_address = addresses.capabilities & self._possible
        others = self.identity.capabilities - full_addresses.CAPABILITIES.keys()
        self.identity = dataclasses.replace(
            self.identity, addresses=addresses, capabilities=others | by_address
        ).without(absent)

    def _credentials(self) -> Credentials:
        identity = self.identity
        parameters = identity.profile.parameters
        hosts = (str(parameters.get("stomp_host", "localhost")), host_of_amqp091(parameters))
        return Credentials(identity.login, identity.passcode, *hosts)

    def _give_up(self, protocol: str, reason: str) -> None:
        self._given_up[protocol] = reason
        lost = [name for name in self.identity.capabilities if _protocol(name) == protocol]
        self.identity = self.identity.without(dict.fromkeys(lost, reason))

    def _unknown(self, name: str) -> Parameters:
        protocol = _PROTOCOLS.get(self._given[name].protocol, "OPENWIRE")
        if name == self.identity.default_acceptor:
            protocol = "STOMP"
        stated = {**self.identity.profile.parameters, **self._acceptors.get(name, {})}
        return {**stated, "protocols": protocol}

    @property
    def can_declare(self) -> bool:
        """True if the broker's AMQP 1.0 port also speaks 0-9-1, which can declare queues."""
        return "amqp091" in self.identity.capabilities

    def provide(self, name: str, routing: RoutingType) -> None:
        """Declare the queue ``name`` on brokers that require it."""
        if self.declares and routing is RoutingType.ANYCAST:
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
    """Return ``identity`` without capabilities that nobody configured: those of protocols that no
    endpoint speaks, those of endpoints and addresses that are not named, and those of our own
    fixtures."""
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
