"""Names of places where a queue and a topic of one name are two places: ``queue://NAME`` and
``topic://NAME``."""

from __future__ import annotations

from brokerproof.harness.model.enums import RoutingType

QUEUE, TOPIC = "queue://", "topic://"
DEAD_LETTERS = "ActiveMQ.DLQ"
"""The queue of what is given up."""


def qualified(name: str, routing: RoutingType | None) -> str:
    """The address of the place ``name``; without a ``routing`` it is a queue."""
    return (TOPIC if routing is RoutingType.MULTICAST else QUEUE) + name


def is_topic(address: str) -> bool:
    return address.startswith(TOPIC)


def plain(address: str) -> str:
    """The name without what says which kind of place it is."""
    return address.partition("://")[2] if address.startswith((QUEUE, TOPIC)) else address
