"""The protocols that a load can speak: one module for who speaks it, one for how its octets become columns of the trace.

A module of sessions has a class ``Lines(plan, host)`` (:class:`harness.load.line.Line`); a module of columns has
``columns(stretch)`` (:class:`harness.load.tape.Stretch`). They are imported when they are needed: a recorder needs no sessions.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

PROTOCOLS = {
    "stomp": ("harness.load.stomp_line:StompLine", "harness.load.stomp_columns:columns"),
    "amqp": ("harness.load.amqp_line:AmqpLine", "harness.load.amqp_columns:columns"),
    "amqp091": ("harness.load.amqp091_line:Amqp091Line", "harness.load.amqp091_columns:columns"),
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
