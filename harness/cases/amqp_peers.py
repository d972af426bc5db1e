"""A bench's AMQP 1.0 peers: raw and Proton."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from brokerproof.harness.cases.connections import Connections
from brokerproof.harness.catalogue.areas import Area, area_of
from brokerproof.harness.model import extras
from brokerproof.harness.protocols.conversation import ControlFailed, Requirements, Symptom
from brokerproof.harness.targets.target import Identity, sasl_of
from brokerproof.harness.worlds.tls import Certificate

if TYPE_CHECKING:
    from brokerproof.harness.clients.proton_engine import ProtonPeer
    from brokerproof.harness.clients.proton_sockets import BlockingPeer, ContainerPeer
    from brokerproof.harness.protocols.amqp10.habits import Habits
    from brokerproof.harness.protocols.amqp10.raw_peer import AmqpPeer

Dials = TypeVar("Dials", "BlockingPeer", "ContainerPeer")


def _require_proton(identity: Identity) -> None:
    """Skip the case if Proton is not installed or cannot read the broker's frames. Trying to import
    Proton would not show this: an import that fails in another thread leaves a partial module."""
    if identity.profile.parameters.get("amqp_descriptors") == "symbols":
        words = "Proton reads no symbolic descriptors, which this broker sends"
        raise ControlFailed(words, Symptom.ABSENT)
    if find_spec("proton") is None:
        raise ControlFailed(extras.sentence("proton"), Symptom.ABSENT)


class AmqpPeers(Connections):
    """Makes AMQP 1.0 peers: raw ones and real clients."""

    habits: Habits | None = None
    """The habits of raw peers that a case makes from now on."""

    def amqp_peer(
        self,
        *,
        acceptor: str | None = None,
        certificate: Certificate | None = None,
        plain: bool = False,
    ) -> AmqpPeer:
        """Open a connection and send nothing. Raises :class:`ControlFailed` if it is refused.
        ``certificate`` is our client certificate for TLS; ``plain`` means no TLS."""
        from brokerproof.harness.protocols.amqp10.raw_peer import AmqpPeer

        peer = AmqpPeer(
            self,
            self.next_connection(),
            acceptor or self.target.identity.default_amqp_acceptor,
            self._container(),
        )
        identity = self.target.identity
        peer.require = self.require_capability
        peer.habits = self.habits or peer.habits
        peer.mechanism = sasl_of(identity.profile.parameters, identity.login)
        # In cases about heartbeats, the case itself decides when a client is silent.
        peer.keeps_alive = Area.HEARTBEAT not in map(area_of, self.cited)
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
        """Return a logged-in AMQP 1.0 peer that has sent open and (by default) begun a session on
        channel 0. ``open_fields`` are the fields of that open. A failure on the way there is a
        failed control, not a finding."""
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
        """Connect Proton's engine; ``options`` are those of the peer's ``connect``."""
        _require_proton(self.target.identity)
        from brokerproof.harness.clients.proton_engine import ProtonPeer

        identity = self.target.identity
        peer = ProtonPeer(self, self.next_connection(), acceptor or identity.default_amqp_acceptor)
        self._connect(peer)
        known = {**self._login(), "container": self._container(), **options}
        peer.connect(proves=proves, **known)
        return peer

    def proton_blocking(self, *, acceptor: str | None = None, **options: Any) -> BlockingPeer:
        """Connect Proton's BlockingConnection. Raises :class:`ControlFailed` in virtual time."""
        _require_proton(self.target.identity)
        from brokerproof.harness.clients.proton_sockets import BlockingPeer

        return self._dialled(BlockingPeer, acceptor, options)

    def proton_container(self, *, acceptor: str | None = None, **options: Any) -> ContainerPeer:
        """Connect Proton's Container in its own thread. Raises :class:`ControlFailed` in virtual
        time."""
        _require_proton(self.target.identity)
        from brokerproof.harness.clients.proton_sockets import ContainerPeer

        return self._dialled(ContainerPeer, acceptor, options)

    def _dialled(
        self, kind: Callable[..., Dials], acceptor: str | None, options: dict[str, Any]
    ) -> Dials:
        identity = self.target.identity
        self.example_record.wire.unkept = "Proton uses its own sockets"
        peer = kind(self, self.next_connection(), acceptor or identity.default_amqp_acceptor)
        peer.connect(**{**self._login(), **options})
        return peer

    def _login(self) -> dict[str, str | None]:
        identity = self.target.identity
        mechanism = sasl_of(identity.profile.parameters, identity.login)
        return {"login": identity.login, "passcode": identity.passcode, "mechanism": mechanism}
