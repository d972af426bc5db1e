"""An address: the name to which messages are published, and the queues bound to it."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Protocol

from brokerproof.harness.model.enums import FullPolicy, RoutingType
from brokerproof.reference_broker.kernel.accounting import MemoryAccount
from brokerproof.reference_broker.kernel.message import Entry, Message, ResourceClaim
from brokerproof.reference_broker.kernel.queue import Queue


class Pages(Protocol):
    """The pages that store an address's messages when the address's memory is full."""

    @property
    def active(self) -> bool:
        """True if new messages are stored on pages."""

    @property
    def files(self) -> int: ...

    def takes(
        self, message: Message, queues: list[Queue], source_entry: Entry | None, full: bool
    ) -> bool:
        """Return True if ``message`` was stored here for ``queues`` and must not be put into them
        now.

        Called for every message while the policy is PAGE. ``full``: there was no room in memory
        before the message. ``source_entry`` is the entry of a dead letter in its old queue."""


class Keeper(Protocol):
    """The store for messages that must survive a restart."""

    def keeps(self, message: Message, queues: Iterable[Queue]) -> bool:
        """Return True if ``message`` must be stored for any of ``queues``."""

    def keep(
        self,
        message: Message,
        queues: list[Queue],
        source_entry: Entry | None,
        charge: ResourceClaim,
    ) -> Iterable[tuple[Queue, ResourceClaim]]:
        """Store the message. For each queue, return the claim to release when the message leaves
        that queue; the claim includes ``charge``."""


class Address:
    """One address. ``routing`` has its permitted routing types. A ``configured`` address is never
    deleted.

    ``account`` measures its memory. ``pages`` is None if everything stays in memory; ``keeper`` is
    None if nothing survives a restart."""

    def __init__(
        self, name: str, routing: set[RoutingType], configured: bool, account: MemoryAccount
    ) -> None:
        self.name = name
        self.routing = routing
        self.configured = configured
        self.account = account
        self.pages: Pages | None = None
        self.keeper: Keeper | None = None
        self.anycast: list[Queue] = []
        self.multicast: OrderedDict[Queue, None] = OrderedDict()
        self._turn = 0

    def bind(self, queue: Queue) -> None:
        """Add ``queue`` as the last one."""
        if queue.routing is RoutingType.ANYCAST:
            self.anycast.append(queue)
        else:
            self.multicast[queue] = None

    def unbind(self, queue: Queue) -> None:
        """Remove ``queue``, which must be bound here, and its messages."""
        if queue.routing is RoutingType.ANYCAST:
            self.anycast.remove(queue)
        else:
            del self.multicast[queue]
        queue.delete()

    @property
    def queues(self) -> list[Queue]:
        return [*self.anycast, *self.multicast]

    def anycast_queue(self, name: str) -> Queue | None:
        return next((queue for queue in self.anycast if queue.name == name), None)

    def route(
        self, message: Message, routing: RoutingType | None, source_entry: Entry | None = None
    ) -> bool:
        """Put ``message`` into one of the anycast queues, in turn, and into every multicast queue,
        if their filters match.

        ``routing`` restricts this to one of the two kinds. Without a queue of that kind the message
        is dropped, as for a topic without subscribers (ARTEMIS-STOMP-routing-5). ``source_entry``
        is the entry of a dead letter in its old queue. A dead letter has no producer that could
        wait or be answered, so a full address drops it under DROP and accepts it otherwise.

        Return False if any of these queues refused it."""
        chosen = self._chosen(message, routing)
        queues = [queue for queue in chosen if not queue.refuses(message)]
        taken = len(queues) == len(chosen)
        if not queues:
            return taken
        account = self.account
        if account.policy is FullPolicy.PAGE:
            if self.pages is not None and self.pages.takes(
                message, queues, source_entry, account.full
            ):
                return taken
        elif source_entry is not None and account.policy is FullPolicy.DROP and account.full:
            return taken
        charge = account.charge(message, len(queues))
        if self.keeper is not None and self.keeper.keeps(message, queues):
            for queue, claim in self.keeper.keep(message, queues, source_entry, charge):
                queue.enqueue(message, source_entry, claim)
            return taken
        for queue in queues:
            queue.enqueue(message, source_entry, charge)
        return taken

    def _chosen(self, message: Message, routing: RoutingType | None) -> list[Queue]:
        chosen: list[Queue] = []
        anycast = self.anycast
        if routing is not RoutingType.MULTICAST:
            for _ in anycast:
                self._turn = self._turn + 1 if self._turn + 1 < len(anycast) else 0
                queue = anycast[self._turn]
                if queue.filter is None or queue.filter.matches(message):
                    chosen.append(queue)
                    break
        if routing is not RoutingType.ANYCAST:
            chosen += [
                queue
                for queue in self.multicast
                if queue.filter is None or queue.filter.matches(message)
            ]
        return chosen
