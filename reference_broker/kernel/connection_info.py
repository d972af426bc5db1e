"""Connection facts for the management API
(:mod:`brokerproof.reference_broker.protocols.management_http`)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from brokerproof.harness.model.time import Instant

if TYPE_CHECKING:
    from brokerproof.reference_broker.kernel.message import Entry
    from brokerproof.reference_broker.kernel.queue import Queue

RUNNING, FLOW, BLOCKING, BLOCKED = "running", "flow", "blocking", "blocked"
"""States of a connection, in RabbitMQ's words: normal; throttled by itself, now or in the last
seconds; an alarm is raised, but the connection has published nothing since; an alarm is raised, and
the broker does not read the connection."""
BY_NOTHING, BY_RESOURCE, BY_FLOW = "none", "resource", "flow"
"""Why a connection was last blocked."""


@dataclass(frozen=True, slots=True)
class Described:
    """An open connection. ``timeout_s`` is its heartbeat interval (0: none); ``blocked_at`` is when
    it was last blocked."""

    protocol: str
    user: str
    mechanism: str | None = None
    state: str = RUNNING
    channels: int = 0
    client_properties: Mapping[str, Any] = field(default_factory=dict)
    frame_max: int = 0
    channel_max: int = 0
    timeout_s: int = 0
    blocked_by: str = BY_NOTHING
    blocked_at: Instant | None = None
    direct: bool = False
    """True if a client inside the broker serves the protocol, as in RabbitMQ's plugins."""


@runtime_checkable
class Describes(Protocol):
    def describe(self) -> Described | None:
        """Return the facts about the connection; None until it is open."""

    def out(self) -> "Iterator[tuple[Queue, Entry]]":
        """Return the connection's unsettled deliveries."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """The remote and local ends of a connection, each as HOST:PORT, and when it was accepted."""

    remote: str
    local: str
    at: Instant
