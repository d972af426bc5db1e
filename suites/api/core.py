"""Artemis's CORE protocol: peers and packets."""

from brokerproof.harness.protocols.core.codec import Packet
from brokerproof.harness.protocols.core.raw_peer import CorePeer, delivery, packet

__all__ = ["CorePeer", "Packet", "delivery", "packet"]
