"""An address: the name that is published to, and the queues bound to it."""

from __future__ import annotations

from harness.words import RoutingType
from reference_broker.core.message import Entry, Message
from reference_broker.core.queue import Queue


class Address:
    """One address. ``routing`` holds the ways in which it may be used; ``configured`` ones are never deleted."""

    def __init__(self, name: str, routing: set[RoutingType], configured: bool) -> None:
        self.name = name
        self.routing = routing
        self.configured = configured
        self.anycast: list[Queue] = []
        self.multicast: list[Queue] = []
        self._turn = 0

    def bind(self, queue: Queue) -> None:
        """Adds ``queue`` at the end."""
        self._side(queue).append(queue)

    def unbind(self, queue: Queue) -> None:
        """Removes ``queue``. Raises ``ValueError`` when it is not bound here."""
        self._side(queue).remove(queue)

    def _side(self, queue: Queue) -> list[Queue]:
        return self.anycast if queue.routing is RoutingType.ANYCAST else self.multicast

    def find(self, name: str) -> Queue | None:
        """The anycast queue of that name, or None."""
        return next((each for each in self.anycast if each.name == name), None)

    def route(self, message: Message, routing: RoutingType | None, given_up: Entry | None = None) -> None:
        """Puts ``message`` into one of the anycast queues, in turn, and into every multicast queue, if their filters let it.

        A ``routing`` limits that to one of the two sides. Without a queue there the message is gone, as it must be for a
        topic without subscribers (ARTEMIS-STOMP-routing-5). ``given_up`` is its place in the queue that gave it up.
        """
        anycast = self.anycast
        if routing is not RoutingType.MULTICAST:
            for _ in anycast:
                self._turn = self._turn + 1 if self._turn + 1 < len(anycast) else 0
                queue = anycast[self._turn]
                if queue.filter is None or queue.filter.matches(message):
                    queue.put(message, given_up)
                    break
        if routing is not RoutingType.ANYCAST:
            for queue in self.multicast:
                if queue.filter is None or queue.filter.matches(message):
                    queue.put(message, given_up)
