"""AMQP 1.0: peers, frames, links and typed values."""

from brokerproof.harness.protocols.amqp10.codec import RECEIVER, SENDER, Frame
from brokerproof.harness.protocols.amqp10.endpoint_state import Delivery, Link
from brokerproof.harness.protocols.amqp10.messages import message
from brokerproof.harness.protocols.amqp10.raw_peer import (
    HEADER,
    SASL_ID,
    AmqpPeer,
    Node,
    ending,
    frame,
)
from brokerproof.harness.protocols.amqp10.types import Array, Described, Value, string, symbol, uint
from brokerproof.harness.protocols.conversation import either

__all__ = [
    "HEADER",
    "RECEIVER",
    "SASL_ID",
    "SENDER",
    "AmqpPeer",
    "Array",
    "Delivery",
    "Described",
    "Frame",
    "Link",
    "Node",
    "Value",
    "either",
    "ending",
    "frame",
    "message",
    "string",
    "symbol",
    "uint",
]
