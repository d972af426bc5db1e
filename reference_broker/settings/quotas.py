"""Quotas of one connection.

The quotas limit how much a single peer can make the broker keep. Each quota is far above what
clients use and below what would harm other peers. A peer that exceeds a quota is refused in the way
that its protocol provides, and other peers notice nothing.
"""

from dataclasses import dataclass
from typing import ClassVar

from brokerproof.reference_broker.settings.parameters import Options


@dataclass(frozen=True, slots=True)
class Quotas(Options):
    """The maximum number of resources of each kind that one connection may have at one time."""

    prefix: ClassVar[str] = "quota_"

    subscriptions: int = 20_000
    """STOMP subscriptions, consumers of AMQP 0-9-1, CORE and OpenWire, and links on which an AMQP
    1.0 peer receives or sends."""
    producers: int = 20_000
    """OpenWire producers, and addresses for which a CORE session has asked for credit."""
    sessions: int = 10_000
    """Sessions of AMQP 1.0, CORE and OpenWire. Channel-max also limits AMQP 0-9-1 channels."""
    transactions: int = 10_000
    """Open transactions of STOMP, AMQP 1.0 and OpenWire. CORE has one transaction for each session,
    AMQP 0-9-1 has one for each channel."""
    addresses: int = 20_000
    """Addresses that this connection was the first to use; with AMQP 0-9-1, queues."""
    exchanges: int = 10_000
    """AMQP 0-9-1 exchanges that this connection was the first to declare."""
    bindings: int = 50_000
    """AMQP 0-9-1 bindings that this connection has made."""
    unfinished_bytes: int = 256 * 1024 * 1024
    """Bytes of incomplete bodies: of AMQP 1.0 deliveries on all links, and of AMQP 0-9-1 contents
    on all channels. Other protocols have one incomplete body at a time, which has a limit of its
    own."""

    def exceeded(self, resource: str, count: int) -> str | None:
        """Return why a connection with ``count`` of ``resource`` gets no more; None if it gets
        more."""
        most: int = getattr(self, resource)
        if count < most:
            return None
        return f"this connection has {count} {resource.replace('_', ' ')}; {most} are allowed"
