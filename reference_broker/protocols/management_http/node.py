"""The node: its memory and disk, and whether they are short."""

from dataclasses import dataclass
from typing import Any

from brokerproof.harness.model.time import NS_PER_MS
from brokerproof.reference_broker.families.rabbitmq.resources import Resources
from brokerproof.reference_broker.families.rabbitmq.topology import Topology
from brokerproof.reference_broker.kernel.alarms import DISK, MEMORY
from brokerproof.reference_broker.kernel.context import BrokerContext

UNKNOWN = "NaN"
"""The value that RabbitMQ gives for a disk that cannot be measured."""


@dataclass(frozen=True, slots=True)
class Node:
    shared: BrokerContext
    topology: Topology
    resources: Resources


def name(shared: BrokerContext) -> str:
    assert shared.settings.rabbitmq is not None
    return shared.settings.rabbitmq.node


def entry(broker: Node) -> dict[str, Any]:
    """Return ``/api/nodes/NAME``: sizes in bytes, and the uptime in milliseconds."""
    shared, resources = broker.shared, broker.resources
    fields: dict[str, Any] = {
        "name": name(shared),
        "type": "disc",
        "running": True,
        "partitions": [],
        "uptime": (shared.clock.now - shared.start) // NS_PER_MS,
        "mem_alarm": MEMORY in shared.alarms.own,
        "disk_free_alarm": DISK in shared.alarms.own,
    }
    if resources.reading is None:
        return fields
    reading = resources.reading
    return fields | {
        "mem_used": reading.memory_used,
        "mem_limit": resources.memory_limit,
        "disk_free": UNKNOWN if reading.disk_free is None else reading.disk_free,
        "disk_free_limit": resources.disk_limit,
    }
