"""Who a case lets speak with the target: peers, raw ones and real clients, and the places they
speak about."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from brokerproof.harness.cases.example_record import ExampleRecord
from brokerproof.harness.catalogue.profiles import Profile
from brokerproof.harness.model.enums import Clock, RoutingType
from brokerproof.harness.model.time import Instant
from brokerproof.harness.protocols.byte_log import LoggedChannel
from brokerproof.harness.protocols.conversation import (
    ControlFailed,
    Conversation,
    Judge,
    Requirements,
)
from brokerproof.harness.protocols.stomp.codec import HeadersLike, header_list
from brokerproof.harness.protocols.stomp.raw_peer import Destination, StompPeer
from brokerproof.harness.targets.target import Overrides, Parameters, Target
from brokerproof.harness.trace.events import ConnectionOpened, Noted
from brokerproof.harness.worlds.tls import Certificate
from brokerproof.harness.worlds.world import Channel, Unreachable

if TYPE_CHECKING:
    from brokerproof.harness.clients.pika_client import PikaPeer
    from brokerproof.harness.clients.proton_blocking import BlockingPeer, ContainerPeer
    from brokerproof.harness.clients.proton_engine import ProtonPeer
    from brokerproof.harness.clients.rabbitmq_management_api import ManagementPeer
    from brokerproof.harness.clients.rhea import RheaPeer
    from brokerproof.harness.clients.stompjs import StompJsPeer
    from brokerproof.harness.clients.stomppy_peer import StompPyPeer
    from brokerproof.harness.protocols.amqp091.raw_peer import Amqp091Peer
    from brokerproof.harness.protocols.amqp10.raw_peer import AmqpPeer, Node
    from brokerproof.harness.protocols.core.raw_peer import CorePeer
    from brokerproof.harness.protocols.openwire.raw_peer import OpenWirePeer
    from brokerproof.harness.protocols.websocket.raw_peer import WebSocketPeer

Dials = TypeVar("Dials", "BlockingPeer", "ContainerPeer")


class Peers(Judge):
    """The part of a bench that makes peers. ``label`` and ``seed`` are in the names of what they
    use."""

    target: Target
    overrides: Overrides | None
    example_record: ExampleRecord
    label: str
    seed: int
    _connections: int
    _names: int

    def now(self) -> Instant:
        """The current instant of this case's world."""
        return self.world.now()

    # facts about the target

    @property
    def profile(self) -> Profile:
        """What is expected of this family of brokers."""
        return self.target.identity.profile

    @property
    def capabilities(self) -> frozenset[str]:
        """What this target can do."""
        return self.target.identity.capabilities

    @property
    def virtual(self) -> bool:
        """Whether time jumps. A case may choose sizes by this, never what it expects."""
        return self.world.clock is Clock.VIRTUAL

    def parameters(self, acceptor: str | None = None) -> Parameters:
        """The effective parameters of an acceptor (default: the one that cases use by default)."""
        name = acceptor or self.target.identity.default_acceptor
        known = self.target.acceptors(self.overrides)
        if name not in known:
            raise ControlFailed(
                f"the target has no acceptor {name!r}; it has {', '.join(sorted(known))}"
            )
        return known[name]

    # peers

    def peer(
        self,
        version: str = "1.2",
        *,
        acceptor: str | None = None,
        over: WebSocketPeer | None = None,
        certificate: Certificate | None = None,
        plain: bool = False,
    ) -> StompPeer:
        """An open connection on which nothing has been said. Raises :class:`ControlFailed` when it
        is refused.

        ``over`` is a WebSocket that is open already, over which STOMP is spoken. ``certificate`` is
        what we show where there is TLS; ``plain`` leaves TLS out.
        """
        name = acceptor or self.target.identity.default_acceptor
        if over is not None:
            peer = StompPeer(self, over.conn, over.acceptor, version)
            peer.use(over.carry(peer))
            return peer
        self._connections += 1
        peer = StompPeer(self, self._connections, name, version)
        self._connect(peer, certificate, plain)
        return peer

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
                wire.unkept = f"a connection speaks {peer.protocol}, of which no octets are kept"
                channel = self.world.open(peer.acceptor, peer, certificate, plain=plain)
        except Unreachable as problem:
            raise ControlFailed(str(problem)) from None
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
            wire.unkept = "a connection was over TLS"
            self.record(Noted(at_ns=self.now(), conn=peer.conn, detail=channel.security))
        peer.use(channel)

    def connect_headers(self, version: str, extra: HeadersLike = ()) -> tuple[tuple[str, str], ...]:
        """What a well-behaved CONNECT says to this target; ``extra`` is added, or replaces what has
        the same name."""
        identity = self.target.identity
        headers: dict[str, str] = {}
        if version != "1.0":
            headers |= {
                "accept-version": version,
                "host": str(self.profile.parameters.get("stomp_host", "localhost")),
            }
        if identity.login is not None:
            headers |= {"login": identity.login, "passcode": identity.passcode or ""}
        return tuple((headers | dict(header_list(extra))).items())

    def stomp(
        self,
        version: str = "1.2",
        *,
        acceptor: str | None = None,
        heart_beat: str | None = None,
        headers: HeadersLike = (),
        over: WebSocketPeer | None = None,
        certificate: Certificate | None = None,
    ) -> StompPeer:
        """A connected STOMP peer. That it connects is a control, not a finding."""
        extra = header_list(headers)
        if heart_beat is not None:
            extra = (*extra, ("heart-beat", heart_beat))
        peer = self.peer(version, acceptor=acceptor, over=over, certificate=certificate)
        peer.connect(self.connect_headers(version, extra))
        return peer

    def websocket(self, *, acceptor: str | None = None, upgrade: bool = True) -> WebSocketPeer:
        """A WebSocket, open unless ``upgrade`` is False. That it is accepted is a control, not a
        finding."""
        from brokerproof.harness.protocols.websocket.raw_peer import WebSocketPeer

        self._connections += 1
        about = self.profile.parameters
        usual = str(about.get("websocket_acceptor", self.target.identity.default_acceptor))
        peer = WebSocketPeer(
            self, self._connections, acceptor or usual, str(about.get("websocket_path", "/"))
        )
        self._connect(peer)
        if upgrade:
            peer.upgrade()
        return peer

    def stomppy(
        self,
        version: str = "1.2",
        *,
        acceptor: str | None = None,
        heart_beat: tuple[int, int] = (0, 0),
        threads: bool | None = None,
        proves: Requirements | None = None,
    ) -> StompPyPeer:
        """stomp.py, connected: with its own threads and socket in real time, without in virtual
        time.

        ``heart_beat`` is in milliseconds; ``threads`` chooses otherwise where both forms are
        possible.
        """
        from brokerproof.harness.clients import stomppy  # only runs that use it pay for the library

        identity = self.target.identity
        self.example_record.wire.unkept = "stomp.py has sockets of its own"
        make = (
            stomppy.over_sockets
            if (not self.virtual if threads is None else threads)
            else stomppy.in_memory
        )
        self._connections += 1
        peer = make(
            self,
            self._connections,
            acceptor or identity.default_acceptor,
            version,
            heart_beat,
            str(self.profile.parameters.get("stomp_host", "localhost")),
        )
        peer.connect(login=identity.login, passcode=identity.passcode, proves=proves)
        return peer

    def stompjs(self, *, acceptor: str | None = None) -> StompJsPeer:
        """@stomp/stompjs in a browser of its own, not yet connected. Raises :class:`ControlFailed`
        without Chromium."""
        from brokerproof.harness.clients.stompjs import StompJsPeer

        self._connections += 1
        return StompJsPeer(
            self, self._connections, acceptor or self.target.identity.default_acceptor
        )

    def rhea(
        self, *, acceptor: str | None = None, proves: Requirements | None = None, **options: Any
    ) -> RheaPeer:
        """rhea in a process of its own, connected; ``options`` are rhea's. Raises
        :class:`ControlFailed` without node."""
        from brokerproof.harness.clients.rhea import RheaPeer

        identity = self.target.identity
        self.example_record.wire.unkept = "rhea has a socket of its own"
        self._connections += 1
        peer = RheaPeer(self, self._connections, acceptor or identity.default_amqp_acceptor)
        known = {
            "login": identity.login,
            "passcode": identity.passcode,
            "container_id": self._container(),
        }
        peer.connect(proves=proves, **{**known, **options})
        return peer

    def amqp_peer(
        self,
        *,
        acceptor: str | None = None,
        certificate: Certificate | None = None,
        plain: bool = False,
    ) -> AmqpPeer:
        """An open connection on which nothing has been said. Raises :class:`ControlFailed` when it
        is refused.

        ``certificate`` is what we show where there is TLS; ``plain`` leaves TLS out.
        """
        from brokerproof.harness.protocols.amqp10.raw_peer import AmqpPeer

        self._connections += 1
        peer = AmqpPeer(
            self,
            self._connections,
            acceptor or self.target.identity.default_amqp_acceptor,
            self._container(),
        )
        self._connect(peer, certificate, plain)
        return peer

    def amqp(
        self,
        *,
        acceptor: str | None = None,
        sasl: bool = True,
        begin: bool = True,
        **open_fields: Any,
    ) -> AmqpPeer:
        """An AMQP 1.0 peer that is logged in, has opened and (unless told otherwise) begun a
        session on channel 0.

        ``open_fields`` are those of its open. That it gets so far is a control, not a finding.
        """
        peer = self.amqp_peer(acceptor=acceptor)
        if sasl:
            peer.authenticate(self.target.identity.login, self.target.identity.passcode)
        peer.open(**open_fields)
        if begin:
            peer.begin()
        return peer

    def amqp091_peer(self, *, acceptor: str | None = None) -> Amqp091Peer:
        """An open connection for AMQP 0-9-1 on which nothing has been said. Raises
        :class:`ControlFailed` when refused."""
        from brokerproof.harness.protocols.amqp091.raw_peer import Amqp091Peer

        self._connections += 1
        peer = Amqp091Peer(
            self, self._connections, acceptor or self.target.identity.default_amqp_acceptor
        )
        self._connect(peer)
        return peer

    def amqp091(
        self, *, acceptor: str | None = None, channels: int = 1, **options: Any
    ) -> Amqp091Peer:
        """An AMQP 0-9-1 peer that is logged in, with channels 1 to ``channels`` open.

        ``options`` are for its tune-ok, and ``capabilities`` those of its client-properties. That
        it gets so far is a control, not a finding.
        """
        peer = self.amqp091_peer(acceptor=acceptor)
        identity = self.target.identity
        peer.start()
        peer.authenticate(
            identity.login, identity.passcode, capabilities=options.pop("capabilities", None)
        )
        peer.tune_ok(**options)
        peer.open()
        for channel in range(1, channels + 1):
            peer.open_channel(channel)
        return peer

    def management(self, *, acceptor: str | None = None) -> ManagementPeer:
        """A connection to the management API, with the target's login. For targets with the
        capability "management-api"."""
        from brokerproof.harness.clients.rabbitmq_management_api import (  # needs h11
            ACCEPTOR,
            ManagementPeer,
        )

        def connect(peer: ManagementPeer) -> None:
            self._connections += 1
            peer.conn = self._connections
            self._connect(peer)

        identity = self.target.identity
        return ManagementPeer(
            self, acceptor or ACCEPTOR, identity.login or "", identity.passcode or "", connect
        )

    def core_peer(self, *, acceptor: str | None = None, **options: Any) -> CorePeer:
        """An open connection for Artemis's CORE protocol on which nothing has been said;
        ``options`` has its ``version``."""
        from brokerproof.harness.protocols.core.raw_peer import CorePeer

        self._connections += 1
        peer = CorePeer(self, self._connections, acceptor or "core", **options)
        self._connect(peer)
        return peer

    def core(
        self, *, acceptor: str | None = None, version: int | None = None, **session: Any
    ) -> CorePeer:
        """A CORE peer with a session that is started. ``session`` are fields of its create-session.
        That it gets so far is a control, not a finding."""
        peer = self.core_peer(
            acceptor=acceptor, **({} if version is None else {"version": version})
        )
        identity = self.target.identity
        peer.magic()
        peer.create_session(identity.login, identity.passcode, name=self._container(), **session)
        peer.start()
        return peer

    def openwire_peer(
        self, *, acceptor: str | None = None, version: int | None = None
    ) -> OpenWirePeer:
        """An open connection for OpenWire on which we have said nothing; ``version`` is what we say
        that we speak."""
        from brokerproof.harness.protocols.openwire.raw_peer import OpenWirePeer

        self._connections += 1
        options = {} if version is None else {"version": version}
        peer = OpenWirePeer(
            self, self._connections, acceptor or "openwire", self._container(), **options
        )
        self._connect(peer)
        return peer

    def openwire(
        self, *, acceptor: str | None = None, version: int | None = None, **options: Any
    ) -> OpenWirePeer:
        """An OpenWire peer that is logged in and has session 1. ``options`` are those of its
        WireFormatInfo. That it gets so far is a control, not a finding."""
        peer = self.openwire_peer(acceptor=acceptor, version=version)
        identity = self.target.identity
        peer.negotiate(**options)
        peer.connect(identity.login, identity.passcode)
        peer.open_session()
        return peer

    def pika(
        self, *, acceptor: str | None = None, proves: Requirements | None = None, **options: Any
    ) -> PikaPeer:
        """pika, connected; ``options`` as for its ``connect``."""
        from brokerproof.harness.clients.pika_client import PikaPeer

        identity = self.target.identity
        self._connections += 1
        peer = PikaPeer(self, self._connections, acceptor or identity.default_amqp_acceptor)
        self._connect(peer)
        peer.connect(identity.login, identity.passcode, proves=proves, **options)
        return peer

    def proton(
        self, *, acceptor: str | None = None, proves: Requirements | None = None, **options: Any
    ) -> ProtonPeer:
        """Proton's engine, connected; ``options`` as for its ``connect``."""
        from brokerproof.harness.clients.proton_engine import ProtonPeer

        identity = self.target.identity
        self._connections += 1
        peer = ProtonPeer(self, self._connections, acceptor or identity.default_amqp_acceptor)
        self._connect(peer)
        known = {
            "login": identity.login,
            "passcode": identity.passcode,
            "container": self._container(),
        }
        peer.connect(proves=proves, **{**known, **options})
        return peer

    def proton_blocking(self, *, acceptor: str | None = None, **options: Any) -> BlockingPeer:
        """Proton's BlockingConnection, connected. Raises :class:`ControlFailed` in virtual time."""
        from brokerproof.harness.clients.proton_blocking import BlockingPeer

        return self._dialled(BlockingPeer, acceptor, options)

    def proton_container(self, *, acceptor: str | None = None, **options: Any) -> ContainerPeer:
        """Proton's Container in a thread of its own, connected. Raises :class:`ControlFailed` in
        virtual time."""
        from brokerproof.harness.clients.proton_blocking import ContainerPeer

        return self._dialled(ContainerPeer, acceptor, options)

    def _container(self) -> str:
        """A container-id for the connection that is being made."""
        return f"{self.label}-{self.seed:x}-{self._connections}"

    def _dialled(
        self, kind: Callable[..., Dials], acceptor: str | None, options: dict[str, Any]
    ) -> Dials:
        identity = self.target.identity
        self.example_record.wire.unkept = "proton has sockets of its own"
        self._connections += 1
        peer = kind(self, self._connections, acceptor or identity.default_amqp_acceptor)
        peer.connect(**{"login": identity.login, "passcode": identity.passcode, **options})
        return peer

    def node(self, routing: RoutingType = RoutingType.ANYCAST, *, name: str | None = None) -> Node:
        """An AMQP address nobody has used before, with the capabilities that tell this family of
        brokers its routing.

        With a ``name`` that is given to :meth:`destination` too, both mean the same.
        """
        from brokerproof.harness.protocols.amqp10.raw_peer import Node

        kind = routing.value.lower()
        about = self.profile.parameters
        capabilities = str(about.get(f"{kind}_node_capabilities", "")).split()
        name = name or self.fresh_name()
        self.target.provide(name, routing)
        return Node(str(about.get(f"{kind}_node", "{name}")).format(name=name), tuple(capabilities))

    def fresh_name(self) -> str:
        """A name for an address that nobody has used before."""
        self._names += 1
        return f"{self.label}-{self.seed:x}-{self._names}"

    def destination(
        self, routing: RoutingType = RoutingType.ANYCAST, *, name: str | None = None
    ) -> Destination:
        """A destination nobody has used before, with the headers by which this family of brokers
        learns its routing."""
        name = name or self.fresh_name()
        kind = routing.value.lower()
        about = self.profile.parameters
        template = str(about.get(f"{kind}_destination", "/queue/{name}"))
        return Destination(
            template.format(name=name),
            _headers(str(about.get(f"{kind}_send_headers", ""))),
            _headers(str(about.get(f"{kind}_subscribe_headers", ""))),
        )


def _headers(text: str) -> tuple[tuple[str, str], ...]:
    """``name:value`` pairs separated by semicolons, as profiles write them."""
    return tuple(
        (name, value)
        for name, _, value in (each.partition(":") for each in text.split(";") if each)
    )
