"""Qualified names, which distinguish a queue from a topic of the same name: ``queue://NAME`` and
``topic://NAME``."""

from brokerproof.harness.model.enums import RoutingType

QUEUE, TOPIC = "queue://", "topic://"
DEAD_LETTERS = "ActiveMQ.DLQ"
"""The queue for dead letters."""


def qualified(name: str, routing: RoutingType | None) -> str:
    """Return the qualified address of ``name``, which is a queue if ``routing`` is None."""
    return (TOPIC if routing is RoutingType.MULTICAST else QUEUE) + name


def is_topic(address: str) -> bool:
    return address.startswith(TOPIC)


def plain(address: str) -> str:
    """Return the name without its qualifier."""
    return address.partition("://")[2] if address.startswith((QUEUE, TOPIC)) else address
