"""The whole broker at a glance."""

from __future__ import annotations

import functools
from importlib.metadata import version
from typing import Any

from brokerproof.reference_broker.families.rabbitmq.family import RabbitMqFamily
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.protocols.management_http import connections, node, queues


@functools.cache
def _version() -> str:
    return version("brokerproof")


def entry(shared: BrokerContext) -> dict[str, Any]:
    """Return ``/api/overview``. Product and release are our own."""
    opened = [details for _, _, details in connections.described(shared)]
    queue_entries = queues.entries(shared)
    topology = RabbitMqFamily.of(shared).topology
    return {
        "management_version": _version(),
        "rates_mode": "none",
        "product_name": "brokerproof",
        "product_version": _version(),
        "rabbitmq_version": _version(),
        "cluster_name": node.name(shared),
        "node": node.name(shared),
        "statistics_db_event_queue": 0,
        "disable_stats": False,
        "queue_totals": queues.totals(shared),
        "object_totals": {
            "connections": len(opened),
            "channels": sum(connection.channels for connection in opened),
            "consumers": sum(queue["consumers"] for queue in queue_entries),
            "exchanges": len(topology.exchanges),
            "queues": len(queue_entries),
        },
    }
