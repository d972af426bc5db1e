"""Peers of a bench other than STOMP: AMQP 1.0, AMQP 0-9-1, CORE and OpenWire."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from brokerproof.harness.cases.connections import Connections
from brokerproof.harness.protocols.conversation import (
    Requirements,
)
from brokerproof.harness.worlds.tls import Certificate

if TYPE_CHECKING:
    from brokerproof.harness.clients.pika_client import PikaPeer
    from brokerproof.harness.clients.proton_blocking import BlockingPeer, ContainerPeer
    from brokerproof.harness.clients.proton_engine import ProtonPeer
    from brokerproof.harness.clients.rabbitmq_management_api import ManagementPeer
    from brokerproof.harness.clients.rhea import RheaPeer
    from brokerproof.harness.protocols.amqp091.raw_peer import Amqp091Peer
    from brokerproof.harness.protocols.amqp10.raw_peer import AmqpPeer
    from brokerproof.harness.protocols.core.raw_peer import CorePeer
    from brokerproof.harness.protocols.openwire.raw_peer import OpenWirePeer

Dials = TypeVar("Dials", "BlockingPeer", "ContainerPeer")


class AmqpPeers(Connections):
    """Makes AMQP 1.0 peers: raw ones and real clients."""

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

        peer = AmqpPeer(
            self,
            self.next_connection(),
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
        """An AMQP 1.0 peer that is logged in, has opened and (by default) begun a session on
        channel 0.

        ``open_fields`` are those of its open. That it gets so far is a control, not a finding.
        """
        peer = self.amqp_peer(acceptor=acceptor)
        if sasl:
            peer.authenticate(self.target.identity.login, self.target.identity.passcode)
        peer.open(**open_fields)
        if begin:
            peer.begin()
        return peer

    def proton(
        self, *, acceptor: str | None = None, proves: Requirements | None = None, **options: Any
    ) -> ProtonPeer:
        """Proton's engine, connected; ``options`` as for its ``connect``."""
        from brokerproof.harness.clients.proton_engine import ProtonPeer

        identity = self.target.identity
        peer = ProtonPeer(self, self.next_connection(), acceptor or identity.default_amqp_acceptor)
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

    def _dialled(
        self, kind: Callable[..., Dials], acceptor: str | None, options: dict[str, Any]
    ) -> Dials:
        identity = self.target.identity
        self.example_record.wire.unkept = "proton has sockets of its own"
        peer = kind(self, self.next_connection(), acceptor or identity.default_amqp_acceptor)
        peer.connect(**{"login": identity.login, "passcode": identity.passcode, **options})
        return peer

    def rhea(
        self, *, acceptor: str | None = None, proves: Requirements | None = None, **options: Any
    ) -> RheaPeer:
        """rhea in a process of its own, connected; ``options`` are rhea's. Raises
        :class:`ControlFailed` without node."""
        from brokerproof.harness.clients.rhea import RheaPeer

        identity = self.target.identity
        self.example_record.wire.unkept = "rhea has a socket of its own"
        peer = RheaPeer(self, self.next_connection(), acceptor or identity.default_amqp_acceptor)
        known = {
            "login": identity.login,
            "passcode": identity.passcode,
            "container_id": self._container(),
        }
        peer.connect(proves=proves, **{**known, **options})
        return peer


class Amqp091Peers(Connections):
    """Makes AMQP 0-9-1 peers, raw ones and pika, and connections to RabbitMQ's management API."""

    def amqp091_peer(self, *, acceptor: str | None = None) -> Amqp091Peer:
        """An open connection for AMQP 0-9-1 on which nothing has been said. Raises
        :class:`ControlFailed` when refused."""
        from brokerproof.harness.protocols.amqp091.raw_peer import Amqp091Peer

        peer = Amqp091Peer(
            self, self.next_connection(), acceptor or self.target.identity.default_amqp_acceptor
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

    def pika(
        self, *, acceptor: str | None = None, proves: Requirements | None = None, **options: Any
    ) -> PikaPeer:
        """pika, connected; ``options`` as for its ``connect``."""
        from brokerproof.harness.clients.pika_client import PikaPeer

        identity = self.target.identity
        peer = PikaPeer(self, self.next_connection(), acceptor or identity.default_amqp_acceptor)
        self._connect(peer)
        peer.connect(identity.login, identity.passcode, proves=proves, **options)
        return peer

    def management(self, *, acceptor: str | None = None) -> ManagementPeer:
        """A connection to the management API, with the target's login. For targets with the
        capability "management-api"."""
        from brokerproof.harness.clients.rabbitmq_management_api import (  # needs h11
            ACCEPTOR,
            ManagementPeer,
        )

        def connect(peer: ManagementPeer) -> None:
            peer.conn = self.next_connection()
            self._connect(peer)

        identity = self.target.identity
        return ManagementPeer(
            self, acceptor or ACCEPTOR, identity.login or "", identity.passcode or "", connect
        )


class JavaBrokerPeers(Connections):
    """Makes peers for the brokers' own protocols: CORE (Artemis) and OpenWire (ActiveMQ)."""

    def core_peer(self, *, acceptor: str | None = None, **options: Any) -> CorePeer:
        """An open connection for Artemis's CORE protocol on which nothing has been said;
        ``options`` has its ``version``."""
        from brokerproof.harness.protocols.core.raw_peer import CorePeer

        peer = CorePeer(self, self.next_connection(), acceptor or "core", **options)
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

        options = {} if version is None else {"version": version}
        peer = OpenWirePeer(
            self, self.next_connection(), acceptor or "openwire", self._container(), **options
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
