"""Producers of every protocol learn why the disk stores nothing: it is full, a quota is used up, it
is mounted read-only, or it fails."""

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest

from brokerproof.harness.model.broker_io import (
    BytesReceived,
    Connected,
    FileEffect,
    FileLoaded,
    FilesStored,
    StoreFiles,
    Write,
)
from brokerproof.harness.model.time import Instant, seconds
from brokerproof.reference_broker.persistence.disk import Disk
from brokerproof.reference_broker.persistence.memory import DiskFaults, MemoryDisk
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.soak.clients import CLIENTS
from brokerproof.suites.soak.clients.client import (
    ARTEMIS,
    SLASHES,
    Confirmed,
    Delivered,
    Event,
    Refused,
)
from brokerproof.suites.units.drivers.persistence import StoringDriver
from brokerproof.suites.units.reference_broker.persistence import (
    test_store_confirmations_property as confirmations,
)

REASONS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
FULL = REASONS[:2]
PRODUCERS = [
    *((confirmations.artemis, kind) for kind in ("stomp", "amqp", "core")),
    *((confirmations.active, kind) for kind in ("stomp", "amqp", "openwire")),
]
PLACES = ("kept", "paged")


def _sentence(reason: int) -> str:
    return f"/data/x: cannot be written ({os.strerror(reason)})"


class FailingDisk(MemoryDisk):
    """A disk on which every write fails for ``reason``, unless the reason is 0."""

    reason = 0

    def carry(self, now: Instant, effect: FileEffect) -> tuple[Instant, FilesStored | FileLoaded]:
        if self.reason and isinstance(effect, StoreFiles):
            full = self.reason in FULL
            return now, FilesStored(effect.ticket, _sentence(self.reason), full=full)
        return super().carry(now, effect)


class Producing(StoringDriver):
    def __init__(self, settings: Settings, kind: str) -> None:
        super().__init__(settings, confirmations.OPTIONS, faults=DiskFaults())
        self.kind = kind
        self.disk: Any = FailingDisk()
        self._begin()

    def produce(self, conn: int, client: Any, place: str, unit: bool) -> tuple[bytes, list[Event]]:
        """Let ``client`` send a message to ``place``; return the answer and its meaning."""
        client.produce(place, [b"%d.1.0." % conn + b"x" * 2000], "r", unit)
        return self.exchange(conn, client)

    def exchange(self, conn: int, client: Any) -> tuple[bytes, list[Event]]:
        received = b""
        events: list[Event] = []
        while (raw := client.take()) or conn in self._got:
            self.feed(BytesReceived(conn, raw))
            self.settle()
            data = self._got.pop(conn, b"")
            received += data
            try:
                events += client.on_bytes(data)
            except Refused:
                break
        return received, events

    def connected(self, number: int) -> tuple[int, Any]:
        client = CLIENTS[self.kind](f"c{number}", SLASHES if self.settings.activemq else ARTEMIS)
        self.conn += 1
        self.feed(Connected(self.conn, client.protocol, "test"))
        self.settle()
        list(client.on_bytes(self._got.pop(self.conn, b"")))
        return self.conn, client


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: errno.errorcode[reason])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("unit", [False, True], ids=["", "transaction"])
@pytest.mark.parametrize(
    ("make", "kind"), PRODUCERS, ids=[f"{make.__name__}-{kind}" for make, kind in PRODUCERS]
)
def test_producers_learn_why_nothing_is_stored(
    make: Callable[[], Settings], kind: str, place: str, unit: bool, reason: int
) -> None:
    driver = Producing(make(), kind)
    confirmed = [Confirmed("r")]
    first = driver.connected(1)
    assert driver.produce(*first, place, unit)[1] == confirmed
    driver.disk.reason = reason
    producers = [first, driver.connected(2)]  # the second is refused without a write
    for producer in producers:
        received, events = driver.produce(*producer, place, unit)
        assert events == []
        assert unit or os.strerror(reason).encode() in received
        assert b"ddress is full" not in received
    driver.disk.reason = 0
    driver.wait(seconds(3))
    assert driver.produce(*driver.connected(3), place, unit)[1] == confirmed
    (conn, _), (events, _) = producers[1], driver.exchange(*producers[1])[::-1]
    consumer = driver.connected(4)
    consumer[1].consume(place, -1)
    there = [event.body for event in driver.exchange(*consumer)[1] if isinstance(event, Delivered)]
    assert not events or any(body.startswith(b"%d." % conn) for body in there), "it was confirmed"


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: errno.errorcode[reason])
def test_a_write_reports_its_reason_and_is_full_for_want_of_space_only(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    def fails(*_: object) -> int:
        raise OSError(reason, os.strerror(reason))

    disk = Disk({"journal": tmp_path}, tmp_path / "damaged")
    monkeypatch.setattr(os, "pwrite", fails)
    answer = disk.store(StoreFiles(1, (Write("journal/1", 0, b"x", True),)))
    assert answer == FilesStored(
        1, _sentence(reason).replace("/data/x", f"{tmp_path}/1"), full=reason in FULL
    )
