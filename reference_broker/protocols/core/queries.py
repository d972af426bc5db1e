"""Answers about queues and addresses (release 2.56.0, SessionQueueQueryResponseMessage_V3, …)."""

from brokerproof.harness.model.enums import RoutingType
from brokerproof.reference_broker.kernel.address import Address
from brokerproof.reference_broker.kernel.java_fields import int8, int32, int64
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.core import codes
from brokerproof.reference_broker.protocols.core.encoding import (
    NO,
    YES,
    flag,
    optional,
    packet,
    text,
    words,
)
from brokerproof.reference_broker.settings.address_rules import Rule

_TYPES = {RoutingType.MULTICAST: 0, RoutingType.ANYCAST: 1}


def of_queue(
    channel: int, name: str, rule: Rule, binding: tuple[Address, Queue] | None, on_demand: bool
) -> bytes:
    """Return the answer to a query about the queue ``name``, and to the creation of a consumer."""
    queue = None if binding is None else binding[1]
    routing = rule.default_queue_routing_type if queue is None else queue.routing
    fields = (
        flag(queue is not None),
        flag(queue is None or queue.durable),
        NO,  # temporary
        int32(0 if queue is None else queue.consumers),
        int64(0 if queue is None else len(queue)),
        optional(text, None if queue is None or queue.filter is None else queue.filter.text),
        optional(text, name if binding is None else binding[0].name),
        optional(text, name if queue is None else queue.name),
        flag(rule.auto_create_queues),
        flag(on_demand),
        NO,  # purge when there are no consumers
        int8(_TYPES[routing]),
        int32(-1),  # any number of consumers
        optional(flag, False),  # exclusive
        optional(flag, False),  # last value
        optional(int32, rule.default_consumer_window_size),
        optional(text, None),
        optional(flag, False),  # non-destructive
        optional(int32, 0),
        optional(int64, -1),  # dispatch begins immediately
        optional(flag, False),
        optional(int32, -1),  # groups
        optional(flag, on_demand),
        optional(int64, 0),
        optional(int64, 0),  # deleted when unused
        optional(text, None),
        optional(int64, -1),  # no ring
        optional(flag, True),
        optional(flag, False),
        optional(flag, False),
    )
    return packet(codes.QUEUE_QUERY_RESPONSE, channel, *fields)


def of_address(channel: int, rule: Rule, address: Address | None, version: int) -> bytes:
    queues = [] if address is None else address.queues
    routing = set() if address is None else address.routing
    fields = [
        flag(address is not None),
        int32(len(queues)),
        *(text(queue.name) for queue in queues),
        flag(rule.auto_create_queues),
        flag(rule.auto_create_addresses),
        NO,
        int32(-1),
        optional(flag, False),
        optional(flag, False),
        optional(text, None),
        optional(flag, False),
        optional(int32, 0),
        optional(int64, -1),
    ]
    if version < 135:
        return packet(codes.BINDING_QUERY_RESPONSE_4, channel, *fields)
    fields += [flag(kind in routing) for kind in (RoutingType.MULTICAST, RoutingType.ANYCAST)]
    return packet(codes.BINDING_QUERY_RESPONSE_5, channel, *fields)


def of_topology(node: str, instant_ms: int, version: int) -> bytes:
    """Return the topology of a cluster with a single member, given only by name."""
    member = (NO, words(node), int64(instant_ms), NO, NO, YES, NO)
    if version < 131:
        return packet(codes.TOPOLOGY_2, codes.LIVENESS, *member)
    return packet(codes.TOPOLOGY_4, codes.LIVENESS, *member, NO, int32(codes.NEWEST))
