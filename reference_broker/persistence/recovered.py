"""The state of a broker that ended, as read from its files."""

from dataclasses import dataclass, field

from brokerproof.reference_broker.kernel.large_body import LargeBody
from brokerproof.reference_broker.kernel.message import Entry, Message
from brokerproof.reference_broker.persistence.operations import QueueMade
from brokerproof.reference_broker.persistence.page import Page


@dataclass(slots=True)
class Kept:
    """A message in the journal. ``ids`` are the queues that have not finished it; ``failures`` is
    the number of its failed deliveries."""

    message: Message
    ids: tuple[int, ...]
    source_entry: Entry | None
    size: int
    segment: int
    failures: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Recovered:
    """The state of a broker that ended. ``segments`` has numbers and good bytes; ``pages`` are by
    folder, with the name of their address."""

    kept: dict[int, Kept] = field(default_factory=dict)
    queues: dict[int, QueueMade] = field(default_factory=dict)
    consumed: set[int] = field(default_factory=set)
    segments: list[tuple[int, int]] = field(default_factory=list)
    next_segment: int = 0
    pages: dict[str, tuple[str, list[Page]]] = field(default_factory=dict)
    next_page: dict[int, int] = field(default_factory=dict)
    """By queue, a page number that its address never used."""
    page_failures: dict[tuple[int, int, int], int] = field(default_factory=dict)
    bodies: dict[int, LargeBody] = field(default_factory=dict)
    """The large bodies of messages, by their numbers."""
    last_body: int = 0
    unit: int = 0
    place: int = 0
    queue_id: int = 0
    message: int = 0
    extents: int = 0
    useless: list[str] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)
    """Damaged files. A copy of each is kept."""
    reports: list[str] = field(default_factory=list)
