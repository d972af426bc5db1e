"""Resources by path, and their answers: plain data that becomes JSON."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from brokerproof.reference_broker.kernel.alarms import HERE
from brokerproof.reference_broker.protocols.management_http import (
    connections,
    node,
    overview,
    queues,
)
from brokerproof.reference_broker.protocols.management_http.node import Node


class Missing(Exception):
    """Raised if there is nothing with that name."""


@dataclass(frozen=True, slots=True)
class Place:
    ask: Callable[..., Any]
    names: tuple[str, ...]

    def look(self, broker: Node, user: str) -> Any:
        """Return the object as ``user`` sees it. Raises :class:`Missing`."""
        return self.ask(broker, user, *self.names)


class Paths:
    """Paths below ``/api``, with ``*`` for a name."""

    def __init__(self, known: dict[str, Callable[..., Any]]) -> None:
        self._known = [(path.split("/"), ask) for path, ask in known.items()]

    def find(self, words: Sequence[str]) -> Place | None:
        for pattern, ask in self._known:
            if len(pattern) == len(words) and all(
                a in ("*", b) for a, b in zip(pattern, words, strict=True)
            ):
                return Place(ask, tuple(b for a, b in zip(pattern, words, strict=True) if a == "*"))
        return None


def _one(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    for entry in entries:
        if entry["name"] == name:
            return entry
    raise Missing


def _queues(broker: Node, user: str, vhost: str) -> list[dict[str, Any]]:
    if vhost != queues.VHOST:
        raise Missing
    return queues.entries(broker)


def _alarms(broker: Node, user: str) -> dict[str, Any]:
    return _failed(broker, broker.shared.alarms.all, "There are alarms in effect in the cluster")


def _local_alarms(broker: Node, user: str) -> dict[str, Any]:
    mine = [(HERE, alarm) for alarm in broker.shared.alarms.own]
    return _failed(broker, mine, "There are alarms in effect on the node")


def _failed(broker: Node, alarms: Sequence[tuple[str, str]], reason: str) -> dict[str, Any]:
    if not alarms:
        return {"status": "ok"}
    entries = [
        {"node": where or node.name(broker.shared), "resource": resource}
        for where, resource in alarms
    ]
    return {"status": "failed", "reason": reason, "alarms": entries}


RESOURCES = Paths(
    {
        "overview": lambda broker, user: overview.entry(broker),
        "cluster-name": lambda broker, user: {"name": node.name(broker.shared)},
        "whoami": lambda broker, user: {
            "name": user,
            "tags": ["administrator"],
            "is_internal_user": True,
        },
        "nodes": lambda broker, user: [node.entry(broker)],
        "nodes/*": lambda broker, user, name: _one([node.entry(broker)], name),
        "connections": lambda broker, user: connections.entries(broker.shared),
        "connections/*": lambda broker, user, name: _one(connections.entries(broker.shared), name),
        "queues": lambda broker, user: queues.entries(broker),
        "queues/*": _queues,
        "queues/*/*": lambda broker, user, vhost, name: _one(_queues(broker, user, vhost), name),
        "health/checks/alarms": _alarms,
        "health/checks/local-alarms": _local_alarms,
    }
)
