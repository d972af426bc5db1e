"""A case's connections to its target, and fresh addresses."""

from typing import TYPE_CHECKING, Any

from brokerproof.harness.cases.findings import CaseRecord
from brokerproof.harness.catalogue.profiles import Profile, Stated
from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.protocols.byte_log import LoggedChannel
from brokerproof.harness.protocols.conversation import (
    ControlFailed,
    Conversation,
    RecordedFaults,
    Symptom,
)
from brokerproof.harness.protocols.stomp.raw_peer import Destination, StompPeer
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.target import Overrides, Parameters
from brokerproof.harness.trace.events import ConnectionOpened, Noted
from brokerproof.harness.worlds.tls import Certificate
from brokerproof.harness.worlds.world import Channel, Unreachable

if TYPE_CHECKING:
    from brokerproof.harness.protocols.amqp10.raw_peer import Node


class Connections(CaseRecord):
    """The part of a bench that opens connections and creates address names.

    All names contain ``label`` and ``seed``."""

    overrides: Overrides | None
    label: str
    seed: int
    peers: list[Conversation[Any]]
    """Every connected peer, in order."""
    has_administered: bool = False
    """True if the case changed the broker's limits or resources, or used its management
    interface."""
    _connections: int = 0
    _names: int = 0

    @property
    def profile(self) -> Profile:
        """The parameters and semantics expected of this broker family."""
        return self.target.identity.profile

    @property
    def capabilities(self) -> frozenset[str]:
        return self.target.identity.capabilities

    def parameters(self, acceptor: str | None = None) -> Parameters:
        """The effective parameters of an acceptor (default: the acceptor that cases use)."""
        name = acceptor or self.target.identity.default_acceptor
        known = self.target.acceptors(self.overrides)
        if name not in known:
            raise ControlFailed(
                f"the target has no acceptor {name!r}; it has {', '.join(sorted(known))}; to run"
                f' the case, add it to the endpoints: {name} = "HOST:PORT"',
                Symptom.ABSENT,
            )
        return Stated(known[name])

    def full_address(self, kind: str) -> str:
        """Return the prefix of the names of addresses that have a low limit of that kind.

        ``kind`` is one of :data:`brokerproof.harness.targets.full_addresses.KINDS`. Raises
        :class:`ControlFailed` if that kind is not configured."""
        prefix = self.target.identity.addresses.prefix(kind)
        if prefix is None:
            first = kind.partition(".")[0]
            raise ControlFailed(
                f"the target has no addresses of the kind {first!r}; to run the case,"
                f" configure some and name their prefix in addresses.{first}",
                Symptom.ABSENT,
            )
        return prefix

    def require_capability(self, name: str) -> None:
        """Raise :class:`ControlFailed` if the target lacks the capability ``name``, which the rest
        of the case needs."""
        if lack := self.target.identity.lack_of({name}):
            raise ControlFailed(lack, Symptom.ABSENT)

    def require_offer(self, name: str) -> None:
        """Like :meth:`require_capability`, but accept a capability that is judged on a different
        target."""
        if name not in self.target.identity.judged_on:
            self.require_capability(name)

    def require_place(self, protocol: str, routing: RoutingType) -> None:
        """Raise :class:`ControlFailed` if no plain message passes through that kind of address."""
        if reason := self.target.identity.unmet.get(f"{protocol} {routing.value}"):
            raise ControlFailed(reason, Symptom.UNMET)

    def next_connection(self) -> int:
        self._connections += 1
        return self._connections

    def _connect(
        self, peer: Conversation[Any], certificate: Certificate | None = None, plain: bool = False
    ) -> None:
        wire = self.example_record.wire
        channel: Channel
        try:
            if isinstance(peer, StompPeer):
                wire.versions[peer.conn] = peer.version
                channel = LoggedChannel(
                    self.world, wire, peer.conn, peer.acceptor, peer, certificate, plain=plain
                )
            else:
                wire.unkept = f"a connection speaks {peer.protocol}, whose bytes are not recorded"
                channel = self.world.open(peer.acceptor, peer, certificate, plain=plain)
        except Unreachable as problem:
            self.parameters(peer.acceptor)  # raises if the target lacks the acceptor
            raise ControlFailed(str(problem), Symptom.UNREACHABLE) from None
        self.record(
            ConnectionOpened(
                at_ns=self.now(),
                conn=peer.conn,
                protocol=peer.protocol,
                acceptor=peer.acceptor,
                remote=channel.remote,
            )
        )
        if channel.security:
            wire.unkept = "a connection used TLS"
            self.record(Noted(at_ns=self.now(), conn=peer.conn, detail=channel.security))
        peer.use(RecordedFaults(channel, self.world, self, peer.conn))
        self.peers.append(peer)

    def _container(self) -> str:
        return self._own_name(self._connections)

    def _own_name(self, conn: int) -> str:
        """Return a name that no other connection to the broker uses."""
        return f"{self._prefix}-{conn}"

    @property
    def _prefix(self) -> str:
        return f"{self.label}-{self.seed:x}{self.target.identity.tag}"

    def node(
        self, routing: RoutingType = RoutingType.ANYCAST, *, name: str | None = None
    ) -> "Node":
        """Return a fresh AMQP address, and the capabilities that select its routing in this broker
        family.

        The same ``name`` given to :meth:`destination` yields the same address."""
        from brokerproof.harness.protocols.amqp10.raw_peer import Node

        self.require_place("amqp", routing)
        kind = routing.value.lower()
        parameters = self.profile.parameters
        capabilities = str(parameters.get(f"{kind}_node_capabilities", "")).split()
        name = name or self.fresh_name()
        try:
            self.target.provide(name, routing)
        except SetUpFailed as problem:  # not judged: a broker may create no queue here
            raise ControlFailed(str(problem)) from None
        return Node(
            str(parameters.get(f"{kind}_node", "{name}")).format(name=name), tuple(capabilities)
        )

    def fresh_name(self) -> str:
        self._names += 1
        return f"{self._prefix}-{self._names}"

    def destination(
        self, routing: RoutingType = RoutingType.ANYCAST, *, name: str | None = None
    ) -> Destination:
        """Return a fresh destination, and the headers that select its routing in this broker
        family."""
        self.require_place("stomp", routing)
        name = name or self.fresh_name()
        kind = routing.value.lower()
        parameters = self.profile.parameters
        template = str(parameters.get(f"{kind}_destination", "/queue/{name}"))
        return Destination(
            template.format(name=name),
            headers_of(str(parameters.get(f"{kind}_send_headers", ""))),
            headers_of(str(parameters.get(f"{kind}_subscribe_headers", ""))),
        )


def headers_of(text: str) -> tuple[tuple[str, str], ...]:
    """Parse ``name:value`` pairs separated by semicolons, as in profiles."""
    return tuple(
        (name, value)
        for name, _, value in (pair.partition(":") for pair in text.split(";") if pair)
    )
