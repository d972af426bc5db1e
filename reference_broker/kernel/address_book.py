"""All addresses and queues of a broker by name, with their creation and deletion.

Queues created on demand are deleted once they are empty and without consumers
(``auto-delete-queues``), and addresses created on demand with their last queue
(``auto-delete-addresses``)."""

from collections import OrderedDict
from collections.abc import Callable

from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.kernel.accounting import MemoryAccount, MemoryAccounting
from brokerproof.reference_broker.kernel.address import Address
from brokerproof.reference_broker.kernel.clock import Clock
from brokerproof.reference_broker.kernel.creators import Creators
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.kernel.queue import MOST_SERVED, Queue, RoundRobin, Serving
from brokerproof.reference_broker.kernel.storage_ports import RouterStorage
from brokerproof.reference_broker.selector.selector import parse
from brokerproof.reference_broker.settings.address_rules import AddressRules, Rule
from brokerproof.reference_broker.settings.settings import Settings


class NoRoute(Exception):
    """The destination does not exist and must not be created; the sentence gives the reason."""


class AddressBook:
    """``by_name`` has all addresses, ``on_demand`` has the queues that are deleted when unused, and
    ``durable`` has the queues of durable subscriptions, with their addresses.

    ``clock`` knows the connection whose input creates an address. ``expires`` returns the current
    time (ns since 1970) by which messages expire; None if messages do not expire. ``dead_letter``
    receives messages that a queue gives up on. ``special`` creates the address for a name with
    special meaning, None for all others."""

    def __init__(
        self,
        settings: Settings,
        rules: AddressRules,
        accounting: MemoryAccounting,
        clock: Clock,
        queue: Callable[..., Queue],
        stored: RouterStorage | None,
        expires: Callable[[], Instant] | None,
        dead_letter: Callable[[str, Entry], None],
        special: Callable[[MemoryAccount], Address | None],
    ) -> None:
        self._rules = rules
        self._accounting = accounting
        self._clock = clock
        self._new_queue = queue
        self._stored = stored
        self._expires = expires
        self._dead_letter = dead_letter
        self._special = special
        self.serving = Serving(MOST_SERVED)
        self.by_name: dict[str, Address] = {}
        self.on_demand: dict[Queue, Address] = {}
        self.durable: dict[str, tuple[Address, Queue]] = {}
        self.within_unit = False
        """True from a commit to the end of the input: a quota must not undo part of a commit."""
        self._queues: dict[str, OrderedDict[Queue, Address]] = {}
        """All queues by name, each with its address."""
        self._quotas = settings.quotas
        self._creators = Creators[str]()
        for setting in settings.addresses:
            routing = set(setting.routing) | {queue.routing for queue in setting.queues}
            routing = routing or {self._rules.of(setting.name).default_address_routing_type}
            address = self.open(setting.name, routing, configured=True)
            for configured in setting.queues:
                made = self.make(address, configured.name, configured.routing)
                made.filter = None if configured.filter is None else parse(configured.filter)
                address.bind(made)
                made.durable = configured.durable
                if made.routing is RoutingType.MULTICAST:
                    self.durable[made.name] = address, made

    def add(self, address: Address) -> None:
        self.by_name[address.name] = address
        if self._stored is not None:
            self._stored.address_opened(address)

    def get(self, name: str) -> Address | None:
        return self.by_name.get(name)

    def settings_for(self, name: str) -> Rule:
        """Return the merged address-settings of the address ``name``."""
        return self._rules.of(name)

    def anycast_queue(self, name: str) -> Queue | None:
        """Return the anycast queue with the name of its address; some protocols just call it a
        queue.
        """
        address = self.by_name.get(name)
        return None if address is None else address.anycast_queue(name)

    def anycast_names(self) -> list[str]:
        """Return the names of all queues that :meth:`anycast_queue` finds."""
        return [name for name in self.by_name if self.anycast_queue(name) is not None]

    def queue_by_name(self, name: str) -> tuple[Address, Queue] | None:
        """The queue called ``name``, or ADDRESS::QUEUE, with its address; None if there is none."""
        at, _, called = name.rpartition("::")
        first: tuple[Address, Queue] | None = None
        for queue, address in self._queues.get(called, {}).items():
            if address.name == (at or name):
                return address, queue
            if first is None and not at:
                first = address, queue
        return first

    def is_on_demand(self, queue: Queue) -> bool:
        """Return True if ``queue`` is deleted when unused."""
        return queue in self.on_demand

    def open(self, name: str, routing: set[RoutingType], configured: bool) -> Address:
        """Create the address ``name``, which must not exist yet. Raises :class:`NoRoute`."""
        creator = None if configured else self._clock.conn
        if creator is not None:
            excess = self._quotas.exceeded("addresses", self._creators.count(creator))
            if excess is not None and not self.within_unit:
                raise NoRoute(f"address {name!r} was not created: {excess}")
            self._creators.add(creator, name)
        account = self._accounting.open(name)
        special = None if configured else self._special(account)
        address = special or Address(name, routing, configured, account)
        self.add(address)
        return address

    def create(self, name: str, routing: set[RoutingType]) -> Address:
        """Return the address ``name``, created without a queue if missing, and permit these routing
        types. Raises :class:`NoRoute`."""
        address = self.by_name.get(name)
        if address is None:
            if not self._rules.of(name).auto_create_addresses:
                raise NoRoute(
                    f"address {name!r} does not exist, and its address-setting forbids creating it"
                )
            address = self.open(name, set(routing), configured=False)
        address.routing |= routing
        return address

    def declare(self, name: str, queue: Callable[..., Queue]) -> Queue:
        """Create an anycast queue with a new name, made by ``queue``, that stays until dropped."""
        address = self.by_name.get(name) or self.open(name, {RoutingType.ANYCAST}, configured=False)
        address.routing.add(RoutingType.ANYCAST)
        attempts = self._rules.of(name).max_delivery_attempts
        made = queue(
            *(name, RoutingType.ANYCAST, RoundRobin(), attempts, lambda queue, entry: None),
            *(self.serving, self._expires),
        )
        self._register(made, address)
        address.bind(made)
        return made

    def make(self, address: Address, name: str, routing: RoutingType) -> Queue:
        attempts = self._rules.of(address.name).max_delivery_attempts

        def dead_letter(queue: Queue, entry: Entry) -> None:
            self._dead_letter(address.name, entry)

        queue = self._new_queue(
            *(name, routing, RoundRobin(), attempts, dead_letter, self.serving, self._expires)
        )
        self._register(queue, address)
        return queue

    def _register(self, queue: Queue, address: Address) -> None:
        self._queues.setdefault(queue.name, OrderedDict())[queue] = address

    def record(self, address: Address, queue: Queue) -> None:
        if self._stored is not None:
            self._stored.queue_made(
                queue, address, queue in self.on_demand, queue.name in self.durable
            )

    def tidy(self, queue: Queue) -> None:
        """Delete an unused on-demand ``queue``. Call it when a consumer has left."""
        address = self.on_demand.get(queue)
        if address is None:
            return
        if queue.routing is RoutingType.ANYCAST and queue.in_use:
            return
        self.delete(address, queue)

    def drop(self, queue: Queue) -> None:
        """Delete the anycast ``queue`` of the address with the same name, and its messages."""
        self.delete(self.by_name[queue.name], queue)

    def _forget(self, address: Address, queue: Queue) -> None:
        self.on_demand.pop(queue, None)
        if self.durable.get(queue.name, (None, None))[1] is queue:
            del self.durable[queue.name]
        same_name = self._queues[queue.name]
        del same_name[queue]
        if not same_name:
            del self._queues[queue.name]
        address.unbind(queue)
        if self._stored is not None:
            self._stored.queue_deleted(queue, address)

    def delete(self, address: Address, queue: Queue) -> None:
        self._forget(address, queue)
        used = address.configured or address.anycast or address.multicast
        if not used and self._rules.of(address.name).auto_delete_addresses:
            self._close(address)

    def _close(self, address: Address) -> None:
        if self.by_name.get(address.name) is address:
            del self.by_name[address.name]
            self._creators.remove(address.name)
            self._accounting.close(address.account)
            if self._stored is not None:
                self._stored.address_closed(address)

    def remove(self, name: str) -> None:
        """Delete the address ``name``, if it exists, with its queues and their messages."""
        address = self.by_name.get(name)
        if address is not None:
            for queue in address.queues:
                self._forget(address, queue)
            self._close(address)

    def forget_creator(self, conn: int) -> None:
        """Record the end of ``conn``: its addresses stay but no longer belong to a connection."""
        self._creators.forget(conn)
