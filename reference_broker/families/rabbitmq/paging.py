"""Makes queues page messages out before memory is short (RABBITMQ-FLOW-page-1, -page-2).

Above ``vm_memory_high_watermark_paging_ratio`` of the watermark, queues write out the bodies of
their messages every :data:`EVERY`, oldest first, and keep only their places. A body is read again
when its message is sent. A ratio above 1.0 is never reached before publishers are blocked, so
nothing is written out. Nothing is written out while disk space is short, either.

RabbitMQ up to 3.13 writes out so much that all queues are equally far from empty. The chapter
mentions only the contents of queues; here everything is written out. Release 4 has no such ratio.
"""

from brokerproof.harness.model.time import Duration, Instant, ms
from brokerproof.reference_broker.families.rabbitmq.limited_queue import LimitedQueue
from brokerproof.reference_broker.families.rabbitmq.resources import Resources
from brokerproof.reference_broker.families.rabbitmq.topology import Topology
from brokerproof.reference_broker.kernel.alarms import DISK, Alarms
from brokerproof.reference_broker.kernel.deadlines import Deadlines
from brokerproof.reference_broker.kernel.large_body import LargeBody
from brokerproof.reference_broker.kernel.message import Entry, LargeBodyClaim
from brokerproof.reference_broker.persistence.large_bodies import LargeFiles

EVERY: Duration = ms(2500)
"""The interval between checks of whether memory is needed (``memory_monitor_interval``)."""


class PagingOut:
    """Writes out messages from ``topology``'s queues when ``resources`` are short. ``ratio`` is a
    share of the memory limit."""

    def __init__(
        self,
        topology: Topology,
        resources: Resources,
        alarms: Alarms,
        deadlines: Deadlines,
        files: LargeFiles,
        ratio: float,
    ) -> None:
        self.ratio = ratio
        self._topology, self._resources, self._alarms = topology, resources, alarms
        self._files = files
        self._next_look = deadlines.timer(self.look)

    @property
    def is_needed(self) -> bool:
        """Return True if so much memory is used that queues must write out their messages."""
        reading = self._resources.reading
        if reading is None or self.ratio > 1.0 or DISK in self._alarms.raised:
            return False
        return reading.memory_used >= self.ratio * self._resources.memory_limit

    def look(self, now: Instant) -> None:
        """Page out if memory is needed, and check again after :data:`EVERY`."""
        if self.is_needed:
            for queue in self._topology.limited():
                self.page_out(queue)
        self._next_look.move(now + EVERY)

    def page_out(self, queue: LimitedQueue) -> None:
        for entry in queue.in_memory():
            self._page_out(entry)

    def _page_out(self, entry: Entry) -> None:
        charge = entry.charge
        paged = None if charge is None else entry.message.paged_out(self._write)
        if charge is not None and paged is not None and paged.large is not None:
            entry.message, entry.charge = paged, LargeBodyClaim(charge, paged.large, 1)

    def _write(self, body: bytes) -> LargeBody:
        spool = self._files.begin(text=False, failed=lambda problem: None)
        spool.write(body)
        return spool.finish()
