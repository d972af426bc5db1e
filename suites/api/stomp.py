"""STOMP: peers, frames, and expectations about them."""

from brokerproof.harness.protocols.stomp.codec import Frame, HeadersLike
from brokerproof.harness.protocols.stomp.raw_peer import (
    CONNECTED,
    ERROR,
    MESSAGE,
    Destination,
    StompPeer,
    frame,
)

__all__ = [
    "CONNECTED",
    "ERROR",
    "MESSAGE",
    "Destination",
    "Frame",
    "HeadersLike",
    "StompPeer",
    "frame",
]
