"""OpenWire: peers and commands."""

from brokerproof.harness.protocols.openwire.codec import Structure
from brokerproof.harness.protocols.openwire.raw_peer import (
    OpenWirePeer,
    command,
    dispatch,
    queue,
    topic,
)

__all__ = ["OpenWirePeer", "Structure", "command", "dispatch", "queue", "topic"]
