"""A bench's STOMP peers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.harness.cases.connections import Connections
from brokerproof.harness.protocols.conversation import ControlFailed, Requirements, Symptom
from brokerproof.harness.protocols.stomp.codec import HeadersLike, header_list
from brokerproof.harness.protocols.stomp.raw_peer import StompPeer
from brokerproof.harness.worlds.tls import Certificate

if TYPE_CHECKING:
    from brokerproof.harness.clients.stompjs_in_chromium import StompJsPeer
    from brokerproof.harness.clients.stomppy_peer import StompPyPeer
    from brokerproof.harness.protocols.websocket.raw_peer import WebSocketPeer


class StompPeers(Connections):
    """Makes STOMP peers: raw, over WebSocket, and real clients."""

    def peer(
        self,
        version: str = "1.2",
        *,
        acceptor: str | None = None,
        over: WebSocketPeer | None = None,
        certificate: Certificate | None = None,
        plain: bool = False,
    ) -> StompPeer:
        """Open a connection and send nothing. Raises :class:`ControlFailed` if it is refused.
        ``over`` is an open WebSocket that carries STOMP, ``certificate`` the client's certificate
        for TLS; ``plain`` means no TLS."""
        name = acceptor or self.target.identity.default_acceptor
        if over is None and name in self.target.identity.websockets:
            over = self.websocket(acceptor=name)
        if over is not None:
            peer = StompPeer(self, over.conn, over.acceptor, version)
            peer.transaction = self._own_name(over.conn)
            peer.unmet = self.target.identity.unmet
            peer.use(over.carry(peer))
            self.peers.append(peer)
            return peer
        peer = StompPeer(self, self.next_connection(), name, version)
        peer.transaction = self._own_name(peer.conn)
        peer.unmet = self.target.identity.unmet
        self._connect(peer, certificate, plain)
        return peer

    def connect_headers(self, version: str, extra: HeadersLike = ()) -> tuple[tuple[str, str], ...]:
        """Return the headers of a well-behaved CONNECT to this target. ``extra`` headers are added
        or replace those of the same name."""
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
        """Connect a STOMP peer. A failure to connect is a failed control, not a finding."""
        self.require_offer(f"stomp-{version}")
        extra = header_list(headers)
        if heart_beat is not None:
            extra = (*extra, ("heart-beat", heart_beat))
        peer = self.peer(version, acceptor=acceptor, over=over, certificate=certificate)
        peer.connect(self.connect_headers(version, extra))
        return peer

    def websocket(self, *, acceptor: str | None = None, upgrade: bool = True) -> WebSocketPeer:
        """Return a WebSocket, open unless ``upgrade`` is False. If it is refused, a control has
        failed."""
        from brokerproof.harness.protocols.websocket.raw_peer import WebSocketPeer

        self.require_capability("websocket")
        parameters = self.profile.parameters
        usual = str(parameters.get("websocket_acceptor", self.target.identity.default_acceptor))
        peer = WebSocketPeer(
            self,
            self.next_connection(),
            acceptor or usual,
            str(parameters.get("websocket_path", "/")),
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
        """Connect stomp.py, with its own threads and socket unless in virtual time.

        ``heart_beat`` is in milliseconds. ``threads`` selects the form if both are possible."""
        from brokerproof.harness.clients import (
            stomppy_transports,  # only runs that use the library load it
        )

        identity = self.target.identity
        name = acceptor or identity.default_acceptor
        if name in identity.websockets:
            raise ControlFailed(
                f"stomp.py cannot use the WebSocket acceptor {name}", Symptom.ABSENT
            )
        self.example_record.wire.unkept = "stomp.py uses its own sockets"
        make = (
            stomppy_transports.over_sockets
            if (not self.virtual if threads is None else threads)
            else stomppy_transports.in_memory
        )
        peer = make(
            self,
            self.next_connection(),
            name,
            version,
            heart_beat,
            str(self.profile.parameters.get("stomp_host", "localhost")),
        )
        peer.transaction = self._own_name(peer.conn)
        peer.connect(login=identity.login, passcode=identity.passcode, proves=proves)
        return peer

    def stompjs(self, *, acceptor: str | None = None) -> StompJsPeer:
        """Return @stomp/stompjs in its own browser, not yet connected. Raises
        :class:`ControlFailed` if Chromium is missing."""
        from brokerproof.harness.clients.stompjs_in_chromium import StompJsPeer

        return StompJsPeer(
            self, self.next_connection(), acceptor or self.target.identity.default_acceptor
        )
