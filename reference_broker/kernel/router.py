"""From a name to an address and its queues: creation on demand, publishing, subscribing, dead
letters, deletion.

How a destination is used is decided in this order (ARTEMIS-STOMP-routing-1 to -6): what the frame
says (header, then prefix: the protocol side has done that before it calls us); what the address is,
if it exists; the address setting's ``default-address-routing-type``; MULTICAST, the documented
default.

An address that exists for the other way only learns the new one if ``auto-create-addresses`` allows
it. An anycast destination also needs the queue of its name, if ``auto-create-queues`` allows it. A
multicast one needs no queue: each subscription makes its own, and takes it along when it goes.
Queues made on demand go when their last consumer has gone and nothing is left in them
(``auto-delete-queues``), and addresses made on demand go with their last queue
(``auto-delete-addresses``).

A durable subscription is a multicast queue that stays when its consumer goes. Its name is known
beforehand (ARTEMIS-STOMP-durable-4), so it may be one that the settings made. It has one consumer
at a time, and it belongs to one address and keeps the selector it was made with: who asks for the
same name and something else is refused, not given something else than was asked for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TypeAlias

from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.kernel.accounting import MemoryAccount, MemoryAccounting
from brokerproof.reference_broker.kernel.address import Address
from brokerproof.reference_broker.kernel.clock import Clock
from brokerproof.reference_broker.kernel.creators import Creators
from brokerproof.reference_broker.kernel.message import Entry, Envelope, Message, ResourceClaim
from brokerproof.reference_broker.kernel.queue import MOST_SERVED, Queue, RoundRobin, Serving
from brokerproof.reference_broker.kernel.storage_ports import RouterStorage
from brokerproof.reference_broker.selector.selector import Selector, parse
from brokerproof.reference_broker.settings.address_rules import AddressRules, Rule
from brokerproof.reference_broker.settings.settings import Settings


class NoRoute(Exception):
    """The destination does not exist and may not be created; the sentence says why."""


Special: TypeAlias = Callable[["Router", MemoryAccount], Address | None]


class Router:
    """All addresses and queues of a broker.

    ``clock`` names the connection whose input creates an address. ``expires`` returns the
    nanoseconds since 1970 by which the messages of all queues expire; None where they do not.
    ``special`` makes the address of a name that stands for something else than queues, None for all
    others.
    """

    def __init__(
        self,
        settings: Settings,
        rules: AddressRules,
        accounting: MemoryAccounting,
        clock: Clock,
        *,
        queue: Callable[..., Queue] = Queue,
        stored: RouterStorage | None = None,
        expires: Callable[[], Instant] | None = None,
        special: Special | None = None,
    ) -> None:
        self._rules = rules
        self._accounting = accounting
        self._new_queue = queue
        self.serving = Serving(MOST_SERVED)
        self._addresses: dict[str, Address] = {}
        self._on_demand: dict[Queue, Address] = {}
        self._durable: dict[str, tuple[Address, Queue]] = {}
        self._by_name: dict[str, OrderedDict[Queue, Address]] = {}
        """All queues by their names, with their addresses."""
        self._messages = 0 if stored is None else stored.last_message
        self._subscriptions = 0
        self._stored = stored
        self._special = special
        self._expires = expires
        self._clock = clock
        self.within_unit = False
        """True from a commit to the end of the input: a quota may not undo a part of it."""
        self._quotas = settings.quotas
        self._creators = Creators[str]()
        for setting in settings.addresses:
            routing = set(setting.routing) | {queue.routing for queue in setting.queues}
            routing = routing or {self._rules.of(setting.name).default_address_routing_type}
            address = self._open(setting.name, routing, configured=True)
            for configured in setting.queues:
                made = self._make(address, configured.name, configured.routing)
                made.filter = None if configured.filter is None else parse(configured.filter)
                address.bind(made)
                made.durable = configured.durable
                if made.routing is RoutingType.MULTICAST:
                    self._durable[made.name] = address, made

    @property
    def addresses(self) -> Mapping[str, Address]:
        """All addresses by name, as they are now and become."""
        return self._addresses

    def add_address(self, address: Address) -> None:
        """Let ``address`` answer for its name."""
        self._addresses[address.name] = address
        if self._stored is not None:
            self._stored.address_opened(address)

    def restore(self) -> None:
        """Put back what an earlier broker left. Called once, before the first input."""
        stored = self._stored
        if stored is None:
            return
        for made in stored.queues:
            address = self._addresses.get(made.address) or self._open(
                made.address, {made.routing}, configured=False
            )
            queue = next(
                (
                    queue
                    for queue in address.queues
                    if queue.name == made.name and queue.routing is made.routing
                ),
                None,
            )
            if queue is None:
                queue = self._make(address, made.name, made.routing)
                queue.filter = None if made.filter is None else parse(made.filter)
                queue.durable = True
                address.bind(queue)
                if made.on_demand:
                    self._on_demand[queue] = address
                if made.subscription:
                    self._durable[made.name] = address, queue
            address.routing.add(made.routing)
            stored.back(queue, made.id, address)
        stored.fill()
        for address in self._addresses.values():
            for queue in address.queues:
                self._name(address, queue)
        for queue in list(self._on_demand):
            self.tidy(queue)

    def forget_creator(self, conn: int) -> None:
        """``conn`` is over: its addresses stay, and count for nobody."""
        self._creators.forget(conn)

    def begin_atomic_unit(self) -> None:
        """Store the changes of this input as a whole or not at all, even if the broker ends
        meanwhile."""
        self.within_unit = True
        if self._stored is not None:
            self._stored.begin_atomic_unit()

    def ending(self) -> None:
        """The broker ends in order."""
        if self._stored is not None:
            self._stored.ending(
                queue for address in self._addresses.values() for queue in address.queues
            )

    def _name(self, address: Address, queue: Queue) -> None:
        if self._stored is not None:
            self._stored.queue_made(
                queue, address, queue in self._on_demand, queue.name in self._durable
            )

    def message(self, envelope: Envelope, body: bytes, arrived: Instant = 0) -> Message:
        """A new message with the next number; ``arrived`` in ns since 1970."""
        return Message(self.next_number(), envelope, body, arrived)

    def next_number(self) -> int:
        """A number for a new message, unique in the broker, from 1."""
        self._messages += 1
        return self._messages

    def get_or_create(self, name: str, routing: RoutingType | None) -> Address:
        """The address ``name``, usable in the way asked for; created on demand. Raises
        :class:`NoRoute`."""
        rule = self._rules.of(name)
        address = self._addresses.get(name)
        usable = (
            {routing or rule.default_address_routing_type} if address is None else address.routing
        )
        if address is None:
            if not rule.auto_create_addresses:
                raise NoRoute(
                    f"address {name!r} does not exist, and its address-setting forbids to create it"
                )
        elif (
            routing is not None
            and routing not in address.routing
            and not rule.auto_create_addresses
        ):
            raise NoRoute(
                f"address {name!r} is not for {routing}, and its address-setting forbids to change"
                " that"
            )
        needs_queue = (address is None or not address.anycast) and self._wants_a_queue(
            usable, routing
        )
        if needs_queue and not rule.auto_create_queues:
            raise NoRoute(
                f"queue {name!r} does not exist, and its address-setting forbids to create it"
            )
        if address is None:
            address = self._open(name, usable, configured=False)
        if needs_queue:
            queue = self._make(address, name, RoutingType.ANYCAST)
            queue.durable = True
            address.bind(queue)
            if rule.auto_delete_queues:
                self._on_demand[queue] = address
            self._name(address, queue)
        if routing is not None:
            address.routing.add(routing)
        return address

    def anycast_queue(self, name: str) -> Queue | None:
        """The anycast queue that has the name of its address, which is what protocols with queues
        call a queue."""
        address = self._addresses.get(name)
        return None if address is None else address.anycast_queue(name)

    def anycast_names(self) -> list[str]:
        """The names of all queues that :meth:`find` finds."""
        return [name for name in self._addresses if self.anycast_queue(name) is not None]

    def declare(self, name: str, queue: Callable[..., Queue]) -> Queue:
        """A new anycast queue that stays until it is dropped; there is none of that name. ``queue``
        makes it."""
        address = self._addresses.get(name) or self._open(
            name, {RoutingType.ANYCAST}, configured=False
        )
        address.routing.add(RoutingType.ANYCAST)
        attempts = self._rules.of(name).max_delivery_attempts
        made = queue(name, RoutingType.ANYCAST, RoundRobin(), attempts, lambda queue, entry: None)
        self._register(made, address)
        address.bind(made)
        return made

    def drop(self, queue: Queue) -> None:
        """Deletes the anycast ``queue`` of the address of its name, and what is in it."""
        address = self._addresses[queue.name]
        self._on_demand.pop(queue, None)
        self._delete(address, queue)
        self._tidy_address(address)

    def enqueue(self, message: Message, queue: Queue) -> None:
        """Puts ``message`` into the anycast ``queue`` of the address of its name, whatever its
        envelope says."""
        queue.enqueue(message, None, self._addresses[queue.name].account.charge(message, 1))

    def multicast(self, message: Message, name: str) -> None:
        """Puts ``message`` into the multicast queues of the address ``name``, if there are any."""
        address = self._addresses.get(name)
        if address is not None and address.multicast:
            address.route(message, RoutingType.MULTICAST)

    def settings_for(self, name: str) -> Rule:
        """Return the merged address-settings of the address ``name``."""
        return self._rules.of(name)

    def get_address(self, name: str) -> Address | None:
        """The address ``name``, None if there is none."""
        return self._addresses.get(name)

    def queue_by_name(self, name: str) -> tuple[Address, Queue] | None:
        """The queue called ``name``, or ADDRESS::QUEUE, with its address; None if there is none."""
        at, _, called = name.rpartition("::")
        first: tuple[Address, Queue] | None = None
        for queue, address in self._by_name.get(called, {}).items():
            if address.name == (at or name):
                return address, queue
            if first is None and not at:
                first = address, queue
        return first

    def is_on_demand(self, queue: Queue) -> bool:
        """True if ``queue`` goes when it is of no more use."""
        return queue in self._on_demand

    def create(
        self,
        at: str,
        name: str,
        routing: RoutingType,
        filter: Selector | None,
        *,
        durable: bool,
        on_demand: bool,
    ) -> None:
        """Makes the queue ``name`` at the address ``at``, of which there is none. Raises
        :class:`NoRoute`."""
        address = self.create_address(at, {routing})
        queue = self._make(address, name, routing)
        queue.filter = filter
        queue.durable = durable
        address.bind(queue)
        if on_demand:
            self._on_demand[queue] = address
        elif routing is RoutingType.MULTICAST:
            self._durable[name] = address, queue
        self._name(address, queue)

    def create_address(self, name: str, routing: set[RoutingType]) -> Address:
        """The address ``name``, which may be used in these ways too; made without a queue. Raises
        :class:`NoRoute`."""
        address = self._addresses.get(name)
        if address is None:
            if not self._rules.of(name).auto_create_addresses:
                raise NoRoute(
                    f"address {name!r} does not exist, and its address-setting forbids to create it"
                )
            address = self._open(name, set(routing), configured=False)
        address.routing |= routing
        return address

    def delete(self, at: str, queue: Queue) -> None:
        """Deletes ``queue`` of the address ``at``, and what is in it."""
        address = self._addresses[at]
        self._on_demand.pop(queue, None)
        self._durable.pop(queue.name, None)
        self._delete(address, queue)
        self._tidy_address(address)

    def _open(self, name: str, routing: set[RoutingType], configured: bool) -> Address:
        creator = None if configured else self._clock.conn
        if creator is not None:
            excess = self._quotas.exceeded("addresses", self._creators.count(creator))
            if excess is not None and not self.within_unit:
                raise NoRoute(f"address {name!r} is not created: {excess}")
            self._creators.add(creator, name)
        account = self._accounting.open(name)
        special = None if configured or self._special is None else self._special(self, account)
        address = special or Address(name, routing, configured, account)
        self.add_address(address)
        return address

    def charge_transaction(self, message: Message) -> ResourceClaim:
        """Charges ``message`` to its address until it is published, or not."""
        return self._accounting.find(message.route.address).charge_transaction(message)

    def publish(self, message: Message) -> bool:
        """Puts ``message`` where its envelope says; False if any queue there refused it. Raises
        :class:`NoRoute`."""
        envelope = message.route
        address = self._addresses.get(envelope.address)
        routing = envelope.routing
        if (
            address is None
            or (routing is not None and routing not in address.routing)
            or (not address.anycast and self._wants_a_queue(address.routing, routing))
        ):
            address = self.get_or_create(envelope.address, routing)
        return address.route(message, routing)

    @staticmethod
    def _wants_a_queue(usable: set[RoutingType], routing: RoutingType | None) -> bool:
        if routing is None:
            return RoutingType.ANYCAST in usable
        return routing is RoutingType.ANYCAST

    def subscription(
        self, name: str, routing: RoutingType | None, selector: Selector | None = None
    ) -> Queue:
        """The queue that a subscription to ``name`` consumes: the anycast queue, or a new one.
        Raises :class:`NoRoute`.

        A new queue lets in only what ``selector`` selects. From the anycast queue the consumer must
        select for itself.
        """
        address = self.get_or_create(name, routing)
        if routing is RoutingType.ANYCAST or (
            routing is None and RoutingType.ANYCAST in address.routing
        ):
            return address.anycast_queue(name) or address.anycast[0]
        self._subscriptions += 1
        queue = self._make(address, f"{name}#{self._subscriptions}", RoutingType.MULTICAST)
        queue.filter = selector
        address.bind(queue)
        self._on_demand[queue] = address
        self._name(address, queue)
        return queue

    def durable(
        self, name: str, routing: RoutingType | None, called: str, selector: Selector | None
    ) -> Queue:
        """The queue ``called`` of a durable subscription to ``name``, made if there is none. Raises
        :class:`NoRoute`.

        An anycast destination has the one queue that all its consumers share, and keeps it anyway.
        """
        address = self.get_or_create(name, routing)
        if routing is not RoutingType.MULTICAST and RoutingType.ANYCAST in address.routing:
            return self.subscription(name, routing, selector)
        if called not in self._durable:
            queue = self._make(address, called, RoutingType.MULTICAST)
            queue.filter = selector
            queue.durable = True
            address.bind(queue)
            self._durable[called] = address, queue
            self._name(address, queue)
        owner, queue = self._durable[called]
        if owner is not address:
            raise NoRoute(
                f"the durable subscription {called!r} is one to {owner.name!r}, not to {name!r}"
            )
        if queue.has_consumers:
            raise NoRoute(
                f"the durable subscription {called!r} has a consumer, and it can have only one at a"
                " time"
            )
        kept, asked = (
            None if selector_ is None else selector_.text for selector_ in (queue.filter, selector)
        )
        if asked != kept:
            raise NoRoute(
                f"the durable subscription {called!r} has the selector {kept!r}, not {asked!r};"
                " delete it first"
            )
        return queue

    def delete_subscription(self, called: str) -> None:
        """Deletes the durable subscription ``called`` and what is in it; nothing happens if there
        is none.

        Raises :class:`NoRoute` while it has a consumer.
        """
        durable = self._durable.get(called)
        if durable is None:
            return
        address, queue = durable
        if queue.has_consumers:
            raise NoRoute(f"the durable subscription {called!r} has a consumer")
        del self._durable[called]
        self._delete(address, queue)
        self._tidy_address(address)

    def tidy(self, queue: Queue) -> None:
        """Deletes ``queue`` if it was made on demand and is of no more use: to be called when a
        consumer has left it."""
        address = self._on_demand.get(queue)
        if address is None:
            return
        if queue.routing is RoutingType.ANYCAST and queue.in_use:
            return
        del self._on_demand[queue]
        self._delete(address, queue)
        self._tidy_address(address)

    def _delete(self, address: Address, queue: Queue) -> None:
        same_name = self._by_name[queue.name]
        del same_name[queue]
        if not same_name:
            del self._by_name[queue.name]
        address.unbind(queue)
        if self._stored is not None:
            self._stored.queue_deleted(queue, address)

    def _tidy_address(self, address: Address) -> None:
        used = address.configured or address.anycast or address.multicast
        if not used and self._rules.of(address.name).auto_delete_addresses:
            self._close(address)

    def _close(self, address: Address) -> None:
        if self._addresses.get(address.name) is address:
            del self._addresses[address.name]
            self._creators.remove(address.name)
            self._accounting.close(address.account)
            if self._stored is not None:
                self._stored.address_closed(address)

    def remove(self, name: str) -> None:
        """Deletes the address ``name`` with its queues and what is in them; nothing happens if
        there is none."""
        address = self._addresses.get(name)
        if address is not None:
            for queue in address.queues:
                self._on_demand.pop(queue, None)
                self._durable.pop(queue.name, None)
                self._delete(address, queue)
            self._close(address)

    def _make(self, address: Address, name: str, routing: RoutingType) -> Queue:
        attempts = self._rules.of(address.name).max_delivery_attempts

        def dead_letter(queue: Queue, entry: Entry) -> None:
            self._dead_letter(address.name, entry)

        queue = self._new_queue(name, routing, RoundRobin(), attempts, dead_letter)
        self._register(queue, address)
        return queue

    def _register(self, queue: Queue, address: Address) -> None:
        queue.serving = self.serving
        queue.clock = self._expires
        self._by_name.setdefault(queue.name, OrderedDict())[queue] = address

    def _dead_letter(self, address: str, entry: Entry) -> None:
        """A message given up goes to the dead letter address as it was sent; without one it is
        dropped."""
        dead_letter_address = self._rules.of(address).dead_letter_address
        if dead_letter_address is None:
            return
        try:
            self.get_or_create(dead_letter_address, None).route(entry.message, None, entry)
        except NoRoute:
            return
