"""AMQP 0-9-1: peers, methods, and typed values of tables."""

from brokerproof.harness.protocols.amqp091.codec import Method
from brokerproof.harness.protocols.amqp091.raw_peer import Amqp091Peer, method
from brokerproof.harness.protocols.amqp091.values import Typed
from brokerproof.harness.protocols.conversation import either

__all__ = ["Amqp091Peer", "Method", "Typed", "either", "method"]
