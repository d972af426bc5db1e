"""The protocols of a load, each with its connection class and the function that turns bytes into
trace columns. These are imported on demand, because a recorder needs no connections."""

import importlib
from collections.abc import Callable
from typing import Any

PROTOCOLS = {
    "stomp": (
        "brokerproof.harness.load.stomp_client:StompLoadConnection",
        "brokerproof.harness.load.stomp_columns:columns",
    ),
    "amqp": (
        "brokerproof.harness.load.amqp10_client:AmqpLoadConnection",
        "brokerproof.harness.load.amqp10_columns:columns",
    ),
    "amqp091": (
        "brokerproof.harness.load.amqp091_client:Amqp091LoadConnection",
        "brokerproof.harness.load.amqp091_columns:columns",
    ),
}
"""The connection class and the column function of each protocol."""
NUMBERS = {name: number for number, name in enumerate(PROTOCOLS)}
"""The numbers of protocols in the wire log."""


def line(protocol: str) -> Callable[..., Any]:
    return _found(PROTOCOLS[protocol][0])


def columns(protocol: str) -> Callable[..., Any]:
    return _found(PROTOCOLS[protocol][1])


def _found(dotted: str) -> Callable[..., Any]:
    module, _, name = dotted.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function
