"""From a name to an address and its queues: creation on demand, publishing, subscribing, dead
letters, deletion.

How a destination is used is decided in this order (ARTEMIS-STOMP-routing-1 to -6): what the frame
says (header, then prefix: the protocol side has done that before it calls us); what the address is,
if it exists; the address setting's ``default-address-routing-type``; MULTICAST, the documented
default.

An address that exists for the other way only learns the new one if ``auto-create-addresses`` allows
it. An anycast destination also needs the queue of its name, if ``auto-create-queues`` allows it. A
multicast one needs no queue: each subscription makes its own, and takes it along when it goes.

A durable subscription is a multicast queue that stays when its consumer goes. Its name is known
beforehand (ARTEMIS-STOMP-durable-4), so it may be one that the settings made. It has one consumer
at a time, and it belongs to one address and keeps the selector it was made with: who asks for the
same name and something else is refused, not given something else than was asked for.
"""

from __future__ import annotations

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
        """The next input has a share of its own of what queues may hand out."""
        self.addresses.within_unit = False
        self.serving.begin()

    def restore(self) -> None:
        """Put back what an earlier broker left. Called once, before the first input."""
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
        """Store the changes of this input as a whole or not at all, even if the broker ends
        meanwhile."""
        self.addresses.within_unit = True
        if self._stored is not None:
            self._stored.begin_atomic_unit()

    def ending(self) -> None:
        """The broker ends in order."""
        if self._stored is not None:
            self._stored.ending(
                queue for address in self._addresses.values() for queue in address.queues
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
                    f"address {name!r} does not exist, and its address-setting forbids creating it"
                )
        elif (
            routing is not None
            and routing not in address.routing
            and not rule.auto_create_addresses
        ):
            raise NoRoute(
                f"address {name!r} is not for {routing}, and its address-setting forbids changing"
                " that"
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
        """Puts ``message`` into the anycast ``queue`` of the address of its name, whatever its
        envelope says."""
        queue.enqueue(message, None, self._addresses[queue.name].account.charge(message, 1))

    def multicast(self, message: Message, name: str) -> None:
        """Puts ``message`` into the multicast queues of the address ``name``, if there are any."""
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
        """Makes the queue ``name`` at the address ``at``, of which there is none. Raises
        :class:`NoRoute`."""
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
        """Deletes ``queue`` of the address ``at``, and what is in it."""
        self.addresses.delete(self._addresses[at], queue)

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
        queue = self.addresses.make(address, f"{name}#{self._subscriptions}", RoutingType.MULTICAST)
        queue.filter = selector
        address.bind(queue)
        self.addresses.on_demand[queue] = address
        self.addresses.record(address, queue)
        return queue

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


class DurableSubscriptions:
    def __init__(self, router: Router) -> None:
        self._router = router
        self._addresses = router.addresses
        self._queues = router.addresses.durable

    def open(
        self, name: str, routing: RoutingType | None, called: str, selector: Selector | None
    ) -> Queue:
        """The queue ``called`` of a durable subscription to ``name``, made if there is none. Raises
        :class:`NoRoute`.

        An anycast destination has the one queue that all its consumers share, and keeps it anyway.
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

    def delete(self, called: str) -> None:
        """Deletes the durable subscription ``called`` and what is in it; nothing happens if there
        is none.

        Raises :class:`NoRoute` while it has a consumer.
        """
        durable = self._queues.get(called)
        if durable is None:
            return
        address, queue = durable
        if queue.has_consumers:
            raise NoRoute(f"the durable subscription {called!r} has a consumer")
        self._addresses.delete(address, queue)
