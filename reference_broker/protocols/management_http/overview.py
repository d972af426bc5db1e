"""The whole broker at a glance."""

from typing import Any

from brokerproof.reference_broker.kernel.release import RELEASE
from brokerproof.reference_broker.protocols.management_http import connections, node, queues


def entry(broker: node.Node) -> dict[str, Any]:
    """Return ``/api/overview``. The product and the release are ours."""
    opened = [details for _, _, details in connections.described(broker.shared)]
    queue_entries = queues.entries(broker)
    return {
        "management_version": RELEASE,
        "rates_mode": "none",
        "product_name": "brokerproof",
        "product_version": RELEASE,
        "rabbitmq_version": RELEASE,
        "cluster_name": node.name(broker.shared),
        "node": node.name(broker.shared),
        "statistics_db_event_queue": 0,
        "disable_stats": False,
        "queue_totals": queues.totals(broker),
        "object_totals": {
            "connections": len(opened),
            "channels": sum(connection.channels for connection in opened),
            "consumers": sum(queue["consumers"] for queue in queue_entries),
            "exchanges": len(broker.topology.exchanges),
            "queues": len(queue_entries),
        },
    }
