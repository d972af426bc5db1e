"""Connections: their identities, and whether they are blocked."""

from collections.abc import Iterator
from typing import Any

from brokerproof.harness.model.time import NS_PER_MS, NS_PER_S
from brokerproof.reference_broker.kernel.connection_info import Arrival, Described, Describes
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.protocols.management_http import node

NEVER = "infinity"
"""The age of an event that never happened."""


def entries(shared: BrokerContext) -> list[dict[str, Any]]:
    """Return ``/api/connections``: the open connections, oldest first."""
    return [_entry(shared, *connection) for connection in described(shared)]


def described(shared: BrokerContext) -> Iterator[tuple[int, Arrival, Described]]:
    """Return the open connections by number, with the addresses of their peers."""
    for conn, connection in shared.connections.items():
        if isinstance(connection, Describes) and (description := connection.describe()) is not None:
            yield conn, shared.arrivals[conn], description


def _entry(
    shared: BrokerContext, conn: int, arrival: Arrival, description: Described
) -> dict[str, Any]:
    peer_host, peer_port = _end(arrival.remote)
    host, port = _end(arrival.local)
    fields = {
        "name": f"{arrival.remote} -> {arrival.local}",
        "node": node.name(shared),
        "type": "direct" if description.direct else "network",
        "vhost": "/",
        "user": description.user,
        "user_who_performed_action": description.user,
        "protocol": description.protocol,
        "host": host,
        "port": port,
        "peer_host": peer_host,
        "peer_port": peer_port,
        "ssl": conn in shared.certificates,
        "state": description.state,
        "last_blocked_by": description.blocked_by,
        "last_blocked_age": NEVER
        if description.blocked_at is None
        else (shared.clock.now - description.blocked_at) / NS_PER_S,
        "channels": description.channels,
        "channel_max": description.channel_max,
        "frame_max": description.frame_max,
        "timeout": description.timeout_s,
        "client_properties": _plain(description.client_properties),
        "connected_at": (shared.clock.epoch + arrival.at) // NS_PER_MS,
    }
    if description.mechanism is not None:
        fields["auth_mechanism"] = description.mechanism
    if (subject := shared.certificates.get(conn)) is not None:
        fields["peer_cert_subject"] = subject
    return fields


def _end(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port) if port.isdecimal() else 0


def _plain(value: Any) -> Any:
    """Return a field table for JSON. Values other than numbers, text and booleans become text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
