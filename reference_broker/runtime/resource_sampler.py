"""Reads process memory, machine memory and free disk space for the broker's alarms.

Only this module and ``asyncio_server.py`` query the machine; the broker gets the readings."""

import resource
import struct
from pathlib import Path

import psutil

from brokerproof.harness.model.broker_io import ResourcesRead

EVERY_S = 0.1
"""Seconds between two readings: as often as RabbitMQ checks a nearly full disk."""
ADDRESS_SPACE = {4: 2 * 1024**3, 8: 256 * 1024**4}
"""The maximum number of bytes that a process can address, by the size of its pointers in bytes
(RabbitMQ's documentation on memory): 2 GiB with 32 bits, 256 TiB with 64."""


class Readings:
    """Takes readings for this process; ``folder`` selects the disk and need not exist."""

    def __init__(self, folder: Path) -> None:
        self._process = psutil.Process()
        self._folder = next(
            parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.is_dir()
        )

    def read(self) -> ResourcesRead:
        try:
            free: int | None = psutil.disk_usage(str(self._folder)).free
        except OSError:
            free = None  # the folder or its disk is gone: unknown
        return ResourcesRead(
            memory_used=self._process.memory_info().rss,
            memory_total=psutil.virtual_memory().total,
            address_space=_address_space(),
            disk_free=free,
        )


def _address_space() -> int:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    most = ADDRESS_SPACE[struct.calcsize("P")]
    return most if limit == resource.RLIM_INFINITY else min(limit, most)
