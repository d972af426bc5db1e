"""A bench's CORE (Artemis) and OpenWire (ActiveMQ) peers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from brokerproof.harness.cases.connections import Connections

if TYPE_CHECKING:
    from brokerproof.harness.protocols.core.raw_peer import CorePeer
    from brokerproof.harness.protocols.openwire.raw_peer import OpenWirePeer


class JavaBrokerPeers(Connections):
    """Makes peers for the brokers' own protocols: CORE (Artemis) and OpenWire (ActiveMQ)."""

    def core_peer(self, *, acceptor: str | None = None, **options: Any) -> CorePeer:
        """Open a connection for Artemis's CORE protocol and send nothing; ``options`` may state the
        ``version``."""
        from brokerproof.harness.protocols.core.raw_peer import CorePeer

        peer = CorePeer(self, self.next_connection(), acceptor or "core", **options)
        self._connect(peer)
        return peer

    def core(
        self, *, acceptor: str | None = None, version: int | None = None, **session: Any
    ) -> CorePeer:
        """Return a CORE peer with a started session; ``session`` has fields of create-session. A
        failure on the way there is a failed control, not a finding."""
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
        """Open an OpenWire connection and send nothing; the peer announces ``version`` later."""
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
        """Return a logged-in OpenWire peer with session 1; ``options`` are options of its
        WireFormatInfo. A failure on the way there is a failed control, not a finding."""
        peer = self.openwire_peer(acceptor=acceptor, version=version)
        identity = self.target.identity
        peer.negotiate(**options)
        peer.connect(identity.login, identity.passcode)
        peer.open_session()
        return peer
