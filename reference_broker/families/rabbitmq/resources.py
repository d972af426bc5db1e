"""Memory and disk space, and the alarms raised when they are short (RABBITMQ-FLOW-mem-*, -disk-*).

Amounts arrive as readings (:class:`brokerproof.harness.model.broker_io.ResourcesRead`); nothing is
measured here. Readings are evaluated at these times:

* memory every :data:`MEMORY_EVERY`. The limit is a fraction of the usable memory (the smaller of
  the machine's RAM and the address space), or a number of bytes, if that is less. If the amount of
  RAM is unknown, :data:`ASSUMED_MEMORY` is used (mem-5). Memory is short while more than the limit
  is used: always if the limit is 0, never if it is a large multiple (mem-2).
* disk space every 10 s, and more often nearer to the limit, up to 10 times a second (disk-2): the
  remaining space would last twice as long at :data:`FASTEST` bytes per millisecond. The limit is a
  number of bytes, or a multiple of the RAM (disk-3). Disk space is short while less than the limit
  is free; then it is checked every 10 s.

A limit set while the broker runs applies immediately, until the broker ends (mem-3).
"""

from brokerproof.harness.model.broker_io import ResourcesRead
from brokerproof.harness.model.time import Duration, Instant, ms
from brokerproof.reference_broker.kernel.alarms import DISK, MEMORY, Alarms
from brokerproof.reference_broker.kernel.deadlines import Deadlines

MEMORY_EVERY: Duration = ms(1000)
DISK_LEAST_MS, DISK_MOST_MS = 100, 10_000
FASTEST = 250_000
"""Bytes per millisecond: the fastest rate at which a disk is assumed to fill up."""
ASSUMED_MEMORY = 1024 * 1024 * 1024

Limit = float | int
"""A fraction (float) or a number of bytes (int)."""


class Resources:
    """Watches the resources of one broker. Nothing is short until the first reading."""

    def __init__(self, alarms: Alarms, deadlines: Deadlines, memory: Limit, disk: Limit) -> None:
        self._alarms = alarms
        self._memory = memory
        self._disk = disk
        self.memory_check = deadlines.timer(self.check_memory)
        self.disk_check = deadlines.timer(self.check_disk)
        self._read: ResourcesRead | None = None

    @property
    def reading(self) -> ResourcesRead | None:
        """The last reading; None before the first one."""
        return self._read

    @property
    def memory_limit(self) -> int:
        """The number of bytes above which memory is short."""
        usable = self._usable()
        return (
            int(self._memory * usable)
            if isinstance(self._memory, float)
            else min(self._memory, usable)
        )

    @property
    def disk_limit(self) -> int:
        """The number of bytes below which disk space is short."""
        return int(self._disk * self._total()) if isinstance(self._disk, float) else self._disk

    def _total(self) -> int:
        known = None if self._read is None else self._read.memory_total
        return ASSUMED_MEMORY if known is None else known

    def _usable(self) -> int:
        space = None if self._read is None else self._read.address_space
        return self._total() if space is None else min(self._total(), space)

    def read(self, now: Instant, reading: ResourcesRead) -> None:
        """Accept a reading. The first is evaluated at once, later readings when a check is due."""
        first, self._read = self._read is None, reading
        if first:
            self.check_memory(now)
            self.check_disk(now)

    def set(self, now: Instant, memory: Limit | None, disk: Limit | None) -> None:
        """Change the limits from now on; None keeps a limit as it is."""
        self._memory = self._memory if memory is None else memory
        self._disk = self._disk if disk is None else disk
        if self._read is not None:
            self.check_memory(now)
            self.check_disk(now)

    def check_memory(self, now: Instant) -> None:
        """Raise or clear the memory alarm according to the last reading."""
        if self._read is not None:
            self._alarms.set(MEMORY, self._read.memory_used > self.memory_limit)
            self.memory_check.move(now + MEMORY_EVERY)

    def check_disk(self, now: Instant) -> None:
        """Raise or clear the disk alarm according to the last reading."""
        if self._read is not None:
            free = self._read.disk_free
            short = free is not None and free < self.disk_limit
            self._alarms.set(DISK, short)
            self.disk_check.move(now + ms(self._disk_interval_ms(free, short)))

    def _disk_interval_ms(self, free: int | None, short: bool) -> int:
        if short or free is None:
            return DISK_MOST_MS
        return min(DISK_MOST_MS, max(DISK_LEAST_MS, 2 * (free - self.disk_limit) // FASTEST))
