"""The store for addresses and queues: joins the router to
:class:`brokerproof.reference_broker.persistence.store.Store`."""

from collections.abc import Callable, Iterable
from functools import partial

from brokerproof.harness.model.enums import FullPolicy
from brokerproof.reference_broker.kernel.address import Address, Pages
from brokerproof.reference_broker.kernel.admission import Verdict
from brokerproof.reference_broker.kernel.message import Message, ResourceClaim
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.persistence.operations import QueueMade
from brokerproof.reference_broker.persistence.store import Store


class Stored:
    """``limited`` returns True for the name of an address that has a limit."""

    def __init__(self, store: Store, limited: Callable[[str], bool] = lambda name: False) -> None:
        self.store = store
        self._limited = limited
        self._back: dict[int, tuple[Queue, Address]] = {}

    @property
    def last_message(self) -> int:
        """The highest message number that an earlier broker left."""
        return self.store.last_message

    @property
    def queues(self) -> list[QueueMade]:
        return self.store.queues.recorded

    def begin_atomic_unit(self) -> None:
        """Store this input's changes completely or not at all."""
        if self.store.journaled:
            self.store.journal.begin_atomic_unit()

    def address_opened(self, address: Address) -> None:
        if self.store.journaled:
            address.keeper = self.store.queues
        address.pages = self.pages_of(address)

    def pages_of(self, address: Address) -> Pages | None:
        """Return the pages of an address that has a limit or had pages before a restart."""
        if address.account.policy is FullPolicy.PAGE and self._limited(address.name):
            return self.store.pages.open(address.name)
        return self.store.pages.find(address.name)

    def address_closed(self, address: Address) -> None:
        """Record that ``address`` no longer exists."""
        self.store.pages.close(address.name)

    def queue_made(
        self, queue: Queue, address: Address, on_demand: bool, subscription: bool
    ) -> None:
        self.store.queues.name(queue, address.name, on_demand, subscription)
        if self.store.journaled:
            queue.unstored = self.store.unstored
            if queue.durable:
                queue.on_consumer = partial(self.store.queues.consumed, queue)

    def queue_deleted(self, queue: Queue, address: Address) -> None:
        self.store.pages.forget(queue, address.name)
        self.store.queues.forget(queue)

    def judge(self, address: str) -> Verdict:
        pages = self.store.pages.find(address)
        if self.store.refuses and (self.store.journaled or (pages is not None and pages.active)):
            return Verdict.UNSTORED
        if pages is not None and pages.active and pages.is_full:
            return Verdict.REFUSE if pages.limits.fails else Verdict.DROP
        return Verdict.TAKE

    def problem(self) -> str:
        return f"the disk stores nothing now: {self.store.problem}"

    # --- after a restart --------------------------------------------------------------------------

    def back(self, queue: Queue, id: int, address: Address) -> None:
        """Record that ``queue`` is the one that had this number in an earlier broker."""
        queue.id = id
        self._back[id] = queue, address
        self.store.pages.restored(queue, address.name)

    def fill(self) -> None:
        """Restore the messages now that all queues are restored."""
        self.store.queues.fill({id: queue for id, (queue, _) in self._back.items()}, self._charge)
        self.store.pages.all_restored()
        self._back.clear()

    def _charge(self, id: int, message: Message, queues: int) -> ResourceClaim:
        return self._back[id][1].account.charge(message, queues)

    def ending(self, queues: Iterable[Queue]) -> None:
        """Record a clean shutdown. Queues whose remaining messages were never delivered will then
        not be assumed to have delivered them."""
        self.store.queues.ending(queue for queue in queues if queue.is_untouched)
