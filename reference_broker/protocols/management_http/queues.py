"""Queues, with their waiting and unacknowledged messages."""

from typing import Any

from brokerproof.reference_broker.families.rabbitmq.limited_queue import LimitedQueue
from brokerproof.reference_broker.families.rabbitmq.topology import Declared
from brokerproof.reference_broker.kernel.connection_info import Describes
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.management_http import node

VHOST = "/"


def entries(broker: node.Node) -> list[dict[str, Any]]:
    """Return ``/api/queues``: queues declared by clients or created for them, by name."""
    out: dict[Queue, int] = {}
    for connection in broker.shared.connections.values():
        for queue, entry in connection.out() if isinstance(connection, Describes) else ():
            out[queue] = out.get(queue, 0) + len(entry.message.body)
    declared = (
        broker.topology.find(name)
        for name in sorted(broker.shared.router.addresses.anycast_names())
    )
    return [
        _entry(broker, queue, out.get(queue.queue, 0)) for queue in declared if queue is not None
    ]


def totals(broker: node.Node) -> dict[str, int]:
    queue_entries = entries(broker)
    return {
        key: sum(queue[key] for queue in queue_entries)
        for key in ("messages", "messages_ready", "messages_unacknowledged")
    }


def _entry(broker: node.Node, declared: Declared, size_out: int) -> dict[str, Any]:
    queue = declared.queue
    return {
        "name": declared.name,
        "vhost": VHOST,
        "node": node.name(broker.shared),
        "type": "classic",
        "state": "running",
        "durable": declared.durable,
        "auto_delete": declared.auto_delete,
        "exclusive": declared.owner is not None,
        "arguments": dict(declared.arguments),
        "consumers": queue.consumers,
        **_contents(queue, size_out),
    }


def _contents(queue: Queue, size_out: int) -> dict[str, int]:
    ready, out, size_ready = len(queue), queue.unsettled, queue.size_waiting
    return {
        "messages": ready + out,
        "messages_ready": ready,
        "messages_unacknowledged": out,
        "message_bytes": size_ready + size_out,
        "message_bytes_ready": size_ready,
        "message_bytes_unacknowledged": size_out,
        "messages_ready_ram": len(queue.in_memory()) if isinstance(queue, LimitedQueue) else ready,
    }
