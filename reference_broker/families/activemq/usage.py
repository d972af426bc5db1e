"""Usage of a resource and its limit (ACTIVEMQ-PFC-2, -11).

A usage has a limit and may have a parent, to which the same amounts are charged. Its percentage is
``used * 100 // limit``; it is full while that is 100 or more, or while its parent is full. The
threshold is the same for rising and falling usage. A limit of 0 means unlimited."""

from typing import Self

from brokerproof.reference_broker.settings.activemq import ActiveMq, limit_of

HEAP_PERCENT = 70
"""A memory limit above the size of the heap is replaced by this share of the heap
(``BrokerService.checkMemorySystemUsageLimits``)."""


class Usage:
    """``limit`` and ``used`` are in bytes."""

    __slots__ = ("limit", "parent", "used")

    def __init__(self, limit: int, parent: Self | None = None) -> None:
        self.limit = limit
        self.parent = parent
        self.used = 0

    @property
    def percent(self) -> int:
        return self.used * 100 // self.limit if self.limit else 0

    def full(self, mark: int = 100) -> bool:
        """Return True if ``mark`` percent is reached here or at the parent."""
        return self.percent >= mark or (self.parent is not None and self.parent.full(mark))

    def add(self, size: int) -> None:
        """Add ``size``, which may be negative."""
        self.used += size
        if self.parent is not None:
            self.parent.add(size)


class BrokerUsage:
    """The usage of a whole broker: memory, the store and the temporary store."""

    def __init__(self, activemq: ActiveMq) -> None:
        usage, heap, disk = activemq.usage, activemq.heap, activemq.disk_space
        memory = usage.memory if usage.memory <= heap else heap * HEAP_PERCENT // 100
        self.memory = Usage(heap * usage.memory_percent // 100 if usage.memory_percent else memory)
        self.store = Usage(limit_of(usage.store, usage.store_percent, usage.store_total or disk))
        self.temp = Usage(limit_of(usage.temp, usage.temp_percent, usage.temp_total or disk))
