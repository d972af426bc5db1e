"""The topology declared by clients: queues with their properties, and exchanges (AMQP 0-9-1).

A queue is the anycast queue of the address of its own name, so that protocols that only know
addresses share it. A queue that another protocol created on demand counts as declared durable and
without arguments.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.families.rabbitmq.credit_flow import Pace
from brokerproof.reference_broker.families.rabbitmq.exchanges import Exchanges
from brokerproof.reference_broker.families.rabbitmq.limited_queue import LimitedQueue, Limits
from brokerproof.reference_broker.kernel.clock import Clock
from brokerproof.reference_broker.kernel.deadlines import Deadline, Deadlines
from brokerproof.reference_broker.kernel.message import Message
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.kernel.router import Router


@dataclass(eq=False, slots=True)
class Declared:
    """A queue as it was declared.

    ``owner`` is the connection to which the queue is exclusive (None: shared). ``on_delete`` has
    the consumers to notify when the queue is deleted. ``expires`` is how long the queue may be
    unused, in ns (None: forever). ``sole``: one consumer has the queue exclusively.
    """

    queue: Queue
    durable: bool = True
    owner: int | None = None
    auto_delete: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)
    expires: int | None = None
    sole: bool = False
    on_delete: dict[Callable[[], None], None] = field(default_factory=dict)
    unused: Deadline | None = None
    """When the queue is deleted because it is unused."""

    @property
    def name(self) -> str:
        return self.queue.name


DeadLetter: TypeAlias = Callable[["Topology", Queue, Message, str], None]
"""Handles a message that left a queue without being consumed, given the reason for that."""


class Topology:
    """Queues and exchanges of one broker. ``dead_letter`` handles messages that left their queue
    without being consumed; each queue accepts ``rate`` published messages per second (0: any)."""

    def __init__(
        self,
        router: Router,
        deadlines: Deadlines,
        clock: Clock,
        dead_letter: DeadLetter,
        rate: int = 0,
    ) -> None:
        self.exchanges = Exchanges(router.addresses.anycast_queue)
        self.clock = clock
        self.next_number = router.next_number
        self.dead_letter = partial(dead_letter, self)
        self._router = router
        self._deadlines = deadlines
        self._declared: dict[str, Declared] = {}
        self._exclusive: dict[int, OrderedDict[Declared, None]] = {}
        """Queues that are exclusive to a connection, by that connection."""
        self.pace = Pace(rate, deadlines, clock.instant) if rate else None
        """The rate at which queues accept published messages; None: immediately."""
        self._named = 0

    def find(self, name: str) -> Declared | None:
        queue = self._router.addresses.anycast_queue(name)
        known = self._declared.get(name)
        if queue is None:
            return None
        if known is None or known.queue is not queue:
            known = self._declared[name] = Declared(queue)
        return known

    def limited(self) -> list[LimitedQueue]:
        """Return the queues that clients declared with limits."""
        return [
            declared.queue
            for declared in self._declared.values()
            if isinstance(declared.queue, LimitedQueue)
        ]

    def of(self, queue: Queue) -> Declared | None:
        declared = self.find(queue.name)
        return declared if declared is not None and declared.queue is queue else None

    def new_name(self, beginning: str, seed: str) -> str:
        self._named += 1
        return f"{beginning}-{seed}{self._named}"

    def declare(self, name: str, limits: Limits, **options: Any) -> Declared:
        """Declare a new queue; ``options`` are the fields of :class:`Declared`."""
        queue = self._router.addresses.declare(name, LimitedQueue)
        assert isinstance(queue, LimitedQueue)
        queue.limits, queue.now = limits, self.clock.instant
        queue.dead = self.dead_letter
        queue.wake = self._deadlines.timer(lambda now: queue.expire()).move
        queue.durable = options.get("durable", True)
        declared = self._declared[name] = Declared(queue, **options)
        if declared.owner is not None:
            self._exclusive.setdefault(declared.owner, OrderedDict())[declared] = None
        self.used(declared)
        return declared

    def used(self, declared: Declared) -> None:
        """Record a use of the queue, whose unused time restarts unless there are consumers."""
        if declared.expires is not None:
            if declared.unused is None:
                declared.unused = self._deadlines.timer(partial(self._on_unused, declared))
            declared.unused.move(self.clock.now + declared.expires)

    def _on_unused(self, declared: Declared, now: Instant) -> None:
        if self._declared.get(declared.name) is declared and not declared.queue.has_consumers:
            self.delete(declared)

    def left(self, declared: Declared) -> None:
        """Record that a consumer left; delete an auto-delete queue if it was the last one."""
        declared.sole = False
        self.used(declared)
        if (
            declared.auto_delete
            and not declared.queue.has_consumers
            and self.find(declared.name) is declared
        ):
            self.delete(declared)

    def delete(self, declared: Declared) -> int:
        """Delete the queue; return the number of messages that waited there."""
        waiting = len(declared.queue)
        self._declared.pop(declared.name, None)
        if declared.owner is not None:
            self._exclusive.get(declared.owner, OrderedDict()).pop(declared, None)
        self.exchanges.forget(declared.queue)
        for tell in list(declared.on_delete):
            tell()
        self._router.addresses.drop(declared.queue)
        return waiting

    def left_by(self, conn: int) -> None:
        """Delete the exclusive queues of a connection that has ended. Its exchanges and bindings
        stay, but are no longer part of any quota."""
        self.exchanges.creators.forget(conn)
        self.exchanges.binders.forget(conn)
        for declared in self._exclusive.pop(conn, ()):
            self.delete(declared)

    def route(self, message: Message, queues: list[Queue]) -> bool:
        """Put ``message`` into ``queues``; return False if any of them refused it."""
        taken = True
        for queue in queues:
            if isinstance(queue, LimitedQueue) and queue.refuses(message):
                taken = False
            else:
                self._router.enqueue(message, queue)
        return taken
