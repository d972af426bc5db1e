"""The protocols that a load can speak: one module for who speaks it, one for how its octets become
columns of the trace.

A module of sessions has a class ``Lines(plan, host)``
(:class:`brokerproof.harness.load.client_connection.ClientConnection`); a module of columns has
``columns(stretch)`` (:class:`brokerproof.harness.load.wire_log.LogSlice`). They are imported when
they are needed: a recorder needs no sessions.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

PROTOCOLS = {
    "stomp": (
        "brokerproof.harness.protocols.stomp.load_client:StompLoadConnection",
        "brokerproof.harness.protocols.stomp.load_columns:columns",
    ),
    "amqp": (
        "brokerproof.harness.protocols.amqp10.load_client:AmqpLoadConnection",
        "brokerproof.harness.protocols.amqp10.load_columns:columns",
    ),
    "amqp091": (
        "brokerproof.harness.protocols.amqp091.load_client:Amqp091LoadConnection",
        "brokerproof.harness.protocols.amqp091.load_columns:columns",
    ),
}
"""By name: who speaks it, and how it is recorded."""
NUMBERS = {name: number for number, name in enumerate(PROTOCOLS)}
"""What stands for a protocol on the tape."""


def line(protocol: str) -> Callable[..., Any]:
    """The class of a connection that speaks it."""
    return _found(PROTOCOLS[protocol][0])


def columns(protocol: str) -> Callable[..., Any]:
    """How its octets become columns."""
    return _found(PROTOCOLS[protocol][1])


def _found(dotted: str) -> Callable[..., Any]:
    module, _, name = dotted.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found
