"""Connections: who they are, and whether they are held back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from brokerproof.harness.model.time import NS_PER_MS, NS_PER_S
from brokerproof.reference_broker.kernel.connection_info import Arrival, Described, Describes
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.protocols.management_http import node

NEVER = "infinity"
"""The age of what never happened."""


def entries(shared: BrokerContext) -> list[dict[str, Any]]:
    """``/api/connections``: those that are open, the oldest first."""
    return [_entry(shared, *each) for each in described(shared)]


def described(shared: BrokerContext) -> Iterator[tuple[int, Arrival, Described]]:
    """The connections that are open, by number, with where they came from."""
    for conn, connection in shared.connections.items():
        if isinstance(connection, Describes) and (about := connection.describe()) is not None:
            yield conn, shared.arrivals[conn], about


def _entry(shared: BrokerContext, conn: int, arrival: Arrival, about: Described) -> dict[str, Any]:
    peer_host, peer_port = _end(arrival.remote)
    host, port = _end(arrival.local)
    found = {
        "name": f"{arrival.remote} -> {arrival.local}",
        "node": node.name(shared),
        "type": "direct" if about.direct else "network",
        "vhost": "/",
        "user": about.user,
        "user_who_performed_action": about.user,
        "protocol": about.protocol,
        "host": host,
        "port": port,
        "peer_host": peer_host,
        "peer_port": peer_port,
        "ssl": conn in shared.certificates,
        "state": about.state,
        "last_blocked_by": about.blocked_by,
        "last_blocked_age": NEVER
        if about.blocked_at is None
        else (shared.now - about.blocked_at) / NS_PER_S,
        "channels": about.channels,
        "channel_max": about.channel_max,
        "frame_max": about.frame_max,
        "timeout": about.timeout_s,
        "client_properties": _plain(about.client_properties),
        "connected_at": (shared.epoch + arrival.at) // NS_PER_MS,
    }
    if about.mechanism is not None:
        found["auth_mechanism"] = about.mechanism
    if (subject := shared.certificates.get(conn)) is not None:
        found["peer_cert_subject"] = subject
    return found


def _end(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port) if port.isdecimal() else 0


def _plain(value: Any) -> Any:
    """A field table as JSON can have it; what is neither number, text nor truth is told as text."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
