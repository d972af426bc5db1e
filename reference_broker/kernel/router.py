"""Resolves names to addresses and queues: creation on demand, publishing, subscribing, dead
letters, deletion.

The routing type of a destination is decided in this order (ARTEMIS-STOMP-routing-1 to -6): the
frame (header, then prefix, both resolved by the protocol side); the existing address; the address
setting's ``default-address-routing-type``; MULTICAST, the documented default.

An existing address of the other routing type gains the new one only if ``auto-create-addresses``
allows it. An anycast destination also needs the queue of its name, created if
``auto-create-queues`` allows it. A multicast destination needs no queue: each subscription creates
its own, which is deleted with it.

A durable subscription is a multicast queue that stays when its consumer leaves. Its name is known
beforehand (ARTEMIS-STOMP-durable-4), so the settings may have created it. It has one consumer at a
time, belongs to one address and keeps its original selector: a request with the same name but other
properties is refused."""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.kernel.accounting import MemoryAccount, MemoryAccounting
from brokerproof.reference_broker.kernel.address import Address
from brokerproof.reference_broker.kernel.address_book import AddressBook, NoRoute
from brokerproof.reference_broker.kernel.clock import Clock
from brokerproof.reference_broker.kernel.message import Entry, Envelope, Message, ResourceClaim
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.kernel.storage_ports import RouterStorage
from brokerproof.reference_broker.selector.selector import Selector, parse
from brokerproof.reference_broker.settings.address_rules import AddressRules
from brokerproof.reference_broker.settings.settings import Settings

Special: TypeAlias = Callable[["Router", MemoryAccount], Address | None]


class Router:
    """Routes messages to the queues of ``addresses``.

    ``clock`` knows the connection whose input creates an address. ``expires`` returns the current
    time (ns since 1970) by which messages expire; None if messages do not expire. ``special``
    creates the address for a name with special meaning, None for all others."""

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
        self.addresses = AddressBook(
            settings,
            rules,
            accounting,
            clock,
            queue,
            stored,
            expires,
            self._dead_letter,
            (lambda account: None) if special is None else partial(special, self),
        )
        self.durable = DurableSubscriptions(self)
        self.serving = self.addresses.serving
        self._addresses = self.addresses.by_name
        self._rules = rules
        self._accounting = accounting
        self._stored = stored
        self._messages = 0 if stored is None else stored.last_message
        self._subscriptions = 0

    def begin_input(self) -> None:
        """Start the next input with a full delivery share."""
        self.addresses.within_unit = False
        self.serving.begin()

    def restore(self) -> None:
        """Restore an earlier broker's state. Called once, before the first input."""
        stored = self._stored
        if stored is None:
            return
        for made in stored.queues:
            address = self._addresses.get(made.address) or self.addresses.open(
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
                queue = self.addresses.make(address, made.name, made.routing)
                queue.filter = None if made.filter is None else parse(made.filter)
                queue.durable = True
                address.bind(queue)
                if made.on_demand:
                    self.addresses.on_demand[queue] = address
                if made.subscription:
                    self.addresses.durable[made.name] = address, queue
            address.routing.add(made.routing)
            stored.back(queue, made.id, address)
        stored.fill()
        for address in self._addresses.values():
            for queue in address.queues:
                self.addresses.record(address, queue)
        for queue in list(self.addresses.on_demand):
            self.addresses.tidy(queue)

    def begin_atomic_unit(self) -> None:
        """Store this input's changes atomically, even if the broker stops in the middle."""
        self.addresses.within_unit = True
        if self._stored is not None:
            self._stored.begin_atomic_unit()

    def ending(self) -> None:
        """Record that the broker is being shut down cleanly."""
        if self._stored is not None:
            self._stored.ending(
                queue for address in self._addresses.values() for queue in address.queues
            )

    def message(self, envelope: Envelope, body: bytes, arrived: Instant = 0) -> Message:
        """Return a new message with the next number; ``arrived`` is in ns since 1970."""
        return Message(self.next_number(), envelope, body, arrived)

    def next_number(self) -> int:
        """Return a number, from 1, for a new message; it is unique in the broker."""
        self._messages += 1
        return self._messages

    def get_or_create(self, name: str, routing: RoutingType | None) -> Address:
        """Return the address ``name`` with the requested routing type, created on demand. Raises
        :class:`NoRoute`."""
        rule = self._rules.of(name)
        address = self._addresses.get(name)
        usable = (
            {routing or rule.default_address_routing_type} if address is None else address.routing
        )
        if address is None:
            if not rule.auto_create_addresses:
                raise NoRoute(
                    f"address {name!r} does not exist, and its address-setting forbids creating it"
                )
        elif (
            routing is not None
            and routing not in address.routing
            and not rule.auto_create_addresses
        ):
            raise NoRoute(
                f"address {name!r} does not support {routing}, and its address-setting forbids"
                " adding it"
            )
        needs_queue = (address is None or not address.anycast) and self._wants_a_queue(
            usable, routing
        )
        if needs_queue and not rule.auto_create_queues:
            raise NoRoute(
                f"queue {name!r} does not exist, and its address-setting forbids creating it"
            )
        if address is None:
            address = self.addresses.open(name, usable, configured=False)
        if needs_queue:
            queue = self.addresses.make(address, name, RoutingType.ANYCAST)
            queue.durable = True
            address.bind(queue)
            if rule.auto_delete_queues:
                self.addresses.on_demand[queue] = address
            self.addresses.record(address, queue)
        if routing is not None:
            address.routing.add(routing)
        return address

    def enqueue(self, message: Message, queue: Queue) -> None:
        """Put ``message`` into the anycast ``queue`` of its own address, ignoring the envelope."""
        queue.enqueue(message, None, self._addresses[queue.name].account.charge(message, 1))

    def multicast(self, message: Message, name: str) -> None:
        """Put ``message`` into the multicast queues, if any, of the address ``name``."""
        address = self._addresses.get(name)
        if address is not None and address.multicast:
            address.route(message, RoutingType.MULTICAST)

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
        """Create the new queue ``name`` at the address ``at``. Raises :class:`NoRoute`."""
        address = self.addresses.create(at, {routing})
        queue = self.addresses.make(address, name, routing)
        queue.filter = filter
        queue.durable = durable
        address.bind(queue)
        if on_demand:
            self.addresses.on_demand[queue] = address
        elif routing is RoutingType.MULTICAST:
            self.addresses.durable[name] = address, queue
        self.addresses.record(address, queue)

    def delete(self, at: str, queue: Queue) -> None:
        """Delete ``queue`` of the address ``at`` with its messages."""
        self.addresses.delete(self._addresses[at], queue)

    def charge_transaction(self, message: Message) -> ResourceClaim:
        """Charge ``message`` to its address until its transaction ends."""
        return self._accounting.find(message.route.address).charge_transaction(message)

    def publish(self, message: Message) -> bool:
        """Put ``message`` where its envelope directs it; return False if any queue there refused
        it. Raises :class:`NoRoute`."""
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
        """Return the queue consumed by a subscription to ``name``: the anycast queue, or a new one.
        Raises :class:`NoRoute`.

        A new queue accepts only what ``selector`` selects; on an anycast queue, the consumer
        selects."""
        address = self.get_or_create(name, routing)
        if routing is RoutingType.ANYCAST or (
            routing is None and RoutingType.ANYCAST in address.routing
        ):
            return address.anycast_queue(name) or address.anycast[0]
        self._subscriptions += 1
        queue = self.addresses.make(address, f"{name}#{self._subscriptions}", RoutingType.MULTICAST)
        queue.filter = selector
        address.bind(queue)
        self.addresses.on_demand[queue] = address
        self.addresses.record(address, queue)
        return queue

    def _dead_letter(self, address: str, entry: Entry) -> None:
        """Send an undeliverable message, as originally sent, to the dead letter address, if any."""
        dead_letter_address = self._rules.of(address).dead_letter_address
        if dead_letter_address is None:
            return
        try:
            self.get_or_create(dead_letter_address, None).route(entry.message, None, entry)
        except NoRoute:
            return


class DurableSubscriptions:
    def __init__(self, router: Router) -> None:
        self._router = router
        self._addresses = router.addresses
        self._queues = router.addresses.durable

    def open(
        self, name: str, routing: RoutingType | None, called: str, selector: Selector | None
    ) -> Queue:
        """Return the queue ``called`` of a durable subscription to ``name``, created if missing.
        Raises :class:`NoRoute`.

        For an anycast destination it is the queue that all its consumers share, which stays anyway.
        """
        address = self._router.get_or_create(name, routing)
        if routing is not RoutingType.MULTICAST and RoutingType.ANYCAST in address.routing:
            return self._router.subscription(name, routing, selector)
        if called not in self._queues:
            queue = self._addresses.make(address, called, RoutingType.MULTICAST)
            queue.filter = selector
            queue.durable = True
            address.bind(queue)
            self._queues[called] = address, queue
            self._addresses.record(address, queue)
        owner, queue = self._queues[called]
        if owner is not address:
            raise NoRoute(
                f"the durable subscription {called!r} belongs to {owner.name!r}, not to {name!r}"
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

    def delete(self, called: str) -> None:
        """Delete the durable subscription ``called``, if it exists, with its messages.

        Raises :class:`NoRoute` while it has a consumer.
        """
        durable = self._queues.get(called)
        if durable is None:
            return
        address, queue = durable
        if queue.has_consumers:
            raise NoRoute(f"the durable subscription {called!r} has a consumer")
        self._addresses.delete(address, queue)
