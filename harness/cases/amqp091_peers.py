"""A bench's AMQP 0-9-1 peers (raw and pika) and RabbitMQ's management API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from brokerproof.harness.cases.connections import Connections
from brokerproof.harness.protocols.conversation import ControlFailed, Requirements, Symptom
from brokerproof.harness.targets.endpoint import MANAGEMENT
from brokerproof.harness.targets.target import host_of_amqp091

if TYPE_CHECKING:
    from brokerproof.harness.clients.pika_client import PikaPeer
    from brokerproof.harness.clients.rabbitmq_management_api import ManagementPeer
    from brokerproof.harness.protocols.amqp091.raw_peer import Amqp091Peer


class Amqp091Peers(Connections):
    """Makes AMQP 0-9-1 peers (raw and pika) and connections to RabbitMQ's management API."""

    def amqp091_peer(self, *, acceptor: str | None = None) -> Amqp091Peer:
        """Open an AMQP 0-9-1 connection and send nothing. Raises :class:`ControlFailed` if it is
        refused."""
        from brokerproof.harness.protocols.amqp091.raw_peer import Amqp091Peer

        identity = self.target.identity
        peer = Amqp091Peer(self, self.next_connection(), acceptor or identity.default_amqp_acceptor)
        peer.require = self.require_capability
        peer.virtual_host = host_of_amqp091(identity.profile.parameters)
        self._connect(peer)
        return peer

    def amqp091(
        self, *, acceptor: str | None = None, channels: int = 1, **options: Any
    ) -> Amqp091Peer:
        """Return a logged-in AMQP 0-9-1 peer with channels 1 to ``channels`` open.

        ``options`` are fields of its tune-ok, in which our frame-max never exceeds the broker's;
        ``capabilities`` go into its client-properties. A failure on the way there is a failed
        control, not a finding."""
        from brokerproof.harness.protocols.amqp091.raw_peer import require_channels

        peer = self.amqp091_peer(acceptor=acceptor)
        identity = self.target.identity
        peer.start()
        peer.authenticate(
            identity.login, identity.passcode, capabilities=options.pop("capabilities", None)
        )
        require_channels(peer, max(channels, options.get("channel_max") or 0))
        if peer.tuned and peer.tuned["frame-max"] and "frame_max" in options:
            options["frame_max"] = min(options["frame_max"], peer.tuned["frame-max"])
        peer.tune_ok(**options)
        peer.open()
        for channel in range(1, channels + 1):
            peer.open_channel(channel)
        return peer

    def pika(
        self, *, acceptor: str | None = None, proves: Requirements | None = None, **options: Any
    ) -> PikaPeer:
        """Connect pika; ``options`` are those of the peer's ``connect``."""
        from brokerproof.harness.clients.pika_client import PikaPeer

        identity = self.target.identity
        mechanism = identity.profile.parameters.get("amqp091_sasl", "PLAIN")
        if mechanism != "PLAIN":
            words = f"pika logs in with PLAIN, and the broker offers {mechanism}"
            raise ControlFailed(words, Symptom.ABSENT)
        peer = PikaPeer(self, self.next_connection(), acceptor or identity.default_amqp_acceptor)
        self._connect(peer)
        options.setdefault("virtual_host", host_of_amqp091(identity.profile.parameters))
        peer.connect(identity.login, identity.passcode, proves=proves, **options)
        return peer

    def management(self, *, acceptor: str | None = None) -> ManagementPeer:
        """Connect to the management API with the target's login. The target needs the
        "management-api" capability."""
        from brokerproof.harness.clients.rabbitmq_management_api import ManagementPeer  # needs h11

        def connect(peer: ManagementPeer) -> None:
            peer.conn = self.next_connection()
            self._connect(peer)

        identity = self.target.identity
        return ManagementPeer(
            self, acceptor or MANAGEMENT, identity.login or "", identity.passcode or "", connect
        )
