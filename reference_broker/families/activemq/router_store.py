"""The store for ActiveMQ's queues: their cursors move messages to pages on disk."""

from brokerproof.reference_broker.families.activemq.cursor_queue import CursorQueue
from brokerproof.reference_broker.families.activemq.spool import Spool
from brokerproof.reference_broker.families.activemq.usage_accounting import UsageAccount
from brokerproof.reference_broker.kernel.address import Address, Pages
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.kernel.queue_and_topic_names import is_topic
from brokerproof.reference_broker.persistence.router_store import Stored


class SpoolingStored(Stored):
    """Gives the address of each queue a :class:`Spool`; topics have none."""

    def pages_of(self, address: Address) -> Pages | None:
        if is_topic(address.name) or not isinstance(address.account, UsageAccount):
            return None
        return Spool(self.store.pages.open(address.name), address.account)

    def queue_made(
        self, queue: Queue, address: Address, on_demand: bool, subscription: bool
    ) -> None:
        super().queue_made(queue, address, on_demand, subscription)
        if isinstance(queue, CursorQueue) and isinstance(address.pages, Spool):
            queue.spool = address.pages

    def back(self, queue: Queue, id: int, address: Address) -> None:
        super().back(queue, id, address)
        if isinstance(address.pages, Spool):
            address.pages.restored(queue)
